"""Graphics: text, screens, plots, codes, dithers. There equal values hang together.

A photograph is smooth; a graphic is *exact*: a few values over and over, in the same
surroundings. So each value is predicted from a few of its surroundings (contexts) by
what was seen in the same surroundings elsewhere. Corruption at random falls into every
context alike, which tells it from a picture however odd: where a context settles a
value, what is left over, of all values alike, is the share of corruption. A value that
turns up more often in its context than that is of the picture; one that does not is
wrong as surely as its context settles what ought to be there. Where no context recurs,
nothing is said.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import uniform_filter

from discrepant.image.restore.clusters import crowded
from discrepant.image.restore.contexts import Corruption, Table, contexts, spikes
from discrepant.linalg import Array

TINY = 64  # pixels, of which nothing can be told
RUNS = 0.2  # correlation of "has this value" between neighbours, of values in areas
STEEP = 20.0  # how much more often neighbours are the same than one step apart
AREAS = 0.2  # share of values in such areas, in a graphic
FEW = 8  # values, or fewer, of which a graphic may consist without areas
NEARLY_ALL = 0.93
GROUND = 0.5  # share of one value, more than impulses of one value would have
SMALLEST = 40  # times that neighbours are the same, to make an area
PASSES = 3
USUAL = 0.01  # the share of corruption that must be told, if there seems to be none
AROUND = 9
PHOTOGRAPH = 1000  # values, or more
POOL = 0.1  # share of the values from which the share of corruption is told
NOTHING = 0.9995  # share of one value in what shows nothing
INDEPENDENT = 0.8  # share of impulses that is none, but a picture of noise
LEAST = 1e-3  # share of corruption below which a graphic is left alone
FEWEST = 8  # corrupted values in contexts that settle them, or none are believed
SETTLED = 2.0  # weight of contexts from which on they are believed
WRONG = 0.7  # probability from which on a value is replaced


@dataclass(frozen=True, eq=False)
class Graphic:
    """What the contexts say of each value.

    Attributes
    ----------
    share : float
        How much is corrupted, where it can be told.
    wrong, settled : ndarray of bool
        The values that are corrupted; and those of which something can be said.
    mended : ndarray
        The values, with wrong and unknown ones as they ought to be by their contexts;
        NaN where an unknown value has none.
    probability : ndarray
        That of being corrupted.
    photograph : ndarray of bool
        Where the contexts say nothing, as in a photograph among graphics.
    untold : bool
        Whether nothing can be said at all, so that all is left as it is.
    """

    share: float
    wrong: Array
    settled: Array
    mended: Array
    probability: Array
    photograph: Array
    untold: bool = False


def is_graphic(codes: Array, values: int, where: Array) -> bool:
    """Return whether equal values hang together, or there are only a few.

    ``codes`` number the values in their order, from 0 to ``values`` − 1. Impulses of
    one value turn up often, but independently of one another; neighbours in a
    photograph are the same hardly more often than one step apart.
    """
    counts = np.bincount(codes[where], minlength=values).astype(float)
    total = max(counts.sum(), 1)
    most = np.sort(counts)[-FEW:]
    if most.sum() >= NEARLY_ALL * total or most[-1] >= GROUND * total:
        return True
    same, near, pairs = np.zeros((3, values))
    for axis in (0, 1):
        both = np.delete(where, 0, axis) & np.delete(where, -1, axis)
        a, b = np.delete(codes, 0, axis)[both], np.delete(codes, -1, axis)[both]
        step = np.abs(a - b)
        same += np.bincount(a[step == 0], minlength=values)
        near += np.bincount(a[step == 1], minlength=values)
        pairs += np.bincount(a, minlength=values)
    chance = counts / total
    agree = same / np.maximum(pairs, 1)
    runs = (agree - chance) / np.maximum(1 - chance, 1e-9)
    areas = (runs > RUNS) & (same > STEEP * near / 2) & (same > SMALLEST)
    return bool(counts[areas].sum() >= AREAS * total)


def look(y: Array, known: Array, levels: float) -> Graphic | None:
    """Return what the contexts of a graphic say, or None for a photograph.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The image, and what of it may be looked at.
    levels : float
        How many values there might be: 256 for 8 bits.
    """
    if y.shape[0] * y.shape[1] < TINY:
        return None
    values, codes = np.unique(np.where(known, y, np.nan), return_inverse=True)
    codes = codes.reshape(y.shape).astype(np.int64)
    if not is_graphic(codes, len(values), known):
        return None
    mended, there, corruption = codes, known.ravel(), None
    untold = False
    for _ in range(PASSES):
        # What is wrong spoils the contexts of what is near, until it is mended.
        kinds = contexts(mended, len(values))
        tables = [Table.of(key, codes, there, len(values)) for key in kinds]
        if corruption is None:  # told once: mended contexts are made to agree
            counts = np.bincount(codes[known], minlength=len(values))
            found = Corruption(levels, spikes(tables, codes, counts, levels))
            corruption, untold = _measured(found, tables, y.size)
        share = corruption.total
        firm, told, weight, seen, best = np.zeros((5, y.size))
        guess = codes.ravel().copy()
        for table in tables:
            novel, trust, often, sure, top = table.predict(corruption)
            says = novel < 1
            told += says
            firm += says / novel
            weight += trust
            seen += trust * often
            better = sure > best
            best[better], guess[better] = sure[better], top[better]
        novelty = np.where(told > 0, told / np.maximum(firm, 1e-9), 1)
        chance = seen / np.maximum(weight, 1e-9) + novelty / levels
        odds = corruption.rate(codes.ravel()) / ((1 - share) * chance)
        settled = there & (firm > SETTLED / max(share, USUAL))
        wrong = settled & (odds > WRONG / (1 - WRONG)) & (share > LEAST)
        spared = crowded(wrong.reshape(y.shape), share).ravel()
        wrong &= ~spared
        mended = np.where(wrong | ~there, guess, codes.ravel()).reshape(y.shape)
        if not wrong.any() and there.all():
            break
    # Without its dots, there would be no picture: then the dots are the picture.
    empty = np.bincount(mended[known]).max() > NOTHING * known.sum()
    if untold or (empty and wrong.any()):
        wrong, odds, untold = np.zeros_like(wrong), np.zeros_like(odds), True
        mended = np.where(there, codes.ravel(), mended.ravel()).reshape(y.shape)
    settled = settled.reshape(y.shape)
    odds = odds.reshape(y.shape)
    return Graphic(
        share,
        wrong.reshape(y.shape),
        settled,
        values[mended].astype(y.dtype),
        np.where(known, odds / (1 + odds), 1).astype(np.float32),
        _photograph(codes, len(values), known & ~settled),
        untold,
    )


def _measured(
    found: Corruption, tables: list[Table], size: int
) -> tuple[Corruption, bool]:
    """Return the corruption with its share, and whether nothing can be told of it.

    The share is that of surprises where there are fewest.
    """
    none = Corruption(found.levels, np.zeros_like(found.spikes), 0.0)
    peaks = float(found.spikes.sum())
    if peaks > INDEPENDENT:
        return none, True  # values have nothing to do with one another
    for _ in range(10):
        pairs = [table.classes(found) for table in tables]
        members, surprises = (
            np.concatenate([part[1:] for part in side])
            for side in zip(*pairs, strict=True)
        )
        # By an upper bound, lest those be taken that luck left clean.
        bound = (surprises + 4 * np.sqrt(surprises) + 16) / np.maximum(members, 1)
        enough = POOL * size / 20
        order = np.argsort(np.where(members > enough, bound, np.inf))
        chosen = order[: np.searchsorted(np.cumsum(members[order]), POOL * size) + 1]
        if members[order[0]] <= enough or surprises[chosen].sum() < FEWEST:
            return none, bool(members[order[0]] <= enough)
        share = float(surprises[chosen].sum() / members[chosen].sum())
        before, found = found, replace(found, share=max(share - peaks, 1e-6))
        if abs(found.share - before.share) < 1e-3 * before.share:
            break
    return found, False


def _photograph(codes: Array, values: int, open_: Array) -> Array:
    """Return where, of what contexts leave open, a photograph is."""
    thick = uniform_filter(open_.astype(np.float32), (AROUND, AROUND, 1)) > 0.5
    where: Array = open_ & thick
    if where.sum() < PHOTOGRAPH or is_graphic(codes, values, where):
        return np.zeros(codes.shape, bool)
    return where

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

from discrepant.core.linalg import Array
from discrepant.image.restore.graphics.clustering import (
    denser_than_chance,
    local_surprise_rate,
    regular,
)
from discrepant.image.restore.graphics.contexts import (
    ContextTable,
    ImpulseModel,
    contexts,
    impulse_value_fractions,
    is_undecidable_two_tone,
)
from discrepant.image.restore.graphics.numbering import numbered


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/graphics.py` shows what it does.

    Attributes
    ----------
    tiny : int
        Pixels, below which nothing can be told.
    runs : float
        Correlation of "has this value" between neighbours, of values in areas.
    steep : float
        How much more often neighbours in areas are the same than one step apart.
    smallest : int
        Times that neighbours are the same, to make an area.
    areas : float
        Share of values in areas, in a graphic.
    few, nearly_all : int, float
        So many values make up this share of a graphic that may be without areas.
    ground : float
        Share of one value, more than impulses of one value would have.
    pairs, unrelated : int, float
        Neighbours that tell whether values have to do with one another; their mean
        step, over that of random values, from which on they have not.
    passes : int
        How often contexts are counted: what is restored, mends the contexts around it.
    usual : float
        The share of corruption that must be told, if there seems to be none.
    around, photograph : int
        Window, and least number of values, of a photograph among graphics.
    pool : float
        Share of the values from which the share of corruption is told.
    nothing : float
        Share of one value in what shows nothing.
    independent : float
        Share of impulses that is none, but a picture of noise.
    least : float
        Share of corruption below which a graphic is left alone.
    fewest : int
        Corrupted values in contexts that settle them, or none are believed.
    determined : float
        Weight of contexts, over one in a share of corruption, to be believed.
    too_many : float
        Times as many impulses of one value as there can be: they are the picture.
    wrong : float
        Probability from which on a value is replaced: a value kept is no loss.
    """

    tiny: int = 64
    runs: float = 0.2
    steep: float = 20.0
    smallest: int = 40
    areas: float = 0.2
    few: int = 8
    nearly_all: float = 0.93
    ground: float = 0.5
    pairs: int = 100
    unrelated: float = 0.8
    passes: int = 3
    usual: float = 0.01
    around: int = 9
    photograph: int = 1000
    pool: float = 0.1
    nothing: float = 0.9995
    independent: float = 0.45
    least: float = 1e-3
    fewest: int = 8
    determined: float = 2.0
    too_many: float = 1.5
    wrong: float = 0.7


TUNING = Tuning()
NEXT_TO_NONE = 1e-6  # share of corruption that is as good as none


@dataclass(frozen=True, eq=False)
class Graphic:
    """What the contexts say of each value.

    Attributes
    ----------
    share : float
        How much is corrupted, where it can be told.
    wrong, determined : ndarray of bool
        The values that are corrupted; and those of which something can be said.
    restored : ndarray
        The values, with wrong and unknown ones as they ought to be by their contexts;
        NaN where an unknown value has none.
    probability : ndarray
        That of being corrupted.
    photograph : ndarray of bool
        Where the contexts say nothing, as in a photograph among graphics.
    undetermined : bool
        Whether nothing can be said at all, so that all is left as it is.
    """

    fraction: float
    corrupt: Array
    determined: Array
    restored: Array
    probability: Array
    photograph: Array
    undetermined: bool = False


def is_graphic(codes: Array, values: int, where: Array) -> bool:
    """Return whether equal values hang together, or there are only a few.

    ``codes`` number the values in their order, from 0 to ``values`` − 1. Impulses of
    one value turn up often, but independently of one another; neighbours in a
    photograph are the same hardly more often than one step apart.
    """
    counts = np.bincount(codes[where], minlength=values).astype(float)
    total = max(counts.sum(), 1)
    most = np.sort(counts)[-TUNING.few :]
    if most.sum() >= TUNING.nearly_all * total or most[-1] >= TUNING.ground * total:
        return True
    few = np.isin(codes, np.argsort(counts)[-TUNING.few :])
    if most.sum() >= TUNING.ground * total and _unrelated(codes, where & ~few, values):
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
    areas = (
        (runs > TUNING.runs)
        & (same > TUNING.steep * near / 2)
        & (same > TUNING.smallest)
    )
    return bool(counts[areas].sum() >= TUNING.areas * total)


def _unrelated(codes: Array, where: Array, values: int) -> bool:
    """Return whether neighbours have nothing to do with one another.

    In a photograph, what impulses of a few values have left is smooth.
    """
    steps: list[Array] = []
    for axis in (0, 1):
        both = np.delete(where, 0, axis) & np.delete(where, -1, axis)
        steps.append(np.abs(np.diff(codes, axis=axis))[both])
    step = np.concatenate(steps)
    # Of values drawn evenly, a third of the range lies between two in the mean.
    return (
        len(step) >= TUNING.pairs and float(step.mean()) > TUNING.unrelated * values / 3
    )


def _coded(y: Array, known: Array) -> tuple[Array, Array]:
    """Return the values in their order, and the number of each; unknown ones are NaN.

    As whole numbers, floats that are not negative have the same order.
    """
    whole = np.where(known, y + np.float32(0), np.float32(np.nan))  # −0 becomes 0
    keys, codes = numbered(whole.view(np.int32).astype(np.int64))
    values: Array = keys.astype(np.int32).view(np.float32)
    return values, codes.reshape(y.shape).astype(np.int64)


def restore_graphic(y: Array, known: Array, levels: float) -> Graphic | None:
    """Return what the contexts of a graphic say, or None for a photograph.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The image, and what of it may be looked at.
    levels : float
        How many values there might be: 256 for 8 bits.
    """
    if y.shape[0] * y.shape[1] < TUNING.tiny:
        return None
    values, codes = _coded(y, known)
    if not is_graphic(codes, len(values), known):
        return None
    restored, there = codes, known.ravel()
    for number in range(TUNING.passes):
        # What is wrong spoils the contexts of what is near, until it is restored.
        kinds = contexts(restored, len(values))
        tables = [ContextTable.of(key, codes, there, len(values)) for key in kinds]
        if not number:  # told once: restored contexts are made to agree
            counts = np.bincount(codes[known], minlength=len(values))
            found = ImpulseModel(
                levels, impulse_value_fractions(tables, codes, counts, levels)
            )
            corruption, undetermined = _measured(found, tables, y.size)
            undetermined = undetermined or is_undecidable_two_tone(
                tables, codes, counts, found
            )
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
        usual = np.where(told > 0, told / np.maximum(firm, 1e-9), 1)
        chance = seen / np.maximum(weight, 1e-9) + usual / levels
        odds = corruption.rate(codes.ravel()) / ((1 - share) * chance)
        new = local_surprise_rate((odds > 1).reshape(y.shape), share).ravel()
        odds = corruption.rate(codes.ravel()) / ((1 - share) * (chance + new / levels))
        determined = there & (firm > TUNING.determined / max(share, TUNING.usual))
        wrong = (
            determined
            & (odds > TUNING.wrong / (1 - TUNING.wrong))
            & (share > TUNING.least)
        )
        if regular(wrong.reshape(y.shape)):
            wrong[:] = False
        spared = denser_than_chance(wrong.reshape(y.shape), share).ravel()
        wrong &= ~spared
        odds[spared] = np.minimum(odds[spared], 1)  # it may as well be the picture
        restored = np.where(wrong | ~there, guess, codes.ravel()).reshape(y.shape)
        if not wrong.any() and there.all():
            break
    # Without its dots, there would be no picture: then the dots are the picture.
    empty = np.bincount(restored[known]).max() > TUNING.nothing * known.sum()
    if (
        undetermined
        or (empty and wrong.any())
        or _too_many(codes, restored, corruption)
    ):
        wrong, odds, undetermined = np.zeros_like(wrong), np.zeros_like(odds), True
        restored = np.where(there, codes.ravel(), restored.ravel()).reshape(y.shape)
    determined = determined.reshape(y.shape)
    odds = odds.reshape(y.shape)
    return Graphic(
        share,
        wrong.reshape(y.shape),
        determined,
        values[restored].astype(y.dtype),
        np.where(known, odds / (1 + odds), 1).astype(np.float32),
        _photograph(codes, len(values), known & ~determined),
        undetermined,
    )


def _measured(
    found: ImpulseModel, tables: list[ContextTable], size: int
) -> tuple[ImpulseModel, bool]:
    """Return the corruption with its share, and whether nothing can be told of it.

    The share is that of surprises where there are fewest.
    """
    none = ImpulseModel(found.levels, np.zeros_like(found.impulse_value_fractions), 0.0)
    peaks = float(found.impulse_value_fractions.sum())
    if peaks > TUNING.independent:
        return none, True  # values have nothing to do with one another
    for _ in range(10):
        pairs = [table.classes(found) for table in tables]
        members, surprises = (
            np.concatenate([part[1:] for part in side])
            for side in zip(*pairs, strict=True)
        )
        # By an upper bound, lest those be taken that luck left clean.
        bound = (surprises + 4 * np.sqrt(surprises) + 16) / np.maximum(members, 1)
        enough = TUNING.pool * size / 20
        order = np.argsort(np.where(members > enough, bound, np.inf))
        chosen = order[
            : np.searchsorted(np.cumsum(members[order]), TUNING.pool * size) + 1
        ]
        if members[order[0]] <= enough or surprises[chosen].sum() < TUNING.fewest:
            if members[order[0]] > enough and peaks > 0:
                return replace(found, share=NEXT_TO_NONE), False
            return none, bool(members[order[0]] <= enough)
        share = float(surprises[chosen].sum() / members[chosen].sum())
        before, found = found, replace(found, share=max(share, NEXT_TO_NONE))
        if abs(found.share - before.share) < 1e-3 * before.share:
            break
    return found, False


def _too_many(codes: Array, restored: Array, corruption: ImpulseModel) -> bool:
    """Return whether more impulses of one value were found than there can be.

    They fall on values of their own, too, and are not seen there: a picture of dots
    that are taken for impulses has more of them.
    """
    for code in np.flatnonzero(corruption.impulse_value_fractions).tolist():
        found = float(((codes == code) & (restored != code)).sum())
        others = float((restored != code).sum())
        most = TUNING.too_many * others * float(corruption.rate(np.array(code)))
        if found > most + 4 * most**0.5:
            return True
    return False


def _photograph(codes: Array, values: int, open_: Array) -> Array:
    """Return where, of what contexts leave open, a photograph is."""
    thick = (
        uniform_filter(open_.astype(np.float32), (TUNING.around, TUNING.around, 1))
        > 0.5
    )
    where: Array = open_ & thick
    if where.sum() < TUNING.photograph or is_graphic(codes, values, where):
        return np.zeros(codes.shape, bool)
    return where

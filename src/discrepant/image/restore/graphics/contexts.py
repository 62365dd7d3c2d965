"""Contexts: a few surroundings of a value, and what was seen in the same elsewhere.

A picture that is exact repeats itself: the same neighbours, the same value. Corruption
at random does not look at the neighbours, so that it falls into every context alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter

from discrepant.core.linalg import Array


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/graphics.py` shows what it does.

    Attributes
    ----------
    recurs : int
        Times that a context must recur to say anything.
    often : int
        Times from which on a context is its own class.
    breaks : int
        Surprises in a context, below which they tell its class.
    caution : float
        In shares of corruption: no context is more certain.
    values : int
        The commonest values, which may be impulses of their own.
    flat : float
        Levels, or fewer, of which none stands out.
    peak : float
        Share of the values below which impulses of one value are not told.
    dotted : float
        Times as many dots alone as in the context with fewest: a dither.
    noise : float
        Share of a value in every context, from which on the contexts mean nothing.
    common : float
        Share of a value that is a part of the picture.
    places : int
        Rows and columns of places, in each of which impulses must turn up.
    two : float
        Share of two values, of which a picture consists.
    guest : float
        Share of either in every context, that no clean picture has: of eleven, the
        largest was 0.003; with 5% salt-and-pepper the least is 0.02.
    uneven : float
        Times as many dots alone as in the context with fewest: part of them are the
        picture's. By chance it is 1.3, in a dither 1.5 and more.
    """

    recurs: int = 4
    often: int = 256
    breaks: int = 4
    caution: float = 0.02
    values: int = 16
    flat: float = 8.0
    peak: float = 0.003
    dotted: float = 3.0
    noise: float = 0.45
    common: float = 0.05
    places: int = 6
    two: float = 0.98
    guest: float = 0.015
    uneven: float = 1.45


TUNING = Tuning()
CLASSES = 1 + 8 * TUNING.breaks  # of contexts, by how often they recur and are broken
# Neighbours: those that touch, and those two steps away.
WIDE = (
    *((-2, 0), (0, 2), (2, 0), (0, -2)),
    *((-2, -1), (-2, 1), (-1, 2), (1, 2), (2, 1), (2, -1), (1, -2), (-1, -2)),
)
RING = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))


@dataclass(frozen=True, eq=False)
class ImpulseModel:
    """How much is corrupted: a share of values at random, and more of single ones.

    ``impulse_value_fractions`` holds, for each value that there is, the fraction of
    corrupted values that have this value beyond what chance gives it.
    """

    levels: float
    impulse_value_fractions: Array
    share: float = 0.5

    @property
    def total(self) -> float:
        """The whole share of corruption."""
        return min(self.share + float(self.impulse_value_fractions.sum()), 0.95)

    def rate(self, code: Array) -> Array:
        """Return how often corruption makes a value this one."""
        rate: Array = self.share / self.levels + self.impulse_value_fractions[code]
        return rate


@dataclass(frozen=True, eq=False)
class ContextTable:
    """How often each value was seen in each context of one kind."""

    pair: Array  # of each value of the image, which pair of context and value it is
    context: Array  # of each pair
    code: Array  # of each pair
    count: Array  # of each pair
    total: Array  # of each context
    top: Array  # of each context, the value seen most often in it
    most: Array  # and how often

    @classmethod
    def of(cls, key: Array, codes: Array, there: Array, values: int) -> "ContextTable":
        """Count the values that are there by the keys of their contexts."""
        from discrepant.image.restore.graphics.numbering import numbered

        contexts, where = numbered(key)
        pairs, pair = numbered(where * np.int64(values) + codes.ravel())
        count = np.bincount(pair, there, len(pairs))
        context, code = pairs // values, pairs % values
        total = np.bincount(context, count, len(contexts))
        order = np.lexsort((count, context))
        last = np.append(np.flatnonzero(np.diff(context[order])), len(order) - 1)
        top, most = code[order[last]], count[order[last]]
        return cls(pair, context, code, count, total, top, most)

    def surprises(self, corruption: ImpulseModel) -> tuple[Array, Array, Array]:
        """Return which pairs are surprises, their weight, and the class of each pair.

        A surprise is not seen more often than corruption would have it. Pairs whose
        contexts recur as often, and hold as many surprises, the value itself left out,
        are of one class; a context that recurs very often is its own. The weight is how
        much corruption there is for each surprise, as it hits common values, too.
        """
        levels = corruption.levels
        total = self.total[self.context]
        stray = total * corruption.rate(self.code)
        rare = self.count - 1 <= stray + 4 * np.sqrt(stray)
        often = np.bincount(self.context, ~rare, len(self.total))[self.context]
        weight = rare * levels / np.maximum(levels - often, 1)
        broken = np.bincount(self.context, self.count * rare, len(self.total))
        others, breaks = total - 1, broken[self.context] - rare
        size = np.log2(np.maximum(others, 1)).astype(int)
        kind = np.where(breaks < TUNING.breaks, 1 + size * TUNING.breaks + breaks, 0)
        kind[others < TUNING.recurs] = 0
        large = others >= TUNING.often
        kind[large] = CLASSES + self.context[large]
        kind[often > levels / 2] = 0  # where anything goes, nothing is a surprise
        return rare, weight, kind.astype(int)

    def classes(self, corruption: ImpulseModel) -> tuple[Array, Array]:
        """Return of each class how many values it has, and how many are surprises.

        Values at which corruption stands out are left out of the latter: how often they
        are surprises is known already.
        """
        _, weight, kind = self.surprises(corruption)
        weight = weight * (corruption.impulse_value_fractions[self.code] == 0)
        size = CLASSES + len(self.total)
        members = np.bincount(kind, self.count, size)
        return members, np.bincount(kind, self.count * weight, size)

    def predict(self, corruption: ImpulseModel) -> tuple[Array, ...]:
        """Return what each value's context says of it, itself left out.

        How often a clean value is a surprise there; how much to trust the context; how
        often this value is seen in it; and its best guess, with how sure that is.
        """
        rare, _, kind = self.surprises(corruption)
        members, surprises = self.classes(corruption)
        rate = surprises / np.maximum(members, 1)
        share = corruption.share
        doubt = np.sqrt(share / np.maximum(members, 1))
        novel = np.maximum(rate - share - doubt, 0) + 1 / (members + 1)
        novel += TUNING.caution * share
        novel[0] = 1
        novel = np.minimum(novel, 1)[kind]
        stray = self.total[self.context] * corruption.rate(self.code)
        others = np.maximum(self.total - 1, 1)[self.context]
        seen = np.where(rare, 0, np.maximum(self.count - 1 - stray, 0) / others)
        broken = np.bincount(self.context, self.count * rare, len(self.total))
        unsure = 1 - self.most / np.maximum(self.total - broken, self.most + 1e-9)
        trust = np.where(kind > 0, 1 / (novel + unsure[self.context]), 1e-3)
        sure = (self.most - 1) / (self.total + 1)
        pair, context = self.pair, self.context[self.pair]
        return novel[pair], trust[pair], seen[pair], sure[context], self.top[context]

    def least(self, code: int) -> float:
        """Return the least share, by an upper bound, of a value where it is a guest."""
        guest = (self.total >= TUNING.often) & (self.top != code)
        if not guest.any():
            return 1.0
        mine = self.code == code
        count = np.bincount(self.context[mine], self.count[mine], len(self.total))
        bound = (count + 2 * np.sqrt(count) + 3) / np.maximum(self.total, 1)
        return float(bound[guest].min())


def impulse_value_fractions(
    tables: list[ContextTable], codes: Array, counts: Array, levels: float
) -> Array:
    """Return the share of values at which corruption stands out.

    Impulses of one value turn up in every context and in every place, and where none of
    their own is near them they turn up as often as anywhere. A dot that belongs to the
    picture does not turn up everywhere, and areas are not alone.
    """
    out = np.zeros(len(counts))
    if levels <= TUNING.flat:
        return out
    total = counts.sum()
    lone = _alone(codes)
    for code in np.argsort(-counts)[: TUNING.values].tolist():
        least = min(table.least(code) for table in tables)
        if not TUNING.peak < least < 1:
            continue
        anywhere, usual = _alone_rates(codes == code, lone)
        if not usual and least < TUNING.noise:
            continue  # it is never alone, or never away from its own
        thick = max(anywhere / 2, usual)
        if thick > TUNING.dotted * least and counts[code] > TUNING.common * total:
            return np.zeros(len(counts))  # the picture itself is made of dots
        share = min([least, *(rate for rate in (anywhere, usual) if rate > 0)])
        if share > TUNING.peak:
            out[code] = share
    return out


def is_undecidable_two_tone(
    tables: list[ContextTable], codes: Array, counts: Array, found: ImpulseModel
) -> bool:
    """Return whether impulses cannot be told from a picture of two values.

    That is where both turn up in every context, as they do in no clean picture, and
    impulses of them are either not to be seen among dots of the picture's own, or
    those make some contexts seem to have more of them than others.
    """
    two = np.argsort(-counts)[:2].tolist()
    if found.levels <= TUNING.flat or len(two) < 2:
        return False
    if counts[two].sum() < TUNING.two * counts.sum():
        return False
    least = [min(table.least(code) for table in tables) for code in two]
    if min(least) < TUNING.guest:
        return False
    if not found.impulse_value_fractions.any():
        return True
    lone = _alone(codes)
    usual = [_alone_rates(codes == code, lone)[1] for code in two]
    return any(u > TUNING.uneven * most for u, most in zip(usual, least, strict=True))


def _alone_rates(mine: Array, lone: Array) -> tuple[float, float]:
    """Return how often one value turns up where none of it is near: least, and usual.

    The least is that of any place, by an upper bound: dots of a dither are thick in one
    place and thin in another; impulses are not. 0 where it cannot be told.
    """
    dots = mine & lone
    open_ = dots | ~maximum_filter(mine, (3, 3, 1))
    least = 1.0
    for rows in np.array_split(np.arange(len(mine)), TUNING.places):
        for columns in np.array_split(np.arange(mine.shape[1]), TUNING.places):
            place = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
            room, count = int(open_[place].sum()), int(dots[place].sum())
            if room >= TUNING.often:
                least = min(least, (count + 3 * count**0.5 + 5) / room)
    room = int(open_.sum())
    usual = float(dots.sum()) / room if room >= TUNING.often else 0.0
    return (least if least < 1 else 0.0), usual


def _alone(codes: Array) -> Array:
    """Return which values have none of their own among their eight neighbours."""
    padded = np.pad(codes, ((1, 1), (1, 1), (0, 0)), constant_values=-1)
    rows, columns, _ = codes.shape
    out = np.ones(codes.shape, bool)
    for i, j in RING:
        out &= codes != padded[1 + i : 1 + i + rows, 1 + j : 1 + j + columns]
    return out


def contexts(codes: Array, values: int) -> Iterator[Array]:
    """Yield numbers that are equal where surroundings are: of several kinds."""
    yield np.zeros(codes.shape, np.int64)
    padded = np.pad(codes, ((1, 1), (1, 1), (0, 0)), constant_values=values)
    rows, columns, channels = codes.shape

    def at(i: int, j: int) -> Array:
        return padded[1 + i : 1 + i + rows, 1 + j : 1 + j + columns]

    ring = [at(*place) for place in RING]
    yield _hash(ring)
    for turn in range(0, 8, 2):
        yield _hash([ring[(turn + k) % 8] for k in range(5)])
    for turn in range(0, 8, 2):
        yield _hash([ring[(turn + k) % 8] for k in range(-1, 2)])
    if channels == 1:
        far = np.pad(codes, ((2, 2), (2, 2), (0, 0)), constant_values=values)
        wide = [far[2 + i : 2 + i + rows, 2 + j : 2 + j + columns] for i, j in WIDE]
        yield _hash([*ring, *wide[:4]])
        yield _hash([*ring, *wide])
    if channels > 1:
        steps = (1,) if channels == 2 else (1, -1)
        colour = [np.roll(codes, step, axis=2) for step in steps]
        colour.append(np.arange(channels) + np.zeros(codes.shape, np.int64))
        yield _hash(colour)
        yield _hash([*colour, at(0, -1), at(0, 1)])
        yield _hash([*colour, at(-1, 0), at(1, 0)])


def _hash(parts: list[Array]) -> Array:
    out = np.zeros(parts[0].shape, np.uint64)
    for part in parts:
        out *= np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
        out += part.astype(np.uint64) + np.uint64(1)
    return out

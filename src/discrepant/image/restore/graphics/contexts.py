"""Context tables: which values occur in which neighbourhoods of a graphic.

A graphic repeats itself: equal neighbours surround equal values. Random corruption does
not depend on the neighbours, so that it occurs in every context at the same rate.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discrepant.core.linalg import Array

# `python benchmarks/images/graphics.py` shows the effect of these constants.

# Smallest number of recurrences of a context that is used at all.
MIN_RECURRENCES = 4
# Number of recurrences from which on a context is a class of its own.
FREQUENT = 256
# Contexts with fewer surprises are classified by their number.
MAX_SURPRISES = 4
# Number of classes of the other contexts: by the logarithm of their recurrences (below
# 256) and by their surprises; class 0 holds contexts that are not used.
N_CLASSES = 1 + 8 * MAX_SURPRISES
# Smallest surprise rate of a context, as a multiple of the corrupted fraction.
MIN_RELATIVE_SURPRISE = 0.02
# Offsets of the eight neighbours of a pixel, in order around it.
RING = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))
# Offsets of twelve pixels two steps away.
OUTER_RING = (
    *((-2, 0), (0, 2), (2, 0), (0, -2)),
    *((-2, -1), (-2, 1), (-1, 2), (1, 2), (2, 1), (2, -1), (1, -2), (-1, -2)),
)


@dataclass(frozen=True, eq=False)
class ImpulseModel:
    """Corruption of a graphic: random values, and impulses of preferred values.

    Attributes
    ----------
    levels : float
        Number of different values that the image could have.
    value_fractions : ndarray of shape (values,)
        For each value of the image, the fraction of all entries that are impulses of
        this value, in addition to random values.
    random_fraction : float
        Fraction of all entries that were replaced by random values.
    """

    levels: float
    value_fractions: Array
    random_fraction: float = 0.5

    @property
    def fraction(self) -> float:
        """Corrupted fraction of the values."""
        return min(self.random_fraction + float(self.value_fractions.sum()), 0.95)

    def rate(self, code: Array) -> Array:
        """Return the probability that corruption turns a value into the given one."""
        rate: Array = self.random_fraction / self.levels + self.value_fractions[code]
        return rate


class ContextPrediction(NamedTuple):
    """What the contexts of one kind predict for each value, leaving it out itself."""

    surprise_rate: Array  # probability that a clean value is a surprise there
    weight: Array  # weight of this context among those of other kinds
    frequency: Array  # relative frequency of the value in its context
    certainty: Array  # relative frequency of the most frequent value
    most_frequent: Array  # the most frequent value, as a code


@dataclass(frozen=True, eq=False)
class ContextTable:
    """Counts of each value in each context of one kind.

    Attributes
    ----------
    pair_of_entry : ndarray
        For each entry of the image, its pair of context and value.
    context, code, count : ndarray
        For each pair, its context, its value and its number of occurrences.
    total : ndarray
        For each context, its number of occurrences.
    most_frequent, max_count : ndarray
        For each context, its most frequent value and the count of that value.
    """

    pair_of_entry: Array
    context: Array
    code: Array
    count: Array
    total: Array
    most_frequent: Array
    max_count: Array

    @classmethod
    def from_keys(
        cls, keys: Array, codes: Array, valid: Array, n_values: int
    ) -> "ContextTable":
        """Count the valid values by the keys of their contexts."""
        contexts, context_of_entry = distinct(keys)
        pairs, pair_of_entry = distinct(
            context_of_entry * np.int64(n_values) + codes.ravel()
        )
        count = np.bincount(pair_of_entry, valid, len(pairs))
        context, code = pairs // n_values, pairs % n_values
        total = np.bincount(context, count, len(contexts))
        order = np.lexsort((count, context))
        last = np.append(np.flatnonzero(np.diff(context[order])), len(order) - 1)
        most_frequent, max_count = code[order[last]], count[order[last]]
        return cls(pair_of_entry, context, code, count, total, most_frequent, max_count)

    def surprises(self, model: ImpulseModel) -> tuple[Array, Array, Array]:
        """Return which pairs are surprises, their weight, and the class of each pair.

        A surprise occurs no more often than corruption alone would make it. Pairs whose
        contexts recur equally often and have equally many surprises, the value itself
        left out, form one class; a context that recurs very often is its own class. The
        weight is the number of corrupted values per surprise: corruption also produces
        values that are common in the context, and these are no surprises.
        """
        levels = model.levels
        total = self.total[self.context]
        expected = total * model.rate(self.code)
        surprising = self.count - 1 <= expected + 4 * np.sqrt(expected)
        n_usual = np.bincount(self.context, ~surprising, len(self.total))[self.context]
        weight = surprising * levels / np.maximum(levels - n_usual, 1)
        n_surprises = np.bincount(
            self.context, self.count * surprising, len(self.total)
        )
        others, surprises = total - 1, n_surprises[self.context] - surprising
        size = np.log2(np.maximum(others, 1)).astype(int)
        class_ = np.where(
            surprises < MAX_SURPRISES, 1 + size * MAX_SURPRISES + surprises, 0
        )
        class_[others < MIN_RECURRENCES] = 0
        frequent = others >= FREQUENT
        class_[frequent] = N_CLASSES + self.context[frequent]
        class_[n_usual > levels / 2] = 0  # where most values occur, none is a surprise
        return surprising, weight, class_.astype(int)

    def class_counts(self, model: ImpulseModel) -> tuple[Array, Array]:
        """Return for each class the number of its values and of its surprises.

        Surprises at values that impulses prefer are not counted: their fraction is
        known already.
        """
        _, weight, class_ = self.surprises(model)
        weight = weight * (model.value_fractions[self.code] == 0)
        size = N_CLASSES + len(self.total)
        members = np.bincount(class_, self.count, size)
        return members, np.bincount(class_, self.count * weight, size)

    def predict(self, model: ImpulseModel) -> ContextPrediction:
        """Predict each value from its context, leaving out the value itself."""
        surprising, _, class_ = self.surprises(model)
        members, surprises = self.class_counts(model)
        rate = surprises / np.maximum(members, 1)
        fraction = model.random_fraction
        error = np.sqrt(fraction / np.maximum(members, 1))
        surprise_rate = np.maximum(rate - fraction - error, 0) + 1 / (members + 1)
        surprise_rate += MIN_RELATIVE_SURPRISE * fraction
        surprise_rate[0] = 1
        surprise_rate = np.minimum(surprise_rate, 1)[class_]
        expected = self.total[self.context] * model.rate(self.code)
        others = np.maximum(self.total - 1, 1)[self.context]
        frequency = np.where(
            surprising, 0, np.maximum(self.count - 1 - expected, 0) / others
        )
        n_surprises = np.bincount(
            self.context, self.count * surprising, len(self.total)
        )
        n_usual = np.maximum(self.total - n_surprises, self.max_count + 1e-9)
        ambiguity = 1 - self.max_count / n_usual
        weight = np.where(
            class_ > 0, 1 / (surprise_rate + ambiguity[self.context]), 1e-3
        )
        certainty = (self.max_count - 1) / (self.total + 1)
        pair, context = self.pair_of_entry, self.context[self.pair_of_entry]
        return ContextPrediction(
            surprise_rate[pair],
            weight[pair],
            frequency[pair],
            certainty[context],
            self.most_frequent[context],
        )

    def min_fraction_bound(self, code: int) -> float:
        """Return the smallest fraction of a value in frequent contexts of other values.

        The fraction is an upper confidence bound; 1 if there is no such context.
        """
        foreign = (self.total >= FREQUENT) & (self.most_frequent != code)
        if not foreign.any():
            return 1.0
        same = self.code == code
        count = np.bincount(self.context[same], self.count[same], len(self.total))
        bound = (count + 2 * np.sqrt(count) + 3) / np.maximum(self.total, 1)
        return float(bound[foreign].min())


def distinct(keys: Array) -> tuple[Array, Array]:
    """Return the distinct keys in ascending order, and the position of each key there.

    Unlike `numpy.unique` this hashes the keys instead of sorting them all.
    """
    import pandas as pd

    positions, values = pd.factorize(np.ravel(keys), sort=True)
    return values, positions


def neighbourhood_keys(codes: Array, n_values: int) -> Iterator[Array]:
    """Yield one array per kind of context; entries in equal contexts have equal keys.

    The kinds are: none, the eight neighbours, parts of them, neighbours two steps away,
    and the other channels.
    """
    yield np.zeros(codes.shape, np.int64)
    padded = np.pad(codes, ((1, 1), (1, 1), (0, 0)), constant_values=n_values)
    rows, columns, channels = codes.shape

    def at(i: int, j: int) -> Array:
        return padded[1 + i : 1 + i + rows, 1 + j : 1 + j + columns]

    ring = [at(*offset) for offset in RING]
    yield _hash(ring)
    for start in range(0, 8, 2):
        yield _hash([ring[(start + k) % 8] for k in range(5)])
    for start in range(0, 8, 2):
        yield _hash([ring[(start + k) % 8] for k in range(-1, 2)])
    if channels == 1:
        padded_by_two = np.pad(
            codes, ((2, 2), (2, 2), (0, 0)), constant_values=n_values
        )
        outer = [
            padded_by_two[2 + i : 2 + i + rows, 2 + j : 2 + j + columns]
            for i, j in OUTER_RING
        ]
        yield _hash([*ring, *outer[:4]])
        yield _hash([*ring, *outer])
    if channels > 1:
        steps = (1,) if channels == 2 else (1, -1)
        colour = [np.roll(codes, step, axis=2) for step in steps]
        colour.append(np.arange(channels) + np.zeros(codes.shape, np.int64))
        yield _hash(colour)
        yield _hash([*colour, at(0, -1), at(0, 1)])
        yield _hash([*colour, at(-1, 0), at(1, 0)])


def _hash(parts: list[Array]) -> Array:
    """Return a 64-bit hash of several arrays, entry by entry."""
    out = np.zeros(parts[0].shape, np.uint64)
    for part in parts:
        out *= np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
        out += part.astype(np.uint64) + np.uint64(1)
    return out

"""Restore graphics (text, screens, plots, codes, dithers) from recurring contexts.

A photograph is smooth; a graphic is exact: a few values occur over and over in the same
neighbourhoods. Each value is predicted by the values that occur in the same context
elsewhere. Random corruption occurs in every context at the same rate, whatever the
picture. Where contexts determine a value, the rate of surprises is therefore the
corrupted fraction. A value that occurs more often in its context belongs to the
picture; one that does not is corrupted with the certainty with which its context
determines another value. Where no context recurs, nothing is changed.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import uniform_filter

from discrepant.core.linalg import Array
from discrepant.image.restore.graphics.clustering import (
    denser_than_chance,
    local_surprise_rate,
    more_regular_than_chance,
)
from discrepant.image.restore.graphics.contexts import (
    ContextTable,
    ImpulseModel,
    distinct,
    neighbourhood_keys,
)
from discrepant.image.restore.graphics.impulse_values import (
    impulse_value_fractions,
    is_undecidable_two_tone,
)

# `python benchmarks/images/graphics.py` shows the effect of these constants.

# Graphic or photograph. Smallest number of pixels of a graphic.
MIN_PIXELS = 64
# Number of most frequent values that together make up most of a graphic.
N_COMMON_VALUES = 8
# Smallest fraction of these values in an image that is a graphic for this reason alone.
MIN_COMMON_FRACTION = 0.93
# Smallest fraction of a background value, larger than that of impulses of one value.
MIN_BACKGROUND_FRACTION = 0.5
# Smallest correlation, between neighbours, of "has this value" for values in areas.
MIN_RUN_CORRELATION = 0.2
# Smallest ratio of equal neighbours to neighbours one step apart, for values in areas.
RUN_TO_STEP_RATIO = 20.0
# Smallest number of equal neighbours of a value in areas.
MIN_EQUAL_NEIGHBOURS = 40
# Smallest fraction of values in areas in a graphic.
MIN_AREA_FRACTION = 0.2
# Smallest number of neighbours for a decision on whether values are related.
MIN_PAIRS = 100
# Mean step between neighbours, relative to that of random values, from which on values
# count as unrelated.
UNRELATED_STEP_RATIO = 0.8

# Corrupted fraction. Largest fraction of impulses: beyond, values do not depend on
# their neighbours, and the picture is noise.
MAX_IMPULSE_FRACTION = 0.45
# Fraction of the values, in the contexts with the fewest surprises, from which the
# corrupted fraction is estimated.
POOL_FRACTION = 0.1
# Smallest number of surprises among them.
MIN_SURPRISES = 8
# Random fraction that stands for none, so that logarithms and ratios are finite.
NEGLIGIBLE_FRACTION = 1e-6

# Decision. Number of passes: restored values repair the contexts of their neighbours.
N_PASSES = 3
# Smallest corrupted fraction with which any value is replaced.
MIN_FRACTION = 1e-3
# A value is determined if the inverse surprise rates of its contexts sum to this
# multiple of the inverse corrupted fraction.
MIN_CERTAINTY = 2.0
# Smallest corrupted fraction in that criterion.
MIN_FRACTION_FOR_CERTAINTY = 0.01
# Smallest probability with which a value is replaced: keeping one costs less.
MIN_CORRUPT_PROBABILITY = 0.7
# Fraction of one value at which a restored image is empty; its dots were the picture.
EMPTY_FRACTION = 0.9995
# Ratio of detected impulses of one value to the possible number beyond which they are
# part of the picture.
MAX_IMPULSE_RATIO = 1.5

# Rows and columns of the window in which photographs inside a graphic are detected.
INSET_WINDOW = 9
# Smallest number of values of a photograph inside a graphic.
MIN_INSET_VALUES = 1000


@dataclass(frozen=True, eq=False)
class Graphic:
    """The restoration of a graphic.

    Attributes
    ----------
    fraction : float
        Corrupted fraction of the values, 0 if it cannot be estimated.
    corrupt, determined : ndarray of bool
        Corrupted values, and values that their contexts determine.
    restored : ndarray
        The values, with corrupted and invalid ones replaced; NaN where an invalid value
        has no context.
    probability : ndarray
        Probability that each value is corrupted.
    photograph : ndarray of bool
        Values of photographs inside the graphic, which contexts do not determine.
    undetermined : bool
        True if corrupted values cannot be identified; all valid values are unchanged.
    """

    fraction: float
    corrupt: Array
    determined: Array
    restored: Array
    probability: Array
    photograph: Array
    undetermined: bool = False


def restore_graphic(y: Array, valid: Array, levels: float) -> Graphic | None:
    """Restore a graphic from recurring contexts; return None for a photograph.

    Parameters
    ----------
    y, valid : ndarray of shape (rows, columns, channels)
        The image, and True where its values are valid.
    levels : float
        Number of different values that the image could have: 256 for 8 bits.
    """
    if y.shape[0] * y.shape[1] < MIN_PIXELS:
        return None
    values, codes = _distinct_values(y, valid)
    if not is_graphic(codes, len(values), valid):
        return None
    restored, flat_codes, flat_valid = codes, codes.ravel(), valid.ravel()
    for number in range(N_PASSES):
        tables = [
            ContextTable.from_keys(keys, codes, flat_valid, len(values))
            for keys in neighbourhood_keys(restored, len(values))
        ]
        if not number:  # only once: restored values agree with their contexts
            model, undetermined = _fit_impulse_model(tables, codes, valid, levels)
        prediction = _combine(tables, flat_codes, model)
        odds = _corrupt_odds(prediction, codes, model)
        certainty = MIN_CERTAINTY / max(model.fraction, MIN_FRACTION_FOR_CERTAINTY)
        determined = flat_valid & (prediction.certainty > certainty)
        corrupt, odds = _classify(odds, determined, y.shape, model.fraction)
        restored = np.where(corrupt | ~flat_valid, prediction.best, flat_codes)
        restored = restored.reshape(y.shape)
        if not corrupt.any() and flat_valid.all():
            break
    is_empty = np.bincount(restored[valid]).max() > EMPTY_FRACTION * valid.sum()
    if (
        undetermined
        or (is_empty and corrupt.any())
        or _has_too_many_impulses(codes, restored, model)
    ):
        corrupt, odds, undetermined = np.zeros_like(corrupt), np.zeros_like(odds), True
        restored = np.where(valid, codes, restored)
    determined, odds = determined.reshape(y.shape), odds.reshape(y.shape)
    return Graphic(
        fraction=model.fraction,
        corrupt=corrupt.reshape(y.shape),
        determined=determined,
        restored=values[restored].astype(y.dtype),
        probability=np.where(valid, odds / (1 + odds), 1).astype(np.float32),
        photograph=_photographs_inside(codes, len(values), valid & ~determined),
        undetermined=undetermined,
    )


def _distinct_values(y: Array, valid: Array) -> tuple[Array, Array]:
    """Return the distinct values in ascending order, and the number of each value.

    Invalid values become NaN. The bits of non-negative floats have the same order as
    integers.
    """
    exact = np.where(valid, y + np.float32(0), np.float32(np.nan))  # −0 becomes 0
    bits, codes = distinct(exact.view(np.int32).astype(np.int64))
    values: Array = bits.astype(np.int32).view(np.float32)
    return values, codes.reshape(y.shape).astype(np.int64)


def is_graphic(codes: Array, n_values: int, where: Array) -> bool:
    """Return whether an image has few values or areas of equal values.

    Impulses of one value are frequent too, but independent of each other; neighbours in
    a photograph are equal hardly more often than they are one step apart.

    Parameters
    ----------
    codes : ndarray of shape (rows, columns, channels)
        Number of each value, in ascending order of the values.
    n_values : int
        Number of different values.
    where : ndarray of bool
        Values to consider.
    """
    counts = np.bincount(codes[where], minlength=n_values).astype(float)
    total = max(counts.sum(), 1)
    common = np.sort(counts)[-N_COMMON_VALUES:]
    if common.sum() >= MIN_COMMON_FRACTION * total:
        return True
    if common[-1] >= MIN_BACKGROUND_FRACTION * total:
        return True
    is_common = np.isin(codes, np.argsort(counts)[-N_COMMON_VALUES:])
    if common.sum() >= MIN_BACKGROUND_FRACTION * total and _are_unrelated(
        codes, where & ~is_common, n_values
    ):
        return True
    equal, one_apart, pairs = np.zeros((3, n_values))
    for axis in (0, 1):
        both = np.delete(where, 0, axis) & np.delete(where, -1, axis)
        a, b = np.delete(codes, 0, axis)[both], np.delete(codes, -1, axis)[both]
        step = np.abs(a - b)
        equal += np.bincount(a[step == 0], minlength=n_values)
        one_apart += np.bincount(a[step == 1], minlength=n_values)
        pairs += np.bincount(a, minlength=n_values)
    by_chance = counts / total
    equal_rate = equal / np.maximum(pairs, 1)
    correlation = (equal_rate - by_chance) / np.maximum(1 - by_chance, 1e-9)
    in_areas = (
        (correlation > MIN_RUN_CORRELATION)
        & (equal > RUN_TO_STEP_RATIO * one_apart / 2)
        & (equal > MIN_EQUAL_NEIGHBOURS)
    )
    return bool(counts[in_areas].sum() >= MIN_AREA_FRACTION * total)


def _are_unrelated(codes: Array, where: Array, n_values: int) -> bool:
    """Return whether neighbours are independent of each other.

    In a photograph, the values between impulses of a few values are smooth.
    """
    steps: list[Array] = []
    for axis in (0, 1):
        both = np.delete(where, 0, axis) & np.delete(where, -1, axis)
        steps.append(np.abs(np.diff(codes, axis=axis))[both])
    step = np.concatenate(steps)
    # Two values drawn uniformly differ by a third of the range on average.
    random_step = n_values / 3
    return (
        len(step) >= MIN_PAIRS
        and float(step.mean()) > UNRELATED_STEP_RATIO * random_step
    )


def _fit_impulse_model(
    tables: list[ContextTable], codes: Array, valid: Array, levels: float
) -> tuple[ImpulseModel, bool]:
    """Return the corruption model, and whether corruption cannot be identified."""
    counts = np.bincount(codes[valid], minlength=int(codes.max()) + 1)
    fractions = impulse_value_fractions(tables, codes, counts, levels)
    start = ImpulseModel(levels, fractions)
    model, undetermined = _estimate_corrupted_fraction(start, tables, codes.size)
    undetermined = undetermined or is_undecidable_two_tone(tables, codes, counts, start)
    return model, undetermined


def _estimate_corrupted_fraction(
    model: ImpulseModel, tables: list[ContextTable], size: int
) -> tuple[ImpulseModel, bool]:
    """Return the model with its random fraction, and whether that is undetermined.

    The fraction is the rate of surprises in the contexts where they are rarest.
    """
    none = ImpulseModel(model.levels, np.zeros_like(model.value_fractions), 0.0)
    impulses = float(model.value_fractions.sum())
    if impulses > MAX_IMPULSE_FRACTION:
        return none, True
    for _ in range(10):
        counts = [table.class_counts(model) for table in tables]
        members, surprises = (
            np.concatenate([part[1:] for part in side])
            for side in zip(*counts, strict=True)
        )
        # Classes are ranked by an upper confidence bound, so that those without
        # surprises by chance are not preferred.
        bound = (surprises + 4 * np.sqrt(surprises) + 16) / np.maximum(members, 1)
        min_members = POOL_FRACTION * size / 20
        order = np.argsort(np.where(members > min_members, bound, np.inf))
        n_pooled = np.searchsorted(np.cumsum(members[order]), POOL_FRACTION * size) + 1
        pool = order[:n_pooled]
        has_members = members[order[0]] > min_members
        if not has_members or surprises[pool].sum() < MIN_SURPRISES:
            if has_members and impulses > 0:
                return replace(model, random_fraction=NEGLIGIBLE_FRACTION), False
            return none, not has_members
        fraction = float(surprises[pool].sum() / members[pool].sum())
        last = model.random_fraction
        model = replace(model, random_fraction=max(fraction, NEGLIGIBLE_FRACTION))
        if abs(model.random_fraction - last) < 1e-3 * last:
            break
    return model, False


@dataclass(frozen=True, eq=False)
class _Prediction:
    """Prediction of each value from its contexts of all kinds.

    Attributes
    ----------
    certainty : ndarray
        Sum of the inverse surprise rates of the contexts that predict the value.
    probability : ndarray
        Probability of the observed value if it is clean.
    best : ndarray
        Most likely value, as a code.
    """

    certainty: Array
    probability: Array
    best: Array


def _combine(
    tables: list[ContextTable], codes: Array, model: ImpulseModel
) -> _Prediction:
    """Combine the predictions of the contexts of all kinds."""
    certainty, n_kinds, weight, frequency, best_certainty = np.zeros((5, len(codes)))
    best = codes.copy()
    for table in tables:
        context = table.predict(model)
        informative = context.surprise_rate < 1
        n_kinds += informative
        certainty += informative / context.surprise_rate
        weight += context.weight
        frequency += context.weight * context.frequency
        better = context.certainty > best_certainty
        best_certainty[better] = context.certainty[better]
        best[better] = context.most_frequent[better]
    mean_rate = n_kinds / np.maximum(certainty, 1e-9)
    surprise_rate = np.where(n_kinds > 0, mean_rate, 1)
    probability = frequency / np.maximum(weight, 1e-9) + surprise_rate / model.levels
    return _Prediction(certainty, probability, best)


def _corrupt_odds(prediction: _Prediction, codes: Array, model: ImpulseModel) -> Array:
    """Return the corrupt-to-clean odds of each value.

    Where many values nearby seem corrupted, the picture itself is surprising, and a
    clean value may be any value with that rate.
    """
    corrupt, clean = model.rate(codes.ravel()), 1 - model.fraction
    odds = corrupt / (clean * prediction.probability)
    surprising = (odds > 1).reshape(codes.shape)
    surprise_rate = local_surprise_rate(surprising, model.fraction).ravel()
    probability = prediction.probability + surprise_rate / model.levels
    result: Array = corrupt / (clean * probability)
    return result


def _classify(
    odds: Array, determined: Array, shape: tuple[int, ...], fraction: float
) -> tuple[Array, Array]:
    """Return which determined values are corrupted, and the odds.

    Values in clusters denser than chance are kept, with even odds at most.
    """
    min_odds = MIN_CORRUPT_PROBABILITY / (1 - MIN_CORRUPT_PROBABILITY)
    corrupt = determined & (odds > min_odds) & (fraction > MIN_FRACTION)
    if more_regular_than_chance(corrupt.reshape(shape)):
        corrupt[:] = False
    clustered = denser_than_chance(corrupt.reshape(shape), fraction).ravel()
    corrupt &= ~clustered
    odds[clustered] = np.minimum(odds[clustered], 1)
    return corrupt, odds


def _has_too_many_impulses(codes: Array, restored: Array, model: ImpulseModel) -> bool:
    """Return whether more impulses of one value were replaced than there can be.

    Impulses also fall on entries of their own value, where they cannot be detected. A
    picture of dots that are mistaken for impulses has more of them.
    """
    for code in np.flatnonzero(model.value_fractions).tolist():
        replaced = float(((codes == code) & (restored != code)).sum())
        others = float((restored != code).sum())
        limit = MAX_IMPULSE_RATIO * others * float(model.rate(np.array(code)))
        if replaced > limit + 4 * limit**0.5:
            return True
    return False


def _photographs_inside(codes: Array, n_values: int, undetermined: Array) -> Array:
    """Return which undetermined values belong to photographs inside the graphic."""
    window = (INSET_WINDOW, INSET_WINDOW, 1)
    dense = uniform_filter(undetermined.astype(np.float32), window) > 0.5
    inside: Array = undetermined & dense
    if inside.sum() < MIN_INSET_VALUES or is_graphic(codes, n_values, inside):
        return np.zeros(codes.shape, bool)
    return inside

"""Kinds of numeric columns, codes for missing values, and valid ranges."""

from dataclasses import replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.table.columns.transforms import (
    CENTRAL_TAIL,
    ColumnTransform,
    choose_by_quantiles,
)

# Constants without a derivation were chosen on the development tables of
# ``python benchmarks/tables.py dev``.

# Distinct values up to which the cells of a column are not compared with their row: a
# class that is rare in its row is no error. At 3, ISLR's `cylinders` was never flagged.
MAX_FEW_VALUES = 2
# Fraction of the cells that those values must make up.
FEW_VALUES_FRACTION = 0.9
# Fraction of one value from which a column counts as constant.
CONSTANT_FRACTION = 0.98
# A value with more than this fraction of the cells is a point mass (no rain). Without
# it a fifth of the uncorrupted table `spam7` was flagged.
POINT_MASS_FRACTION = 0.3
# Distinct values that a column needs beside its point mass.
MIN_VALUES_BESIDE = 8
# Fraction of the cells on a regular grid from which a column counts as rounded.
GRID_FRACTION = 0.95
# Rows that an identifier needs: fewer whole numbers may count up by chance.
MIN_IDENTIFIER_ROWS = 20
# Digits from which whole numbers of equal length are names (phone numbers, ISBN). No
# measurement in R's example tables has so many, unrounded.
CODE_DIGITS = 10
# Distinct values, cells for each of them, and mean distance between them, in units of
# their last digit, from which whole numbers look like codes: measurements repeat less
# often, or lie closer together.
MIN_CODES, MIN_CODE_REPEATS, MIN_CODE_DISTANCE = 10, 3, 20
# Fraction of them that must have the same number of digits: a postcode may have lost a
# leading zero.
SAME_LENGTH_FRACTION = 0.85
# Fraction of equal steps from which any column counts its rows.
EQUAL_STEPS_FRACTION = 0.99


def classify_column(values: Array, tail: float = CENTRAL_TAIL) -> ColumnTransform:
    """Return the kind of a column, and the transform that its quantiles choose.

    Parameters
    ----------
    values : array
        One column; values that are not finite are ignored.
    tail : float
        The transform is chosen by the quantiles from this level to 1 minus this level.
    """
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return ColumnTransform("empty")
    levels, counts = np.unique(finite, return_counts=True)
    mode = float(levels[np.argmax(counts)])
    if len(levels) == 1:
        return ColumnTransform("constant", raw_median=mode)
    if is_identifier(finite, levels):
        return ColumnTransform("identifier")
    covering = _covering(counts)
    fraction = float(counts.max() / len(finite))
    if covering == 1 and fraction >= CONSTANT_FRACTION:
        return ColumnTransform("constant", raw_median=mode)
    rest = finite[finite != mode]
    if fraction > POINT_MASS_FRACTION and len(rest) >= 20:
        others = levels != mode
        if _covering(counts[others]) > MIN_VALUES_BESIDE:
            transform = _continuous(rest, levels[others], counts[others], tail)
            return replace(transform, point_mass=mode, point_mass_fraction=fraction)
    if covering <= MAX_FEW_VALUES and len(finite) > 10:
        return ColumnTransform(
            "few values",
            raw_median=float(np.mean(finite)),
            raw_scale=float(np.std(finite)),
        )
    return _continuous(finite, levels, counts, tail)


def _covering(counts: Array) -> int:
    """Return the number of most frequent values that make up nine cells in ten."""
    ordered = np.sort(counts)[::-1]
    total = FEW_VALUES_FRACTION * counts.sum()
    return int(np.searchsorted(np.cumsum(ordered), total)) + 1


def _continuous(
    values: Array, levels: Array, counts: Array, tail: float
) -> ColumnTransform:
    transform = choose_by_quantiles(values, tail)
    step = min(_rounding_step(levels, counts) / transform.raw_scale, 1.0)
    return replace(transform, rounding_sd=step / np.sqrt(12))


def _rounding_step(levels: Array, counts: Array) -> float:
    """Return the usual step of a column whose values lie on a grid, else zero."""
    steps = np.diff(levels)
    unit = float(np.quantile(steps, 0.1, method="lower"))
    multiples = (levels - levels[np.argmax(counts)]) / unit
    on_grid = np.abs(multiples - np.round(multiples)) < 1e-6
    if counts[on_grid].sum() < GRID_FRACTION * counts.sum():
        return 0.0
    return float(np.median(steps))


def is_whole(values: Array) -> bool:
    """Return whether all values that are not missing are whole numbers."""
    finite = values[np.isfinite(values)]
    return bool(np.all(finite == np.round(finite)))


def is_identifier(values: Array, levels: Array) -> bool:
    """Return whether a column numbers its rows or holds long codes.

    Parameters
    ----------
    values : array
        Finite values, in the order of the rows.
    levels : array
        Its distinct values, sorted.
    """
    if len(values) < MIN_IDENTIFIER_ROWS:
        return False
    if _are_long_codes(levels):
        return True
    if len(levels) < 0.95 * len(values):
        return False
    steps = np.diff(values)
    if _equal_fraction(steps) >= EQUAL_STEPS_FRACTION:
        return True
    if np.mean(levels == np.round(levels)) < 0.95:
        return False
    monotone = max(np.mean(steps > 0), np.mean(steps < 0))
    if monotone > 0.8 and np.mean(steps == np.median(steps)) > 0.5:
        return True
    gaps = np.diff(levels)
    return bool(len(levels) > 0.98 * len(values) and np.mean(gaps == 1) > 0.9)


def _are_long_codes(levels: Array) -> bool:
    """Return whether values are whole numbers of one length, too long to be measured.

    Measurements of ten digits are rounded, or differ in length.
    """
    size = float(np.median(levels))
    if size < 10.0 ** (CODE_DIGITS - 1) or not is_whole(levels):
        return False
    length = 10.0 ** np.floor(np.log10(size))
    same = np.mean((levels >= length) & (levels < 10 * length))
    return bool(same >= 0.95 and np.mean(levels % 1000 == 0) < 0.05)


def look_like_codes(values: Array) -> bool:
    """Return whether a column repeats a few of the many whole numbers of one length.

    Of measured numbers between 10,000 and 99,999, hardly any occurs twice, unless they
    are rounded. Numbers of towns and products repeat, and lie far apart. So do facts
    about towns, such as their incomes, which other columns explain.
    """
    levels = np.unique(values[np.isfinite(values)])
    if len(levels) < MIN_CODES or levels[0] < 0 or not is_whole(levels):
        return False
    length = 10.0 ** np.floor(np.log10(max(float(np.median(levels)), 1.0)))
    unit = 1.0
    while np.mean(levels % (10 * unit) == 0) > GRID_FRACTION:
        unit *= 10
    low, high = np.quantile(levels, [0.05, 0.95])
    return bool(
        length >= 1000
        and np.mean((levels >= length) & (levels < 10 * length)) > SAME_LENGTH_FRACTION
        and np.isfinite(values).sum() >= MIN_CODE_REPEATS * len(levels)
        and high - low >= MIN_CODE_DISTANCE * len(levels) * unit
    )


def _equal_fraction(steps: Array) -> float:
    """Return the fraction of steps that equal the median step, to rounding."""
    usual = float(np.median(steps))
    return float(np.mean(np.abs(steps - usual) < 1e-6 * abs(usual)))


def find_missing_codes(values: Array) -> dict[float, bool]:
    """Return the repeated values that lie far outside all the others.

    True: a code for missing values, such as −999. False: an error that repeats, such
    as 50 among 1 to 5.
    """
    codes: dict[float, bool] = {}
    finite = values[np.isfinite(values)]
    for _ in range(3):
        if len(finite) < 20:
            break
        ends = (float(finite.min()), float(finite.max()))
        isolated = [value for value in ends if _is_isolated(finite, value)]
        if not isolated:
            break
        rest = finite[~np.isin(finite, isolated)]
        codes |= {value: _is_missing_code(value, rest) for value in isolated}
        finite = rest
    return dict(sorted(codes.items()))


def _is_isolated(values: Array, value: float) -> bool:
    """Return whether a value repeats and lies far outside of the others.

    As many as a third of its cells may lie between, as errors of their own.
    """
    rest = values[values != value]
    count = len(values) - len(rest)
    if count < 3 or len(rest) < 0.5 * len(values):
        return False
    if len(np.unique(rest)) <= MAX_FEW_VALUES:
        return False
    code = _is_missing_code(value, rest)
    if not code and count > 0.05 * len(values):
        return False
    others = np.sort(np.abs(rest - value))
    gap, farthest = float(others[count // 3]), float(others[-1])
    low, high = np.quantile(rest, [0.05, 0.95])
    if value == 0 and gap > 0.5 * max(float(others[len(others) // 2]), high - low):
        return True  # a size of zero, where half the usual size is rare
    if count < 0.002 * len(values) or high == low:
        return False
    min_gap = 1.0 if code else 5.0
    return bool(gap > min_gap * (high - low) and gap > 0.5 * (farthest - gap))


def _is_missing_code(value: float, rest: Array) -> bool:
    """Return whether a value is written in nines, or is −1 among positive values."""
    digits = str(int(abs(value))) if value == np.round(value) else ""
    nines = len(digits) > 1 and set(digits) == {"9"}
    return nines or (value == -1 and float(rest.min()) >= 0)


def valid_range(values: Array, transform: ColumnTransform) -> tuple[float, float]:
    """Return the range outside of which a column of few values has errors (40 in 0, 1).

    Outward from the two most frequent values, the range ends at the first gap that is
    longer than the range so far.
    """
    bounds = [np.inf, np.inf]
    if transform.kind != "few values":
        return -np.inf, np.inf
    levels, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    frequent = levels[np.argsort(-counts, kind="stable")[:2]]
    for k, sign in enumerate((-1, 1)):
        ordered = np.sort(sign * levels)
        inner, edge = np.min(sign * frequent), np.max(sign * frequent)
        for level in ordered[ordered > edge]:
            if level - edge > edge - inner:
                bounds[k] = float((level + edge) / 2)
                break
            edge = level
    return -bounds[0], bounds[1]

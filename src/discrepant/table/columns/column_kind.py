"""What each column of numbers is: measurements, a few values, names of rows."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from discrepant.core.linalg import Array
from discrepant.table.columns.transforms import Column


@dataclass(frozen=True)
class Tuning:
    """What tells one kind of column from another.

    Those without a derivation were chosen on the development tables of
    ``python benchmarks/tables.py dev``.
    """

    # A column of two values at most is not judged by its company: a class that is
    # rare among its like is no error. At 3, ISLR's `cylinders` was never judged.
    few: int = 2
    covered: float = 0.9  # share of the cells that those values make up
    constant: float = 0.98  # share of one value from which a column is constant
    # One value shared by more than this, beside more than so many others, is a state
    # of its own (no rain). Without it a fifth of `spam7` was flagged, unspoilt.
    atom: float = 0.3
    atom_levels: int = 8
    tail: float = 0.12  # the map is chosen by quantiles from here to 1 − tail
    powers: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.25, 1.5)
    worth: float = 0.6  # a bent map leaves less than this share of the misfit
    # Misfit 1 − r² times rows that one normal column in a hundred exceeds by chance:
    # 2.6 to 3.5 for 40 to 3000 rows and either tail, in 300 trials each.
    chance: float = 3.0
    grid: float = 0.95  # share of cells on a grid from which a column is rounded
    identifier_rows: int = 20  # fewer whole numbers in a row may be so by chance
    # Digits from which whole numbers, if all are equally long, are names: phone numbers
    # and ISBN. No measurement in the tables of R has so many, unrounded.
    long: int = 10
    counter: float = 0.99  # share of equal steps from which any column counts rows


TUNING = Tuning()
TAILS = (0.25, 0.159, 0.1, 0.05, 0.02)  # quartiles, one deviation, then outwards


def spread_of(values: Array) -> float:
    """Give the narrowest central spread that is not zero, as a normal deviation."""
    for tail in TAILS:
        low, high = np.quantile(values, [tail, 1 - tail])
        if high > low:
            return float(high - low) / float(-2 * ndtri(tail))
    return float(np.std(values))


def describe(values: Array, tail: float | None = None) -> Column:
    """Say what a column is and choose its map by its quantiles tail to 1 − tail."""
    tail = TUNING.tail if tail is None else tail
    seen = values[np.isfinite(values)]
    if len(seen) == 0:
        return Column("empty")
    levels, counts = np.unique(seen, return_counts=True)
    mode = float(levels[np.argmax(counts)])
    if len(levels) == 1:
        return Column("constant", middle=mode)
    if is_identifier(seen, levels):
        return Column("identifier")
    covering = _covering(counts)
    share = float(counts.max() / len(seen))
    if covering == 1 and share >= TUNING.constant:
        return Column("constant", middle=mode)
    if covering <= TUNING.few and len(seen) > 10:
        deviation = float(np.std(seen))
        return Column("few levels", middle=float(np.mean(seen)), spread=deviation)
    rest = seen[seen != mode]
    if share > TUNING.atom and len(rest) >= 20:
        others = levels != mode
        if _covering(counts[others]) > TUNING.atom_levels:
            column = _numeric(rest, levels[others], counts[others], tail)
            return replace(column, atom=mode, atom_share=share)
    return _numeric(seen, levels, counts, tail)


def _covering(counts: Array) -> int:
    """Count the commonest levels that make up nine cells in ten."""
    ordered = np.sort(counts)[::-1]
    return int(np.searchsorted(np.cumsum(ordered), TUNING.covered * counts.sum())) + 1


def _numeric(seen: Array, levels: Array, counts: Array, tail: float) -> Column:
    middle, spread = float(np.median(seen)), spread_of(seen)
    best = Column("numeric", middle=middle, spread=spread)
    straight = _bentness(best, seen, tail)
    lowest = TUNING.worth * straight
    bends = candidates(seen) if straight * len(seen) > TUNING.chance else []
    for shape, parameter in bends:
        trial = Column("numeric", shape, parameter, middle, spread)
        bentness = _bentness(trial, seen, tail)
        if bentness < lowest:
            best, lowest = trial, bentness
    bent = best.bend(seen)
    return replace(
        best,
        centre=float(np.median(bent)),
        scale=spread_of(bent),
        grain=min(_step(levels, counts) / spread, 1.0) / np.sqrt(12),
    )


def _step(levels: Array, counts: Array) -> float:
    """Give the usual step of a column whose values lie on a grid, else zero."""
    steps = np.diff(levels)
    unit = float(np.quantile(steps, 0.1, method="lower"))
    places = (levels - levels[np.argmax(counts)]) / unit
    on = np.abs(places - np.round(places)) < 1e-6
    if counts[on].sum() < TUNING.grid * counts.sum():
        return 0.0
    return float(np.median(steps))


def candidates(seen: Array) -> list[tuple[str, float]]:
    """Give the bent maps to choose from."""
    found: list[tuple[str, float]] = [("power", power) for power in TUNING.powers]
    low = float(np.quantile(seen, 0.07))
    if low > 0:
        found.append(("log", low / 3))
    return found


def _bentness(column: Column, seen: Array, tail: float) -> float:
    """Give 1 − r² of the mapped middle quantiles against normal ones."""
    chances = np.linspace(tail, 1 - tail, 41)
    mapped = column.bend(np.quantile(seen, chances))
    if np.ptp(mapped) == 0:
        return 1.0
    return float(1 - np.corrcoef(mapped, ndtri(chances))[0, 1] ** 2)


def is_whole(values: Array) -> bool:
    """Return whether all values that are not missing are whole numbers."""
    seen = values[np.isfinite(values)]
    return bool(np.all(seen == np.round(seen)))


def _are_long_names(levels: Array) -> bool:
    """Return whether values are whole numbers of one length, too long to be measured.

    Measurements of ten digits are rounded, or differ in length.
    """
    size = float(np.median(levels))
    if size < 10.0 ** (TUNING.long - 1) or not is_whole(levels):
        return False
    length = 10.0 ** np.floor(np.log10(size))
    same = np.mean((levels >= length) & (levels < 10 * length))
    return bool(same >= 0.95 and np.mean(levels % 1000 == 0) < 0.05)


def is_identifier(seen: Array, levels: Array) -> bool:
    """Say whether the column counts or names its rows, or holds long names."""
    if len(seen) < TUNING.identifier_rows:
        return False
    if _are_long_names(levels):
        return True
    if len(levels) < 0.95 * len(seen):
        return False
    steps = np.diff(seen)
    if _even(steps) >= TUNING.counter:
        return True
    if np.mean(levels == np.round(levels)) < 0.95:
        return False
    rising = max(np.mean(steps > 0), np.mean(steps < 0))
    if rising > 0.8 and np.mean(steps == np.median(steps)) > 0.5:
        return True
    gaps = np.diff(levels)
    return bool(len(levels) > 0.98 * len(seen) and np.mean(gaps == 1) > 0.9)


def _even(steps: Array) -> float:
    """Give the share of steps that equal the usual one, to rounding."""
    usual = float(np.median(steps))
    return float(np.mean(np.abs(steps - usual) < 1e-6 * abs(usual)))


def sentinels(values: Array) -> dict[float, bool]:
    """Return the repeated values that lie far outside all the others.

    True: a code for missing values, such as −999; False: an error that repeats, such
    as 50 among 1 to 5.
    """
    found: dict[float, bool] = {}
    seen = values[np.isfinite(values)]
    for _ in range(3):
        if len(seen) < 20:
            break
        ends = (float(seen.min()), float(seen.max()))
        apart = [value for value in ends if _stands_apart(seen, value)]
        if not apart:
            break
        rest = seen[~np.isin(seen, apart)]
        found |= {value: _is_code(value, rest) for value in apart}
        seen = rest
    return dict(sorted(found.items()))


def fences(values: Array, column: Column) -> tuple[float, float]:
    """Give the bounds beyond which a column of few values has strays (40 among 0, 1).

    Going outward from the commonest levels, all that lies beyond the first gap of
    twice the range up to there is astray.
    """
    bounds = [np.inf, np.inf]
    if column.kind != "few levels":
        return -np.inf, np.inf
    levels, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    common = levels[np.argsort(-counts, kind="stable")[:2]]
    for k, sign in enumerate((-1, 1)):
        outer = np.sort(sign * levels)
        inner, edge = np.min(sign * common), np.max(sign * common)
        for level in outer[outer > edge]:
            if level - edge > 2 * (edge - inner):
                bounds[k] = float((level + edge) / 2)
                break
            edge = level
    return -bounds[0], bounds[1]


def _stands_apart(seen: Array, value: float) -> bool:
    rest = seen[seen != value]
    count = len(seen) - len(rest)
    if count < max(3, 0.002 * len(seen)) or len(rest) < 0.5 * len(seen):
        return False
    if len(np.unique(rest)) <= TUNING.few:
        return False
    gap = min(abs(rest.min() - value), abs(rest.max() - value))
    low, high = np.quantile(rest, [0.05, 0.95])
    if high == low:
        return False
    code = _is_code(value, rest)
    if not code and count > 0.05 * len(seen):
        return False
    far = 1.0 if code else 5.0
    return bool(gap > far * (high - low) and gap > 0.5 * np.ptp(rest))


def _is_code(value: float, rest: Array) -> bool:
    """Say whether a value is written in nines, or is −1 among positive ones."""
    digits = str(int(abs(value))) if value == np.round(value) else ""
    nines = len(digits) > 1 and set(digits) == {"9"}
    return nines or (value == -1 and float(rest.min()) >= 0)

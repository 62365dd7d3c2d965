"""Detect whether the order of the rows carries information, and which order does.

Rows are laid on a line in the chosen order, with empty cells between series and at
gaps: nothing after this module needs to know of groups or times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.table.columns.table_input import ParsedTable, positions

# Rank autocorrelation from which neighbouring cells are alike.
MIN_AUTOCORRELATION = 0.5
# The order of the rows in the table.
AS_GIVEN = "rows as given"
# Standard score of that autocorrelation (Bartels' test): one shuffled column in 30,000.
MIN_Z = 4.0
# Mean autocorrelation that a later candidate order must gain over the best before it.
MIN_GAIN = 0.02
# Median steps of the time from which there is a gap between two rows.
GAP_STEPS = 10
# Empty cells between two series: the widest window of the order tests.
GAP_CELLS = 49
# Fraction of steps against its direction up to which a column counts as sorted. In the
# order of a table that is sorted by one of its columns, neighbours are alike whatever
# the time of the rows; only an order by dates is used then.
MAX_UNSORTED = 0.1
# Fraction of its values that repeat up to which a sorted column may grow with time, and
# be stuck now and then.
MAX_REPEATED = 0.05
# Pairs of neighbours from which an autocorrelation is estimated, with a standard error
# of at most 0.01.
MAX_PAIRS = 10_000
# Rows below which no order is tested.
MIN_ROWS = 40
# Rows per group that a column needs for its values to be separate series.
MIN_GROUP_ROWS = 20


@dataclass(frozen=True, eq=False)
class RowOrder:
    """An order of the rows in which neighbouring cells are alike.

    Attributes
    ----------
    description : str
        Such as "by time within site".
    rows : int array (n,)
        The rows in this order.
    line : int array (n,)
        Position of each of them on the line, in ascending order.
    columns : list of int
        The ordered columns, by their positions among the numeric ones.
    """

    description: str
    rows: Array
    line: Array
    columns: list[int]

    @property
    def is_inferred(self) -> bool:
        """Whether no time or counter names the order: the rows are as given."""
        return self.description.startswith(AS_GIVEN)

    def lay(self, values: Array) -> Array:
        """Return the values of one column on the line; NaN at empty cells."""
        cells = np.full(self.line[-1] + 1, np.nan)
        cells[self.line] = values[self.rows]
        return cells


def autocorrelation(line: Array) -> tuple[float, float]:
    """Return the rank autocorrelation of a line, and its standard score if shuffled.

    Bartels' rank version of von Neumann's ratio: ρ = 1 − mean (R_t − R_{t−1})² /
    (2 var R), and z = ρ √n. In long lines at most `MAX_PAIRS` neighbours are ranked.
    """
    pairs = np.flatnonzero(np.isfinite(line[1:]) & np.isfinite(line[:-1]))
    n = len(pairs)
    if n < 20:
        return 0.0, 0.0
    spaced = np.linspace(0, n - 1, min(n, MAX_PAIRS)).round().astype(int)
    before, after = rankdata(line[pairs[spaced] + [[0], [1]]].ravel()).reshape(2, -1)
    variance = np.var([before, after])
    if variance == 0:
        return 0.0, 0.0
    rho = 1 - np.mean((after - before) ** 2) / (2 * variance)
    return float(rho), float(rho * np.sqrt(n))


def find_row_order(
    parsed: ParsedTable,
    values: Array,
    tested: list[int],
    modelled: list[int],
    order: Any,
) -> RowOrder | None:
    """Return the order in which neighbouring cells are most alike, if they are.

    Parameters
    ----------
    parsed : ParsedTable
    values : array (n, k)
        The numeric columns, NaN where a cell is missing or violates a rule.
    tested : list of int
        Numeric columns whose cells can be flagged.
    modelled : list of int
        Numeric columns of the model, which are no groups: in rows that are sorted by
        whether anything was bought, amounts have long runs of zero.
    order : str or label
        "auto": the rows as given, or by any column of dates or of unique whole numbers,
        each also within the values of any column that is not modelled. A label: by
        this column.
    """
    if len(values) < MIN_ROWS or not tested:
        return None
    best, best_gain = None, -np.inf
    for description, rows, line, is_dated in _candidates(parsed, modelled, order):
        candidate = RowOrder(description, rows, line, [])
        lines = {k: candidate.lay(values[:, k]) for k in tested}
        if not is_dated and any(_is_sort_key(lines[k]) for k in tested):
            continue
        gains = []
        for k in tested:
            rho, z = autocorrelation(lines[k])
            gains.append(max(rho, 0.0))
            if rho > MIN_AUTOCORRELATION and z > MIN_Z:
                candidate.columns.append(k)
        gain = float(np.mean(gains))
        if best is None or gain > best_gain + MIN_GAIN:
            best, best_gain = candidate, gain
    return best if best is not None and best.columns else None


def _is_sort_key(line: Array) -> bool:
    """Return whether the rows are sorted by a column of values that repeat.

    Such a column only rises, or only falls. A clock, or what grows with time, does so
    too, without repeating its values.
    """
    steps = np.diff(line[np.isfinite(line)])
    rising = np.mean(steps[steps != 0] > 0) if steps.any() else 0.5
    if min(rising, 1 - rising) > MAX_UNSORTED:
        return False
    repeats = np.concatenate([[False], steps == 0])
    runs = np.sum(~repeats)
    repeated = np.sum(~repeats[:-1] & repeats[1:])
    return bool(repeated > MAX_REPEATED * runs)


def _candidates(
    parsed: ParsedTable, modelled: list[int], order: Any
) -> Iterator[tuple[str, Array, Array, bool]]:
    """Yield description, rows, positions on the line and whether dates give them."""
    n = len(parsed.frame)
    times = _times(parsed, order)
    keys: list[tuple[str, Array, bool]] = list(times.values())
    if isinstance(order, str) and order == "auto":
        keys.append((AS_GIVEN, np.arange(n, dtype=float), False))
    analysed = {parsed.numeric_positions[k] for k in modelled}
    groups = _groups(parsed, {*analysed, *(j for j in times if j >= 0)})
    for group_name, code in [("", np.zeros(n, int)), *groups]:
        for name, key, is_dated in keys:
            rows = np.lexsort((key, code))
            same = np.diff(code[rows]) == 0
            with np.errstate(invalid="ignore"):
                step = np.diff(key[rows])  # NaN between rows without a time
                if not (step[same] > 0).any():
                    continue
                usual = np.median(step[same & (step > 0)])
                gap = ~same | ~(step <= GAP_STEPS * usual)
            line = np.arange(n) + GAP_CELLS * np.concatenate([[0], np.cumsum(gap)])
            within = f" within {group_name}" if group_name else ""
            yield f"{name}{within}", rows, line, is_dated


def _times(parsed: ParsedTable, order: Any) -> dict[int, tuple[str, Array, bool]]:
    """Return name, values and datedness of columns to sort by; −1 is the index."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype as is_dated

    frame = parsed.frame
    if not (isinstance(order, str) and order == "auto"):
        if isinstance(frame.index, pd.DatetimeIndex) and order == frame.index.name:
            return {-1: (f"by {order}", _as_key(frame.index.to_series()), True)}
        (position, *_) = sorted(positions(frame, order, "order"))
        try:
            column = frame.iloc[:, position]
            return {position: (f"by {order}", _as_key(column), is_dated(column.dtype))}
        except (TypeError, ValueError):
            raise InputError(
                f"order= names {order!r}, which holds neither dates nor numbers."
            ) from None
    times = {}
    if isinstance(frame.index, pd.DatetimeIndex):
        times[-1] = (
            f"by {frame.index.name or 'index'}",
            _as_key(frame.index.to_series()),
            True,
        )
    for j, name in enumerate(frame.columns):
        column = frame.iloc[:, j]
        whole = pd.api.types.is_integer_dtype(column.dtype) and column.is_unique
        if is_dated(column.dtype) or whole:
            times[j] = (f"by {name}", _as_key(column), not whole)
    return times


def _as_key(column: Any) -> Array:
    """Return dates or numbers as floats to sort by; missing ones last."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        start = column.min()
        column = (column - start).dt.total_seconds()
    key = pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)
    return np.where(np.isnan(key), np.inf, key)


def _groups(parsed: ParsedTable, excluded: set[int]) -> list[tuple[str, Array]]:
    """Return name and codes of the columns whose values may be separate series."""
    import pandas as pd

    frame = parsed.frame
    groups = []
    for j, name in enumerate(frame.columns):
        if j in excluded:
            continue
        try:
            codes, levels = pd.factorize(frame.iloc[:, j])
        except TypeError:  # cells that cannot be hashed
            continue
        if 2 <= len(levels) <= len(frame) / MIN_GROUP_ROWS:
            groups.append((str(name), codes))
    return groups

"""Flag cells that contradict the cells before and after them in an ordered column.

Three kinds of errors are detected: *spikes* (a cell outside of its neighbours on both
sides), *stuck* values (one value for longer than the column's own runs), and *shifts*
(a level that jumps away and back). Single steps, drifts and long shifts are not
flagged, as either side may be right; single steps are reported.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter1d

from discrepant.cell_model.calibration import CERTAIN, exceeds
from discrepant.core.linalg import Array
from discrepant.core.validation import count_threads
from discrepant.table.columns.table_input import ParsedTable
from discrepant.table.columns.transforms import ColumnTransform
from discrepant.table.model.fit import TableModel
from discrepant.table.model.row_order import RowOrder, find_row_order
from discrepant.table.model.score import FlagCandidates, rule_violations, score_listed

# Constants without a derivation were chosen on the development series of
# ``python benchmarks/table_order.py``.

# Cells whose median deviation is the local scale of spikes.
SCALE_CELLS = 49
# Fractions of the cells between which the tail of the deviations is fitted.
TAIL_FRACTIONS = (0.1, 0.01)
# Limit of the fraction of false spikes by that tail, relative to ``fdr``.
SPIKE_RATE = 3.0
# Expected number of natural runs, or pairs of steps, as extreme, per column.
MAX_EXPECTED = 0.01
# The same for single steps that are reported, and not flagged.
MAX_EXPECTED_STEP = 0.2
# Size of a step, relative to the usual one between neighbours: below it, medians differ
# by chance, however regular the tail of the steps is.
MIN_STEP = 4.0
# Cells on either side that a cell is compared with.
SPAN = 9
# Cells whose median step is the local scale of steps.
STEP_SCALE_CELLS = 97
# Cells of a run that may be stuck, and runs from which a column's repeats are counted.
MIN_STUCK_RUN, MIN_RUNS = 3, 20
# A run is natural if more than so many at like values, itself included, are similar: at
# least as long as its square root, or shorter by at most this factor.
MAX_SIMILAR_RUNS, MAX_LENGTH_RATIO = 3, 8
# Length of runs in other columns, relative to one of stuck cells, from which the rows
# repeat a design.
MIN_DESIGN_RUN = 0.25
# Rounding error of a counter, relative to its largest value.
COUNTER_TOLERANCE = 1e-9
# Longest shift, as a fraction of the rows.
MAX_SHIFT_FRACTION = 0.02
# Limit of the log ratio of the sizes of the two steps of a shift.
MAX_STEP_LOG_RATIO = 0.7


class Step(NamedTuple):
    """A level that changes from one cell to the next, and remains."""

    column: int  # among the numeric columns
    row: int
    size: float  # in the column's unit


class OrderFlags(NamedTuple):
    """Cells that contradict their neighbours in the order of the rows."""

    cells: Array  # (k, 2): row and numeric column
    log_odds: Array  # (k,)
    kinds: Array  # (k,): "spike", "stuck" or "shift"
    neighbours: Array  # (k,): value by the cells around a spike; NaN for other kinds
    error: Array  # (k,): median absolute deviation of unflagged cells from that value


def compare_in_order(
    parsed: ParsedTable,
    table: TableModel,
    candidates: FlagCandidates,
    threshold: float,
    fdr: float,
    order: Any,
) -> tuple[RowOrder | None, list[Step], FlagCandidates]:
    """Find the order of the rows, and add cells that contradict their neighbours.

    Parameters
    ----------
    parsed, table, candidates
        The table, its model and its scores.
    threshold : float
        Log-odds from which cells are flagged.
    fdr : float
        False discovery rate.
    order : str or label
        As for `find_row_order`.
    """
    kinds = [transform.kind for transform in table.transforms]
    flags = [
        _flag_counter(parsed.values[:, k], k)
        for k, kind in enumerate(kinds)
        if kind == "identifier"
    ]
    tested = [k for k, kind in enumerate(kinds) if kind == "numbers"]
    valid = np.where(rule_violations(parsed.values, table), np.nan, parsed.values)
    row_order = find_row_order(parsed, valid, tested, table.modelled, order)
    steps: list[Step] = []
    if row_order is not None:
        flagged = np.zeros(valid.shape, bool)
        is_flagged = exceeds(candidates.log_odds, threshold)
        flagged[tuple(candidates.cells[is_flagged].T)] = True
        in_order, steps = _flag_in_order(valid, flagged, row_order, table, fdr)
        flags.append(in_order)
    for new in flags:
        candidates = _add_flags(candidates, new, parsed.values, table, threshold)
    return row_order, steps, candidates


def _add_flags(
    candidates: FlagCandidates,
    flags: OrderFlags,
    values: Array,
    table: TableModel,
    threshold: float,
) -> FlagCandidates:
    """Return candidates with the flags by order, and the expected values of both.

    A spike is expected to equal its neighbours in the order, or the prediction from its
    row, whichever has the smaller error in its column; cells of other kinds have no
    correct neighbours, and the prediction from their row is used.

    Parameters
    ----------
    candidates : FlagCandidates
    flags : OrderFlags
    values : array (n, k)
        The numeric columns.
    table : TableModel
    threshold : float
        Log-odds from which cells are flagged.
    """
    if not len(flags.cells):
        return candidates
    expected, interval = score_listed(values, table, flags.cells)
    # The median absolute deviation of a normal distribution is 0.6745 of its noise.
    noise = flags.error / 0.6745
    # The noise of columns that are not modelled is NaN.
    better = np.isfinite(flags.neighbours) & ~(noise >= table.noise[flags.cells[:, 1]])
    expected = np.where(better, flags.neighbours, expected)
    halfwidth = 1.96 * noise
    sides = np.column_stack([expected - halfwidth, expected + halfwidth])
    interval = np.where(better[:, None], sides, interval)
    log_odds = np.maximum(flags.log_odds, threshold).astype(np.float32)
    if candidates.full is not None:
        index = tuple(flags.cells.T)
        candidates.full.log_odds[index] = log_odds
        candidates.full.expected[index] = expected
    width = values.shape[1]
    places = candidates.cells @ [width, 1]
    kept = ~np.isin(places, flags.cells @ [width, 1])
    return replace(
        candidates,
        cells=np.concatenate([candidates.cells[kept], flags.cells]),
        log_odds=np.concatenate([candidates.log_odds[kept], log_odds]),
        expected=np.concatenate([candidates.expected[kept], expected]),
        interval=np.concatenate([candidates.interval[kept], interval]),
        kinds=np.concatenate([candidates.kinds[kept], flags.kinds]),
    )


def _flag_counter(values: Array, column: int) -> OrderFlags:
    """Flag the cells of an identifier that break the sequence of the rows.

    In a column that counts its rows, or years, the cells before and after a wrong one
    agree on its value. An identifier that does not count has no such cells.
    """
    step = np.diff(values)
    usual = np.median(step[np.isfinite(step)]) if np.isfinite(step).any() else 0.0
    counted = usual * np.arange(len(values))
    tolerance = COUNTER_TOLERANCE * np.nanmax(np.abs(values), initial=0.0)
    before, after = _neighbour_medians(values - counted)
    # At the ends of the table there are neighbours on one side only.
    first, last = np.where(np.isnan([before, after]), [after, before], [before, after])
    wrong = np.abs(first - last) <= tolerance
    wrong &= np.abs(values - counted - first) > tolerance
    counts = np.mean(np.abs(step - usual) <= tolerance) > 0.5
    rows = np.flatnonzero(wrong & counts)
    return OrderFlags(
        cells=np.column_stack([rows, np.full(len(rows), column)]),
        log_odds=np.full(len(rows), CERTAIN),
        kinds=np.full(len(rows), "spike"),
        neighbours=first[rows] + counted[rows],
        error=np.zeros(len(rows)),
    )


def _flag_in_order(
    values: Array, flagged: Array, order: RowOrder, table: TableModel, fdr: float
) -> tuple[OrderFlags, list[Step]]:
    """Flag spikes, stuck values and shifts in the ordered columns; list single steps.

    Parameters
    ----------
    values : array (n, k)
        The numeric columns, NaN where a cell is missing or violates a rule.
    flagged : bool array (n, k)
        Cells that are flagged already.
    order : RowOrder
    table : TableModel
    fdr : float
        False discovery rate.
    """

    def flag(k: int) -> tuple[OrderFlags, list[Step]]:
        column = values[:, k], flagged[:, k]
        flags, steps = _flag_column(*column, k, order, table.transforms[k], fdr)
        if order.is_inferred:
            flags = _without_repeated_rows(flags, values, order)
        return flags, steps

    with ThreadPoolExecutor(count_threads(None)) as pool:
        parts, steps = zip(*pool.map(flag, order.columns), strict=True)
    fields = zip(*parts, strict=True)
    return OrderFlags(*map(np.concatenate, fields)), list(chain(*steps))


def _without_repeated_rows(
    flags: OrderFlags, values: Array, order: RowOrder
) -> OrderFlags:
    """Return flags without stuck cells of rows that repeat most ordered columns.

    Without a time, rows may repeat a design, such as one recipe at several ages: most
    other columns then have runs of a similar length there.
    """
    stuck = flags.kinds == "stuck"
    if not stuck.any() or len(order.columns) < 2:
        return flags
    column = flags.cells[0, 1]
    lengths = {k: _run_lengths(order.lay(values[:, k])) for k in order.columns}
    similar = MIN_DESIGN_RUN * lengths.pop(column)
    repeated = np.mean([length >= similar for length in lengths.values()], axis=0)
    by_row = np.zeros(len(values))
    by_row[order.rows] = repeated[order.line]
    kept = ~(stuck & (by_row[flags.cells[:, 0]] >= 0.5))
    return OrderFlags(*(field[kept] for field in flags))


def _flag_column(
    values: Array,
    flagged: Array,
    column: int,
    order: RowOrder,
    transform: ColumnTransform,
    fdr: float,
) -> tuple[OrderFlags, list[Step]]:
    """Return the flags of one column, and its single steps, most improbable first."""
    line = order.lay(values)
    rows = np.full(len(line), -1)
    rows[order.line] = order.rows
    log_odds = np.full(len(line), -np.inf)
    kinds = np.full(len(line), "", dtype="<U5")
    kept = np.where(order.lay(flagged.astype(float)) == 1, np.nan, line)

    def add(cells: Array, kind: str, odds: Array) -> None:
        new = np.isfinite(kept[cells])
        cells, odds = cells[new], odds[new]
        log_odds[cells], kinds[cells], kept[cells] = odds, kind, np.nan

    before, after = _neighbour_medians(kept)
    neighbours = (before + after) / 2
    error = float(np.nanmedian(np.abs(kept - neighbours)))
    # Transforms are monotone: they may be applied to the medians.
    deviation = _deviation(*map(transform.standardise, (kept, before, after)))
    if order.is_inferred:
        # Neighbours may be alike because the rows are grouped, and cells of a group are
        # heavy-tailed: their tail is a Pareto distribution.
        deviation = np.log1p(deviation)
    odds = _tail_log_odds(deviation, np.isfinite(kept).sum())
    spikes = np.flatnonzero(odds > -np.log(min(SPIKE_RATE * fdr, 0.5)))
    add(spikes, "spike", odds[spikes])
    odds = _stuck_log_odds(_without_flagged(line, kept))
    if order.is_inferred:
        # The rows may be sorted or grouped by whether there is any rain.
        odds[(line == transform.point_mass) | _fills_series(line)] = -np.inf
    stuck = np.flatnonzero(odds > -np.log(MAX_EXPECTED))
    add(stuck, "stuck", odds[stuck])
    at, size, expected = _find_steps(kept)
    in_shift = np.zeros(len(at), bool)
    for i in range(len(at) - 1):
        pair = slice(i, i + 2)
        if _is_shift(at[pair], size[pair], expected[pair], len(values)):
            cells = np.arange(at[i], at[i + 1])
            odds = np.full(len(cells), -np.log(expected[i] * expected[i + 1]))
            add(cells, "shift", odds)
            in_shift[pair] = True
    steps = [
        Step(column, int(rows[at[i]]), float(size[i]))
        for i in np.argsort(expected, kind="stable")
        if not in_shift[i] and rows[at[i]] >= 0
    ]
    cells = np.flatnonzero((log_odds > -np.inf) & (rows >= 0))
    is_spike = kinds[cells] == "spike"
    flags = OrderFlags(
        cells=np.column_stack([rows[cells], np.full(len(cells), column)]),
        log_odds=log_odds[cells],
        kinds=kinds[cells],
        neighbours=np.where(is_spike, neighbours[cells], np.nan),
        error=np.full(len(cells), error),
    )
    return flags, steps


def _neighbour_medians(line: Array) -> tuple[Array, Array]:
    """Return the medians of the cells before and after each cell."""
    from discrepant.table.model.order_kernels import running_median

    padded = np.concatenate([line, np.full(SPAN + 1, np.nan)])
    before = running_median(padded, -SPAN, -1, SPAN // 2 + 1)
    return before[: len(line)], before[SPAN + 1 :]


def _rounding_step(line: Array) -> float:
    """Return the step that a tenth of all nonzero steps are below."""
    steps = np.abs(np.diff(line[np.isfinite(line)]))
    steps = steps[steps > 0]
    return float(np.quantile(steps, 0.1)) if len(steps) else 0.0


def _deviation(line: Array, before: Array, after: Array) -> Array:
    """Return the distance of each cell from the range of its neighbours' medians.

    The unit is the local scale of the deviations from those medians.
    """
    inside = np.clip(line, np.minimum(before, after), np.maximum(before, after))
    usual = np.abs(line - (after + before) / 2)
    scale = _local_scale(usual, SCALE_CELLS, line)
    with np.errstate(invalid="ignore"):
        scaled = np.abs(line - inside) / np.where(scale > 0, scale, np.inf)
    return np.asarray(np.nan_to_num(scaled))


def _local_scale(distance: Array, cells: int, line: Array) -> Array:
    """Return the scale of distances in a window of cells around each cell.

    The median of the window, at least that of all distances, and the rounding step.
    """
    from discrepant.table.model.order_kernels import running_median

    overall = np.nanmedian(distance) if np.isfinite(distance).any() else np.nan
    local = running_median(distance, -(cells // 2), cells // 2, cells // 4)
    scale = 1.4826 * np.fmax(local, overall)
    return np.asarray(np.hypot(scale, _rounding_step(line)))


def _tail_log_odds(deviation: Array, count: int) -> Array:
    """Return the log ratio of observed to expected cells that deviate as much.

    The expected number follows an exponential tail through the counts at 10% and 1% of
    the cells; −inf for the other 99%. It is a Pareto tail if ``deviation`` is the
    logarithm of a distance.
    """
    log_odds = np.full(len(deviation), -np.inf)
    ordered = np.sort(deviation[deviation > 0])[::-1]
    outer = min(int(TAIL_FRACTIONS[0] * count), len(ordered) - 1)
    inner = max(int(TAIL_FRACTIONS[1] * count), 5)
    if outer <= 2 * inner:
        return log_odds
    start = ordered[inner - 1]
    rate = np.log(outer / inner) / max(start - ordered[outer - 1], 1e-9)
    at = np.flatnonzero(deviation > start)
    at = at[np.argsort(deviation[at], kind="stable")]
    observed = len(at) - np.arange(len(at))
    log_fraction = np.log(inner / observed) - rate * (deviation[at] - start)
    log_odds[at] = -np.minimum.accumulate(log_fraction)
    return log_odds


def _runs(line: Array) -> tuple[Array, Array]:
    """Return start and length of each run of equal cells; NaN equals nothing."""
    start = np.flatnonzero(np.concatenate([[True], ~(line[1:] == line[:-1])]))
    return start, np.diff(np.concatenate([start, [len(line)]]))


def _run_lengths(line: Array) -> Array:
    """Return the length of the run of equal cells around each cell."""
    _, length = _runs(line)
    return np.repeat(length, length)


def _without_flagged(line: Array, kept: Array) -> Array:
    """Return a line with each flagged cell replaced by the last one before it.

    A sensor that is stuck may have other errors, too, which do not end its run.
    """
    flagged = np.isnan(kept) & np.isfinite(line)
    last = np.maximum.accumulate(np.where(flagged, 0, np.arange(len(line))))
    return np.asarray(line[last])


def _fills_series(line: Array) -> Array:
    """Return the cells of series in which all cells are equal."""
    start, length = _runs(line)
    padded = np.concatenate([[np.nan], line, [np.nan]])
    fills = np.isnan(padded[start]) & np.isnan(padded[start + length + 1])
    return np.repeat(fills, length)


def _stuck_log_odds(line: Array) -> Array:
    """Return minus the log of the expected number of natural runs like each cell's.

    Cells repeat the value before them with one probability, so that the lengths of the
    column's own runs are geometric. Runs that recur at a value are natural: no rain,
    ice, a limit of the range. Such a state lasts for an hour or for months, so that a
    long run counts as recurring even where the others are much shorter.
    """
    start, length = _runs(line)
    value = line[start]
    observed = np.isfinite(value)
    count = int(observed.sum())
    log_odds = np.full(len(start), -np.inf)
    long = observed & (length >= MIN_STUCK_RUN)
    has_states = np.sum(observed & (length > 1)) > 0.5 * count  # not measurements
    if long.any() and count >= MIN_RUNS and not has_states:
        cells = length[observed].sum()
        repeat = (cells - count + 1) / (cells + 2)
        expected_log = np.log(count) + (length[long] - 1) * np.log(repeat)
        log_odds[long] = np.minimum(-expected_log, CERTAIN)
    candidates = np.flatnonzero(log_odds > -np.log(MAX_EXPECTED))
    if len(candidates):
        tolerance = 2 * _rounding_step(line)
        order = np.argsort(value, kind="stable")[:count]
        sorted_value, sorted_length = value[order], length[order]
        for i in candidates:
            low = np.searchsorted(sorted_value, value[i] - tolerance)
            high = np.searchsorted(sorted_value, value[i] + tolerance, side="right")
            similar = min(length[i] / MAX_LENGTH_RATIO, np.sqrt(length[i]))
            if np.sum(sorted_length[low:high] >= similar) > MAX_SIMILAR_RUNS:
                log_odds[i] = -np.inf
    return np.repeat(log_odds, length)


def _find_steps(line: Array) -> tuple[Array, Array, Array]:
    """Return positions, sizes and expected numbers of improbable single steps.

    Of the difference between the medians after and before, only the part counts that
    is made from one cell to the next. Its tail is a Pareto distribution.
    """
    before, after = _neighbour_medians(line)
    size = np.concatenate([[np.nan], after[:-1]]) - before
    distance = np.abs(size)
    nothing = np.zeros(0, int), np.zeros(0), np.zeros(0)
    if not np.isfinite(distance).any():
        return nothing
    step = np.diff(line, prepend=np.nan)
    scale = _local_scale(distance, STEP_SCALE_CELLS, line)
    with np.errstate(invalid="ignore", divide="ignore"):
        made = np.where(step * size > 0, np.minimum(np.abs(step), distance), 0)
        score = np.nan_to_num(made / scale, posinf=0.0)
    largest = maximum_filter1d(score, 2 * SPAN + 1, mode="constant")
    at = np.flatnonzero((score > 0) & (score == largest))
    ordered = np.sort(score[at])[::-1]
    inner, outer = max(5, int(0.01 * len(at))), max(15, int(0.1 * len(at)))
    if len(at) < 20 or ordered[inner - 1] <= ordered[outer - 1]:
        return nothing
    slope = np.log(outer / inner) / np.log(ordered[inner - 1] / ordered[outer - 1])
    expected = inner * np.maximum(score[at] / ordered[inner - 1], 1) ** -slope
    usual = 1.4826 * np.nanmedian(np.abs(np.diff(line)))
    rare = (expected < MAX_EXPECTED_STEP) & (made[at] > MIN_STEP * usual)
    return at[rare], size[at[rare]], expected[rare]


def _is_shift(at: Array, size: Array, expected: Array, n: int) -> bool:
    """Return whether two steps are there and back, improbable, and close together."""
    return bool(
        size[0] * size[1] < 0
        and abs(np.log(-size[0] / size[1])) < MAX_STEP_LOG_RATIO
        and expected[0] * expected[1] < MAX_EXPECTED / 10
        and at[1] - at[0] <= MAX_SHIFT_FRACTION * n
    )

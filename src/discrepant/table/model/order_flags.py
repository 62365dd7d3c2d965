"""Flag cells that contradict the cells before and after them in an ordered column.

Three kinds of errors are detected: *spikes* (a cell outside of its neighbours on both
sides), *stuck* values (one value for longer than the column's own runs), and *shifts*
(a level that jumps away and back). Single steps, drifts and long shifts are not
flagged, as either side may be right; single steps are reported.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter1d
from scipy.stats import rankdata

from discrepant.cell_model.calibration import exceeds
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
# Power of the deviation in that tail where no time names the order: neighbours may then
# be alike because the rows are grouped, and cells of a group are heavy-tailed. At 1,
# spikes were flagged in 7 of 25 uncorrupted development tables; at 1/2, in 2.
INFERRED_TAIL_POWER = 0.5
# Limit of the fraction of false spikes by that tail, relative to ``fdr``.
SPIKE_RATE = 3.0
# Expected number of natural runs, or pairs of steps, as extreme, per column.
MAX_EXPECTED = 0.01
# The same for single steps that are reported, and not flagged.
MAX_EXPECTED_STEP = 0.2
# Size of a step, relative to the usual one between neighbours: below it, medians differ
# by chance, however regular the tail of the steps is.
MIN_STEP = 4.0
# Cells on either side of a step.
STEP_CELLS = 9
# Cells whose median step is the local scale of steps.
STEP_SCALE_CELLS = 97
# Cells of a run that may be stuck.
MIN_STUCK_RUN = 3
# Longest shift, as a fraction of the rows.
MAX_SHIFT_FRACTION = 0.02
# Limit of the log ratio of the sizes of the two steps of a shift.
MAX_STEP_LOG_RATIO = 0.7
# Steps between cells from which the choice of the logarithm is made.
MAX_SAMPLED_STEPS = 5000


class Step(NamedTuple):
    """A level that changes from one cell to the next, and remains."""

    column: int  # among the numeric columns
    row: int
    size: float  # in the column's unit


@dataclass(frozen=True, eq=False)
class OrderFlags:
    """Cells that contradict their neighbours in the order of the rows.

    Attributes
    ----------
    cells : int array (k, 2)
        Row and numeric column.
    log_odds : array (k,)
    kinds : array of str (k,)
        "spike", "stuck" or "shift".
    neighbours : array (k,)
        Mean of the medians before and after a spike; NaN for other kinds.
    neighbour_error : dict of int to float
        By column, median absolute deviation of unflagged cells from that mean.
    steps : list of Step
        Single steps, most improbable first.
    """

    cells: Array
    log_odds: Array
    kinds: Array
    neighbours: Array
    neighbour_error: dict[int, float]
    steps: list[Step]


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
    tested = [k for k, t in enumerate(table.transforms) if t.kind == "numbers"]
    valid = np.where(rule_violations(parsed.values, table), np.nan, parsed.values)
    row_order = find_row_order(parsed, valid, tested, order)
    if row_order is None:
        return None, [], candidates
    flagged = np.zeros(valid.shape, bool)
    is_flagged = exceeds(candidates.log_odds, threshold)
    flagged[tuple(candidates.cells[is_flagged].T)] = True
    flags = _flag_in_order(valid, flagged, row_order, table, fdr)
    candidates = _add_flags(candidates, flags, parsed.values, table, threshold)
    return row_order, flags.steps, candidates


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
    error = np.array([flags.neighbour_error[k] for k in flags.cells[:, 1].tolist()])
    # The median absolute deviation of a normal distribution is 0.6745 of its noise.
    better = np.isfinite(flags.neighbours) & (
        error < 0.6745 * table.noise[flags.cells[:, 1]]
    )
    expected = np.where(better, flags.neighbours, expected)
    halfwidth = 1.96 * error / 0.6745
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


def _flag_in_order(
    values: Array, flagged: Array, order: RowOrder, table: TableModel, fdr: float
) -> OrderFlags:
    """Flag spikes, stuck values and shifts in the ordered columns.

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
    with ThreadPoolExecutor(count_threads(None)) as pool:
        parts = list(
            pool.map(
                lambda k: _flag_column(
                    values[:, k], flagged[:, k], k, order, table.transforms[k], fdr
                ),
                order.columns,
            )
        )
    if order.is_inferred:
        parts = [_without_repeated_rows(part, values, order) for part in parts]
    return OrderFlags(
        cells=np.concatenate([part.cells for part in parts]),
        log_odds=np.concatenate([part.log_odds for part in parts]),
        kinds=np.concatenate([part.kinds for part in parts]),
        neighbours=np.concatenate([part.neighbours for part in parts]),
        neighbour_error={k: v for p in parts for k, v in p.neighbour_error.items()},
        steps=[step for part in parts for step in part.steps],
    )


def _without_repeated_rows(
    flags: OrderFlags, values: Array, order: RowOrder
) -> OrderFlags:
    """Return flags without stuck cells of rows that repeat most ordered columns.

    Without a time, rows may repeat a design, such as one recipe at several ages.
    """
    stuck = flags.kinds == "stuck"
    if not stuck.any() or len(order.columns) < 2:
        return flags
    others = [k for k in order.columns if k != flags.cells[0, 1]]
    repeats = np.mean([_repeats(order.lay(values[:, k])) for k in others], axis=0)
    by_row = np.zeros(len(values))
    by_row[order.rows] = repeats[order.line]
    kept = ~(stuck & (by_row[flags.cells[:, 0]] >= 0.5))
    return replace(
        flags,
        cells=flags.cells[kept],
        log_odds=flags.log_odds[kept],
        kinds=flags.kinds[kept],
        neighbours=flags.neighbours[kept],
    )


def _flag_column(
    values: Array,
    flagged: Array,
    column: int,
    order: RowOrder,
    transform: ColumnTransform,
    fdr: float,
) -> OrderFlags:
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

    stabilise = _stabilising_transform(kept)
    before, after = _neighbour_medians(kept, order.spans[column])
    neighbours = (before + after) / 2
    error = float(np.nanmedian(np.abs(kept - neighbours)))
    # The transform is monotone: it may be applied to the medians.
    deviation = _deviation(*map(stabilise, (kept, before, after)))
    if _has_states(line):
        deviation[_repeats(line)] = 0.0
    if order.is_inferred:
        deviation **= INFERRED_TAIL_POWER
    odds = _tail_log_odds(deviation, np.isfinite(kept).sum())
    spikes = np.flatnonzero(odds > -np.log(min(SPIKE_RATE * fdr, 0.5)))
    add(spikes, "spike", odds[spikes])
    odds = _stuck_log_odds(line)
    if order.is_inferred:  # the rows may be sorted by whether there is any rain
        odds[line == transform.point_mass] = -np.inf
    stuck = np.flatnonzero(odds > -np.log(MAX_EXPECTED))
    add(stuck, "stuck", odds[stuck])
    at, size, expected = _find_steps(stabilise(kept))
    in_shift = np.zeros(len(at), bool)
    for i in range(len(at) - 1):
        pair = slice(i, i + 2)
        if _is_shift(at[pair], size[pair], expected[pair], len(values)):
            cells = np.arange(at[i], at[i + 1])
            odds = np.full(len(cells), -np.log(expected[i] * expected[i + 1]))
            add(cells, "shift", odds)
            in_shift[pair] = True
    steps = [
        Step(column, int(rows[at[i]]), _step_size(line, int(at[i])))
        for i in np.argsort(expected, kind="stable")
        if not in_shift[i] and rows[at[i]] >= 0
    ]
    cells = np.flatnonzero(kinds != "")
    cells = cells[rows[cells] >= 0]
    is_spike = kinds[cells] == "spike"
    return OrderFlags(
        cells=np.column_stack([rows[cells], np.full(len(cells), column)]),
        log_odds=log_odds[cells],
        kinds=kinds[cells],
        neighbours=np.where(is_spike, neighbours[cells], np.nan),
        neighbour_error={column: error},
        steps=steps,
    )


def _neighbour_medians(line: Array, span: int) -> tuple[Array, Array]:
    """Return the medians of the cells before and after each cell."""
    from discrepant.table.model.order_kernels import running_median

    padded = np.concatenate([line, np.full(span + 1, np.nan)])
    before = running_median(padded, -span, -1, span // 2 + 1)
    return before[: len(line)], before[span + 1 :]


def _rounding_step(line: Array) -> float:
    """Return the step that a tenth of all nonzero steps are below."""
    steps = np.abs(np.diff(line[np.isfinite(line)]))
    steps = steps[steps > 0]
    return float(np.quantile(steps, 0.1)) if len(steps) else 0.0


def _stabilising_transform(line: Array) -> Callable[[Array], Array]:
    """Return the identity, or a logarithm if steps then depend less on the level."""
    finite = line[np.isfinite(line)]
    low = float(np.quantile(finite, 0.07)) if len(finite) else 0.0

    def logarithm(values: Array) -> Array:
        return np.asarray(np.log(np.maximum(values, -low / 4) + low / 3))

    if low > 0 and _level_dependence(line) - _level_dependence(logarithm(line)) > 0.1:
        return logarithm
    return np.asarray


def _level_dependence(line: Array) -> float:
    """Return the absolute rank correlation between the size of steps and the level."""
    step, level = np.abs(np.diff(line)), (line[1:] + line[:-1]) / 2
    at = np.flatnonzero(np.isfinite(step) & (step > 0))
    if len(at) <= 20:
        return 0.0
    at = at[:: -(-len(at) // MAX_SAMPLED_STEPS)]
    ranks = rankdata(step[at]), rankdata(level[at])
    return float(abs(np.corrcoef(*ranks)[0, 1]))


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
    return np.hypot(1.4826 * np.fmax(local, overall), _rounding_step(line))


def _tail_log_odds(deviation: Array, count: int) -> Array:
    """Return the log ratio of observed to expected cells that deviate as much.

    The expected number follows an exponential tail through the counts at 10% and 1% of
    the cells; −inf for the other 99%. ``deviation`` may be a power of the distance.
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


def _repeats(line: Array) -> Array:
    """Return the cells that equal the cell before or after them."""
    same = line[1:] == line[:-1]
    return np.asarray(np.concatenate([[False], same]) | np.concatenate([same, [False]]))


def _has_states(line: Array) -> bool:
    """Return whether most runs repeat a value: states instead of measurements."""
    starts = np.concatenate([[True], ~(line[1:] == line[:-1])]) & np.isfinite(line)
    runs = max(int(starts.sum()), 1)
    repeated = starts & np.concatenate([line[1:] == line[:-1], [False]])
    return bool(repeated.sum() > 0.5 * runs)


def _stuck_log_odds(line: Array) -> Array:
    """Return minus the log of the expected number of natural runs like each cell's.

    Runs of one value are compared with the column's runs at similar values. Runs that
    recur at a value are natural: no rain, ice, a limit of the range.
    """
    start = np.flatnonzero(np.concatenate([[True], ~(line[1:] == line[:-1])]))
    length = np.diff(np.concatenate([start, [len(line)]]))
    if length.max() < MIN_STUCK_RUN:
        return np.full(len(line), -np.inf)
    value = line[start]
    observed = np.isfinite(value)
    log_odds = np.full(len(start), -np.inf)
    count = int(observed.sum())
    if count >= 20 and not _has_states(line):
        bins = int(np.clip(count // 300, 1, 10))
        edges = np.quantile(value[observed], np.arange(1, bins) / bins)
        part = np.where(observed, np.searchsorted(edges, value), -1)
        for k in range(bins):
            here = part == k
            if here.sum() >= 20:
                expected = bins * _expected_runs(length[here])
                log_odds[here] = -np.log(np.maximum(expected, 1e-20))
    log_odds[length < MIN_STUCK_RUN] = -np.inf
    candidates = np.flatnonzero(log_odds > -np.log(MAX_EXPECTED))
    if len(candidates):
        tolerance = 2 * _rounding_step(line)
        order = np.argsort(value, kind="stable")[:count]
        sorted_value, sorted_length = value[order], length[order]
        for i in candidates:
            low = np.searchsorted(sorted_value, value[i] - tolerance)
            high = np.searchsorted(sorted_value, value[i] + tolerance, side="right")
            if np.sum(sorted_length[low:high] >= length[i] / 8) > 3:
                log_odds[i] = -np.inf
    return np.repeat(log_odds, length)


def _expected_runs(lengths: Array) -> Array:
    """Return the expected number of natural runs at least as long as each.

    The larger of a geometric tail and, where long runs are frequent, an exp(−√length)
    tail.
    """
    n = len(lengths)
    repeat = (np.sum(np.minimum(lengths, 5) - 1) + 1) / (lengths.sum() + 2)
    geometric = n * repeat ** (lengths - 1.0)
    longest = int(min(lengths.max(), 500)) + 1
    counts = n - np.concatenate(
        [[0], np.cumsum(np.bincount(np.minimum(lengths, longest + 1))[1:longest])]
    )  # of runs of at least 1, 2, …, `longest` cells
    low = int(np.argmax(counts <= max(0.02 * n, 20))) + 1
    high = int(np.sum(counts >= 10))
    if high <= low:
        return np.asarray(geometric)
    roots = np.sqrt(low), np.sqrt(high)
    rate = np.log(counts[low - 1] / counts[high - 1]) / (roots[1] - roots[0])
    excess = np.sqrt(np.maximum(lengths, high)) - roots[1]
    return np.asarray(np.maximum(geometric, counts[high - 1] * np.exp(-rate * excess)))


def _find_steps(line: Array) -> tuple[Array, Array, Array]:
    """Return positions, sizes and expected numbers of improbable single steps.

    Of the difference between the medians after and before, only the part counts that
    is made from one cell to the next. Its tail is a Pareto distribution.
    """
    from discrepant.table.model.order_kernels import running_median

    padded = np.concatenate([line, np.full(STEP_CELLS, np.nan)])
    medians = running_median(padded, -STEP_CELLS, -1, STEP_CELLS // 2 + 1)
    size = medians[STEP_CELLS:] - medians[:-STEP_CELLS]
    distance = np.abs(size)
    nothing = np.zeros(0, int), np.zeros(0), np.zeros(0)
    if not np.isfinite(distance).any():
        return nothing
    step = np.diff(_fill_forward(line, STEP_CELLS), prepend=np.nan)
    scale = _local_scale(distance, STEP_SCALE_CELLS, line)
    with np.errstate(invalid="ignore", divide="ignore"):
        made = np.where(step * size > 0, np.minimum(np.abs(step), distance), 0)
        score = np.nan_to_num(made / scale, posinf=0.0)
    largest = maximum_filter1d(score, 2 * STEP_CELLS + 1, mode="constant")
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


def _fill_forward(line: Array, limit: int) -> Array:
    """Return a line with up to `limit` empty cells filled by the value before them."""
    index = np.arange(len(line))
    last = np.maximum.accumulate(np.where(np.isfinite(line), index, -1))
    near = (last >= 0) & (index - last <= limit)
    return np.where(near, line[last], np.nan)


def _is_shift(at: Array, size: Array, expected: Array, n: int) -> bool:
    """Return whether two steps are there and back, improbable, and close together."""
    return bool(
        size[0] * size[1] < 0
        and abs(np.log(-size[0] / size[1])) < MAX_STEP_LOG_RATIO
        and expected[0] * expected[1] < MAX_EXPECTED / 10
        and at[1] - at[0] <= MAX_SHIFT_FRACTION * n
    )


def _step_size(line: Array, at: int) -> float:
    """Return the difference of the medians after and before a position."""
    after = line[at : at + STEP_CELLS]
    before = line[max(at - STEP_CELLS, 0) : at]
    return float(np.nanmedian(after) - np.nanmedian(before))

"""Rows judged by rules that were learnt, in blocks, each row by itself."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.table.columns.transforms import Column
from discrepant.table.model import residual_mixture as tails
from discrepant.table.model.calibration import SURE
from discrepant.table.model.table_model import Rules, prepare

BLOCK = 512  # rows judged at a time: some thirty arrays of 0.2 MB for 50 columns
# Chance, by the model, that what should stand in a cell is outside of its interval.
# Real residuals are wider than modelled: at 0.02, 95% of the right values were inside
# in the mean over the development tables (at 0.05, 92%).
INTERVAL = 0.02
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@dataclass(frozen=True, eq=False)
class Judged:
    """The cells likely to be flagged, and gaps where they are to be filled.

    Attributes
    ----------
    cells : int array (k, 2)
        By row and column.
    score : float32 array (k,)
        Log odds that they are wrong; NaN: a gap.
    expected : array (k,)
        What their company says they should be; NaN where nothing does.
    between : array (k, 2)
        A 95% interval of that.
    rows : int
        How many rows were judged, from the first.
    """

    cells: Array
    score: Array
    expected: Array
    between: Array
    rows: int


@dataclass(frozen=True, eq=False)
class Every:
    """Arrays of the table's size, filled as its rows are judged.

    Attributes
    ----------
    score : float32 array (n, p)
        Log odds that a cell is wrong; NaN where it is missing, −50 where not judged.
    expected : array (n, p)
        What a cell's company says it should be; NaN in columns that are not modelled.
    """

    score: Array
    expected: Array

    @classmethod
    def of(cls, shape: tuple[int, int]) -> "Every":
        """Make room for a table."""
        return cls(np.empty(shape, np.float32), np.empty(shape))

    def clear(self, values: Array, start: int) -> None:
        """Mark the rows from ``start`` on as not judged."""
        self.score[start:] = np.where(np.isnan(values[start:]), np.nan, -SURE)
        self.expected[start:] = np.nan


def judge(
    values: Array,
    rules: Rules,
    *,
    least: float = 0.0,
    fill: bool = False,
    every: Every | None = None,
    n_jobs: int = 1,
    report: Report | None = None,
) -> Judged:
    """Judge rows by rules that were learnt, each row by itself.

    Cells of log odds from ``least`` on are listed. If ``report`` returns False, the
    rows that were judged by then are returned.
    """
    n = len(values)
    blocks = [slice(i, i + BLOCK) for i in range(0, n, BLOCK)]
    reaches = (
        []
        if rules.model is None
        else [tails.quantile(weights, INTERVAL) for weights in rules.model.weights]
    )

    def work(at: slice) -> Judged:
        here = None if every is None else Every(every.score[at], every.expected[at])
        return _judge_block(values[at], rules, reaches, (least, fill), here)

    found = []
    with ThreadPoolExecutor(min(n_jobs, len(blocks))) as pool:
        for k, one in enumerate(pool.map(work, blocks)):
            one.cells[:, 0] += blocks[k].start
            found.append(one)
            share = 0.4 + 0.6 * (k + 1) / len(blocks)
            if report is not None and not report(share, "judging"):
                pool.shutdown(cancel_futures=True)
                break
    done = sum(one.rows for one in found)
    if every is not None:
        every.clear(values, done)
    return Judged(
        cells=np.concatenate([one.cells for one in found]),
        score=np.concatenate([one.score for one in found]),
        expected=np.concatenate([one.expected for one in found]),
        between=np.concatenate([one.between for one in found]),
        rows=done,
    )


def _judge_block(
    values: Array,
    rules: Rules,
    reaches: list[float],
    listed: tuple[float, bool],
    every: Every | None,
) -> Judged:
    """Judge some rows; also fill arrays of all their cells where there are such."""
    least, fill = listed
    sure = _surely_wrong(values, rules)
    score = np.where(np.isnan(values), np.nan, -SURE).astype(np.float32)
    expected = np.full(values.shape, np.nan)
    for j, column in enumerate(rules.columns):
        if column.kind == "constant":
            expected[:, j] = column.middle
    low, high = expected.copy(), expected.copy()
    modelled = rules.used if rules.model is not None else []
    if rules.model is not None:
        part = prepare(np.where(sure, np.nan, values), rules)
        found = rules.model.judge(part)
        heard = np.where(part.missing, score[:, modelled], found.score)
        score[:, modelled] = heard
    score[sure] = SURE
    likely = score >= np.float32(least)
    if fill:
        likely |= np.isnan(score)
    for k, j in enumerate(modelled):
        rows = (
            np.arange(len(values)) if every is not None else likely[:, j].nonzero()[0]
        )
        centre = part.X[rows, k] - found.away[rows, k]
        variance = found.variance[rows, k]
        expected[rows, j] = _expect(rules.columns[j], centre, variance)
        ends = _between(rules, reaches[k], k, j, centre, variance)
        low[rows, j] = np.minimum(ends[0], expected[rows, j])
        high[rows, j] = np.maximum(ends[1], expected[rows, j])
    if every is not None:
        every.score[:], every.expected[:] = score, expected
    cells = np.argwhere(likely)
    at = tuple(cells.T)
    between = np.column_stack([low[at], high[at]])
    return Judged(cells, score[at], expected[at], between, len(values))


def _surely_wrong(values: Array, rules: Rules) -> Array:
    """Mark what needs no company to be wrong: infinities, codes and strays."""
    sure: Array = np.isinf(values)
    for j, (codes, bounds) in enumerate(zip(rules.codes, rules.bounds, strict=True)):
        column = values[:, j]
        if rules.columns[j].kind == "identifier":
            sure[:, j] = False
            continue
        if codes:
            sure[:, j] |= np.isin(column, list(codes))
        if np.isfinite(bounds).any():
            sure[:, j] |= (column < bounds[0]) | (column > bounds[1])
    return sure


def _expect(column: Column, centre: Array, variance: Array) -> Array:
    """Give the mean in the column's unit of a normal in standard units."""
    spread = np.sqrt(np.maximum(variance, 0))
    total = np.zeros(len(centre))
    for node, weight in zip(NODES, NODE_WEIGHTS, strict=True):
        total += weight * column.backward(centre + node * spread)
    if column.atom_share:
        total += column.atom_share * (column.atom - total)
    return total


def _between(
    rules: Rules, reach: float, k: int, j: int, centre: Array, variance: Array
) -> tuple[Array, Array]:
    """Give the ends of a 95% interval in the column's unit."""
    model, column = rules.model, rules.columns[j]
    assert model is not None
    square = np.maximum(variance * model.stretch[k] - model.spared[k], 0)
    away = reach * np.sqrt(square + column.grain**2)
    free = replace(column, low=-np.inf, high=np.inf)
    low, high = free.backward(centre - away), free.backward(centre + away)
    if column.atom_share:
        return np.minimum(low, column.atom), np.maximum(high, column.atom)
    return low, high

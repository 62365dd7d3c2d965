"""Rows judged by rules that were learnt, in blocks, each row by itself."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from discrepant.linalg import Array
from discrepant.progress import Report, StoppedError
from discrepant.table import tails
from discrepant.table.maps import Column
from discrepant.table.odds import LEAST_ODDS, SURE
from discrepant.table.rules import Rules, prepare

BLOCK = 1024  # rows judged at a time: some thirty arrays of 0.4 MB for 50 columns
INTERVAL = 0.05  # chance that what should stand in a cell is outside of its interval
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@dataclass(frozen=True, eq=False)
class Judged:
    """What was found.

    Attributes
    ----------
    score : float32 array (n, p)
        Log odds that a cell is wrong; NaN where it is missing, −50 where not judged.
    expected : array (n, p)
        What a cell's company says it should be; NaN in columns that are not modelled.
    likely : int array (k, 2)
        The cells likelier than not to be flagged, by row and column.
    between : array (k, 2)
        A 95% interval of what they should be.
    """

    score: Array
    expected: Array
    likely: Array
    between: Array


def judge(
    values: Array, rules: Rules, *, n_jobs: int = 1, report: Report | None = None
) -> Judged:
    """Judge rows by rules that were learnt, each row by itself."""
    n, p = values.shape
    score = np.empty((n, p), np.float32)
    expected = np.full((n, p), np.nan)
    blocks = [slice(i, i + BLOCK) for i in range(0, n, BLOCK)]
    reaches = (
        []
        if rules.model is None
        else [tails.quantile(weights, INTERVAL) for weights in rules.model.weights]
    )

    def work(at: slice) -> tuple[Array, Array]:
        return _judge_block(values[at], rules, reaches, score[at], expected[at])

    likely, between = [], []
    with ThreadPoolExecutor(min(n_jobs, len(blocks))) as pool:
        for k, found in enumerate(pool.map(work, blocks)):
            likely.append(found[0] + [blocks[k].start, 0])
            between.append(found[1])
            share = 0.4 + 0.6 * (k + 1) / len(blocks)
            if report is not None and not report(share, "judging"):
                pool.shutdown(wait=False, cancel_futures=True)
                raise StoppedError("stopped before all rows were judged")
    return Judged(score, expected, np.concatenate(likely), np.concatenate(between))


def _judge_block(
    values: Array, rules: Rules, reaches: list[float], score: Array, expected: Array
) -> tuple[Array, Array]:
    """Judge some rows; fill their scores and expectations."""
    sure = _surely_wrong(values, rules)
    for j, column in enumerate(rules.columns):
        if column.kind == "constant":
            expected[:, j] = column.middle
    score[:] = np.where(np.isnan(values), np.nan, -SURE)
    low, high = expected.copy(), expected.copy()
    if rules.model is not None:
        part = prepare(np.where(sure, np.nan, values), rules)
        found = rules.model.judge(part)
        stretch, spared = rules.model.stretch, rules.model.spared
        for k, j in enumerate(rules.used):
            column, there = rules.columns[j], ~part.missing[:, k]
            score[there, j] = found.score[there, k]
            centre = part.X[:, k] - found.away[:, k]
            mean = _expect(column, centre, np.sqrt(np.maximum(found.variance[:, k], 0)))
            square = found.variance[:, k] * stretch[k] - spared[k]
            away = np.sqrt(np.maximum(square, 0) + part.grain[k] ** 2)
            free = replace(column, low=-np.inf, high=np.inf)
            low[:, j] = free.backward(centre - reaches[k] * away)
            high[:, j] = free.backward(centre + reaches[k] * away)
            if column.atom_share:
                mean += column.atom_share * (column.atom - mean)
                low[:, j] = np.minimum(low[:, j], column.atom)
                high[:, j] = np.maximum(high[:, j], column.atom)
            expected[:, j] = mean
    score[sure] = SURE
    likely = np.argwhere(score >= np.float32(LEAST_ODDS))
    at = tuple(likely.T)
    return likely, np.column_stack([low[at], high[at]])


def _surely_wrong(values: Array, rules: Rules) -> Array:
    """Mark what needs no company to be wrong: infinities, codes and strays."""
    sure: Array = np.isinf(values)
    for j, (codes, bounds) in enumerate(zip(rules.codes, rules.bounds, strict=True)):
        column = values[:, j]
        if rules.columns[j].kind == "identifier":
            sure[:, j] = False
            continue
        if codes:
            sure[:, j] |= np.isin(column, codes)
        if np.isfinite(bounds).any():
            sure[:, j] |= (column < bounds[0]) | (column > bounds[1])
    return sure


def _expect(column: Column, centre: Array, spread: Array) -> Array:
    """Mean in the column's unit of a normal in standard units."""
    total = np.zeros(len(centre))
    for node, weight in zip(NODES, NODE_WEIGHTS, strict=True):
        total += weight * column.backward(centre + node * spread)
    return np.asarray(total)

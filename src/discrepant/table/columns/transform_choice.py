"""Which map each column wants, heard beside the others.

A map that makes a column look normal by itself may bend a straight relation: a column
that switches between two states is not normal, and yet a sum of its causes. So maps are
chosen by the likelihood of whole rows. As det Σ is the variance of one column given the
others times the determinant of the rest, the best map of a column, the others' held, is
the one with the least log deviation around what they say, less its own log slope.
"""

from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.table.columns.column_kind import candidates, spread_of
from discrepant.table.columns.transforms import Column


@dataclass(frozen=True)
class Tuning:
    """Chosen on the development tables of ``python benchmarks/tables.py dev``."""

    sweeps: int = 2  # over the columns
    rows: int = 1000  # that are looked at
    least_rows: int = 20
    gain: float = 4.0  # log likelihood that a bent map must gain over a straight one,
    gain_cell: float = 0.02  # and by cell
    freedom: float = 4.0  # of residuals' Student law: some cells are wrong unseen
    steps: int = 8  # of the fixed point for its scale
    ridge: float = 0.01


TUNING = Tuning()


def choose(filled: Array, kept: Array, columns: list[Column]) -> list[Column]:
    """Choose the maps of the numeric columns, each given the others.

    The ascent starts from the maps as they are and from straight ones, since one column
    of a sum cannot be straightened alone; the likelier end is taken.

    Parameters
    ----------
    filled : array (n, p)
        Values; what is wrong or missing is as the others say.
    kept : bool array (n, p)
        What is neither.
    columns : list of Column
        Their maps as they are.
    """
    step = -(-len(filled) // TUNING.rows)
    filled, kept = filled[::step], kept[::step]
    free = [
        k
        for k, column in enumerate(columns)
        if column.kind == "numeric" and _varies(filled[kept[:, k], k])
    ]
    straight = list(columns)
    for k in free:
        plain = replace(columns[k], shape="identity", parameter=1.0)
        straight[k] = _standard(plain, filled[kept[:, k], k])
    ends = [_ascend(filled, kept, start, free) for start in (columns, straight)]
    return max(ends, key=lambda end: end[0])[1]


def _varies(seen: Array) -> bool:
    return len(seen) >= TUNING.least_rows and bool(np.ptp(seen) > 0)


def _ascend(
    filled: Array, kept: Array, columns: list[Column], free: list[int]
) -> tuple[float, list[Column]]:
    """Choose one map at a time; give the log likelihood a row and the maps."""
    columns = list(columns)
    Z = np.column_stack([c.forward(filled[:, k]) for k, c in enumerate(columns)])
    Z -= Z.mean(axis=0)
    for _ in range(TUNING.sweeps):
        before = list(columns)
        for k in free:
            others = np.delete(Z, k, axis=1)
            columns[k] = _choose_one(filled[:, k], kept[:, k], others, columns[k])
            Z[:, k] = columns[k].forward(filled[:, k])
            Z[:, k] -= Z[:, k].mean()
        if columns == before:
            break
    total = 0.0
    for k in free:  # the density of a row is that of each cell given those before it
        rows = kept[:, k]
        away = _residuals(Z[rows, k, None], Z[:, :k], rows)
        slope = columns[k].log_slope(filled[rows, k]).mean()
        total += float(_log_density(away)[0] + slope - np.log(columns[k].scale))
    return total, columns


def _choose_one(values: Array, rows: Array, others: Array, column: Column) -> Column:
    seen = values[rows]
    plain = replace(column, shape="identity", parameter=1.0)
    bends = [replace(plain, shape=s, parameter=q) for s, q in candidates(seen)]
    trials = [plain, *bends]
    bent = np.column_stack([trial.bend(seen) for trial in trials])
    gains = _log_density(_residuals(bent - bent.mean(axis=0), others, rows))
    gains += [trial.log_slope(seen).mean() for trial in trials]
    gains[1:] -= max(TUNING.gain / len(seen), TUNING.gain_cell)
    return _standard(trials[int(np.argmax(gains))], seen)


def _standard(column: Column, seen: Array) -> Column:
    bent = column.bend(seen)
    return replace(column, centre=float(np.median(bent)), scale=spread_of(bent))


def _residuals(Y: Array, others: Array, rows: Array) -> Array:
    """Give what is left of columns, of some rows, after regression on all others."""
    if not others.shape[1]:
        return Y
    gram = others.T @ others / len(others)
    gram += np.diag(TUNING.ridge * np.diag(gram) + 1e-9)
    heard = others[rows]
    return np.asarray(Y - heard @ np.linalg.solve(gram, heard.T @ Y / len(heard)))


def _log_density(away: Array) -> Array:
    """Mean log density of residuals by column, under a Student law of its own scale."""
    nu, square = TUNING.freedom, away * away
    scale = np.median(square, axis=0) / 0.455 + 1e-24  # of squares, the median of χ²
    for _ in range(TUNING.steps):
        weight = (nu + 1) / (nu + square / scale)
        scale = np.mean(weight * square, axis=0) + 1e-24
    tail = np.log1p(square / (nu * scale)).mean(axis=0)
    return np.asarray(-0.5 * np.log(scale) - 0.5 * (nu + 1) * tail)

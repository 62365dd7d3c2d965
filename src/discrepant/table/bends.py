"""Which map each column wants, heard beside the others.

A map that makes a column look normal by itself may bend a straight relation: a column
that switches between two states is not normal, and yet a sum of its causes. So the
maps are chosen by the likelihood of rows: as det Σ is the variance of one column given
the others times the determinant of the rest, the choice for one column, the others'
maps held, is that of the least log deviation around what they say, less the mean log
slope of the map.
"""

from dataclasses import dataclass, replace

import numpy as np

from discrepant.linalg import Array
from discrepant.table.columns import candidates, spread_of
from discrepant.table.maps import Column


@dataclass(frozen=True)
class Tuning:
    """Chosen on the development tables of ``python benchmarks/tables.py dev``."""

    sweeps: int = 2  # over the columns
    worth: float = 4.0  # log likelihood that a bent map must gain over a straight one
    ratio: float = 0.02  # and gain a cell
    freedom: float = 4.0  # of the Student law of residuals: some cells are still wrong
    steps: int = 8  # of the fixed point for its scale
    ridge: float = 0.01


TUNING = Tuning()


def choose(
    learnt: Array, columns: list[Column], filled: Array, kept: Array, used: list[int]
) -> list[Column]:
    """Choose the maps of the numeric columns, each given the others."""
    straight = list(columns)
    level = filled.copy()
    for k, j in enumerate(used):
        column = columns[j]
        if column.kind == "numeric" and kept[:, k].sum() >= 20:
            free = replace(column, low=-np.inf, high=np.inf)
            values = np.where(kept[:, k], learnt[:, j], free.backward(filled[:, k]))
            straight[j] = _standard(
                replace(column, shape="identity", parameter=1.0), learnt[kept[:, k], j]
            )
            level[:, k] = straight[j].forward(values)
    ends = []
    for start, Z in ((columns, filled), (straight, level)):
        maps, Z = _ascend(learnt, list(start), Z - Z.mean(axis=0), kept, used)
        ends.append((_objective(learnt, maps, Z, kept, used), maps))
    global SHOW
    if SHOW: print("objective", ends[0][0], ends[1][0], len(learnt))
    return ends[0][1] if ends[0][0] >= ends[1][0] else ends[1][1]

SHOW=False

def _ascend(learnt, columns, Z, kept, used):
    for _ in range(TUNING.sweeps):
        for k, j in enumerate(used):
            rows = kept[:, k]
            if columns[j].kind != "numeric" or rows.sum() < 20:
                continue
            columns[j], Z[:, k] = _choose_one(learnt[:, j], columns[j], Z, rows, k)
    return columns, Z


def _objective(learnt, columns, Z, kept, used):
    total = 0.0
    for k, j in enumerate(used):
        column, rows = columns[j], kept[:, k]
        if column.kind != "numeric" or rows.sum() < 20:
            continue
        others = Z[:, :k]
        gram = others.T @ others / len(Z)
        gram[np.diag_indices_from(gram)] *= 1 + TUNING.ridge
        gram[np.diag_indices_from(gram)] += 1e-9
        y = Z[rows, k] - Z[rows,k].mean()
        away = y - others[rows] @ np.linalg.solve(gram, others[rows].T @ y / len(y))
        total += _likelihood(away) - np.log(column.scale) + float(column.log_slope(learnt[rows, j]).mean())
    return total


def _standard(column: Column, seen: Array) -> Column:
    bent = column.bend(seen)
    return replace(column, centre=float(np.median(bent)), scale=spread_of(bent))


def _choose_one(
    values: Array, column: Column, Z: Array, rows: Array, k: int
) -> tuple[Column, Array]:
    seen = values[rows]
    others = np.delete(Z, k, axis=1)
    gram = others.T @ others / len(Z)
    gram[np.diag_indices_from(gram)] *= 1 + TUNING.ridge
    gram[np.diag_indices_from(gram)] += 1e-9
    solve = np.linalg.solve(gram, others[rows].T) if len(gram) else others[rows].T
    best, found, highest = column, None, -np.inf
    least = max(TUNING.worth / len(seen), TUNING.ratio)
    plain = replace(column, shape="identity", parameter=1.0)
    for shape, parameter in [("identity", 1.0), *candidates(seen)]:
        trial = replace(plain, shape=shape, parameter=parameter)
        y = trial.bend(seen)
        y = y - y.mean()
        weights = solve @ y / len(y)
        away = y - others[rows] @ weights
        value = _likelihood(away) + float(trial.log_slope(seen).mean())
        value -= least if shape != "identity" else 0.0
        if value > highest:
            best, found, highest = trial, weights, value
    best = _standard(best, seen)
    z = others @ (found if found is not None else np.zeros(0)) / best.scale
    y = best.forward(seen)
    z[rows] = y - y.mean()
    return best, z


def _likelihood(away: Array) -> float:
    """Mean log density of residuals under a Student law of their own scale."""
    nu = TUNING.freedom
    scale = 1.4826 * float(np.median(np.abs(away))) + 1e-12
    square = away * away
    for _ in range(TUNING.steps):
        weight = (nu + 1) / (nu + square / scale**2)
        scale = float(np.sqrt(np.mean(weight * square))) + 1e-12
    tail = np.log1p(square / (nu * scale**2))
    return -np.log(scale) - 0.5 * (nu + 1) * float(tail.mean())

"""Robust coordinates: where a corrupted, incomplete row lies in a known subspace.

For a row y and orthonormal components V (k×n) the coordinates are those of

    min ‖y − c V‖₁  over the observed entries,

the convex program with the subspace held fixed. An augmented-Lagrangian iteration finds
which entries are clean; least squares on those then gives the coordinates to rounding.
Where no entry is clean, the sum of absolute errors is that of the minimum to a few
parts in a thousand or better.
"""

import numpy as np

from discrepant.linalg import Array, shrink

BLOCK = 1 << 22  # entries worked on at a time
GROWTH = 1.2  # of μ at each step, in the end
HOLD = 300  # steps until then, in which μ keeps the two residuals together
PULL = 1.5  # change of μ, every fifth of these steps
APART = 10.0  # ratio of the residuals that calls for it


def coordinates(rows: Array, components: Array) -> Array:
    """Return the coordinates (b, k) of rows (b, n), where NaN marks missing entries.

    Each row is treated by itself: its result does not depend on the others.
    """
    V = np.asarray(components, dtype=np.float64)
    found = np.zeros((len(rows), len(V)))
    height = max(1, BLOCK // rows.shape[1])
    for start in range(0, len(rows), height):
        block = np.asarray(rows[start : start + height], dtype=np.float64)
        observed = ~np.isnan(block)
        size = np.abs(block).max(axis=1, where=observed, initial=0.0)
        some = size > 0  # rows of zeros, or of nothing, stay at the origin
        if len(V) and some.any():
            unit = np.where(observed, block, 0.0)[some] / size[some, None]
            C = _least_absolute(unit, observed[some], V)
            found[start : start + height][some] = C * size[some, None]
    return found


def _least_absolute(
    Y: Array, observed: np.ndarray, V: Array, tol: float = 1e-7, max_iter: int = 1000
) -> Array:
    """Minimise ``‖Y − C V‖₁`` row by row; rows leave the iteration as they settle."""
    C = np.zeros((len(Y), len(V)))
    clean = np.zeros(Y.shape, bool)
    rows = np.arange(len(Y))
    y, seen = Y, observed
    S, D = np.zeros_like(Y), np.zeros_like(Y)  # corruption, and multiplier over μ
    inverse_mu = np.abs(Y).sum(axis=1, keepdims=True) / observed.sum(
        axis=1, keepdims=True
    )
    for k in range(max_iter):
        c = (y - S + D) @ V.T
        E = y - c @ V
        S_new = np.where(seen, shrink(E + D, inverse_mu), E)
        D = np.where(seen, D + E - S_new, 0.0)
        primal, dual = np.abs(E - S_new).max(axis=1), np.abs(S_new - S).max(axis=1)
        settled = (np.maximum(primal, dual) <= tol) | (k == max_iter - 1)
        S = S_new
        if k >= HOLD:  # growing for good, μ ends the iteration
            D /= GROWTH
            inverse_mu = inverse_mu / GROWTH
        elif k % 5 == 4:
            up, down = primal > APART * dual, dual > APART * primal
            growth = np.where(up, PULL, np.where(down, 1 / PULL, 1.0))[:, None]
            D /= growth
            inverse_mu = inverse_mu / growth
        if settled.any():
            C[rows[settled]] = c[settled]
            clean[rows[settled]] = seen[settled] & (S[settled] == 0)
            rest = ~settled
            rows, y, seen, S, D, inverse_mu = (
                a[rest] for a in (rows, y, seen, S, D, inverse_mu)
            )
            if not len(rows):
                break
    return _polish(C, Y, observed, clean, V)


def _polish(
    C: Array, Y: Array, observed: np.ndarray, clean: np.ndarray, V: Array
) -> Array:
    """Refit on the clean entries, and keep what fits no worse.

    Where no more entries are seen than there are coordinates, all count as clean, and
    of the coordinates that fit them the smallest are taken.
    """
    few = observed.sum(axis=1) <= len(V)
    for i in np.flatnonzero(few):
        C[i] = np.linalg.lstsq(V[:, observed[i]].T, Y[i, observed[i]], rcond=None)[0]
    clean[few] = False
    for i in np.flatnonzero(clean.sum(axis=1) >= len(V)):
        refit = np.linalg.lstsq(V[:, clean[i]].T, Y[i, clean[i]], rcond=None)[0]
        loss, loss_refit = (
            np.abs(Y[i] - c @ V).sum(where=observed[i]) for c in (C[i], refit)
        )
        if loss_refit <= loss * (1 + 1e-6):
            C[i] = refit
    return C

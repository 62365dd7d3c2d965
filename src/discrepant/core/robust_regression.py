"""Robust coordinates: where a corrupted, incomplete row lies in a known subspace.

For a row y and orthonormal components V (k×n) the coordinates are those of

    min ‖y − c V‖₁  over the observed entries,

the convex program with the subspace held fixed. An augmented-Lagrangian iteration finds
which entries are clean; least squares on those then gives the coordinates to rounding.
Where no entry is clean, the sum of absolute errors is that of the minimum to a few
parts in a thousand or better.
"""

import numpy as np

from discrepant.core.linalg import Array

BLOCK = 1 << 22  # entries worked on at a time
GROWTH = 1.2  # of μ at each step, in the end
HOLD = 300  # steps until then, in which μ keeps the two residuals together
PULL = 1.5  # change of μ, every fifth of these steps
APART = 10.0  # ratio of the residuals that calls for it
TOL = 1e-7  # change, over the size of a row, at which it has settled


def l1_coordinates(rows: Array, components: Array) -> Array:
    """Return the coordinates (b, k) of rows (b, n), where NaN marks missing entries.

    Each row is treated by itself: its result does not depend on the others.
    """
    V = np.array(components, dtype=np.float64, order="C")
    (number, n), k = rows.shape, len(V)
    coordinates = np.zeros((number, k))
    height = max(1, BLOCK // n)
    for start in range(0, number, height):
        block = rows[start : start + height].astype(np.float64)
        observed = ~np.isnan(block)
        block = np.where(observed, block, 0.0)
        size = np.max(np.abs(block), axis=1, keepdims=True)
        # Rows of zeros, or without any entry, stay at the origin.
        nonzero = np.flatnonzero(size[:, 0] > 0)
        if k and len(nonzero):
            y, seen, unit = (a[nonzero] for a in (block, observed, size))
            coordinates[start + nonzero] = _least_absolute(y / unit, seen, V) * unit
    return coordinates


def _least_absolute(Y: Array, observed: Array, V: Array, max_iter: int = 1000) -> Array:
    """Minimise ``‖Y − C V‖₁`` row by row; rows leave the iteration as they settle."""
    tol = max(TOL, 20 * float(np.finfo(Y.dtype).eps))
    left = np.arange(Y.shape[0])  # rows that have not settled
    C = np.zeros((Y.shape[0], V.shape[0]))
    clean = np.zeros_like(observed)
    y, seen = Y, observed
    S, D = np.zeros_like(Y), np.zeros_like(Y)  # corruption, and multiplier over μ
    inverse_mu = np.sum(np.abs(Y), axis=1, keepdims=True) / np.sum(
        observed.astype(Y.dtype), axis=1, keepdims=True
    )
    for k in range(max_iter):
        c = (y - S + D) @ V.T
        E = y - c @ V
        clipped = np.clip(E + D, -inverse_mu, inverse_mu)
        S_new = np.where(seen, E + D - clipped, E)
        D = np.where(seen, clipped, 0.0)
        primal, dual = (
            np.max(np.abs(a), axis=1, keepdims=True) for a in (E - S_new, S_new - S)
        )
        S = S_new
        growth: float | Array | None = None
        if k >= HOLD:  # growing for good, μ ends the iteration
            growth = GROWTH
        elif k % 5 == 4:
            up, down = primal > APART * dual, dual > APART * primal
            growth = np.where(up, PULL, np.where(down, 1 / PULL, 1.0))
        if growth is not None:
            D, inverse_mu = D / growth, inverse_mu / growth
        settled = np.maximum(primal, dual)[:, 0] <= tol
        settled |= k == max_iter - 1
        if not settled.any():
            continue
        C[left[settled]] = c[settled]
        clean[left[settled]] = (seen & (S == 0))[settled]
        left = left[~settled]
        if not len(left):
            break
        y, seen, S, D, inverse_mu = (a[~settled] for a in (y, seen, S, D, inverse_mu))
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

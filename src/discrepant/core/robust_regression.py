"""Robust regression of corrupted, incomplete rows on a known basis (exact l1).

For a row y and orthonormal components V (k×n) the coordinates c are those of

    min ‖y − c V‖₁  over the observed entries,

the convex program with a fixed subspace. An augmented-Lagrangian iteration identifies
the clean entries; least squares on these then gives the coordinates to rounding. If no
entry is clean, the sum of absolute errors exceeds its minimum by at most a few parts in
a thousand.
"""

import numpy as np

from discrepant.core.linalg import Array

# Entries of the rows that are fitted at a time.
BLOCK = 1 << 22
# Steps in which the penalty μ balances the primal and the dual residual.
BALANCING_STEPS = 300
# Factor by which μ changes while balancing, at every fifth step.
BALANCING_FACTOR = 1.5
# Ratio of the two residuals from which μ is changed.
MAX_RESIDUAL_RATIO = 10.0
# Growth of μ at each step after balancing, which ends the iteration.
GROWTH = 1.2
# Change of a row, relative to its largest entry, at which it has converged.
TOL = 1e-7


def l1_coordinates(rows: Array, components: Array) -> Array:
    """Return the l1 coordinates (b, k) of rows (b, n); NaN marks missing entries.

    The result of a row does not depend on the other rows.
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
        # Rows of zeros or without observed entries stay at the origin.
        nonzero = np.flatnonzero(size[:, 0] > 0)
        if k and len(nonzero):
            y, mask, unit = (a[nonzero] for a in (block, observed, size))
            coordinates[start + nonzero] = _least_absolute(y / unit, mask, V) * unit
    return coordinates


def _least_absolute(Y: Array, observed: Array, V: Array, max_iter: int = 1000) -> Array:
    """Minimise ``‖Y − C V‖₁`` row by row; converged rows leave the iteration."""
    tol = max(TOL, 20 * float(np.finfo(Y.dtype).eps))
    active = np.arange(Y.shape[0])  # rows that have not converged
    C = np.zeros((Y.shape[0], V.shape[0]))
    clean = np.zeros_like(observed)
    y, mask = Y, observed
    S, D = np.zeros_like(Y), np.zeros_like(Y)  # corruption, and multiplier over μ
    inverse_mu = np.sum(np.abs(Y), axis=1, keepdims=True) / np.sum(
        observed.astype(Y.dtype), axis=1, keepdims=True
    )
    for k in range(max_iter):
        c = (y - S + D) @ V.T
        E = y - c @ V
        clipped = np.clip(E + D, -inverse_mu, inverse_mu)
        S_new = np.where(mask, E + D - clipped, E)
        D = np.where(mask, clipped, 0.0)
        primal, dual = (
            np.max(np.abs(a), axis=1, keepdims=True) for a in (E - S_new, S_new - S)
        )
        S = S_new
        growth: float | Array | None = None
        if k >= BALANCING_STEPS:
            growth = GROWTH
        elif k % 5 == 4:
            up = primal > MAX_RESIDUAL_RATIO * dual
            down = dual > MAX_RESIDUAL_RATIO * primal
            shrunk = np.where(down, 1 / BALANCING_FACTOR, 1.0)
            growth = np.where(up, BALANCING_FACTOR, shrunk)
        if growth is not None:
            D, inverse_mu = D / growth, inverse_mu / growth
        converged = np.maximum(primal, dual)[:, 0] <= tol
        converged |= k == max_iter - 1
        if not converged.any():
            continue
        C[active[converged]] = c[converged]
        clean[active[converged]] = (mask & (S == 0))[converged]
        active = active[~converged]
        if not len(active):
            break
        y, mask, S, D, inverse_mu = (a[~converged] for a in (y, mask, S, D, inverse_mu))
    return _polish(C, Y, observed, clean, V)


def _polish(
    C: Array, Y: Array, observed: np.ndarray, clean: np.ndarray, V: Array
) -> Array:
    """Refit each row by least squares on its clean entries, if that fits no worse.

    If a row has no more observed entries than coordinates, all of them count as clean,
    and the coordinates of smallest norm that fit them are taken.
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

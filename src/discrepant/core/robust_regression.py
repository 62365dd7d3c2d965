"""Robust regression of corrupted, incomplete rows on a known basis.

`l1_coordinates` are exact where rows have no noise. For a row y and orthonormal
components V (k×n) they are those of

    min ‖y − c V‖₁  over the observed entries,

the convex program with a fixed subspace. An augmented-Lagrangian iteration identifies
the clean entries; least squares on these then gives the coordinates to rounding. If no
entry is clean, the sum of absolute errors exceeds its minimum by at most a few parts in
a thousand.

`robust_coordinates` and `reweighted_coordinates` are for rows with noise: iteratively
reweighted least squares (`irls`), with unknown noise or with weights that are known.
"""

from collections.abc import Callable, Sequence

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.robust_statistics import MAD

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

# Reweightings that approximate least absolute deviations …
LAD_STEPS = 12
# … and residual over the scale below which these weights grow no further.
MIN_LAD_RESIDUAL = 0.1
# Reweightings by Tukey's bisquare, which then reject outliers …
BISQUARE_STEPS = 4
# … beyond this residual over the scale: 95% efficiency for normal noise.
BISQUARE = 4.7
# Median absolute entries at which the rows are clipped for the first fit.
FIRST_CLIP = 2.5
# Ridge penalty over the largest square of a column of the basis.
RIDGE = 1e-9
# Reweightings by known weights: coordinates are then stable to a thousandth of their
# error.
REWEIGHTINGS = 6
# Entries of rows with noise that are fitted at a time.
NOISY_BLOCK = 1 << 20

Weight = Callable[[Array], Array]  # of |residuals|, for each row


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
    clean[_fit_few_entries(C, Y, observed, V)] = False
    for i in np.flatnonzero(clean.sum(axis=1) >= len(V)):
        refit = np.linalg.lstsq(V[:, clean[i]].T, Y[i, clean[i]], rcond=None)[0]
        loss, loss_refit = (
            np.abs(Y[i] - c @ V).sum(where=observed[i]) for c in (C[i], refit)
        )
        if loss_refit <= loss * (1 + 1e-6):
            C[i] = refit
    return C


def irls(rows: Array, X: Array, weights: Sequence[Weight], start: Array) -> Array:
    """Refine coordinates by iteratively reweighted least squares.

    Parameters
    ----------
    rows : array (b, n)
        NaN is missing.
    X : array (n, k)
        Basis.
    weights : sequence of functions
        Weights of each iteration, given the absolute residuals (b, n).
    start : array (b, k)
        Coordinates to begin with.
    """
    observed = np.isfinite(rows)
    y, c = np.where(observed, rows, 0.0), start
    (n, k), number = X.shape, len(rows)
    pairs = np.reshape(X[:, :, None] * X[:, None, :], (n, -1))
    ridge = RIDGE * float(np.max(np.sum(X * X, axis=0), initial=0.0)) * np.eye(k)
    for weight in weights:
        w = np.where(observed, weight(np.abs(y - c @ X.T)), 0.0)
        G = np.reshape(w @ pairs, (number, k, k)) + ridge
        c = np.linalg.solve(G, ((w * y) @ X)[:, :, None])[:, :, 0]
    return np.asarray(c)


def robust_coordinates(rows: Array, X: Array) -> tuple[Array, Array]:
    """Regress rows (b, n) on X (n, k), robust to outliers in half of a row.

    NaN is missing. Least absolute deviations come first, then Tukey's weights. Also
    returns the scale of the residuals of each row; infinite with few entries.
    """
    size = np.sqrt(np.sum(X * X, axis=0))
    X, k = X / size, X.shape[1]
    observed = np.isfinite(rows)
    number = np.sum(observed, axis=1, keepdims=True)
    freedom = np.sqrt(number / np.maximum(number - k, 1.0))

    def scale_of(e: Array) -> Array:
        return np.asarray(_median(e, observed) / MAD * freedom)

    def relative(e: Array) -> Array:
        with np.errstate(over="ignore"):  # infinite if all other entries fit exactly
            return np.asarray(e / np.maximum(scale_of(e), 1e-300))

    def lad(e: Array) -> Array:
        return np.asarray(1 / np.maximum(relative(e), MIN_LAD_RESIDUAL))

    def bisquare(e: Array) -> Array:
        return np.asarray((1 - np.minimum(relative(e) / BISQUARE, 1.0) ** 2) ** 2)

    y = np.where(observed, rows, 0.0)
    bound = FIRST_CLIP * _median(np.abs(y), observed)
    clipped = np.where(observed, np.clip(y, -bound, bound), np.nan)
    c = irls(clipped, X, [np.ones_like], np.zeros((len(y), k)))
    c = irls(rows, X, [lad] * LAD_STEPS + [bisquare] * BISQUARE_STEPS, c)
    scale = scale_of(np.abs(y - c @ X.T))
    return c / size, np.where(number > 2 * k, scale, np.inf)[:, 0]


def reweighted_coordinates(rows: Array, X: Array, weight: Weight) -> Array:
    """Return the coordinates (b, k) of rows (b, n) on X (n, k); NaN is missing.

    They minimise ``Σ w(|yⱼ − (Xc)ⱼ|)·(yⱼ − (Xc)ⱼ)²``, from `robust_coordinates` on. The
    result of a row does not depend on the other rows.
    """
    (number, n), k = rows.shape, X.shape[1]
    coordinates = np.zeros((number, k))
    height = max(1, NOISY_BLOCK // max(n, k * k))
    for first in range(0, number if k else 0, height):
        block = rows[first : first + height]
        c = robust_coordinates(block, X)[0]
        c = irls(block, X, [weight] * REWEIGHTINGS, c)
        observed = np.isfinite(block)
        _fit_few_entries(c, block, observed, X.T)
        coordinates[first : first + height] = c
    return coordinates


def _fit_few_entries(C: Array, Y: Array, observed: np.ndarray, V: Array) -> np.ndarray:
    """Fit rows with at most as many entries as coordinates by those of least norm.

    Returns which rows these are.
    """
    few = observed.sum(axis=1) <= len(V)
    for i in np.flatnonzero(few):
        C[i] = np.linalg.lstsq(V[:, observed[i]].T, Y[i, observed[i]], rcond=None)[0]
    return np.asarray(few)


def median_scale(rows: Array) -> Array:
    """Return the robust scale of each row: the median of |values| over 0.674."""
    return np.asarray(_median(np.abs(rows), np.isfinite(rows))[:, 0] / MAD)


def _median(values: Array, observed: np.ndarray) -> Array:
    """Return the median of the observed values of each row, (b, 1); 0 if none."""
    last = values.shape[1] - 1
    ordered = np.sort(np.where(observed, values, np.inf), axis=1)
    number = np.count_nonzero(observed, axis=1, keepdims=True)
    low, high = (
        np.take_along_axis(ordered, np.clip(at, 0, last), axis=1)
        for at in ((number - 1) // 2, number // 2)
    )
    return np.where(number > 0, (low + high) / 2, 0.0)

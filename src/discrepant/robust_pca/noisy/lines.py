"""Robust regression of single rows and columns ("lines") on a known space.

Redescending weights never recover a line that lags behind the low-rank fit, and Huber
weights are slow. A line with too many outliers is therefore regressed on the factor of
the other axis. New rows are regressed on the components of a fit.
"""

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.noisy.histogram import BIN_CENTRES, MAD

BISQUARE = 4.7  # cutoff of Tukey's weights: 95% efficiency for normal noise
BLOCK_ENTRIES = 1 << 20  # entries of new rows that are regressed at a time
# Reweightings of new rows: coordinates are then stable to a thousandth of their error.
ITERATIONS = 6


def regress_lines(
    lines: Array, X: Array, first: int = 12, then: int = 4
) -> tuple[Array, Array]:
    """Regress each line (k×n, NaN is missing) on X (n×r), robust to 50% outliers.

    First approximately least absolute deviations, then Tukey's weights. Returns
    coordinates for X with columns of unit length, and the scale of the residual, (k,).
    """
    (k, n), r, info = lines.shape, X.shape[1], np.finfo(lines.dtype)
    observed = np.isfinite(lines)
    y = np.where(observed, lines, 0.0)
    w = observed.astype(lines.dtype)
    number = np.sum(w, axis=1, keepdims=True)
    X = X / np.sqrt(np.sum(X * X, axis=0))
    pairs = np.reshape(X[:, :, None] * X[:, None, :], (n, -1))
    ridge = max(1e-9, 10 * float(info.eps)) * np.eye(r, dtype=lines.dtype)
    bound = 2.5 * _median(np.abs(y), observed)
    target = np.clip(y, -bound, bound)
    tiny = max(1e-300, float(info.smallest_normal))
    freedom = np.sqrt(number / np.clip(number - r, 1.0, np.inf))
    c, scale = np.zeros((k, r), lines.dtype), bound
    for i in range(first + then + 1):
        G = np.reshape(w @ pairs, (k, r, r)) + ridge
        c = np.linalg.solve(G, ((w * target) @ X)[:, :, None])[:, :, 0]
        target = y
        e = np.abs(y - c @ X.T)
        scale = _median(e, observed) / MAD * freedom
        with np.errstate(over="ignore"):  # infinite if all other entries fit exactly
            z = e / np.clip(scale, tiny, np.inf)
            if i < first:
                w = 1 / np.clip(z, 0.1, np.inf)
            else:
                w = np.clip(1 - (z / BISQUARE) ** 2, 0.0, np.inf) ** 2
        w = np.where(observed, w, 0.0)
    return c, np.where(number > 2 * r, scale, np.inf)[:, 0]


def noisy_coordinates(
    rows: Array, components: Array, sigma: Array, weight: Array
) -> Array:
    """Return the coordinates (b, r) of new rows (b, n) with noise σ; NaN is missing.

    For components V (r×n) they minimise ``Σ w(zⱼ)·(yⱼ − (cV)ⱼ)²/σⱼ²``, where w is the
    fitted probability of being clean, by bin; `regress_lines` is the start. The result
    of a row does not depend on the other rows.
    """
    (number, n), r = rows.shape, len(components)
    X = np.ascontiguousarray((components / sigma).T, np.float64)  # (n, r)
    length, noise = np.linalg.norm(X, axis=0), sigma.astype(np.float64)
    coordinates = np.zeros((number, r))
    height = max(1, BLOCK_ENTRIES // max(n, r * r))
    for start in range(0, number if r else 0, height):
        part = slice(start, start + height)
        block = rows[part].astype(np.float64) / noise
        c = regress_lines(block, X)[0] / length
        coordinates[part] = _reweighted(block, X, c, weight.astype(np.float64))
    return coordinates


def _reweighted(Y: Array, X: Array, c: Array, weight: Array) -> Array:
    """Refine coordinates by iteratively reweighted least squares."""
    n, r = X.shape
    observed = np.isfinite(Y)
    y = np.where(observed, Y, 0.0)
    pairs = np.reshape(X[:, :, None] * X[:, None, :], (n, -1))
    size = max(1e-10, 10 * float(np.finfo(Y.dtype).eps)) / r * float(np.sum(X * X))
    tiny = size * np.eye(r)
    for _ in range(ITERATIONS):
        z = np.abs(y - c @ X.T)
        w = np.where(observed, np.interp(z, BIN_CENTRES, weight), 0.0)
        G = np.reshape(w @ pairs, (-1, r, r)) + tiny
        c = np.linalg.solve(G, ((w * y) @ X)[:, :, None])[:, :, 0]
    # With at most r entries, take the least-squares solution of minimum norm.
    for i in np.flatnonzero(np.count_nonzero(observed, axis=1) <= r):
        c[i] = (
            y[i : i + 1] @ np.linalg.pinv(np.where(observed[i, :, None], X, 0.0)).T
        )[0]
    return c


def median_scale(lines: Array) -> Array:
    """Return the robust scale of each line: the median of |values| over 0.674."""
    medians = _median(np.abs(lines), np.isfinite(lines))
    return np.asarray(medians[:, 0] / MAD)


def _median(values: Array, observed: Array) -> Array:
    """Return the median of the observed values of each row, (k, 1); 0 if none."""
    last = values.shape[1] - 1
    ordered = np.sort(np.where(observed, values, float("inf")), axis=1)
    number = np.count_nonzero(observed, axis=1, keepdims=True)
    low, high = (
        np.take_along_axis(ordered, np.clip(at, 0, last), axis=1)
        for at in ((number - 1) // 2, number // 2)
    )
    return np.where(number > 0, (low + high) / 2, 0.0)

"""Robust coordinates of new rows with noise of known size.

For a row y, components V (r×n) and noise σ, the coordinates c minimise the weighted
squares ``Σ w(zⱼ)·(yⱼ − (cV)ⱼ)²/σⱼ²``, where w is the fitted probability of being clean.
The starting point is a regression with a breakdown point of 50%.
"""

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.noisy.histogram import BIN_CENTRES
from discrepant.robust_pca.noisy.lines import regress_lines

BLOCK_ENTRIES = 1 << 20  # entries processed at a time
ITERATIONS = (
    6  # reweightings: coordinates are then stable to a thousandth of their error
)


def noisy_coordinates(
    rows: Array, components: Array, sigma: Array, weight: Array
) -> Array:
    """Return the coordinates (b, r) of rows (b, n), where NaN marks missing entries.

    The result of a row does not depend on the other rows.
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
        w = np.where(observed, _interpolate(z, BIN_CENTRES, weight), 0.0)
        G = np.reshape(w @ pairs, (-1, r, r)) + tiny
        c = np.linalg.solve(G, ((w * y) @ X)[:, :, None])[:, :, 0]
    # With at most r entries, take the least-squares solution of minimum norm.
    for i in np.flatnonzero(np.count_nonzero(observed, axis=1) <= r):
        c[i] = (
            y[i : i + 1] @ np.linalg.pinv(np.where(observed[i, :, None], X, 0.0)).T
        )[0]
    return c


def _interpolate(z: Array, x: Array, y: Array) -> Array:
    """Interpolate linearly between points (x, y) at z ≥ x[0]; constant beyond them."""
    last = len(x) - 1
    at = np.clip(np.searchsorted(x, z) - 1, 0, last - 1)
    slope = (y[1:] - y[:-1]) / (x[1:] - x[:-1])
    beyond = np.minimum(z, x[last]) - x[at]
    interpolated: Array = y[at] + np.maximum(beyond, 0.0) * slope[at]
    return interpolated

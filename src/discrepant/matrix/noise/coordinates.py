"""Coordinates of new rows that carry noise: weighed by it, and robust to errors.

For a row y, components V (r×n) and noise σ the coordinates c minimise the weighted
squares ``Σ w(zⱼ)·(yⱼ − (cV)ⱼ)²/σⱼ²``, where w is the probability of being clean that
the fit has learned. They start from a regression that half of the row cannot mislead.
"""

import numpy as np

from discrepant.linalg import Array
from discrepant.matrix.noise.bins import MIDDLE
from discrepant.matrix.noise.lines import regress

BLOCK = 1 << 20  # entries worked on at a time
ROUNDS = 6  # of weighing, after which coordinates stand to a thousandth of their error


def noisy_coordinates(
    rows: Array, components: Array, sigma: Array, weight: Array
) -> Array:
    """Return the coordinates (b, r) of rows (b, n), where NaN marks missing entries.

    Each row is treated by itself: its result does not depend on the others.
    """
    r, n = components.shape
    found = np.zeros((len(rows), r))
    if not r:
        return found
    X = (components / sigma).T.astype(np.float64)  # (n, r)
    length = np.linalg.norm(X, axis=0)
    height = max(1, BLOCK // max(n, r * r))
    for start in range(0, len(rows), height):
        block = np.asarray(rows[start : start + height], np.float64) / sigma
        c = regress(block, X)[0] / length
        found[start : start + height] = _weighed(block, X, c, weight)
    return found


def _weighed(Y: Array, X: Array, c: Array, weight: Array) -> Array:
    """Refine coordinates by least squares with the weights that the residuals earn."""
    seen = np.isfinite(Y)
    y = np.where(seen, Y, 0.0)
    r = X.shape[1]
    pairs = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    tiny = 1e-10 * np.trace(X.T @ X) / r * np.eye(r)
    for _ in range(ROUNDS):
        z = np.abs(y - c @ X.T)
        w = np.where(seen, np.interp(z, MIDDLE, weight), 0.0)
        G = (w @ pairs).reshape(len(Y), r, r) + tiny
        c = np.linalg.solve(G, ((w * y) @ X)[:, :, None])[:, :, 0]
    few = seen.sum(axis=1) <= r  # all of them count, and the smallest fit is taken
    for i in np.flatnonzero(few):
        c[i] = np.linalg.lstsq(X[seen[i]], Y[i, seen[i]], rcond=None)[0]
    return c

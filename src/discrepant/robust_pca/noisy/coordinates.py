"""Coordinates of new rows that carry noise: weighed by it, and robust to errors.

For a row y, components V (r×n) and noise σ the coordinates c minimise the weighted
squares ``Σ w(zⱼ)·(yⱼ − (cV)ⱼ)²/σⱼ²``, where w is the probability of being clean that
the fit has learned. They start from a regression that half of the row cannot mislead.
"""

from typing import Any

import numpy as np

from discrepant.core.device_arrays import Place, parts_of, place_of
from discrepant.core.linalg import Array
from discrepant.robust_pca.noisy.histogram import MIDDLE
from discrepant.robust_pca.noisy.lines import regress

BLOCK = 1 << 20  # entries worked on at a time
ROUNDS = 6  # of weighing, after which coordinates stand to a thousandth of their error


def noisy_coordinates(
    rows: Any, components: Array, sigma: Array, weight: Array
) -> Array:
    """Return the coordinates (b, r) of rows (b, n), where NaN marks missing entries.

    Each row is treated by itself: its result does not depend on the others. Rows on a
    device are worked on there, and there are the coordinates.
    """
    place, (number, n), r = place_of(rows), rows.shape, len(components)
    xp, wide = place.xp, place.widest
    scaled = (components / sigma).T.astype(np.float64)  # (n, r)
    length = place.bring(np.linalg.norm(scaled, axis=0), wide)
    X, noise = place.bring(scaled, wide), place.bring(sigma, wide)
    points = place.bring(MIDDLE, wide), place.bring(weight, wide)
    parts = parts_of(number, max(1, BLOCK // max(n, r * r)))
    found = [xp.zeros((0 if r else number, r), dtype=wide, device=place.device)]
    for part in parts if r else []:
        block = xp.astype(rows[part, :], wide) / noise
        c = regress(block, X)[0] / length
        found.append(_weighed(place, block, X, c, points))
    all_rows: Array = xp.concat(found, axis=0)
    return all_rows


def _weighed(place: Place, Y: Any, X: Any, c: Any, points: tuple[Any, Any]) -> Any:
    """Refine coordinates by least squares with the weights that the residuals earn."""
    xp, (n, r) = place.xp, X.shape
    seen = xp.isfinite(Y)
    y = xp.where(seen, Y, 0.0)
    pairs = xp.reshape(xp.expand_dims(X, axis=2) * xp.expand_dims(X, axis=1), (n, -1))
    size = max(1e-10, 10 * float(xp.finfo(Y.dtype).eps)) / r * float(xp.sum(X * X))
    tiny = size * xp.eye(r, dtype=Y.dtype, device=place.device)
    for _ in range(ROUNDS):
        z = xp.abs(y - c @ X.T)
        w = xp.where(seen, place.interpolate(z, *points), 0.0)
        G = xp.reshape(w @ pairs, (-1, r, r)) + tiny
        c = xp.linalg.solve(G, xp.expand_dims((w * y) @ X, axis=2))[:, :, 0]
    # Of few entries all count, and the smallest fit is taken.
    few = xp.sum(xp.astype(seen, xp.int32), axis=1) <= r
    which = np.flatnonzero(place.fetch(few))
    if not len(which):
        return c
    least = [
        y[i : i + 1, :] @ xp.linalg.pinv(xp.where(seen[i : i + 1, :].T, X, 0.0)).T
        for i in which.tolist()
    ]
    return place.put(c, which, xp.concat(least, axis=0))

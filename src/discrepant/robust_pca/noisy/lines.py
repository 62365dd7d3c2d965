"""Single rows and columns that lag behind the fit, fitted anew by themselves.

Weights that fall to zero never bring such a line back, and a clipped pull is slow. So a
line with too many cells outside is regressed on the factor of the other axis.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discrepant.core.device_arrays import Place, place_of
from discrepant.core.linalg import Array
from discrepant.robust_pca.noisy.histogram import MAD

LAG = 0.2  # share of cells outside, beyond the usual one, at which a line lags
TRIES = 2  # after which a line is left as it is
LIFE = 12  # passes for which the scale of a line may stay widened
BISQUARE = 4.7  # where Tukey's weight ends: 95% efficient on normal noise


def regress(lines: Any, X: Any, first: int = 12, then: int = 4) -> tuple[Any, Any]:
    """Regress each line (k×n, NaN is missing) on X (n×r), whatever a half of it holds.

    Nearly least absolute deviations first, then Tukey's weights. Returns coordinates in
    the basis of X with columns of length one, and the scale of the residual, (k,). All
    are arrays of one library, and lie where the lines do.
    """
    place, (k, n), r = place_of(lines), lines.shape, X.shape[1]
    xp, info = place.xp, place.xp.finfo(lines.dtype)
    clip, inf = place.clip, float("inf")
    seen = xp.isfinite(lines)
    y = xp.where(seen, lines, 0.0)
    w = xp.astype(seen, lines.dtype)
    number = xp.sum(w, axis=1, keepdims=True)
    X = X / xp.sqrt(xp.sum(X * X, axis=0))
    pairs = xp.reshape(xp.expand_dims(X, axis=2) * xp.expand_dims(X, axis=1), (n, -1))
    ridge = xp.eye(r, dtype=lines.dtype, device=place.device)
    ridge = max(1e-9, 10 * float(info.eps)) * ridge
    bound = 2.5 * _median(place, xp.abs(y), seen)
    target = clip(y, -bound, bound)
    tiny = max(1e-300, float(info.smallest_normal))
    freedom = xp.sqrt(number / clip(number - r, 1.0, inf))
    c, scale = xp.zeros((k, r), dtype=lines.dtype, device=place.device), bound
    for i in range(first + then + 1):
        G = xp.reshape(w @ pairs, (k, r, r)) + ridge
        c = xp.linalg.solve(G, xp.expand_dims((w * target) @ X, axis=2))[:, :, 0]
        target = y
        e = xp.abs(y - c @ X.T)
        scale = _median(place, e, seen) / MAD * freedom
        with np.errstate(over="ignore"):  # where all others fit exactly, z is infinite
            z = e / clip(scale, tiny, inf)
            if i < first:
                w = 1 / clip(z, 0.1, inf)
            else:
                w = clip(1 - (z / BISQUARE) ** 2, 0.0, inf) ** 2
        w = xp.where(seen, w, 0.0)
    return c, xp.where(number > 2 * r, scale, inf)[:, 0]


def median_size(lines: Array) -> Array:
    """Return the scale of each line, from the median of |values|; NaN is missing."""
    found = _median(place_of(lines), np.abs(lines), np.isfinite(lines))
    return np.asarray(found[:, 0] / MAD)


def _median(place: Place, values: Any, seen: Any) -> Any:
    """Return the median of the seen values of each row, (k, 1); zero if none is."""
    xp, last = place.xp, values.shape[1] - 1
    ordered = xp.sort(xp.where(seen, values, float("inf")), axis=1)
    number = xp.sum(xp.astype(seen, xp.int32), axis=1, keepdims=True)
    low, high = (
        xp.take_along_axis(ordered, place.clip(at, 0, last), axis=1)
        for at in ((number - 1) // 2, number // 2)
    )
    return xp.where(number > 0, (low + high) / 2, 0.0)


@dataclass
class Lines:
    """What is known of all rows, or of all columns."""

    observed: Array  # cells of each
    tried: Array = field(init=False)  # how often it was fitted anew in vain
    wide: Array = field(init=False)  # scale of its residual, in units of the noise
    life: Array = field(init=False)  # passes for which that may last

    def __post_init__(self) -> None:
        k = len(self.observed)
        self.tried, self.life = np.zeros(k, int), np.zeros(k, int)
        self.wide = np.ones(k)

    def lagging(self, outside: Array) -> Array:
        """Return the lines that lag, worst first: at most a tenth of all."""
        seen = np.maximum(self.observed, 1)
        share, common = outside / seen, outside.sum() / seen.sum()
        chance = 4 * np.sqrt(common * (1 - common) / seen)
        far = share > common + np.maximum(LAG * (1 - common), chance)
        new = (self.tried < TRIES) & (outside > 3) & (self.wide == 1)
        found = np.flatnonzero(far & new)
        return found[np.argsort(-share[found])][: max(4, len(share) // 10)]

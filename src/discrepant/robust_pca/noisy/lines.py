"""Single rows and columns that lag behind the fit, fitted anew by themselves.

Weights that fall to zero never bring such a line back, and a clipped pull is slow. So a
line with too many cells outside is regressed on the factor of the other axis.
"""

from dataclasses import dataclass, field

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.noisy.histogram import MAD

LAG = 0.2  # share of cells outside, beyond the usual one, at which a line lags
TRIES = 2  # after which a line is left as it is
LIFE = 12  # passes for which the scale of a line may stay widened
BISQUARE = 4.7  # where Tukey's weight ends: 95% efficient on normal noise


def regress(
    lines: Array, X: Array, first: int = 12, then: int = 4
) -> tuple[Array, Array]:
    """Regress each line (k×n, NaN is missing) on X (n×r), whatever a half of it holds.

    Nearly least absolute deviations first, then Tukey's weights. Returns coordinates in
    the basis of X with columns of length one, and the scale of the residual, (k,).
    """
    (k, n), r, info = lines.shape, X.shape[1], np.finfo(lines.dtype)
    seen = np.isfinite(lines)
    y = np.where(seen, lines, 0.0)
    w = seen.astype(lines.dtype)
    number = np.sum(w, axis=1, keepdims=True)
    X = X / np.sqrt(np.sum(X * X, axis=0))
    pairs = np.reshape(X[:, :, None] * X[:, None, :], (n, -1))
    ridge = max(1e-9, 10 * float(info.eps)) * np.eye(r, dtype=lines.dtype)
    bound = 2.5 * _median(np.abs(y), seen)
    target = np.clip(y, -bound, bound)
    tiny = max(1e-300, float(info.smallest_normal))
    freedom = np.sqrt(number / np.clip(number - r, 1.0, np.inf))
    c, scale = np.zeros((k, r), lines.dtype), bound
    for i in range(first + then + 1):
        G = np.reshape(w @ pairs, (k, r, r)) + ridge
        c = np.linalg.solve(G, ((w * target) @ X)[:, :, None])[:, :, 0]
        target = y
        e = np.abs(y - c @ X.T)
        scale = _median(e, seen) / MAD * freedom
        with np.errstate(over="ignore"):  # where all others fit exactly, z is infinite
            z = e / np.clip(scale, tiny, np.inf)
            if i < first:
                w = 1 / np.clip(z, 0.1, np.inf)
            else:
                w = np.clip(1 - (z / BISQUARE) ** 2, 0.0, np.inf) ** 2
        w = np.where(seen, w, 0.0)
    return c, np.where(number > 2 * r, scale, np.inf)[:, 0]


def median_size(lines: Array) -> Array:
    """Return the scale of each line, from the median of |values|; NaN is missing."""
    found = _median(np.abs(lines), np.isfinite(lines))
    return np.asarray(found[:, 0] / MAD)


def _median(values: Array, seen: Array) -> Array:
    """Return the median of the seen values of each row, (k, 1); zero if none is."""
    last = values.shape[1] - 1
    ordered = np.sort(np.where(seen, values, float("inf")), axis=1)
    number = np.count_nonzero(seen, axis=1, keepdims=True)
    low, high = (
        np.take_along_axis(ordered, np.clip(at, 0, last), axis=1)
        for at in ((number - 1) // 2, number // 2)
    )
    return np.where(number > 0, (low + high) / 2, 0.0)


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

"""Single rows and columns that lag behind the fit, fitted anew by themselves.

Weights that fall to zero never bring such a line back, and a clipped pull is slow. So a
line with too many cells outside is regressed on the factor of the other axis.
"""

from dataclasses import dataclass, field

import numpy as np

from discrepant.linalg import Array
from discrepant.matrix.noise.bins import MAD

LAG = 0.2  # share of cells outside, beyond the usual one, at which a line lags
TRIES = 2  # after which a line is left as it is
LIFE = 12  # passes for which the scale of a line may stay widened
BISQUARE = 4.7  # where Tukey's weight ends: 95% efficient on normal noise


def regress(
    lines: Array, X: Array, first: int = 12, then: int = 4
) -> tuple[Array, Array]:
    """Regress each line (k×n, NaN is missing) on X (n×r), whatever a half of it holds.

    Nearly least absolute deviations first, then Tukey's weights. Returns coordinates in
    the basis of X with columns of length one, and the scale of the residual.
    """
    k, r = len(lines), X.shape[1]
    seen = np.isfinite(lines)
    y = np.where(seen, lines, 0.0)
    number = seen.sum(axis=1)
    X = X / np.linalg.norm(X, axis=0)
    pairs = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    c, w = np.zeros((k, r)), seen.astype(np.float64)
    bound = 2.5 * _median(np.abs(lines), seen)[:, None]
    target = np.clip(y, -bound, bound)
    scale = np.full(k, np.inf)
    for i in range(first + then + 1):
        G = (w @ pairs).reshape(k, r, r) + 1e-9 * np.eye(r)
        c = np.linalg.solve(G, ((w * target) @ X)[:, :, None])[:, :, 0]
        target = y
        e = np.abs(y - c @ X.T)
        scale = _median(e, seen) / MAD * np.sqrt(number / np.maximum(number - r, 1))
        z = e / np.maximum(scale, 1e-300)[:, None]
        absolute = 1 / np.maximum(z, 0.1)
        tukey = np.maximum(1 - (z / BISQUARE) ** 2, 0) ** 2
        w = np.where(seen, absolute if i < first else tukey, 0.0)
    return c, np.where(number > 2 * r, scale, np.inf)


def median_size(lines: Array) -> Array:
    """Return the scale of each line, from the median of |values|; NaN is missing."""
    return _median(np.abs(lines), np.isfinite(lines)) / MAD


def _median(values: Array, seen: Array) -> Array:
    """Return the median of the seen values of each row; zero if there is none."""
    ordered = np.sort(np.where(seen, values, np.inf), axis=1)
    number = seen.sum(axis=1)
    line = np.arange(len(values))
    low = ordered[line, np.maximum(number - 1, 0) // 2]
    high = ordered[line, np.minimum(number // 2, values.shape[1] - 1)]
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

"""Refit single rows and columns ("lines") that lag behind the low-rank fit.

Redescending weights never recover such a line, and Huber weights are slow. A line with
too many outliers is therefore regressed on the factor of the other axis.
"""

from dataclasses import dataclass, field

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.noisy.histogram import MAD

LAGGING_FRACTION = (
    0.2  # fraction of outliers, beyond the common one, at which a line lags
)
MAX_REFITS = 2  # failed refits after which a line is left as it is
WIDE_PASSES = 12  # passes for which the scale of a line may stay enlarged
BISQUARE = 4.7  # cutoff of Tukey's weights: 95% efficiency for normal noise


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
        with np.errstate(
            over="ignore"
        ):  # z is infinite if all other entries fit exactly
            z = e / np.clip(scale, tiny, np.inf)
            if i < first:
                w = 1 / np.clip(z, 0.1, np.inf)
            else:
                w = np.clip(1 - (z / BISQUARE) ** 2, 0.0, np.inf) ** 2
        w = np.where(observed, w, 0.0)
    return c, np.where(number > 2 * r, scale, np.inf)[:, 0]


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


@dataclass
class LineState:
    """State of all rows, or of all columns, during the fit."""

    observed: Array  # observed entries of each
    failed_refits: Array = field(init=False)  # number of failed refits
    scale_ratio: Array = field(init=False)  # scale of the residual over the noise
    passes_left: Array = field(init=False)  # passes for which that may exceed 1

    def __post_init__(self) -> None:
        k = len(self.observed)
        self.failed_refits, self.passes_left = np.zeros(k, int), np.zeros(k, int)
        self.scale_ratio = np.ones(k)

    def lagging(self, n_outliers: Array) -> Array:
        """Return the lines that lag, worst first; at most a tenth of all."""
        observed = np.maximum(self.observed, 1)
        fraction = n_outliers / observed
        common = n_outliers.sum() / observed.sum()
        chance = 4 * np.sqrt(common * (1 - common) / observed)
        far = fraction > common + np.maximum(LAGGING_FRACTION * (1 - common), chance)
        may_refit = (self.failed_refits < MAX_REFITS) & (self.scale_ratio == 1)
        lagging = np.flatnonzero(far & may_refit & (n_outliers > 3))
        worst_first = lagging[np.argsort(-fraction[lagging])]
        return worst_first[: max(4, len(fraction) // 10)]

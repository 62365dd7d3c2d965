"""Histograms of |residual|/σ: 256 bins of u = z/(8 + z), which cover the half-line.

Near zero a bin is 1/32 of the noise wide, so the scale of the noise can be read off
even if it is thirty times smaller than assumed.
"""

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.rows.robust_kernels import BINS, LINE_BIN_WIDTH, Z_AT_HALF

_fraction = np.arange(BINS) / BINS
EDGES = np.append(Z_AT_HALF * _fraction / (1 - _fraction), np.inf)
BIN_WIDTHS = np.diff(EDGES)
BIN_WIDTHS[-1] = 2 * BIN_WIDTHS[-2]
BIN_CENTRES = EDGES[:-1] + BIN_WIDTHS / 2
_coarse = EDGES[::LINE_BIN_WIDTH]
COARSE_BIN_CENTRES = np.append(
    (_coarse[:-2] + _coarse[1:-1]) / 2, BIN_CENTRES[-LINE_BIN_WIDTH]
)


def to_table(values: Array) -> Array:
    """Return BINS + 1 values at the bin edges, for interpolation."""
    inner = np.interp(np.arange(1, BINS), np.arange(BINS) + 0.5, values)
    return np.concatenate([[values[0]], inner, [values[-1]]])


def quantile(histogram: Array, q: float) -> Array:
    """Return the q-quantile of z for each row of histograms, fine or coarse."""
    counts = np.atleast_2d(histogram).astype(np.float64)
    bins = counts.shape[1]
    target = q * counts.sum(axis=1)
    total = np.cumsum(counts, axis=1)
    b = np.minimum((total < target[:, None]).sum(axis=1), bins - 1)
    line = np.arange(len(counts))
    below = np.where(b > 0, total[line, b - 1], 0.0)
    inside = (target - below) / np.maximum(counts[line, b], 1)
    u = np.minimum((b + np.clip(inside, 0, 1)) / bins, 1 - 0.5 / BINS)
    return np.asarray(Z_AT_HALF * u / (1 - u))


def rescaled_histogram(histogram: Array, factor: float) -> Array:
    """Return the histogram of z/factor."""
    total = np.cumsum(histogram)
    inner = np.interp(EDGES[1:-1] * factor, EDGES[1:-1], total[:-1])
    return np.diff(np.concatenate([[0.0], inner, [total[-1]]]))

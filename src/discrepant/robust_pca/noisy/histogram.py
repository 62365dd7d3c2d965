"""Histograms of deviations: 256 bins of u = z/(8 + z), which hold all of the half-line.

Near zero a bin is 1/32 of the noise wide, so that its scale can be read off even when
it is found to be thirty times smaller than was thought.
"""

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.rows.robust_kernels import BINS, LINE_BIN_WIDTH, Z_AT_HALF

MAD = 0.6744897501960817  # median of |z| for a standard normal z

_share = np.arange(BINS) / BINS
EDGES = np.append(Z_AT_HALF * _share / (1 - _share), np.inf)
WIDTH = np.diff(EDGES)
WIDTH[-1] = 2 * WIDTH[-2]
MIDDLE = EDGES[:-1] + WIDTH / 2
_coarse = EDGES[::LINE_BIN_WIDTH]
COARSE_MIDDLE = np.append((_coarse[:-2] + _coarse[1:-1]) / 2, MIDDLE[-LINE_BIN_WIDTH])


def at_edges(values: Array) -> Array:
    """Turn values of bins into a table to interpolate in: BINS + 1 values."""
    inner = np.interp(np.arange(1, BINS), np.arange(BINS) + 0.5, values)
    return np.concatenate([[values[0]], inner, [values[-1]]])


def quantile(histogram: Array, q: float) -> Array:
    """Return the q-quantile of z of each row of histograms, fine or coarse."""
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


def stretched(histogram: Array, factor: float) -> Array:
    """Return the histogram of z/factor."""
    total = np.cumsum(histogram)
    inner = np.interp(EDGES[1:-1] * factor, EDGES[1:-1], total[:-1])
    return np.diff(np.concatenate([[0.0], inner, [total[-1]]]))

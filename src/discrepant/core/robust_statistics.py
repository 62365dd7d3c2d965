"""Robust scales of rows and columns, and the bound at which to clip gross entries."""

from collections.abc import Callable

import numpy as np

from discrepant.core.arrays import even_sample
from discrepant.core.linalg import Array

MAD = 0.6744897501960817  # median of |z| for a standard normal z
# Clipping bound, in units of the largest row or column scale. A scale is the lower
# quartile of |entries|, 0.32 σ for normal entries: 30 scales are 9.6 σ, which no normal
# entry exceeds.
CLIP_ABOVE_LARGEST = 30.0
# Largest |entry| over the median |entry| up to which nothing is clipped: errors below
# that do not hide the other entries in rounding.
CLIP_ABOVE_MEDIANS = 100.0
# Largest scale of a row or column, in units of the median |entry|, that may raise the
# clipping bound. Beside larger ones all other entries would be lost.
MAX_SCALE_RATIO = 1e3
# Fraction of a clipped entry that the corruption must explain at least. Otherwise the
# entry is not an error, and the bound is raised to it.
MIN_CORRUPT_FRACTION = 0.1


def clipping_bound(Y: Array, largest_entry: float) -> float:
    """Return the size at which to clip the entries of Y; NaN and zeros are ignored."""

    def scales() -> Array:
        if Y.ndim != 2:
            return np.zeros(0)
        return np.append(row_scales(Y), row_scales(Y.T))

    return clipping_bound_from(Y[even_sample(Y.shape)], largest_entry, scales)


def clipping_bound_from(
    entries: Array, largest_entry: float, scales: Callable[[], Array]
) -> float:
    """Return the size at which to clip, given some entries and the scales of the lines.

    The convex optimum depends on the sign of a gross error, not on its size. Clipping
    far above the usual size therefore leaves the optimum unchanged and keeps gross
    errors from hiding the other entries. A row or column that is large as a whole is
    not an error, so that the bound lies above it, up to `MAX_SCALE_RATIO`. The `scales`
    of all rows and columns are computed only if they are needed.
    """
    sizes = np.abs(entries[(entries != 0) & ~np.isnan(entries)])
    median = float(np.median(sizes)) if sizes.size else largest_entry
    if largest_entry <= CLIP_ABOVE_MEDIANS * median:
        return largest_entry
    lines = scales()
    comparable = lines <= MAX_SCALE_RATIO * median
    largest_scale = float(np.max(lines, where=comparable, initial=median))
    return min(largest_entry, CLIP_ABOVE_LARGEST * largest_scale)


def row_scales(Y: Array, entries: int = 256, block: int = 1 << 12) -> Array:
    """Return the lower quartile of the nonzero |entries| of each row.

    About `entries` evenly spaced entries of each row are used. Rows with fewer than
    eight nonzero ones among them get zero.
    """
    rows, columns = Y.shape
    scales = np.zeros(rows)
    step = max(columns // entries, 1)
    for start in range(0, rows, block):
        part = slice(start, start + block)
        sizes = np.abs(Y[part, ::step])
        nonzero = sizes > 0  # False for NaN
        sizes = np.sort(np.where(nonzero, sizes, np.inf), axis=1)
        count = np.count_nonzero(nonzero, axis=1, keepdims=True)
        enough = count >= 8
        quartiles = np.take_along_axis(sizes, np.where(enough, count // 4, 0), axis=1)
        scales[part] = np.where(enough, quartiles, 0.0)[:, 0]
    return scales

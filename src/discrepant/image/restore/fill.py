"""Fill gaps in an image from the valid values around them."""

import numpy as np
from scipy.ndimage import uniform_filter

from discrepant.core.linalg import Array


def fill_gaps(y: Array, valid: Array) -> Array:
    """Replace invalid values by means of the valid values nearby, for gaps of any size.

    Valid values are averaged over 2×2 blocks, the averages over 2×2 blocks again, until
    no gap is left. Gaps are then filled from the coarsest averages to the finest.

    Parameters
    ----------
    y, valid : ndarray of shape (rows, columns, channels)
        The image, and True where its values are valid. Valid values are returned as
        they are.
    """
    rows, columns, _ = y.shape
    if valid.all():
        return y
    if max(rows, columns) < 2 or not valid.any():
        count = np.maximum(valid.sum((0, 1)), 1)
        mean = np.where(valid, y, 0).sum((0, 1)) / count
        return np.where(valid, y, mean).astype(y.dtype)
    pad = ((0, rows % 2), (0, columns % 2), (0, 0))
    total = _block_sums(np.pad(np.where(valid, y, 0), pad))
    count = _block_sums(np.pad(valid.astype(y.dtype), pad))
    coarse = fill_gaps(total / np.maximum(count, 1), count > 0)
    fine = coarse.repeat(2, 0).repeat(2, 1)[:rows, :columns]
    return np.where(valid, y, uniform_filter(fine, (3, 3, 1)))


def _block_sums(x: Array) -> Array:
    """Return the sums over blocks of 2×2 pixels."""
    sums: Array = x[::2, ::2] + x[1::2, ::2] + x[::2, 1::2] + x[1::2, 1::2]
    return sums

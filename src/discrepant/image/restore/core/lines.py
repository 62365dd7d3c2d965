"""Detect rows and columns that are corrupted from end to end.

Value by value such a line resembles texture: its values agree with one another. As a
line it has two properties together: it has no image content (`featureless_lines`), and
the image around it predicts it badly (`unexplained_lines`). Both are measured relative
to a running median over the neighbouring lines.
"""

import numpy as np
from scipy.ndimage import median_filter

from discrepant.core.linalg import Array

# Neighbours that differ by less have the same value: half a step of 256 values.
SAME_VALUE = 0.5 / 256
# Neighbours that differ by less are similar, as in most of a picture: 10 of 255 grey
# levels.
SIMILAR_VALUE = 0.04
# Lines of the running median; less than half of them may be dead.
MEDIAN_WINDOW = 15
# Smallest number of valid values of a line for its mean to be reliable.
MIN_VALUES = 16
# On a constant line this fraction of the similar neighbours has the same value. In dark
# regions many neighbours have the same value too, but as many are only similar.
MIN_SAME_FRACTION = 0.75
# Smallest excess of the fraction with the same value over the neighbouring lines.
MIN_SAME_EXCESS = 0.2
# On a random line the fraction of similar neighbours is below this part of the usual.
MAX_SIMILAR_RATIO = 0.5
# Smallest mean log-likelihood ratio of an unexplained line, in nats per value.
MIN_LOG_RATIO = 0.1
# Smallest excess of this ratio over the neighbouring lines: a coarse texture is badly
# predicted on every line, a dead line is an exception.
MIN_LOG_RATIO_EXCESS = 1.0


def featureless_lines(y: Array, valid: Array, axis: int) -> tuple[Array, Array]:
    """Return which rows (axis 0) or columns (axis 1) have no image content.

    The first mask holds constant lines: neighbours along the line have the same value
    in every channel, and those along the neighbouring lines have not. The second holds
    random lines: neighbours along the line are not similar, and those along the
    neighbouring lines are.
    """
    along = 1 - axis
    both_valid = np.delete(valid, 0, along) & np.delete(valid, -1, along)
    count = np.maximum(both_valid.sum(along, keepdims=True), 1)
    step = np.abs(np.diff(y, axis=along))
    same, similar = (
        ((step < tolerance) & both_valid).sum(along, keepdims=True) / count
        for tolerance in (SAME_VALUE, SIMILAR_VALUE)
    )
    constant = (same > MIN_SAME_FRACTION * similar).all(axis=2, keepdims=True)
    same, similar = same.min(axis=2, keepdims=True), similar.max(axis=2, keepdims=True)
    return (
        constant & (same > _running_median(same) + MIN_SAME_EXCESS),
        similar < MAX_SIMILAR_RATIO * _running_median(similar),
    )


def without_border(lines: Array) -> Array:
    """Leave out lines that are connected to the border: they may be a frame."""
    flat = lines.ravel()
    connected = (
        np.logical_and.accumulate(flat) | np.logical_and.accumulate(flat[::-1])[::-1]
    )
    inner: Array = lines & ~connected.reshape(lines.shape)
    return inner


def unexplained_lines(log_ratio: Array, valid: Array, axis: int) -> Array:
    """Return which rows (axis 0) or columns (axis 1) are more likely if all is corrupt.

    ``log_ratio`` is the log-likelihood ratio of each value being corrupted.
    """
    along = (1 - axis, 2)
    count = valid.sum(along, keepdims=True)
    total = np.where(valid, log_ratio, 0).sum(along, keepdims=True)
    mean = total / np.maximum(count, 1)
    unexplained: Array = (
        (count >= MIN_VALUES)
        & (mean > MIN_LOG_RATIO)
        & (mean > _running_median(mean) + MIN_LOG_RATIO_EXCESS)
    )
    return unexplained


def _running_median(lines: Array) -> Array:
    """Return the median over the lines around each line."""
    window = tuple(MEDIAN_WINDOW if n > 1 else 1 for n in lines.shape)
    median: Array = median_filter(lines, window)
    return median

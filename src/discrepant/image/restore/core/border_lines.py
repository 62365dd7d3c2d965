"""Separate border rows and columns that do not belong to the picture.

Cameras and converters write images whose first or last row or column is black, shifted
or of another colour. The picture does not predict such a line, the line does not help
to predict the picture, and with the picture on one side only it cannot be decided
whether the line is corrupted. It is therefore cut off and restored separately. Only a
line without image content, constant or random, is known to be corrupted; the picture
is continued over it.
"""

from collections.abc import Callable

import numpy as np

from discrepant.core.linalg import Array
from discrepant.image.restore.core.lines import SIMILAR_VALUE, featureless_lines
from discrepant.image.restore.core.mixture import CorruptionMixture

# Largest number of dead lines at one border.
MAX_DEPTH = 3
# Smallest number of rows and columns: the lines of both borders and two between them.
MIN_SIDE = 2 * MAX_DEPTH + 2
# Smallest number of valid values of a line for its agreement with the next to count.
MIN_VALUES = 48
# Lines, from the border on, whose agreement with the next line is compared.
N_COMPARED = 5
# Smallest number of values, a quarter of `MIN_VALUES`, that usually agree between two
# lines. With fewer, a line that does not agree is no surprise.
MIN_AGREEING = MIN_VALUES / 4
# A line disagrees with the next if the fraction that agrees is below this part of the
# usual fraction.
MAX_AGREEMENT_RATIO = 0.5
# Views of an image in which the lines of one border come first: top, bottom, left and
# right.
SIDES: tuple[Callable[[Array], Array], ...] = (
    lambda a: a,
    lambda a: a[::-1],
    lambda a: a.swapaxes(0, 1),
    lambda a: a.swapaxes(0, 1)[::-1],
)


def split_border_lines(y: Array, valid: Array) -> tuple[slice, slice, Array]:
    """Cut off the border lines that do not belong to the picture.

    A border line is cut off if it agrees with the next line in less than half as many
    values as the following lines agree with each other. Values that are frequent
    everywhere do not count.

    Parameters
    ----------
    y, valid : ndarray of shape (rows, columns, channels)
        The image on [0, 1], and True where its values are valid.

    Returns
    -------
    rows, columns : slice
        Position of the picture.
    valid : ndarray of bool
        The given mask without the border lines that have no image content.
    """
    if min(y.shape[:2]) < MIN_SIDE:
        return slice(None), slice(None), valid
    # Values that are frequent at the borders only must not count as frequent.
    mixture = CorruptionMixture(y, valid, counted=valid & _interior(y.shape))
    weight = np.minimum(mixture.clean_odds(), 1)
    valid = valid.copy()
    down, across = (
        np.logical_or(*featureless_lines(y, valid, axis)).ravel() for axis in (0, 1)
    )
    featureless = [down, down[::-1], across, across[::-1]]
    # One featureless border is a fault, two or more are a frame.
    is_frame = sum(lines[0] for lines in featureless) > 1
    cuts = []
    for side, lines in zip(SIDES, featureless, strict=True):
        views = side(y), side(weight), side(valid)
        n_dead = 0 if is_frame else _count_dead_border_lines(lines, *views)
        side(valid)[:n_dead] = False
        cuts.append(int(not n_dead and _disagrees_with_next(*views)))
    top, bottom, left, right = cuts
    rows, columns, _ = y.shape
    return slice(top, rows - bottom), slice(left, columns - right), valid


def _interior(shape: tuple[int, ...]) -> Array:
    """Return a mask without the lines that may be dead border lines."""
    interior = np.zeros(shape, bool)
    interior[MAX_DEPTH:-MAX_DEPTH, MAX_DEPTH:-MAX_DEPTH] = True
    return interior


def _disagrees_with_next(y: Array, weight: Array, valid: Array, first: int = 0) -> bool:
    """Return whether lines first and first + 1 belong to different pictures."""
    if valid[first].sum() < MIN_VALUES:
        return False
    compared = slice(first, first + N_COMPARED)
    similar = np.abs(np.diff(y[compared], axis=0)) < SIMILAR_VALUE
    pair_weight = weight[compared][1:] * weight[compared][:-1]
    count = (valid[compared][1:] & valid[compared][:-1]).sum((1, 2))
    agreement = (similar * pair_weight).sum((1, 2)) / np.maximum(count, 1)
    usual = np.median(agreement[1:])
    reliable = usual * y[0].size > MIN_AGREEING
    return bool(reliable and agreement[0] < MAX_AGREEMENT_RATIO * usual)


def _count_dead_border_lines(
    featureless: Array, y: Array, weight: Array, valid: Array
) -> int:
    """Return the number of dead lines at a border.

    ``featureless`` marks the lines without image content. They are dead if the last of
    them disagrees with the line that follows; otherwise they may be part of the
    picture, and none counts as dead.
    """
    for depth in range(1, MAX_DEPTH + 1):
        if not featureless[depth - 1]:
            return 0
        if _disagrees_with_next(y, weight, valid, depth - 1):
            return depth
    return 0

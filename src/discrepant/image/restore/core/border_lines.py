"""Border lines that are no part of the picture.

Cameras and converters leave images whose first or last row or column is black, shifted,
or of another colour. Such a line is neither predicted by the picture nor of any use in
predicting it, and with the picture on one side of it only, nothing tells whether it is
wrong: it is taken off and restored by itself. Only a line that shows nothing, of one
value or of random ones, is known to be wrong, and the picture is continued over it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array
from discrepant.image.restore.core.lines import TUNING as LINES
from discrepant.image.restore.core.lines import featureless_lines
from discrepant.image.restore.core.mixture import CorruptionMixture


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/restore.py --tuning` tries again.

    Attributes
    ----------
    smallest : int
        Rows and columns that an image needs for its borders to be looked at: those of
        both sides (``deepest`` each) and two lines between them.
    deepest : int
        Dead lines at one edge, at most.
    fewest : int
        Known values of a line for its agreement with the next to mean something.
    compared : int
        Lines from the edge on whose agreement with one another is compared.
    least_agreeing : float
        Values, a quarter of ``fewest``, that usually agree between two lines; with
        less, a line that does not agree is no surprise.
    odd_share : float
        A line is odd if fewer than this share of what is usual agree with the next.
    """

    smallest: int = 8
    deepest: int = 3
    fewest: int = 48
    compared: int = 5
    least_agreeing: float = 12.0
    odd_share: float = 0.5


TUNING = Tuning()


def split_border_lines(y: Array, known: Array) -> tuple[slice, slice, Array]:
    """Take off the border lines that are no part of the picture.

    A line is odd if it agrees with the next in less than half as many values as the
    lines after it agree with one another, values that turn up everywhere not counted.

    Returns
    -------
    rows, columns : slice
        Where the picture is.
    known : ndarray of bool
        What may be looked at: border lines that show nothing are left out.
    """
    if min(y.shape[:2]) < TUNING.smallest:
        return slice(None), slice(None), known
    # What turns up at the borders only is not taken for common.
    judge = CorruptionMixture(y, known, counted=known & _inside(y.shape))
    weight = np.minimum(judge.clean_odds(), 1)
    known = known.copy()
    down, across = (
        np.logical_or(*featureless_lines(y, known, axis)).ravel() for axis in (0, 1)
    )
    blank = [down, down[::-1], across, across[::-1]]
    frame = sum(lines[0] for lines in blank) > 1  # one is a fault, more are a frame
    cuts = []
    for side, lines in zip(SIDES, blank, strict=True):
        seen = side(y), side(weight), side(known)
        faulty = 0 if frame else _count_dead_border_lines(lines, *seen)
        side(known)[:faulty] = False
        cuts.append(int(not faulty and _disagrees_with_next(*seen)))
    top, bottom, left, right = cuts
    rows, columns, _ = y.shape
    return slice(top, rows - bottom), slice(left, columns - right), known


# Views of an image in which the lines of one border come first: its top, bottom, left
# and right.
SIDES: tuple[Callable[[Array], Array], ...] = (
    lambda a: a,
    lambda a: a[::-1],
    lambda a: a.swapaxes(0, 1),
    lambda a: a.swapaxes(0, 1)[::-1],
)


def _inside(shape: tuple[int, ...]) -> Array:
    """Return a mask that leaves out the borders."""
    inside = np.zeros(shape, bool)
    deep = TUNING.deepest
    inside[deep:-deep, deep:-deep] = True
    return inside


def _disagrees_with_next(y: Array, weight: Array, known: Array, first: int = 0) -> bool:
    """Return whether lines first and first + 1 belong to different pictures."""
    if known[first].sum() < TUNING.fewest:
        return False
    some = slice(first, first + TUNING.compared)
    near = np.abs(np.diff(y[some], axis=0)) < LINES.near
    pair = weight[some][1:] * weight[some][:-1]
    both = (known[some][1:] & known[some][:-1]).sum((1, 2))
    agree = (near * pair).sum((1, 2)) / np.maximum(both, 1)
    usual = np.median(agree[1:])
    enough = usual * y[0].size > TUNING.least_agreeing
    return bool(enough and agree[0] < TUNING.odd_share * usual)


def _count_dead_border_lines(
    blank: Array, y: Array, weight: Array, known: Array
) -> int:
    """Return how many lines from the border on show nothing, up to an odd one.

    ``blank`` says which lines show nothing. If the last of them agrees with what
    follows, it may be a part of the picture, and none is faulty.
    """
    for depth in range(1, TUNING.deepest + 1):
        if not blank[depth - 1]:
            return 0
        if _disagrees_with_next(y, weight, known, depth - 1):
            return depth
    return 0

"""Border lines that are no part of the picture.

Cameras and converters leave images whose first or last row or column is black, shifted,
or of another colour. Such a line is neither predicted by the picture nor of any use in
predicting it, and from one side nobody can tell whether it is wrong: it is taken off
and looked at by itself. Only a line that shows nothing, of one value or of random ones,
is known to be wrong, and the picture is continued over it.
"""

from collections.abc import Callable

import numpy as np

from discrepant.image.restore.detect import NEAR, Judge, blank_lines
from discrepant.linalg import Array

FEWEST = 48  # values of a line, for its agreement to mean something
SMALLEST = 8  # rows or columns of a picture
DEEPEST = 3  # dead lines at one edge


def separate(y: Array, known: Array) -> tuple[slice, slice, Array]:
    """Return the rows and columns of the picture, and what of them may be looked at.

    A line is odd if it agrees with the next in less than half as many values as the
    lines after it agree with one another, values that turn up everywhere not counted.
    """
    if min(y.shape[:2]) < SMALLEST:
        return slice(None), slice(None), known
    judge = Judge(y, known & _inside(y.shape))
    judge.known = known
    weight = np.minimum(judge.odds(), 1)
    known = known.copy()
    down, across = (
        np.logical_or(*blank_lines(y, known, axis)).ravel() for axis in (0, 1)
    )
    blank = [down, down[::-1], across, across[::-1]]
    frame = sum(lines[0] for lines in blank) > 1  # one is a fault, more are a frame
    cuts = []
    for side, lines in zip(SIDES, blank, strict=True):
        seen = side(y), side(weight), side(known)
        faulty = 0 if frame else _faulty(lines, *seen)
        side(known)[:faulty] = False
        cuts.append(int(not faulty and _odd(*seen)))
    top, bottom, left, right = cuts
    rows, columns, _ = y.shape
    return slice(top, rows - bottom), slice(left, columns - right), known


SIDES: tuple[Callable[[Array], Array], ...] = (  # the border line comes first
    lambda a: a,
    lambda a: a[::-1],
    lambda a: a.swapaxes(0, 1),
    lambda a: a.swapaxes(0, 1)[::-1],
)


def _inside(shape: tuple[int, ...]) -> Array:
    """Return a mask that leaves out the borders: what turns up there is not common."""
    inside = np.zeros(shape, bool)
    inside[DEEPEST:-DEEPEST, DEEPEST:-DEEPEST] = True
    return inside


def _odd(y: Array, weight: Array, known: Array, first: int = 0) -> bool:
    """Return whether lines first and first + 1 belong to different pictures."""
    if known[first].sum() < FEWEST:
        return False
    some = slice(first, first + 5)
    near = np.abs(np.diff(y[some], axis=0)) < NEAR
    pair = weight[some][1:] * weight[some][:-1]
    both = (known[some][1:] & known[some][:-1]).sum((1, 2))
    agree = (near * pair).sum((1, 2)) / np.maximum(both, 1)
    usual = np.median(agree[1:])
    return bool(usual * y[0].size > FEWEST / 4 and agree[0] < usual / 2)


def _faulty(blank: Array, y: Array, weight: Array, known: Array) -> int:
    """Return how many lines, odd against what follows, show nothing."""
    for depth in range(1, DEEPEST + 1):
        if not blank[depth - 1]:
            return 0
        if _odd(y, weight, known, depth - 1):
            return depth
    return 0

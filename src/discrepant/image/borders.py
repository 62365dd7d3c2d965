"""Border lines that are no part of the picture.

Cameras and converters leave images whose first or last row or column is black, shifted,
or of another colour. Such a line is neither predicted by the picture nor of any use in
predicting it, and from one side nobody can tell whether it is wrong: it is taken off
and looked at by itself.
"""

import numpy as np

from discrepant.image.detect import Judge
from discrepant.linalg import Array

NEAR = 0.04
FEWEST = 48  # values of a line, for its agreement to mean something


def odd_lines(y: Array, known: Array) -> tuple[slice, slice]:
    """Return the rows and columns without border lines unlike their neighbours.

    A line is odd if it agrees with the next in less than half as many values as the
    lines after it agree with one another, values that turn up everywhere not counted.
    """
    weight = np.minimum(Judge(y, known).odds(), 1)
    return _inside(y, weight), _inside(y.swapaxes(0, 1), weight.swapaxes(0, 1))


def _inside(y: Array, weight: Array) -> slice:
    """Return the rows that are left."""
    if len(y) < 8 or y[0].size < FEWEST:
        return slice(None)
    first, last = (
        _odd(y[ends], weight[ends]) for ends in (slice(0, 5), slice(-1, -6, -1))
    )
    return slice(int(first), len(y) - int(last))


def _odd(y: Array, weight: Array) -> bool:
    near = np.abs(np.diff(y, axis=0)) < NEAR
    agree = (near * weight[1:] * weight[:-1]).sum((1, 2))
    usual = np.median(agree[1:])
    return bool(usual > FEWEST / 4 and agree[0] < usual / 2)

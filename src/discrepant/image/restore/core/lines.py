"""Rows and columns that are wrong from end to end.

Value by value such a line resembles texture: its values agree with one another. As a
line it is recognised by two properties together: it has no image content
(`featureless_lines`), and the image predicts it badly (`unexplained_lines`).

A line is compared with those around it: what is usual there is a median over lines.
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import median_filter

from discrepant.core.linalg import Array


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/restore.py --tuning` tries again.

    Attributes
    ----------
    same : float
        Neighbours closer than this have the same value: half a step of 256 values.
    near : float
        Neighbours closer than this are as in most of a picture (10 of 255 grey levels).
    around : int
        A line is compared with so many; less than half of them may be dead.
    fewest : int
        Known values that a line needs for its mean to say something.
    constant_share : float
        On a line of one value this share of the near neighbours are the same. In dark
        parts of a picture many are the same too, but as many are only near.
    constant_excess : float
        So much more of its neighbours are the same than on the lines around it.
    random_share : float
        On a line of random values fewer than this share of what is usual are near.
    unexplained : float
        How badly the picture predicts a line, in nats a value: the least to be noted.
    unexplained_excess : float
        How much worse than the lines around it. A coarse texture is badly predicted
        everywhere; a dead line is alone in it.
    """

    same: float = 0.5 / 256
    near: float = 0.04
    around: int = 15
    fewest: int = 16
    constant_share: float = 0.75
    constant_excess: float = 0.2
    random_share: float = 0.5
    unexplained: float = 0.1
    unexplained_excess: float = 1.0


TUNING = Tuning()


def featureless_lines(y: Array, known: Array, axis: int) -> tuple[Array, Array]:
    """Return which rows (axis 0) or columns (axis 1) show nothing, in two masks.

    In the first are lines of one value: neighbours along the line are the same in every
    channel, and those on the lines around are not. In the second are lines of random
    values: neighbours have nothing to do with one another, and those around do.
    """
    along = 1 - axis
    both = np.delete(known, 0, along) & np.delete(known, -1, along)
    count = np.maximum(both.sum(along, keepdims=True), 1)
    step = np.abs(np.diff(y, axis=along))
    same, near = (
        ((step < reach) & both).sum(along, keepdims=True) / count
        for reach in (TUNING.same, TUNING.near)
    )
    constant = (same > TUNING.constant_share * near).all(axis=2, keepdims=True)
    same, near = same.min(axis=2, keepdims=True), near.max(axis=2, keepdims=True)
    return (
        constant & (same > _usual(same) + TUNING.constant_excess),
        near < TUNING.random_share * _usual(near),
    )


def without_border(lines: Array) -> Array:
    """Leave out lines that reach the border without a gap: they may be a frame."""
    flat = lines.ravel()
    reach = (
        np.logical_and.accumulate(flat) | np.logical_and.accumulate(flat[::-1])[::-1]
    )
    inner: Array = lines & ~reach.reshape(lines.shape)
    return inner


def unexplained_lines(better: Array, known: Array, axis: int) -> Array:
    """Return which rows (axis 0) or columns are better explained as wrong throughout.

    ``better`` is the logarithm of how much likelier each value is if it is wrong.
    """
    along = (1 - axis, 2)
    count = known.sum(along, keepdims=True)
    mean = np.where(known, better, 0).sum(along, keepdims=True) / np.maximum(count, 1)
    found: Array = (
        (count >= TUNING.fewest)
        & (mean > TUNING.unexplained)
        & (mean > _usual(mean) + TUNING.unexplained_excess)
    )
    return found


def _usual(lines: Array) -> Array:
    """Return the median over the lines around each."""
    window = tuple(TUNING.around if n > 1 else 1 for n in lines.shape)
    usual: Array = median_filter(lines, window)
    return usual

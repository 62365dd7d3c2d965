"""Flat ground: nothing predicts a value there better than a mean over many."""

from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array
from discrepant.image.restore.core.residual_scale import blur


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/marks.py --only jpeg` measures it.

    Attributes
    ----------
    means : tuple of float
        Windows of the means that are tried, in pixels.
    judged : float
        The window over which guesses are compared by their errors: wide, since noise
        is in all of them.
    favour : float
        A mean is preferred if its squared errors are at most so many times those of
        the patches: these predict some of the ringing too, which is no merit.
    least_doubt : float
        Variance of a mean, at least, as a share of that of a value.
    """

    means: tuple[float, ...] = (2.0, 4.0)
    judged: float = 8.0
    favour: float = 1.4
    least_doubt: float = 0.02


TUNING = Tuning()


def simplest(
    y: Array, precision: Array, guess: Array, doubt: Array, finest: float
) -> tuple[Array, Array]:
    """Return the guess, or a mean of what is around where that predicts better.

    All are judged alike: by their errors at values that they were not told.
    """
    weight = np.minimum(precision * np.float32(finest), 1)
    whole = np.maximum(blur(weight, TUNING.judged), 1e-6)
    least = blur(weight * (y - guess) ** 2, TUNING.judged) / whole
    for window in TUNING.means:
        centre = blur(_point(), window).max()  # a value is not told itself
        total = np.maximum(blur(weight, window) - centre * weight, 1e-6)
        mean = (blur(weight * y, window) - centre * weight * y) / total
        strayed = blur(weight * (y - mean) ** 2, TUNING.judged) / whole
        better = strayed < np.float32(TUNING.favour) * least
        least = np.where(better, strayed / np.float32(TUNING.favour), least)
        guess = np.where(better, mean, guess)
        left = np.maximum(strayed - finest, TUNING.least_doubt * finest)
        doubt = np.where(better, left, doubt)
    return guess, doubt.astype(np.float32)


def _point() -> Array:
    """Return an image of one value, in the middle of zeros."""
    side = 8 * int(max(TUNING.means))
    point = np.zeros((2 * side + 1, 2 * side + 1, 1), np.float32)
    point[side, side] = 1
    return point

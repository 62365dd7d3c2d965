"""What hangs together is no impulse.

Corruption that falls on each value by itself leaves about as many wrong values in one
window as in another: how many at most, the binomial distribution tells. Where there are
more, they are a part of the picture that is unlike the rest, as a letter that occurs
only once.
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter, uniform_filter
from scipy.stats import binom

from discrepant.linalg import Array


@dataclass(frozen=True)
class Tuning:
    """What was chosen; `python benchmarks/graphics.py` shows what it does.

    Attributes
    ----------
    windows : tuple of int
        Rows and columns of the windows: a few strokes, a letter, a word.
    chance : float
        Of taking impulses for a part of the picture anywhere in an image.
    """

    windows: tuple[int, ...] = (3, 5, 9)
    chance: float = 0.05


TUNING = Tuning()


def crowded(wrong: Array, share: float) -> Array:
    """Return which wrong values stand closer together than chance would have them.

    A value whose neighbours are all right is an impulse even there.

    Parameters
    ----------
    wrong : ndarray of bool, of shape (rows, columns, channels)
        The values that seem to be corrupted.
    share : float
        The share of corruption.
    """
    out = np.zeros(wrong.shape, bool)
    if not wrong.any():
        return out
    chance = TUNING.chance / (wrong.size * len(TUNING.windows))
    for side in TUNING.windows:
        size = (side, side, 1)
        count = uniform_filter(wrong.astype(np.float32), size, mode="constant")
        most = binom.isf(chance, side**2, share)
        out |= maximum_filter(count * side**2 > most + 0.5, size, mode="constant")
    together = 9 * uniform_filter(wrong.astype(np.float32), (3, 3, 1)) > 1.5
    spared: Array = out & wrong & together
    return spared

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

from discrepant.core.linalg import Array


@dataclass(frozen=True)
class Tuning:
    """What was chosen; `python benchmarks/graphics.py` shows what it does.

    Attributes
    ----------
    windows : tuple of int
        Rows and columns of the windows: a few strokes, a letter, a word.
    around : int
        Rows and columns of the window in which novelty is told.
    luck : float
        Standard deviations that wrong values may exceed their share by chance.
    shun : float
        Dots that touch less often than this share of what chance has are regular.
    chance : float
        Of taking impulses for a part of the picture anywhere in an image.
    """

    windows: tuple[int, ...] = (3, 5, 9)
    around: int = 7
    luck: float = 2.0
    shun: float = 0.5
    chance: float = 0.05


TUNING = Tuning()


def local_surprise_rate(wrong: Array, share: float) -> Array:
    """Return how often, around each value, the picture itself is a surprise.

    It is what wrong values around exceed the share of corruption by, beyond what chance
    may; nothing where a wrong value stands alone.
    """
    side = TUNING.around
    others = side**2 - 1
    seen = wrong.astype(np.float32)
    count = side**2 * uniform_filter(seen, (side, side, 1)) - seen
    luck = TUNING.luck * (share * (1 - share) / others) ** 0.5
    excess = np.maximum(count / others - share - luck, 0)
    touched = 9 * uniform_filter(seen, (3, 3, 1)) - seen > 0.5
    return np.where(touched, excess, 0)


def regular(wrong: Array) -> bool:
    """Return whether wrong values shun each other, as dots of a dither do.

    Impulses that fall each by itself touch one another as often as chance has it.
    """
    pairs, even = 0.0, 0.0
    for shift in ((1, 0), (0, 1), (1, 1)):
        here = wrong[: -shift[0] or None, : -shift[1] or None]
        there = wrong[shift[0] :, shift[1] :]
        pairs += float((here & there).sum())
        even += here.size * float(here.mean()) ** 2
    return bool(pairs < TUNING.shun * even - 2 * even**0.5)


def denser_than_chance(wrong: Array, share: float) -> Array:
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

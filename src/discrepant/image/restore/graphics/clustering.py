"""Clusters of flagged values that are denser than independent impulses would be.

If corruption hits each value independently, the number of flagged values in a window
follows a binomial distribution. A window with more flagged values contains a part of
the picture that is unlike the rest, such as a letter that occurs only once.
"""

import numpy as np
from scipy.ndimage import maximum_filter, uniform_filter
from scipy.stats import binom

from discrepant.core.linalg import Array

# Rows and columns of the windows in which flagged values are counted: a few strokes, a
# letter, a word.
WINDOW_SIDES = (3, 5, 9)
# Probability, over a whole image of independent impulses, that any of them is taken for
# a part of the picture.
FALSE_CLUSTER_PROBABILITY = 0.05
# Rows and columns of the window in which the local surprise rate is measured.
SURPRISE_WINDOW = 7
# Standard deviations by which flagged values may exceed their fraction by chance before
# the excess counts as a surprise of the picture.
SURPRISE_N_SIGMA = 2.0
# Dots that touch each other less often than this multiple of what chance gives are
# regular.
MAX_REGULAR_RATIO = 0.5


def local_surprise_rate(flagged: Array, fraction: float) -> Array:
    """Return how often the picture itself is surprising around each value.

    This is the excess of flagged values nearby over the corrupted fraction, beyond what
    chance allows; it is zero where no neighbour is flagged.
    """
    side = SURPRISE_WINDOW
    n_others = side**2 - 1
    single = flagged.astype(np.float32)
    count = side**2 * uniform_filter(single, (side, side, 1)) - single
    by_chance = SURPRISE_N_SIGMA * (fraction * (1 - fraction) / n_others) ** 0.5
    excess = np.maximum(count / n_others - fraction - by_chance, 0)
    has_neighbour = 9 * uniform_filter(single, (3, 3, 1)) - single > 0.5
    return np.where(has_neighbour, excess, 0)


def more_regular_than_chance(flagged: Array) -> bool:
    """Return whether flagged values avoid each other, like the dots of a dither.

    Independent impulses touch each other as often as chance gives.
    """
    n_pairs, expected = 0.0, 0.0
    for shift in ((1, 0), (0, 1), (1, 1)):
        here = flagged[: -shift[0] or None, : -shift[1] or None]
        there = flagged[shift[0] :, shift[1] :]
        n_pairs += float((here & there).sum())
        expected += here.size * float(here.mean()) ** 2
    return bool(n_pairs < MAX_REGULAR_RATIO * expected - 2 * expected**0.5)


def denser_than_chance(flagged: Array, fraction: float) -> Array:
    """Return which flagged values lie in clusters denser than chance gives.

    A value without a flagged neighbour counts as an impulse even inside such a window.

    Parameters
    ----------
    flagged : ndarray of bool, of shape (rows, columns, channels)
        Values that seem to be corrupted.
    fraction : float
        Corrupted fraction of the values.
    """
    dense = np.zeros(flagged.shape, bool)
    if not flagged.any():
        return dense
    probability = FALSE_CLUSTER_PROBABILITY / (flagged.size * len(WINDOW_SIDES))
    for side in WINDOW_SIDES:
        size = (side, side, 1)
        mean = uniform_filter(flagged.astype(np.float32), size, mode="constant")
        limit = binom.isf(probability, side**2, fraction)
        dense |= maximum_filter(mean * side**2 > limit + 0.5, size, mode="constant")
    has_neighbour = 9 * uniform_filter(flagged.astype(np.float32), (3, 3, 1)) > 1.5
    clustered: Array = dense & flagged & has_neighbour
    return clustered

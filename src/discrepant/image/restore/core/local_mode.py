"""The first guess at an image: the most likely level around each value.

A level is as likely as the sum of ``log(1 + odds · density)`` over a window says, the
value itself left out. Medians fail once half of the values are wrong; this mode does
not. Of several windows, each value takes the one under which the values around it are
best predicted.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import joblib
import numpy as np
from scipy.ndimage import gaussian_filter

from discrepant.core.linalg import Array
from discrepant.image.restore.core.residual_scale import student_density
from discrepant.image.restore.fill import fill_gaps

# Channels worked on at a time, at most: each needs two arrays of `levels` floats for
# each pixel.
MOST_THREADS = 4


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/restore.py --tuning` tries again.

    Attributes
    ----------
    levels : int
        Candidates between 0 and 1. A parabola through the best and its neighbours
        finds the place between them.
    scale : float
        How far a clean value strays from its level, two thirds of the step between two
        levels: a value votes for the two or three next to it.
    windows : tuple of float
        Standard deviations of the Gaussian windows, in pixels, small for detail, large
        where most values are wrong.
    reach : float
        Where a window ends, in standard deviations.
    choice : float
        Standard deviation of the window over which a choice of window is scored.
    furthest : float
        How far from the best level, in levels, the parabola may place the mode.
    seen : float
        Standard deviation of the window in which there must be known values; where
        less than 5% of its weight are, the guess is taken from further away.
    """

    levels: int = 16
    scale: float = 0.04
    windows: tuple[float, ...] = (1.2, 2.0, 3.0, 4.5)
    reach: float = 2.5
    choice: float = 8.0
    furthest: float = 1.2
    seen: float = 2.5


TUNING = Tuning()


def local_mode(y: Array, known: Array, odds: Array) -> Array:
    """Return the first guess.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The image on [0, 1] and which of its values may be looked at.
    odds : ndarray
        The clean-to-corrupt odds of each value before it is compared with others.
    """
    channels = range(y.shape[2])
    with ThreadPoolExecutor(min(joblib.cpu_count(), MOST_THREADS)) as pool:
        planes = pool.map(lambda c: _mode(y[..., c], odds[..., c]), channels)
        out = np.stack(list(planes), axis=2)
    window = (TUNING.seen, TUNING.seen, 0)
    seen = gaussian_filter(known.astype(np.float32), window, truncate=2) > 0.05
    return out if seen.all() else fill_gaps(out, seen)


def _mode(y: Array, odds: Array) -> Array:
    """Return the mode around each value of one channel."""
    scale, count = np.float32(TUNING.scale), TUNING.levels
    levels = ((np.arange(count) + 0.5) / count).astype(np.float32)
    votes = np.stack(
        [np.log1p(odds * student_density(y - level, scale)) for level in levels]
    )
    best = np.full(y.shape, -np.inf, np.float32)
    out = np.empty_like(y)
    heard = np.empty_like(votes)
    for window in TUNING.windows:
        for vote, sums in zip(votes, heard, strict=True):
            gaussian_filter(vote, window, truncate=TUNING.reach, output=sums)
        heard -= _centre(window) * votes  # nobody votes on himself
        x = _top(heard)
        score = np.log1p(odds * student_density(y - x, scale))
        score = gaussian_filter(score, TUNING.choice, truncate=2)
        better = score > best
        best[better] = score[better]
        out[better] = x[better]
    return out


def _top(heard: Array) -> Array:
    """Return where the votes, (levels, rows, columns), have their top."""
    count, furthest = TUNING.levels, TUNING.furthest
    top = np.clip(heard.argmax(0), 1, count - 2)[None]
    below, here, above = (
        np.take_along_axis(heard, top + step, 0)[0] for step in (-1, 0, 1)
    )
    bend = np.minimum(below - 2 * here + above, -1e-6)
    beside = np.clip((below - above) / (2 * bend), -furthest, furthest)
    x: Array = ((top[0] + 0.5 + beside) / count).astype(np.float32)
    return x


def _centre(window: float) -> np.float32:
    """Return the weight that a Gaussian window gives to its own pixel."""
    reach = int(TUNING.reach * window + 0.5)
    kernel = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * window**2))
    return np.float32((1 / kernel.sum()) ** 2)

"""Initial estimate of an image: the most likely level around each value.

The log-likelihood of a level is the sum of ``log(1 + odds · density)`` over a window
around the value, without the value itself. A median fails if half of the values are
corrupted; this mode does not. Of several window sizes, each value uses the one that
best predicts the values around it.
"""

from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
from scipy.ndimage import gaussian_filter

from discrepant.core.linalg import Array
from discrepant.image.restore.core.residual_scale import student_density
from discrepant.image.restore.fill import fill_gaps

# Largest number of channels in work at a time. Each needs two arrays of `N_LEVELS`
# floats per pixel.
MAX_THREADS = 4
# Candidate levels between 0 and 1. The mode is placed between levels by a parabola.
N_LEVELS = 16
# Scale of the density of clean values, about two thirds of the distance of two levels:
# a value contributes to the two or three levels next to it.
LEVEL_SCALE = 0.04
# Standard deviations of the Gaussian windows in pixels: small for detail, large for
# regions where most values are corrupted.
WINDOWS = (1.2, 2.0, 3.0, 4.5)
# Half-width of these windows, in standard deviations.
WINDOW_TRUNCATE = 2.5
# Standard deviation, in pixels, of the window in which window sizes are compared.
SELECTION_WINDOW = 8.0
# Largest distance of the mode from the best level, in levels.
MAX_PEAK_OFFSET = 1.2
# Standard deviation, in pixels, of the window that must contain valid values. Where
# they have less than `MIN_VALID_WEIGHT` of its weight, the mode is filled from nearby.
VALID_WINDOW = 2.5
MIN_VALID_WEIGHT = 0.05


def local_mode(y: Array, valid: Array, odds: Array) -> Array:
    """Return the most likely level around each value.

    Parameters
    ----------
    y, valid : ndarray of shape (rows, columns, channels)
        The image on [0, 1], and True where its values are valid.
    odds : ndarray
        Prior clean-to-corrupt odds of each value.
    """
    channels = range(y.shape[2])
    with ThreadPoolExecutor(min(joblib.cpu_count(), MAX_THREADS)) as pool:
        planes = pool.map(lambda c: _mode_of_channel(y[..., c], odds[..., c]), channels)
        mode = np.stack(list(planes), axis=2)
    window = (VALID_WINDOW, VALID_WINDOW, 0)
    valid_weight = gaussian_filter(valid.astype(np.float32), window, truncate=2)
    supported = valid_weight > MIN_VALID_WEIGHT
    return mode if supported.all() else fill_gaps(mode, supported)


def _mode_of_channel(y: Array, odds: Array) -> Array:
    """Return the mode around each value of one channel."""
    scale = np.float32(LEVEL_SCALE)
    levels = ((np.arange(N_LEVELS) + 0.5) / N_LEVELS).astype(np.float32)
    votes = np.stack(
        [np.log1p(odds * student_density(y - level, scale)) for level in levels]
    )
    best_score = np.full(y.shape, -np.inf, np.float32)
    mode = np.empty_like(y)
    smoothed_votes = np.empty_like(votes)
    for window in WINDOWS:
        for vote, smoothed in zip(votes, smoothed_votes, strict=True):
            gaussian_filter(vote, window, truncate=WINDOW_TRUNCATE, output=smoothed)
        smoothed_votes -= _centre_weight(window) * votes  # leave out the value itself
        x = _parabolic_peak(smoothed_votes)
        score = np.log1p(odds * student_density(y - x, scale))
        score = gaussian_filter(score, SELECTION_WINDOW, truncate=2)
        better = score > best_score
        best_score[better] = score[better]
        mode[better] = x[better]
    return mode


def _parabolic_peak(votes: Array) -> Array:
    """Return the level at which votes of shape (levels, rows, columns) are largest."""
    peak = np.clip(votes.argmax(0), 1, N_LEVELS - 2)[None]
    below, here, above = (
        np.take_along_axis(votes, peak + step, 0)[0] for step in (-1, 0, 1)
    )
    curvature = np.minimum(below - 2 * here + above, -1e-6)
    offset = np.clip(
        (below - above) / (2 * curvature), -MAX_PEAK_OFFSET, MAX_PEAK_OFFSET
    )
    x: Array = ((peak[0] + 0.5 + offset) / N_LEVELS).astype(np.float32)
    return x


def _centre_weight(window: float) -> np.float32:
    """Return the weight that a Gaussian window gives to its own pixel."""
    radius = int(WINDOW_TRUNCATE * window + 0.5)
    kernel = np.exp(-(np.arange(-radius, radius + 1) ** 2) / (2 * window**2))
    return np.float32((1 / kernel.sum()) ** 2)

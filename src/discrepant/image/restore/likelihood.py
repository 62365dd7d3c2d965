"""How far a clean value may stray from its prediction: heavy tails, a local scale."""

from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
from scipy.ndimage import gaussian_filter1d

from discrepant.linalg import Array

WINDOW = 3.0  # pixels, of the Gaussian over which a local scale is averaged
# A scale needs some weight under its window; with less it counts as if there were this
# much, so that a place without clean values has a small scale, and not 0/0.
LEAST_WEIGHT = 0.02

LITTLE = 100_000  # values for which threads are not worth their start


def density(error: Array, scale: Array | np.float32) -> Array:
    """Return Student's density with three degrees of freedom.

    Its tails fall as the fourth power of the error: edges and texture are far likelier
    under it than under a Gaussian of the same scale.
    """
    z = error / scale
    z *= z
    z *= np.float32(1 / 3)
    z += 1
    z *= z
    z *= scale
    found: Array = np.float32(2 / (np.pi * np.sqrt(3))) / z
    return found


def local_mean(square: Array, weight: Array) -> Array:
    """Return the weighted mean of the squares around each value."""
    total = blur(weight * square, WINDOW)
    mean: Array = total / np.maximum(blur(weight, WINDOW), LEAST_WEIGHT)
    return mean


def blur(x: Array, window: float) -> Array:
    """Return x under a Gaussian window, channel by channel."""
    out = np.array(x)
    for axis in (0, 1):
        # Lines do not know of one another: each core takes a part of them.
        parts = np.array_split(out, joblib.cpu_count(), axis=1 - axis)
        if out.size < LITTLE:
            parts = [out]

        def run(part: Array, axis: int = axis) -> None:
            gaussian_filter1d(part, window, axis, output=part, truncate=3.0)

        if len(parts) > 1:
            with ThreadPoolExecutor(len(parts)) as pool:
                list(pool.map(run, parts))
        else:
            run(out)
    return out

"""How far a clean value may stray from its prediction: heavy tails, a local scale."""

from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np

from discrepant.core.linalg import Array

WINDOW = 3.0  # pixels, of the Gaussian over which a local scale is averaged
# A scale needs some weight under its window; with less it counts as if there were this
# much, so that a place without clean values has a small scale, and not 0/0.
LEAST_WEIGHT = 0.02

REACH = 3.0  # deviations, after which a window ends
LITTLE = 1_000_000  # values for which threads are not worth their start


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
    from discrepant.image.restore.core.kernels import blurred

    flat = np.ascontiguousarray(x, np.float32).reshape(len(x), -1)
    half = np.exp(-(np.arange(int(REACH * window + 0.5) + 1) ** 2) / (2 * window**2))
    half = (half / (2 * half.sum() - half[0])).astype(np.float32)
    out = np.empty_like(flat)
    # Rows do not know of one another: each core takes a part of them.
    parts = joblib.cpu_count() if x.size > LITTLE else 1
    cuts = np.linspace(0, len(x), parts + 1).astype(int)

    def run(first: int, last: int) -> None:
        blurred(flat, x.shape[2], half, first, last, out)

    if parts > 1:
        with ThreadPoolExecutor(parts) as pool:
            list(pool.map(run, cuts[:-1], cuts[1:]))
    else:
        run(*cuts)
    return out.reshape(x.shape)

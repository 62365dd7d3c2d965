"""Patches that look alike: each predicts what its own values should be.

The patches most like a given one span a space of low dimension. Taking them as samples
of a Gaussian, every value is predicted from the trusted values of its patch other than
itself, with a variance; over all patches that hold it, the predictions are averaged.
This sees texture and edges where a smooth image does not, and its variances tell an
unusual value from a wrong one.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import joblib
import numpy as np

from discrepant.image.restore.detect import Judge, local_scale
from discrepant.linalg import Array

BAND = 32  # rows of patches a task; fixed, so that results do not depend on threads
MOST_CHANNELS = 4
SIZES = {1: 6, 2: 5, 3: 4, 4: 4}  # channels → rows and columns of a patch
RIDGE = 0.005
LEAST = 1e-5
FLOOR = 0.5 / 255
TRUSTED = 0.5
SETTLED = 1e-3  # root mean square change of a pass that is not worth another


@dataclass(frozen=True)
class Search:
    """How thoroughly patches are compared."""

    stride: int
    count: int = 80
    reach: int = 10


def predict(x: Array, y: Array, noise: Array, search: Search) -> tuple[Array, Array]:
    """Return each value's prediction from the others, and its variance.

    Parameters
    ----------
    x : ndarray of shape (rows, columns, channels)
        The current estimate: which patches are alike.
    y, noise : ndarray
        The observation and its variance, negative where it is not to be trusted.
    search : Search
        How thoroughly.
    """
    channels = x.shape[2]
    if channels > MOST_CHANNELS:
        groups = np.array_split(np.arange(channels), -(-channels // MOST_CHANNELS))
        parts = [predict(x[..., g], y[..., g], noise[..., g], search) for g in groups]
        mean, variance = (
            np.concatenate(part, axis=2) for part in zip(*parts, strict=True)
        )
        return mean, variance
    from discrepant.image.restore.kernels import leave_one_out

    x, y, noise = (np.ascontiguousarray(a, np.float32) for a in (x, y, noise))
    rows, columns, _ = x.shape
    size = min(SIZES[channels], rows, columns)
    stride = min(search.stride, size)
    tops, lefts = _corners(rows - size, stride), _corners(columns - size, stride)
    bands = [tops[k : k + BAND] for k in range(0, len(tops), BAND)]

    def run(band: Array) -> tuple[int, Array]:
        first = int(band[0])
        shape = (3, int(band[-1]) + size - first, columns, channels)
        sums = np.zeros(shape, np.float32)
        leave_one_out(
            x,
            y,
            noise,
            band,
            lefts,
            first,
            size,
            search.reach,
            search.count,
            RIDGE,
            LEAST,
            *sums,
        )
        return first, sums

    total, precision, times = sums = np.zeros((3, *x.shape), np.float32)
    with ThreadPoolExecutor(joblib.cpu_count()) as pool:
        for first, part in pool.map(run, bands):
            sums[:, first : first + part.shape[1]] += part
    return total / precision, times / precision


def _corners(last: int, stride: int) -> Array:
    return np.unique(np.append(np.arange(0, last, stride), last)).astype(np.int64)


def refine(
    y: Array,
    known: Array,
    x: Array,
    weight: Array,
    judge: Judge,
    search: Search,
    passes: int,
    proceed: Callable[[Array, Array], bool],
) -> tuple[Array, Array, Array]:
    """Alternate between predictions from patches and who is to be believed.

    Returns
    -------
    guess, weight, doubtful : ndarray
        The predictions, the probability of being clean, and the values that are better
        replaced: those whose expected squared error if kept exceeds that of the guess.
    """
    guess = x
    doubtful = weight < TRUSTED
    out = np.where(doubtful, guess, y)
    for _ in range(passes):
        error = y - guess
        noise = np.where(weight > TRUSTED, (1 - weight) * error**2, -1)
        blend = np.where(known, weight * y + (1 - weight) * guess, guess)
        guess, variance = predict(blend, y, noise, search)
        error = y - guess
        fit = local_scale(np.minimum(error**2 / variance, 25), weight)
        scale = np.sqrt(np.float32(0.64) * fit * variance + np.float32(FLOOR**2))
        weight = judge.weigh(error, scale)
        doubtful = ~known | ((1 - weight) * error**2 > weight * scale**2)
        before, out = out, np.where(doubtful, guess, y)
        settled = float(np.mean((out - before) ** 2)) < SETTLED**2
        if not proceed(out, weight) or settled:
            break
    return guess, weight, doubtful

"""Patches that look alike: each predicts what its own values should be.

The patches most like a given one span a space of low dimension. Taking them as samples
of a Gaussian, every value is predicted from the trusted values of its patch other than
itself, with a variance; over all patches that hold it, the predictions are averaged.
This sees texture and edges where a smooth image does not, and its variances tell an
unusual value from a wrong one.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType

import joblib
import numpy as np

from discrepant.image.restore.detect import Proceed
from discrepant.image.restore.judge import Judge
from discrepant.image.restore.likelihood import local_mean
from discrepant.linalg import Array

BAND = 32  # rows of patches a task; fixed, so that results do not depend on threads
# Channels → rows and columns of a patch: 36 to 64 values each, since the work grows
# with the third power of their number. More channels than these are taken in groups.
SIZES = MappingProxyType({1: 6, 2: 5, 3: 4, 4: 4})
MOST_CHANNELS = max(SIZES)


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/restore.py --tuning` tries again.

    Attributes
    ----------
    ridge : float
        Added to the variance of every value, as a share of the mean variance in the
        group: look-alikes are never exactly alike.
    least : float
        And the least that is added, a variance: that of 0.8 of a grey level.
    trusted : float
        A value at least so likely to be clean takes part in predicting others. One
        half: the likelier side decides.
    clip : float
        A squared error counts as at most so many predicted variances.
    scale_ratio : float
        Student's scale over the root mean square of errors, as in `detect`.
    floor : float
        No scale is finer than half a step of 8-bit values.
    settled : float
        Root mean square change of the image, a quarter of a grey level, below which
        another pass is not worth its time.
    """

    ridge: float = 0.005
    least: float = 1e-5
    trusted: float = 0.5
    clip: float = 25.0
    scale_ratio: float = 0.8
    floor: float = 0.5 / 255
    settled: float = 1e-3


TUNING = Tuning()


@dataclass(frozen=True)
class Search:
    """How thoroughly patches are compared.

    Attributes
    ----------
    stride : int
        Rows and columns from one patch to the next.
    count : int
        Look-alikes taken for each patch: more than a patch has values.
    reach : int
        How many rows and columns away they are looked for.
    passes : int
        How often all is predicted anew, at most.
    """

    stride: int
    count: int = 80
    reach: int = 10
    passes: int = 2


def predict(x: Array, y: Array, noise: Array, search: Search) -> tuple[Array, Array]:
    """Return each value's prediction from the others, and its variance.

    Parameters
    ----------
    x : ndarray of shape (rows, columns, channels)
        The current estimate: it decides which patches are alike.
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
            *(x, y, noise),
            *(band, lefts, first),
            *(size, search.reach, search.count),
            *(TUNING.ridge, TUNING.least),
            *sums,
        )
        return first, sums

    total, precision, times = sums = np.zeros((3, *x.shape), np.float32)
    with ThreadPoolExecutor(joblib.cpu_count()) as pool:
        for first, part in pool.map(run, bands):
            sums[:, first : first + part.shape[1]] += part
    return total / precision, times / precision


def _corners(last: int, stride: int) -> Array:
    """Return where patches begin: every so many rows, and at the last possible one."""
    return np.unique(np.append(np.arange(0, last, stride), last)).astype(np.int64)


def refine(
    y: Array,
    known: Array,
    start: tuple[Array, Array],
    judge: Judge,
    search: Search,
    proceed: Proceed,
) -> tuple[Array, Array, Array]:
    """Predict values from patches and judge them by it, in turn.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and which values may be looked at.
    start : (x, weight)
        What `detect` found.
    judge : Judge
        Goes on learning.
    search : Search
        How thoroughly.
    proceed : callable
        Told the weights after each pass; says whether to go on.

    Returns
    -------
    guess, weight, replace : ndarray
        The predictions, the probability of being clean, and the values that are better
        replaced: those whose expected squared error if kept exceeds that of the guess.
    """
    guess, weight = start
    replace = weight < TUNING.trusted
    out = np.where(replace, guess, y)
    floor = np.float32(TUNING.floor**2)
    ratio = np.float32(TUNING.scale_ratio**2)
    for _ in range(search.passes):
        error = y - guess
        noise = np.where(weight > TUNING.trusted, (1 - weight) * error**2, -1)
        blend = np.where(known, weight * y + (1 - weight) * guess, guess)
        guess, variance = predict(blend, y, noise, search)
        error = y - guess
        # How the squared errors compare with the variances that were predicted.
        fit = local_mean(np.minimum(error**2 / variance, TUNING.clip), weight)
        scale = np.sqrt(ratio * fit * variance + floor)
        weight = judge.weigh(error, scale)
        replace = ~known | ((1 - weight) * error**2 > weight * scale**2)
        before, out = out, np.where(replace, guess, y)
        settled = float(np.mean((out - before) ** 2)) < TUNING.settled**2
        if not proceed(weight) or settled:
            break
    return guess, weight, replace

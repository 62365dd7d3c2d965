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
from scipy.ndimage import maximum_filter

from discrepant.core.linalg import Array
from discrepant.image.restore.core.calibration import calibrated
from discrepant.image.restore.core.full_pass import Proceed
from discrepant.image.restore.core.mixture import Judge
from discrepant.image.restore.core.residual_scale import local_mean

TASK = 1000  # patches a task; fixed, so that results do not depend on threads
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
    doubt : float
        Where corruption is rare, a value with this chance of being corrupted is worth
        a look.
    unlikely : float
        And one with this chance, in shares of corruption, if there is some.
    moved, swayed : float
        Changes of a value, an eighth of a grey level, and of a weight, of which the
        next pass takes notice; what moves less is not predicted anew.
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
    doubt: float = 0.002
    unlikely: float = 0.15
    moved: float = 0.0005
    swayed: float = 0.01
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


def predict(
    x: Array, y: Array, noise: Array, search: Search, where: Array | None = None
) -> tuple[Array, Array]:
    """Return each value's prediction from the others, and its variance.

    Parameters
    ----------
    x : ndarray of shape (rows, columns, channels)
        The current estimate: it decides which patches are alike.
    y, noise : ndarray
        The observation and its variance, negative where it is not to be trusted.
    search : Search
        How thoroughly.
    where : ndarray of bool, optional
        The values of interest: patches without one are left out, and what no patch
        holds is NaN. By default all.
    """
    channels = x.shape[2]
    if channels > MOST_CHANNELS:
        groups = np.array_split(np.arange(channels), -(-channels // MOST_CHANNELS))
        parts = [
            predict(x[..., g], y[..., g], noise[..., g], search, where) for g in groups
        ]
        mean, variance = (
            np.concatenate(part, axis=2) for part in zip(*parts, strict=True)
        )
        return mean, variance
    from discrepant.image.restore.core.patch_kernels import leave_one_out, planes_of

    planes = planes_of(x, search.reach)
    y, noise = (np.ascontiguousarray(a, np.float32) for a in (y, noise))
    rows, columns, _ = x.shape
    size = min(SIZES[channels], rows, columns)
    stride = min(search.stride, size)
    down, across = _corners(rows - size, stride), _corners(columns - size, stride)
    corners = _holding(down, across, size, where)
    cuts = range(TASK, corners.shape[1], TASK)
    tasks = [task for task in np.split(corners, cuts, axis=1) if task.size]

    def run(task: Array) -> tuple[int, Array]:
        tops, lefts = np.ascontiguousarray(task)
        first = int(tops[0])
        shape = (3, int(tops[-1]) + size - first, columns, channels)
        sums = np.zeros(shape, np.float32)
        leave_one_out(
            *(planes, y, noise),
            *(tops, lefts, first),
            *(size, search.reach, search.count),
            *(TUNING.ridge, TUNING.least),
            *sums,
        )
        return first, sums

    total, precision, times = sums = np.zeros((3, *x.shape), np.float32)
    with ThreadPoolExecutor(joblib.cpu_count()) as pool:
        for first, part in pool.map(run, tasks):
            sums[:, first : first + part.shape[1]] += part
    with np.errstate(invalid="ignore"):
        return total / precision, times / precision


def _holding(tops: Array, lefts: Array, size: int, where: Array | None) -> Array:
    """Return the corners (2, n) of patches that hold a value of interest, by rows."""
    if where is None:
        top, left = (a.ravel() for a in np.meshgrid(tops, lefts, indexing="ij"))
        return np.stack([top, left])
    count = np.pad(where.any(axis=2), ((1, 0), (1, 0))).astype(np.int32)
    count = count.cumsum(0, dtype=np.int32).cumsum(1, dtype=np.int32)
    along = count[:, lefts + size] - count[:, lefts]
    inside = along[tops + size] - along[tops]
    i, j = np.nonzero(inside)
    return np.stack([tops[i], lefts[j]])


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
    rare: bool = False,
) -> tuple[Array, Array, Array]:
    """Predict values from patches and judge them by it, in turn.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and which values may be looked at.
    start : (x, weight)
        What `detect` or `screen` found.
    judge : Judge
        Goes on learning.
    search : Search
        How thoroughly.
    proceed : callable
        Told the weights after each pass; says whether to go on.
    rare : bool
        Whether corruption is rare, so that only what is in doubt is looked at.

    Returns
    -------
    guess, weight, replace : ndarray
        The predictions, the probability of being clean, calibrated, and the values that
        are better replaced: those whose expected squared error if kept exceeds that of
        the guess; where corruption is rare, only those that are likelier wrong.
    """
    guess, weight = start
    variance = np.full_like(guess, TUNING.least)
    replace = ~known | (weight < TUNING.trusted)
    out = np.where(replace, guess, y)
    floor = np.float32(TUNING.floor**2)
    ratio = np.float32(TUNING.scale_ratio**2)
    where, seen = np.ones(y.shape, bool), np.zeros(y.shape, bool)
    error = scale = np.zeros_like(y)
    for _ in range(search.passes):
        if rare:
            where = _in_doubt(known, weight, judge)
        if not where.any():
            break
        error = y - guess
        noise = np.where(weight > TUNING.trusted, (1 - weight) * error**2, -1)
        blend = np.where(known, weight * y + (1 - weight) * guess, guess)
        found, spread = predict(blend, y, noise, search, where)
        # Around what is in doubt all is looked at; else, only what still moves.
        seen = np.isfinite(found) if rare else where
        guess, variance = np.where(seen, found, guess), np.where(seen, spread, variance)
        error = np.where(seen, y - guess, 0) if rare else y - guess
        # How the squared errors compare with the variances that were predicted.
        square = np.minimum(error**2 / variance, TUNING.clip)
        fit = local_mean(square, weight * seen if rare else weight)
        scale = np.sqrt(ratio * fit * variance + floor)
        last, weight = weight, judge.weigh(error, scale)
        if rare:
            weight = np.where(seen, weight, last)
        worse = (1 - weight) * error**2 > weight * scale**2
        if rare:  # next to all are clean: one that likely is stays, whatever it costs
            worse &= weight < TUNING.trusted
        replace = ~known | worse
        before, out = out, np.where(replace, guess, y)
        step = np.abs(out - before)
        settled = float(np.mean(step**2)) < TUNING.settled**2
        if not proceed(weight) or settled:
            break
        moved = (step > TUNING.moved) | (np.abs(weight - last) > TUNING.swayed)
        near = maximum_filter(moved.any(axis=2), 3)
        where = np.repeat(near[..., None], y.shape[2], axis=2)
    judged = seen if rare else np.full(y.shape, seen.any())
    return guess, calibrated(weight, judge, error, scale, judged), replace


def _in_doubt(known: Array, weight: Array, judge: Judge) -> Array:
    """Return what is worth a look where corruption is rare."""
    share, doubt = judge.belief.share, TUNING.doubt
    if share > doubt / 4:
        doubt = min(doubt, TUNING.unlikely * share)
    found: Array = ~known | (weight < 1 - doubt)
    return found

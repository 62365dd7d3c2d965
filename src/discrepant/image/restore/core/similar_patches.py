"""Predict every value from similar patches, leaving out the value itself.

The patches most similar to a given one are samples of a Gaussian whose covariance has
low rank. Under that Gaussian every value is predicted from the clean values of its
patch other than itself, with a variance; the predictions of all patches that contain
the value are averaged. Unlike a smooth image this follows texture and edges, and the
variances separate unusual values from corrupted ones.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType

import joblib
import numpy as np

from discrepant.core.linalg import Array

# Patches per task of the thread pool. It is fixed, so that sums, and with them results,
# do not depend on the number of threads.
PATCHES_PER_TASK = 1000
# Number of channels → rows and columns of a patch. A patch has 36 to 64 values, since
# the work grows with the third power of their number.
PATCH_SIZES = MappingProxyType({1: 6, 2: 5, 3: 4, 4: 4})
# Largest number of channels of a patch; more channels are predicted in groups.
MAX_PATCH_CHANNELS = max(PATCH_SIZES)
# Variance added to every value, as a fraction of the mean variance in the group:
# similar patches are never equal.
RIDGE = 0.005
# Smallest variance of a prediction, that of 0.8 grey levels of 255.
MIN_VARIANCE = 1e-5


@dataclass(frozen=True)
class PatchSearch:
    """Effort of the comparison of patches.

    Attributes
    ----------
    stride : int
        Rows and columns from one patch to the next.
    count : int
        Number of similar patches in a group: more than a patch has values.
    reach : int
        Rows and columns within which similar patches are searched.
    passes : int
        Largest number of times that all values are predicted.
    """

    stride: int
    count: int = 80
    reach: int = 10
    passes: int = 2


def predict_from_patches(
    x: Array, y: Array, noise: Array, search: PatchSearch, where: Array | None = None
) -> tuple[Array, Array]:
    """Return the prediction of each value from the other values, and its variance.

    Parameters
    ----------
    x : ndarray of shape (rows, columns, channels)
        Current estimate of the image; patches are compared in it.
    y, noise : ndarray
        Observed values and their variance; a negative variance excludes a value.
    search : PatchSearch
        Effort of the comparison.
    where : ndarray of bool, optional
        Values to predict, by default all. Patches without one of them are skipped, and
        values that no remaining patch contains become NaN.
    """
    channels = x.shape[2]
    if channels > MAX_PATCH_CHANNELS:
        groups = np.array_split(np.arange(channels), -(-channels // MAX_PATCH_CHANNELS))
        parts = [
            predict_from_patches(x[..., g], y[..., g], noise[..., g], search, where)
            for g in groups
        ]
        mean, variance = (
            np.concatenate(part, axis=2) for part in zip(*parts, strict=True)
        )
        return mean, variance
    from discrepant.image.restore.core.patch_kernels import (
        leave_one_out,
        to_padded_planes,
    )

    planes = to_padded_planes(x, search.reach)
    y, noise = (np.ascontiguousarray(a, np.float32) for a in (y, noise))
    rows, columns, _ = x.shape
    size = min(PATCH_SIZES[channels], rows, columns)
    stride = min(search.stride, size)
    tops, lefts = (
        _patch_starts(rows - size, stride),
        _patch_starts(columns - size, stride),
    )
    corners = _corners_of_patches(tops, lefts, size, where)
    cuts = range(PATCHES_PER_TASK, corners.shape[1], PATCHES_PER_TASK)
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
            *(RIDGE, MIN_VARIANCE),
            *sums,
        )
        return first, sums

    total, precision, count = sums = np.zeros((3, *x.shape), np.float32)
    with ThreadPoolExecutor(joblib.cpu_count()) as pool:
        for first, part in pool.map(run, tasks):
            sums[:, first : first + part.shape[1]] += part
    with np.errstate(invalid="ignore"):
        return total / precision, count / precision


def _corners_of_patches(
    tops: Array, lefts: Array, size: int, where: Array | None
) -> Array:
    """Return the corners (2, n), by rows, of patches that contain values to predict.

    ``where`` marks the values to predict; None means all.
    """
    if where is None:
        top, left = (a.ravel() for a in np.meshgrid(tops, lefts, indexing="ij"))
        return np.stack([top, left])
    integral = np.pad(where.any(axis=2), ((1, 0), (1, 0))).astype(np.int32)
    integral = integral.cumsum(0, dtype=np.int32).cumsum(1, dtype=np.int32)
    in_columns = integral[:, lefts + size] - integral[:, lefts]
    in_patch = in_columns[tops + size] - in_columns[tops]
    i, j = np.nonzero(in_patch)
    return np.stack([tops[i], lefts[j]])


def _patch_starts(last: int, stride: int) -> Array:
    """Return where patches start: every ``stride`` rows, and at the last possible."""
    return np.unique(np.append(np.arange(0, last, stride), last)).astype(np.int64)

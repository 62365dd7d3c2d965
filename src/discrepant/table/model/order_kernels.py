"""Running medians, compiled with Numba. Importing this module imports Numba."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np

from discrepant.core.jit import njit


@njit(cache=True, nogil=True)
def _position(window, count, value):
    """Return the first index of a sorted window whose value is not below `value`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if window[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _insert(window, count, value):
    k = _position(window, count, value)
    for m in range(count, k, -1):
        window[m] = window[m - 1]
    window[k] = value


@njit(cache=True, nogil=True)
def _remove(window, count, value):
    for m in range(_position(window, count, value), count - 1):
        window[m] = window[m + 1]


@njit(cache=True, nogil=True)
def running_median(x, first, last, min_count):
    """Return the median of the finite cells x[i + first], …, x[i + last] for each i.

    NaN where fewer than `min_count` of them are finite. The window is kept sorted, so
    that a step costs one removal and one insertion.
    """
    n = len(x)
    medians = np.full(n, np.nan)
    window = np.empty(last - first + 1)
    count = 0
    for j in range(max(first - 1, 0), min(last, n)):  # the window before row 0
        if np.isfinite(x[j]):
            _insert(window, count, x[j])
            count += 1
    for i in range(n):
        old, new = i + first - 1, i + last
        if 0 <= old < n and np.isfinite(x[old]):
            _remove(window, count, x[old])
            count -= 1
        if 0 <= new < n and np.isfinite(x[new]):
            _insert(window, count, x[new])
            count += 1
        if count >= min_count:
            middle = count // 2
            if count % 2:
                medians[i] = window[middle]
            else:
                medians[i] = 0.5 * (window[middle - 1] + window[middle])
    return medians


@njit(cache=True, nogil=True)
def local_median(x, width, min_count, stride):
    """Return the median of the finite cells in a window around every `stride`th cell.

    Each is repeated for the `stride` cells around it: as a scale, it changes slowly.
    NaN where fewer than `min_count` cells of the window are finite.
    """
    n = len(x)
    medians = np.full(n, np.nan)
    window = np.empty(width)
    for start in range(0, n, stride):
        centre = start + stride // 2
        count = 0
        for j in range(max(centre - width // 2, 0), min(centre + width // 2 + 1, n)):
            if np.isfinite(x[j]):
                window[count] = x[j]
                count += 1
        if count >= min_count:
            medians[start : start + stride] = np.median(window[:count])
    return medians

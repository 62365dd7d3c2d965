"""Running medians, compiled with Numba. Importing this module imports Numba."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np

from discrepant.core.jit import njit


@njit(cache=True, nogil=True)
def _replace(window, old, new):
    """Replace one value of a sorted window by another, and keep the window sorted."""
    k, high = 0, len(window) - 1
    while k < high:  # the first value that is not below `old`
        middle = (k + high) // 2
        if window[middle] < old:
            k = middle + 1
        else:
            high = middle
    while k + 1 < len(window) and window[k + 1] < new:
        window[k] = window[k + 1]
        k += 1
    while k > 0 and window[k - 1] > new:
        window[k] = window[k - 1]
        k -= 1
    window[k] = new


@njit(cache=True, nogil=True)
def running_median(x, first, last, min_count):
    """Return the median of the finite cells x[i + first], …, x[i + last] for each i.

    NaN where fewer than `min_count` of them are finite. The window is kept sorted, with
    infinity for each cell that is empty or beyond the ends.
    """
    n, width = len(x), last - first + 1
    medians = np.full(n, np.nan)
    window = np.full(width, np.inf)
    count = 0
    for i in range(-width, n):  # the rows before row 0 fill its window
        old, new = np.inf, np.inf
        if 0 <= i + first - 1 < n and np.isfinite(x[i + first - 1]):
            old = x[i + first - 1]
            count -= 1
        if 0 <= i + last < n and np.isfinite(x[i + last]):
            new = x[i + last]
            count += 1
        if old != new:
            _replace(window, old, new)
        if i >= 0 and count >= min_count:
            medians[i] = 0.5 * (window[(count - 1) // 2] + window[count // 2])
    return medians

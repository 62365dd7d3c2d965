"""Edge of the noise spectrum: the largest singular value of noise alone."""

from math import sqrt

import numpy as np

from discrepant.core.linalg import Array

TRACY_WIDOM = 3.3  # 99.9% quantile of the Tracy–Widom law, β = 1
GROUPS = 64  # groups of rows (columns) with similar sums of squares


def noise_edge(by_row: Array, by_column: Array) -> float:
    """Return the largest singular value of independent noise with these squares.

    The limit comes from the Dyson equation of the variance profile aᵢbⱼ: the smallest E
    for which X = Σaᵢ/(E − aᵢY), Y = Σbⱼ/(E − bⱼX) has a real solution. For an even
    profile it is σ(√m + √n). Times one plus the 99.9% quantile of its fluctuation
    (Johnstone 2001).
    """
    from discrepant.robust_pca.noisy.kernels import is_beyond_edge

    m, n = len(by_row), len(by_column)
    total = float(by_row.sum())
    if not total > 0:
        return 0.0
    a, b = (_grouped(x / sqrt(total)) for x in (by_row, by_column))
    low = 0.999 * sqrt(max(by_row.max(), by_column.max()))
    high = 1.05 * (sqrt(by_row.max()) + sqrt(by_column.max()))
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        if is_beyond_edge(a, b, middle):
            high = middle
        else:
            low = middle
    width = (1 / sqrt(m) + 1 / sqrt(n)) ** (1 / 3) / (2 * (sqrt(m) + sqrt(n)))
    return float(high * (1 + TRACY_WIDOM * width))


def _grouped(values: Array) -> Array:
    """Return group means and sizes; the few largest values are kept apart."""
    a, few = np.sort(values), GROUPS // 4
    if len(a) <= GROUPS:
        return np.column_stack([a, np.ones(len(a))])
    parts = [*np.array_split(a[:-few], GROUPS - few), *a[-few:, None]]
    return np.array([[part.mean(), len(part)] for part in parts])


def participation_ratio(U: Array) -> Array:
    """Return 1/Σu⁴ of each unit vector: on how many rows it is concentrated."""
    square = U * U
    fourth = np.einsum("ij,ij->j", square, square)
    return np.asarray(square.sum(axis=0) ** 2 / np.maximum(fourth, 1e-300))

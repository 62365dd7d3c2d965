"""Compiled loops over stored entries; importing this module loads the compiler.

Entries are sorted by row or by column, as in compressed sparse matrices; a line is a
row in the first case and a column in the second. ``entries`` are three arrays: those
of line i go from ``pointer[i]`` to ``pointer[i + 1]``; ``cross_index`` is the index of
each along the other axis, and ``position`` where its value is stored. A loop runs over
the lines from ``start`` to ``end``, so that several threads can divide them.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np

from discrepant.core.jit import njit
from discrepant.robust_pca.rows.regression_kernel import (
    factorise,
    solve_factorised,
    solve_lower,
)
from discrepant.robust_pca.rows.robust_kernels import BINS, Z_AT_HALF

# Smallest square of a pivot: a line without entries has none.
MIN_SQUARE = 1e-300


@njit(cache=True, nogil=True)
def residuals(entries, y, U, V, e, start, end):
    """Write the residual e = y − u·v of each entry."""
    pointer, cross_index, position = entries
    rank = U.shape[1]
    for i in range(start, end):
        for k in range(pointer[i], pointer[i + 1]):
            rest = y[position[k]]
            for a in range(rank):
                rest -= U[i, a] * V[cross_index[k], a]
            e[position[k]] = rest


@njit(cache=True, nogil=True)
def medians(entries, e, out, start, end):
    """Write the median of |e| of each line; zero for a line without entries."""
    pointer, _, position = entries
    for i in range(start, end):
        size = np.empty(pointer[i + 1] - pointer[i])
        for k in range(len(size)):
            size[k] = abs(e[position[pointer[i] + k]])
        out[i] = np.partition(size, len(size) // 2)[len(size) // 2] if len(size) else 0


@njit(cache=True, nogil=True)
def histogram(entries, e, inverse_sigma, scales, out, start, end):
    """Count z = |e|/σ in bins, with σ times the larger scale of row and column."""
    pointer, cross_index, position = entries
    for i in range(start, end):
        for k in range(pointer[i], pointer[i + 1]):
            scale = max(scales[0][i], scales[1][cross_index[k]])
            z = abs(e[position[k]]) * inverse_sigma / scale
            out[min(int(z / (Z_AT_HALF + z) * BINS), BINS - 1)] += 1


@njit(cache=True, nogil=True)
def weights(entries, e, inverse_sigma, scales, table, w, start, end):
    """Write the weight of each entry: its z interpolated in a table at bin edges."""
    pointer, cross_index, position = entries
    for i in range(start, end):
        for k in range(pointer[i], pointer[i + 1]):
            scale = max(scales[0][i], scales[1][cross_index[k]])
            z = abs(e[position[k]]) * inverse_sigma / scale
            u = z / (Z_AT_HALF + z) * BINS
            b = min(int(u), BINS - 1)
            part = u - b
            w[position[k]] = table[b] * (1 - part) + table[b + 1] * part


@njit(cache=True, nogil=True)
def least_squares(entries, y, w, V, ridge, line_scale, U, start, end):
    """Write the weighted ridge regression of each line on V; ridge·line_scale²."""
    for i in range(start, end):
        L, b = normal_equations(entries, i, y, w, V, ridge * line_scale[i] ** 2)
        solve_factorised(L, b)
        U[i] = b


@njit(cache=True, nogil=True)
def leverages(entries, y, w, V, ridge, line_scale, out, start, end):
    """Add the leverage of each entry in the regression of its line on V.

    It is that of an entry of weight one beside the others with their weights.
    """
    pointer, cross_index, position = entries
    for i in range(start, end):
        L, x = normal_equations(entries, i, y, w, V, ridge * line_scale[i] ** 2)
        for k in range(pointer[i], pointer[i + 1]):
            x[:] = V[cross_index[k]]
            solve_lower(L, x)
            h = np.sum(x**2)
            out[position[k]] += h / (1 + (1 - w[position[k]]) * h)


@njit(cache=True, nogil=True)
def normal_equations(entries, i, y, w, V, ridge):
    """Return L and b of the weighted ridge regression of line i on V: L Lᵀ x = b."""
    pointer, cross_index, position = entries
    L, b = np.diag(ridge), np.zeros(len(ridge))
    for k in range(pointer[i], pointer[i + 1]):
        v, weight = V[cross_index[k]], w[position[k]]
        for a in range(len(b)):
            b[a] += weight * y[position[k]] * v[a]
            for c in range(a + 1):
                L[a, c] += weight * v[a] * v[c]
    factorise(L, MIN_SQUARE)
    return L, b

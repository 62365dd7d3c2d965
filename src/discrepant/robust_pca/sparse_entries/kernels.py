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
from discrepant.robust_pca.rows.robust_kernels import BINS, Z_AT_HALF


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
def multiply(entries, x, V, out, start, end):
    """Write out = X V, where X is x at the entries and zero elsewhere."""
    pointer, cross_index, position = entries
    for i in range(start, end):
        out[i] = 0
        for k in range(pointer[i], pointer[i + 1]):
            for a in range(V.shape[1]):
                out[i, a] += x[position[k]] * V[cross_index[k], a]


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
    pointer, cross_index, position = entries
    rank = V.shape[1]
    A, b = np.empty((rank, rank)), np.empty(rank)
    for i in range(start, end):
        A[:], b[:] = 0, 0
        for k in range(pointer[i], pointer[i + 1]):
            add_equation(A, b, w[position[k]], y[position[k]], V[cross_index[k]])
        for a in range(rank):
            A[a, a] += ridge[a] * line_scale[i] ** 2
        solve(A, b)
        U[i] = b


@njit(cache=True, nogil=True)
def leverages(entries, w, V, ridge, line_scale, out, start, end):
    """Add the leverage of each entry in the regression of its line on V."""
    pointer, cross_index, position = entries
    rank = V.shape[1]
    A, b = np.empty((rank, rank)), np.empty(rank)
    for i in range(start, end):
        A[:], b[:] = 0, 0
        for k in range(pointer[i], pointer[i + 1]):
            add_equation(A, b, w[position[k]], 0.0, V[cross_index[k]])
        for a in range(rank):
            A[a, a] += ridge[a] * line_scale[i] ** 2
        factor(A)
        for k in range(pointer[i], pointer[i + 1]):
            square = 0.0
            for a in range(rank):  # L x = v
                t = V[cross_index[k], a]
                for c in range(a):
                    t -= A[a, c] * b[c]
                b[a] = t / A[a, a]
                square += b[a] ** 2
            out[position[k]] += w[position[k]] * square


@njit(cache=True, nogil=True)
def robust_regressions(entries, y, V, ridge, scale, rounds, U, start, end):
    """Write a robust regression of each line on V: least absolute deviations.

    It is computed by iteratively reweighted least squares from zero coordinates.
    """
    pointer, cross_index, position = entries
    rank = V.shape[1]
    A, b = np.empty((rank, rank)), np.empty(rank)
    for i in range(start, end):
        U[i] = 0
        for round_ in range(rounds):
            A[:], b[:] = 0, 0
            for k in range(pointer[i], pointer[i + 1]):
                rest = y[position[k]]
                for a in range(rank):
                    rest -= U[i, a] * V[cross_index[k], a]
                w = scale / (abs(rest) + scale) if round_ else 1.0
                add_equation(A, b, w, y[position[k]], V[cross_index[k]])
            for a in range(rank):
                A[a, a] += ridge[a]
            solve(A, b)
            U[i] = b


@njit(cache=True, nogil=True, inline="always")
def add_equation(A, b, w, y, v):
    """Add an equation to the normal equations; only the lower half of A is used."""
    for a in range(len(v)):
        b[a] += w * y * v[a]
        for c in range(a + 1):
            A[a, c] += w * v[a] * v[c]


@njit(cache=True, nogil=True)
def factor(A):
    """Replace the lower half of A by its Cholesky factor."""
    for a in range(len(A)):
        for c in range(a + 1):
            t = A[a, c]
            for d in range(c):
                t -= A[a, d] * A[c, d]
            if a == c:
                A[a, a] = np.sqrt(max(t, 1e-300))
            else:
                A[a, c] = t / A[c, c]


@njit(cache=True, nogil=True)
def solve(A, b):
    """Solve A x = b in position, from the lower half of A."""
    factor(A)
    for a in range(len(b)):
        for d in range(a):
            b[a] -= A[a, d] * b[d]
        b[a] /= A[a, a]
    for a in range(len(b) - 1, -1, -1):
        for d in range(a + 1, len(b)):
            b[a] -= A[d, a] * b[d]
        b[a] /= A[a, a]

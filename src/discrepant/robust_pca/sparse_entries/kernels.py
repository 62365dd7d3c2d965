"""Compiled loops over stored entries; importing this module loads the compiler.

Entries are seen from their rows or from their columns: the entries of line i are those
from ``pointer[i]`` to ``pointer[i + 1]``, ``other`` names the line of the other side on
which each lies, and ``place`` where its value stands. A loop works on the lines from
``start`` to ``end``, so that several threads share them.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np

from discrepant.core.jit import njit
from discrepant.robust_pca.rows.robust_kernels import BINS, Z_AT_HALF


@njit(cache=True, nogil=True)
def residuals(pointer, other, place, y, U, V, e, start, end):
    """Write e = y − u·v."""
    rank = U.shape[1]
    for i in range(start, end):
        for k in range(pointer[i], pointer[i + 1]):
            rest = y[place[k]]
            for a in range(rank):
                rest -= U[i, a] * V[other[k], a]
            e[place[k]] = rest


@njit(cache=True, nogil=True)
def product(pointer, other, place, x, V, out, start, end):
    """Write out = X V, where X holds x at the entries and zero elsewhere."""
    for i in range(start, end):
        out[i] = 0
        for k in range(pointer[i], pointer[i + 1]):
            for a in range(V.shape[1]):
                out[i, a] += x[place[k]] * V[other[k], a]


@njit(cache=True, nogil=True)
def medians(pointer, other, place, e, out, start, end):
    """Write the median of |e| of each line; zero where it has no entries."""
    for i in range(start, end):
        size = np.empty(pointer[i + 1] - pointer[i])
        for k in range(len(size)):
            size[k] = abs(e[place[pointer[i] + k]])
        out[i] = np.partition(size, len(size) // 2)[len(size) // 2] if len(size) else 0


@njit(cache=True, nogil=True)
def histogram(pointer, other, place, e, inverse, wide, other_wide, out, start, end):
    """Count |e|/σ, less where a line is wide, in the bins of `noise.bins`."""
    for i in range(start, end):
        for k in range(pointer[i], pointer[i + 1]):
            z = abs(e[place[k]]) * inverse / max(wide[i], other_wide[other[k]])
            out[min(int(z / (Z_AT_HALF + z) * BINS), BINS - 1)] += 1


@njit(cache=True, nogil=True)
def weights(pointer, other, place, e, inverse, wide, other_wide, table, w, start, end):
    """Write the weight of each entry: its deviation looked up in a table of edges."""
    for i in range(start, end):
        for k in range(pointer[i], pointer[i + 1]):
            z = abs(e[place[k]]) * inverse / max(wide[i], other_wide[other[k]])
            u = z / (Z_AT_HALF + z) * BINS
            b = min(int(u), BINS - 1)
            part = u - b
            w[place[k]] = table[b] * (1 - part) + table[b + 1] * part


@njit(cache=True, nogil=True)
def least_squares(pointer, other, place, y, w, V, ridge, wide, U, start, end):
    """Write the weighted least squares of each line on V, ``ridge·wide²`` added."""
    rank = V.shape[1]
    A, b = np.empty((rank, rank)), np.empty(rank)
    for i in range(start, end):
        A[:], b[:] = 0, 0
        for k in range(pointer[i], pointer[i + 1]):
            gather(A, b, w[place[k]], y[place[k]], V[other[k]])
        for a in range(rank):
            A[a, a] += ridge[a] * wide[i] ** 2
        solve(A, b)
        U[i] = b


@njit(cache=True, nogil=True)
def leverages(pointer, other, place, w, V, ridge, wide, out, start, end):
    """Add the share of each entry that the fit of its line on V takes."""
    rank = V.shape[1]
    A, b = np.empty((rank, rank)), np.empty(rank)
    for i in range(start, end):
        A[:], b[:] = 0, 0
        for k in range(pointer[i], pointer[i + 1]):
            gather(A, b, w[place[k]], 0.0, V[other[k]])
        for a in range(rank):
            A[a, a] += ridge[a] * wide[i] ** 2
        factor(A)
        for k in range(pointer[i], pointer[i + 1]):
            square = 0.0
            for a in range(rank):  # L x = v
                t = V[other[k], a]
                for c in range(a):
                    t -= A[a, c] * b[c]
                b[a] = t / A[a, a]
                square += b[a] ** 2
            out[place[k]] += w[place[k]] * square


@njit(cache=True, nogil=True)
def regressions(pointer, other, place, y, V, ridge, scale, rounds, U, start, end):
    """Write a regression of each line on V that gross errors in it do not bend.

    Absolute errors, by weighted least squares over and over, from nothing.
    """
    rank = V.shape[1]
    A, b = np.empty((rank, rank)), np.empty(rank)
    for i in range(start, end):
        U[i] = 0
        for turn in range(rounds):
            A[:], b[:] = 0, 0
            for k in range(pointer[i], pointer[i + 1]):
                rest = y[place[k]]
                for a in range(rank):
                    rest -= U[i, a] * V[other[k], a]
                w = scale / (abs(rest) + scale) if turn else 1.0
                gather(A, b, w, y[place[k]], V[other[k]])
            for a in range(rank):
                A[a, a] += ridge[a]
            solve(A, b)
            U[i] = b


@njit(cache=True, nogil=True, inline="always")
def gather(A, b, w, y, v):
    """Add an equation to the normal ones; of A the lower half."""
    for a in range(len(v)):
        b[a] += w * y * v[a]
        for c in range(a + 1):
            A[a, c] += w * v[a] * v[c]


@njit(cache=True, nogil=True)
def factor(A):
    """Turn the lower half of A into its Cholesky factor."""
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
    """Solve A x = b in place, by the lower half of A."""
    factor(A)
    for a in range(len(b)):
        for d in range(a):
            b[a] -= A[a, d] * b[d]
        b[a] /= A[a, a]
    for a in range(len(b) - 1, -1, -1):
        for d in range(a + 1, len(b)):
            b[a] -= A[d, a] * b[d]
        b[a] /= A[a, a]

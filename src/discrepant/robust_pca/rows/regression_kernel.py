"""Compiled robust regression of rows of the data on a given row space.

For the entries y of a row at q columns and a basis X (r×q) of the row space at these
columns, find c with y = cX except for errors on less than half of the entries. Each row
is treated by itself and only c is kept, in one read of the data.

Huber steps in the metric of all q columns come first, c ← c + (XXᵀ)⁻¹ X ψ(y − cX) with
ψ the clip at ±δ; they tolerate any start. Least squares on the entries within 2δ
follow. δ is the scale of the residual, from δ = 2·mean min(|e|, δ): entries beyond δ
count as if they were at δ, so that δ decreases with the clean entries as long as these
are at least half. Where the noise is given, δ decreases to 1.7 times the noise.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np

from discrepant.robust_pca.rows.kernels import clipped, kernel

# Huber steps, at most: each divides δ by three if 10% of the entries are corrupt.
MAX_HUBER_STEPS = 20
# δ over its start below which it separates clean from corrupt entries.
SEPARATING_SCALE = 0.03
# Least-squares steps, at most: two as a rule, the second confirms the clean entries.
MAX_LEAST_SQUARES = 10
# |e|/δ within which an entry is clean: 3.4 σ of normal noise.
CLEAN_WITHIN = 2.0
# δ over σ of normal noise, if a tenth of the entries is corrupt.
SCALE_PER_NOISE = 1.7
# Largest ratio of δ to that of the step before, while it is above the given noise.
MAX_SCALE_RATIO = 0.7
# Huber steps with δ at the given noise.
STEPS_AT_NOISE = 4
# Residual over ROUNDING·(largest entry) below which only rounding is left.
ROUNDING_MARGIN = 100.0
# δ over the largest entry of the row, at least.
ROUNDING = 1e-14
# Smallest pivot of the normal equations, over their mean diagonal entry.
MIN_PIVOT = 1e-10
# Rows copied at a time, so that transposed data are read along their rows in memory.
BLOCK_ROWS = 64


@kernel
def write_residual(y, is_observed, c, X, e):
    """Write e = y − cX at observed entries, and zero elsewhere."""
    r, q = X.shape
    for j in range(q):
        e[j] = y[j]
    for k in range(r):
        x, a = X[k], c[k]
        for j in range(q):
            e[j] -= a * x[j]
    for j in range(q):
        e[j] *= is_observed[j]


@kernel
def residual_scale(e, number, size, floor):
    """Return the solution δ of δ = 2·mean min(|e|, δ), iterating down from `size`."""
    while size > floor:
        total = 0.0
        for j in range(len(e)):
            total += min(abs(e[j]), size)
        fallen = 2 * total / number
        if fallen > 0.9 * size:
            break
        size = fallen
    return max(size, floor)


@kernel
def factorise(G, least):
    """Replace the lower triangle of G by its Cholesky factor.

    Pivots below `least` are raised to it. Returns whether there is none.
    """
    definite = True
    for k in range(len(G)):
        for i in range(k + 1):
            total = G[k, i]
            for a in range(i):
                total -= G[k, a] * G[i, a]
            if i < k:
                G[k, i] = total / G[i, i]
            else:
                definite &= total > least
                G[k, k] = np.sqrt(max(total, least))
    return definite


@kernel
def solve_lower(L, g):
    """Solve L x = g in place, for a lower triangular L."""
    for k in range(len(g)):
        for a in range(k):
            g[k] -= L[k, a] * g[a]
        g[k] /= L[k, k]


@kernel
def solve_factorised(L, g):
    """Solve L Lᵀ x = g in place."""
    solve_lower(L, g)
    for k in range(len(g) - 1, -1, -1):
        for a in range(k + 1, len(g)):
            g[k] -= L[a, k] * g[a]
        g[k] /= L[k, k]


@kernel
def fit_row(y, is_observed, number, space, noise, c, work):
    """Fit one row; return the scale of its residual and the number of clean entries.

    The number is zero if the fit failed. A noise of zero means unknown.
    """
    (X, columns, gram, inverse), (e, G, g) = space, work
    r, q = X.shape
    top = 0.0
    for j in range(q):
        top = max(top, abs(y[j]))
    floor = ROUNDING * top
    if top == 0:
        return 0.0, number
    least = max(floor, SCALE_PER_NOISE * noise)
    usual = size = last = residual_scale(y, number, top, least)
    steps_at_noise = 0
    for step in range(MAX_HUBER_STEPS):
        write_residual(y, is_observed, c, X, e)
        last, size = size, residual_scale(e, number, size, least)
        if noise > 0:
            size = max(least, min(size, MAX_SCALE_RATIO * last))
            steps_at_noise += size == least
            if steps_at_noise > STEPS_AT_NOISE:
                break
        elif size < SEPARATING_SCALE * usual or (step > 3 and size > 0.97 * last):
            break
        for k in range(r):
            x, total = X[k], 0.0
            for j in range(q):
                total += min(max(e[j], -size), size) * x[j]
            g[k] = total * q / number
        for k in range(r):
            total = 0.0
            for a in range(r):
                total += inverse[k, a] * g[a]
            c[k] += total
    clean, before, left = 0, -1, size
    for _ in range(MAX_LEAST_SQUARES):
        limit = CLEAN_WITHIN * size
        clean, squares = 0, 0.0
        for k in range(r):
            for a in range(k + 1):
                G[k, a] = gram[k, a]
        for j in range(q):
            if is_observed[j] > 0 and abs(e[j]) <= limit:
                clean += 1
                squares += e[j] * e[j]
                continue
            e[j] = 0.0
            x = columns[j]
            for k in range(r):
                f = x[k]
                for a in range(k + 1):
                    G[k, a] -= f * x[a]
        if clean <= r:
            return size, 0
        left = np.sqrt(squares / (clean - r))
        if left < ROUNDING_MARGIN * floor or (clean == before and size > 0.5 * last):
            break
        before = clean
        for k in range(r):
            x, total = X[k], 0.0
            for j in range(q):
                total += e[j] * x[j]
            g[k] = total
        if not factorise(G, MIN_PIVOT * np.trace(G) / r):
            return size, 0
        solve_factorised(G, g)
        for k in range(r):
            c[k] += g[k]
        write_residual(y, is_observed, c, X, e)
        last = size
        # If the clean entries fit to rounding, δ need not decrease further.
        exact = True
        for j in range(q):
            a = abs(e[j])
            exact &= a > limit or a < ROUNDING_MARGIN * floor
        if not exact:
            size = residual_scale(e, number, size, least)
    return left, clean


@kernel
def fit_rows(Z, long_axis_is_second, indices, at, X, scale, noise, unit, fits):
    """Fit rows, given by their indices, by their entries at some columns.

    `scale` (q,) multiplies the entries in addition to `unit`, as it did X, and `noise`
    is their noise after that, or zero. Writes to `fits`, for each row, its coordinates,
    the scale of its residual, and the numbers of clean and of observed entries.
    """
    C, sizes, clean, observed = fits
    r, q = X.shape
    columns = np.ascontiguousarray(X.T)
    gram = np.zeros((r, r))
    for k in range(r):
        for a in range(r):
            total = 0.0
            for j in range(q):
                total += X[k, j] * X[a, j]
            gram[k, a] = total
    space = X, columns, gram, np.linalg.inv(gram)
    block, is_observed = np.empty((BLOCK_ROWS, q)), np.empty(q)
    work = np.empty(q), np.empty((r, r)), np.empty(r)
    one = unit / unit
    for start in range(0, len(indices), BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, len(indices))
        if long_axis_is_second:
            for j in range(q):
                z = Z[at[j]]
                for i in range(start, stop):
                    block[i - start, j] = clipped(z[indices[i]], unit, one)
        else:
            for i in range(start, stop):
                z = Z[indices[i]]
                for j in range(q):
                    block[i - start, j] = clipped(z[at[j]], unit, one)
        for i in range(start, stop):
            y, number = block[i - start], 0
            for j in range(q):
                there = y[j] == y[j]
                number += there
                is_observed[j] = 1.0 if there else 0.0
                y[j] = y[j] * scale[j] if there else 0.0
            C[i] = 0.0
            observed[i] = number
            sizes[i], clean[i] = 0.0, 0
            if number > r:
                sizes[i], clean[i] = fit_row(
                    y, is_observed, number, space, noise, C[i], work
                )

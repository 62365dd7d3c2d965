"""Compiled robust regression: rows of the data on a row space that is known.

For a row y and a basis X (r×q, one row a direction) of its entries at q columns, find c
with y = cX but for errors on less than half of them. Nothing is shared between rows and
nothing is kept of them but c, so that this is one read of the data at the most.

Huber steps in the metric of all q columns come first, c ← c + (XXᵀ)⁻¹ X ψ(y − cX) with
ψ the clip at ±δ, which forgive any start. Then come least squares on the entries within
2δ. δ is the size of the residual, read off by δ = 2·mean min(|e|, δ): entries beyond
count as if they were at δ, and it follows the clean ones down as long as they are the
half. Where the noise is known, δ goes down to 1.7 times that and stays.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np

from discrepant.robust_pca.rows.kernels import clipped, kernel

HUBER_STEPS = 20  # at the most; each takes δ to a third, with 10% of the entries wrong
SHOWING = 0.03  # of the size of the row, at which δ shows which entries are clean
LEAST_SQUARES = 10  # at the most; as a rule two, the second to see that it stands
WITHIN = 2.0  # δ within which an entry is clean: 3.4 σ of normal noise
NOISE = 1.7  # δ of normal noise, of which a tenth is wrong, over its σ
PRESSED = 0.7  # what δ is pressed to in a step that leaves it above the noise
SETTLING = 4  # Huber steps at the noise
ROUNDED = 100.0  # times that, below which there is nothing left but rounding
ROUNDING = 1e-14  # of the size of a row, below which δ does not fall
BLOCK = 64  # rows gathered at a time, so that wide data are read along their lines


@kernel
def residual_of(y, seen, c, X, e):
    """Let e = y − cX where an entry is seen, and zero elsewhere."""
    r, q = X.shape
    for j in range(q):
        e[j] = y[j]
    for k in range(r):
        x, a = X[k], c[k]
        for j in range(q):
            e[j] -= a * x[j]
    for j in range(q):
        e[j] *= seen[j]


@kernel
def size_of(e, number, size, floor):
    """Follow δ = 2·mean min(|e|, δ) down from `size`."""
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
def solve_in_place(G, g):
    """Solve G c = g by Cholesky, c in place of g; whether G is positive definite."""
    r = len(g)
    least = 0.0
    for k in range(r):
        least += G[k, k]
    least *= 1e-10 / r
    for k in range(r):
        for i in range(k + 1):
            total = G[k, i]
            for a in range(i):
                total -= G[k, a] * G[i, a]
            if i < k:
                G[k, i] = total / G[i, i]
            elif total > least:
                G[k, k] = np.sqrt(total)
            else:
                return False
    for k in range(r):
        total = g[k]
        for a in range(k):
            total -= G[k, a] * g[a]
        g[k] = total / G[k, k]
    for k in range(r - 1, -1, -1):
        total = g[k]
        for a in range(k + 1, r):
            total -= G[a, k] * g[a]
        g[k] = total / G[k, k]
    return True


@kernel
def fit_row(y, seen, number, X, columns, gram, inverse, noise, c, e, G, g):
    """Fit one row; returns the size of what is left and the number of clean entries.

    The number is zero if it failed. A noise of zero is not known.
    """
    r, q = X.shape
    top = 0.0
    for j in range(q):
        top = max(top, abs(y[j]))
    floor = ROUNDING * top
    if top == 0:
        return 0.0, number
    least = max(floor, NOISE * noise)
    usual = size = last = size_of(y, number, top, least)
    held = 0
    for step in range(HUBER_STEPS):
        residual_of(y, seen, c, X, e)
        last, size = size, size_of(e, number, size, least)
        if noise > 0:
            size = max(least, min(size, PRESSED * last))
            held += size == least
            if held > SETTLING:
                break
        elif size < SHOWING * usual or (step > 3 and size > 0.97 * last):
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
    for _ in range(LEAST_SQUARES):
        limit = WITHIN * size
        clean, squares = 0, 0.0
        for k in range(r):
            for a in range(k + 1):
                G[k, a] = gram[k, a]
        for j in range(q):
            if seen[j] > 0 and abs(e[j]) <= limit:
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
        if left < ROUNDED * floor or (clean == before and size > 0.5 * last):
            break
        before = clean
        for k in range(r):
            x, total = X[k], 0.0
            for j in range(q):
                total += e[j] * x[j]
            g[k] = total
        if not solve_in_place(G, g):
            return size, 0
        for k in range(r):
            c[k] += g[k]
        residual_of(y, seen, c, X, e)
        last = size
        # Where the clean ones fit to rounding there is nothing to follow down.
        exact = True
        for j in range(q):
            a = abs(e[j])
            exact &= a > limit or a < ROUNDED * floor
        if not exact:
            size = size_of(e, number, size, least)
    return left, clean


@kernel
def fit_rows(Z, wide, which, at, X, scale, noise, unit, C, sizes, clean, observed):
    """Fit the rows `which` of the long axis by their entries `at` the short one.

    `scale` (q,) is what the entries are multiplied by beside `unit`, as X was, and
    `noise` what they then have, or zero. Fills, for each row, C, the size of what is
    left, and the number of entries that are clean and that are observed.
    """
    r, q = X.shape
    columns = np.ascontiguousarray(X.T)
    gram = np.zeros((r, r))
    for k in range(r):
        for a in range(r):
            total = 0.0
            for j in range(q):
                total += X[k, j] * X[a, j]
            gram[k, a] = total
    inverse = np.linalg.inv(gram)
    block, seen = np.empty((BLOCK, q)), np.empty(q)
    e, G, g = np.empty(q), np.empty((r, r)), np.empty(r)
    one = unit / unit
    for start in range(0, len(which), BLOCK):
        stop = min(start + BLOCK, len(which))
        if wide:
            for j in range(q):
                z = Z[at[j]]
                for i in range(start, stop):
                    block[i - start, j] = clipped(z[which[i]], unit, one)
        else:
            for i in range(start, stop):
                z = Z[which[i]]
                for j in range(q):
                    block[i - start, j] = clipped(z[at[j]], unit, one)
        for i in range(start, stop):
            y, number = block[i - start], 0
            for j in range(q):
                known = y[j] == y[j]
                number += known
                seen[j] = 1.0 if known else 0.0
                y[j] = y[j] * scale[j] if known else 0.0
            C[i] = 0.0
            observed[i] = number
            sizes[i], clean[i] = 0.0, 0
            if number > r:
                sizes[i], clean[i] = fit_row(
                    y, seen, number, X, columns, gram, inverse, noise, C[i], e, G, g
                )

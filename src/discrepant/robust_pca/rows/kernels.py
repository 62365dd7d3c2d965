"""Compiled kernels, the element-wise half of a pass.

Importing this module is slow, since it loads the compiler: ``import discrepant`` does
not import it.

`in_memory` runs kernels over *tiles* that stay in cache: BLAS computes L = U Cᵀ in the
tile, a kernel replaces it in place by what the pass multiplies (T, or the clean
residual), and BLAS multiplies the tile by narrow factors. Z, the data, is always
C-contiguous, and (row, column) is the corner of the tile in it. Kernels release the
GIL, so that one thread per core can run its own tiles. See `passes` for what they do.

Missing entries are NaN in Z. The bound on the dual is zero there instead of λ; S then
takes the residual, and M = 0. Nothing else depends on them.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from discrepant.core.jit import njit

# Floating-point rules that the compiler may relax: all that keep the meaning of NaN.
kernel = njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"})


@kernel
def clipped(z, unit, one):
    """Return an entry times the unit, clipped to ±1; NaN stays NaN."""
    y = z * unit
    y = one if y > one else y
    return -one if y < -one else y


@kernel
def scan(Z, row, column, tile, zero):
    """Return the largest |entry| and the number of observed entries of the tile."""
    largest, observed = 0.0, 0
    height, width = tile.shape
    for i in range(height):
        z = Z[row + i, column : column + width]
        row_largest, row_observed = zero, 0
        for j in range(width):
            a = abs(z[j])
            row_observed += a == a
            row_largest = a if a > row_largest else row_largest  # False for NaN
        largest = max(largest, float(row_largest))
        observed += row_observed
    return largest, observed


@kernel
def data(Z, row, column, tile, unit):
    """Copy the data, times the unit, into the tile, zero where missing; return ‖Z‖²."""
    square = 0.0
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    for i in range(height):
        z = Z[row + i, column : column + width]
        t = tile[i]
        z2 = zero
        for j in range(width):
            t[j] = clipped(z[j], unit, one) if z[j] == z[j] else zero
            z2 += t[j] * t[j]
        square += z2
    return (square,)


@kernel
def step(Z, T, row, column, tile, unit, dual_scale, bound, noise_shrinkage):
    """Replace L in the tile by T ← L + clip(w·(Z − L + D), λ/μ); return its sums."""
    residual, n_corrupt = 0.0, 0
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    for i in range(height):
        z = Z[row + i, column : column + width]
        t = T[row + i, column : column + width]
        L = tile[i]
        r2, corrupt = zero, 0
        for j in range(width):
            observed = z[j] == z[j]
            y = clipped(z[j], unit, one) if observed else zero
            limit = bound if observed else zero
            d = (t[j] - L[j]) * dual_scale
            a = (y - L[j] + d) * noise_shrinkage
            c = min(max(a, -limit), limit)  # = T − L, the dual over μ
            r2 += (c - d) * (c - d)
            corrupt += observed and abs(a) > limit
            L[j] += c
            t[j] = L[j]
        residual += r2
        n_corrupt += corrupt
    return residual, n_corrupt


@kernel
def clean_residual(Z, row, column, tile, lines, table, sums, histogram, unit, zeta):
    """Replace L in the tile by R = Z − L where |Z − L| ≤ ζ, else 0; return its sums.

    Counts the clean entries of each line of both axes.
    """
    residual, square = 0.0, 0.0
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    by_first, by_second = sums
    clean = by_second[0]
    for i in range(height):
        z = Z[row + i, column : column + width]
        L = tile[i]
        n_clean, r2, y2 = zero, zero, zero
        for j in range(width):
            y = clipped(z[j], unit, one)
            e = y - L[j]
            inside = one if abs(e) <= zeta else zero  # zero for NaN
            r = e if abs(e) <= zeta else zero
            n_clean += inside
            clean[j] += inside
            r2 += r * r
            y2 += y * y if y == y else zero
            L[j] = r
        by_first[0, i] += n_clean
        residual += r2
        square += y2
    return residual, square


@kernel
def sparse_part(Z, S, M, row, column, tile, unit, dual_cutoff, zeta):
    """Write S = Z − L where |Z − L| > ζ and |M| ≥ `dual_cutoff`, else 0."""
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    for i in range(height):
        z = Z[row + i, column : column + width]
        s = S[row + i, column : column + width]
        m = M[row + i, column : column + width]
        L = tile[i]
        for j in range(width):
            e = clipped(z[j], unit, one) - L[j]
            inside = abs(e) > zeta and abs(m[j]) >= dual_cutoff  # False for NaN
            inside = inside or abs(z[j] * unit) > one
            s[j] = z[j] - L[j] / unit if inside else zero

"""Kernels, the element-wise half of a pass; those of every step are compiled.

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

import numpy as np

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
def step(
    Z,
    T,
    row,
    column,
    tile,
    unit,
    initial_dual_scale,
    dual_scale,
    bound,
    noise_shrinkage,
):
    """Replace L in the tile by T ← L + clip(w·(Z − L + D), λ/μ); return its sums."""
    residual, alignment, n_corrupt = 0.0, 0.0, 0
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    for i in range(height):
        z = Z[row + i, column : column + width]
        t = T[row + i, column : column + width]
        L = tile[i]
        r2, zc, corrupt = zero, zero, 0
        for j in range(width):
            observed = z[j] == z[j]
            y = clipped(z[j], unit, one) if observed else zero
            limit = bound if observed else zero
            if initial_dual_scale != zero:
                d = initial_dual_scale * y
            else:
                d = (t[j] - L[j]) * dual_scale
            a = (y - L[j] + d) * noise_shrinkage
            c = min(max(a, -limit), limit)  # = T − L, the dual over μ
            r2 += (c - d) * (c - d)
            zc += c * y
            corrupt += observed and abs(a) > limit
            L[j] += c
            t[j] = L[j]
        residual += r2
        alignment += zc
        n_corrupt += corrupt
    return residual, alignment, n_corrupt


@kernel
def clean_residual(Z, row, column, tile, unit, zeta):
    """Replace L in the tile by R = Z − L where |Z − L| ≤ ζ, else 0; return its sums."""
    residual, n_clean, outlier_l1 = 0.0, 0, 0.0
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    for i in range(height):
        z = Z[row + i, column : column + width]
        L = tile[i]
        r2, clean, l1 = zero, 0, zero
        for j in range(width):
            e = clipped(z[j], unit, one) - L[j]
            inside = abs(e) <= zeta  # False for NaN
            clean += inside
            r = e if inside else zero
            r2 += r * r
            l1 += abs(e) if abs(e) > zeta else zero
            L[j] = r
        residual += r2
        n_clean += clean
        outlier_l1 += l1
    return residual, n_clean, outlier_l1


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


# The passes below are made once or a few times in a fit, and need not be compiled.


def under(tile, row, column, *arrays):
    """Return the parts of arrays, laid out as the data, that a tile covers."""
    height, width = tile.shape
    return [X[row : row + height, column : column + width] for X in arrays]


def clipped_data(z, unit):
    """Return entries times the unit, clipped to ±1; NaN stays NaN."""
    with np.errstate(over="ignore"):
        return np.clip(z * unit, -1, 1)


def read(Z, T, row, column, tile):
    """Copy an array laid out as the data into the tile."""
    (tile[:],) = under(tile, row, column, T)


def start_from_dual(Z, T, M, row, column, tile, mu):
    """Write T = L + M/μ, where a warm start begins; L is in the tile."""
    t, m = under(tile, row, column, T, M)
    t[:] = tile + m / mu


def dual_of_step(Z, M, T, row, column, tile, mu, lam):
    """Write the dual M = μ(T − L) of the last step, clipped to ±λ; L is in the tile."""
    z, m, t = under(tile, row, column, Z, M, T)
    m[:] = np.where(np.isnan(z), 0, np.clip(mu * (t - tile), -lam, lam))


def pin_dual_to_support(Z, M, row, column, tile, unit, lam, inner, zeta):
    """Set M = λ sign(Z − L) where |Z − L| > ζ, else clip it; the tile becomes M."""
    z, m = under(tile, row, column, Z, M)
    e = clipped_data(z, unit) - tile
    free = np.where(np.isnan(z), 0, np.clip(m, -inner, inner))
    m[:] = tile[:] = np.where(np.abs(e) > zeta, np.where(e > 0, lam, -lam), free)


def project_dual(Z, M, row, column, tile, lam, inner):
    """Set M ← clip(M − N) off the pinned support; N in the tile is replaced by M."""
    z, m = under(tile, row, column, Z, M)
    free = np.where(np.isnan(z), 0, np.clip(m - tile, -inner, inner))
    m[:] = tile[:] = np.where(np.abs(m) >= lam, m, free)


def certificate_sums(Z, M, row, column, tile, unit, lam, knee):
    """Return the sums of a certificate with Huber's penalty; L is in the tile."""
    z, m = (x.astype(np.float64) for x in under(tile, row, column, Z, M))
    y = np.nan_to_num(clipped_data(z, unit))
    e = np.where(np.isnan(z), 0, y - tile)
    size = np.abs(e)
    penalty = np.where(size > knee, size - knee / 2, size**2 / (2 * knee or 1))
    products = np.vdot(m, y), np.vdot(m, e), lam * penalty.sum(), np.vdot(m, m)
    return size.sum(), *products


def find_wrongly_clipped(Z, row, column, tile, unit, corrupt_fraction):
    """Find entries clipped to ±1 of which S = Z − L takes less than a fraction."""
    (z,) = under(tile, row, column, Z)
    with np.errstate(over="ignore"):
        is_clipped = np.abs(z * unit) > 1
    wrong = is_clipped & (1 - np.where(z > 0, tile, -tile) < corrupt_fraction)
    largest = np.max(np.abs(z), where=wrong, initial=0)
    return float(largest), wrong.sum(), is_clipped.sum()


def low_rank_part(Z, X, row, column, tile):
    """Write X = L in data units; L is in the tile."""
    under(tile, row, column, X)[0][:] = tile


def residual_part(Z, R, S, row, column, tile):
    """Write R = Z − L − S in data units, NaN where Z is missing; L is in the tile."""
    z, r, s = under(tile, row, column, Z, R, S)
    r[:] = z - tile - s


def flagged_part(Z, S, flagged, row, column, tile):
    """Write S = Z − L in data units where flagged, else 0; L is in the tile."""
    z, s, inside = under(tile, row, column, Z, S, flagged)
    s[:] = np.where(inside, z - tile, 0)

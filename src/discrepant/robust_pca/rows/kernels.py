"""Compiled inner loops of the implicit integrator.

Importing this module is slow (it loads the compiler), so it is imported by the objects
that need it at the moment they are made, never by ``import discrepant``.

The kernels are the element-wise half of a pass, fused so that each entry is read and
written once. A pass walks the data in *tiles* that stay in cache: BLAS puts L = U Cᵀ
into the tile, a kernel turns it in place into what the step needs (T, or the clean
residual), and BLAS multiplies the tile by the narrow factors; `rows` does the walking.
Z is always C-contiguous and (row, column) is the corner of the tile in it. Every kernel
releases the GIL, so that one thread per core can run its own tiles.

Missing entries are NaN in Z. The bound on the dual is zero there instead of λ, and that
is all there is to it: S then absorbs the residual and M = 0.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

from discrepant.core.jit import njit

# NaN must keep its meaning, so only these liberties are granted to the compiler.
kernel = njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"})


@kernel
def clipped(z, unit, one):
    """Return an entry in its unit, and a gross one as ±1; NaN stays NaN."""
    y = z * unit
    y = one if y > one else y
    return -one if y < -one else y


@kernel
def scan(Z, row, column, tile, zero):
    """Largest |entry| and number of observed entries under the tile."""
    largest, observed = 0.0, 0
    height, width = tile.shape
    for i in range(height):
        z = Z[row + i, column : column + width]
        top, seen = zero, 0
        for j in range(width):
            a = abs(z[j])
            seen += a == a
            top = a if a > top else top  # False for NaN
        largest = max(largest, float(top))
        observed += seen
    return largest, observed


@kernel
def data(Z, row, column, tile, unit):
    """Copy the data, in its unit, into the tile; missing entries become zero.

    Returns ‖Z‖² over the observed entries.
    """
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
def step(Z, T, row, column, tile, unit, first, keep, bound, soften):
    """One implicit step: from L in the tile to T ← L + clip(w·(Z − L + D), λ/μ).

    D is M/μ: `first`·Z at the very first step and `keep`·(T − L) with keep = μ_old/μ
    after it; `bound` is λ/μ and `soften` the factor w = κ/(κ + μ), one without noise.
    The scalars have the data's own type.  Returns ‖Z − L − S − N‖² with the noise
    N = M/κ, ⟨T − L, Z⟩ = ⟨M, Z⟩/μ, and the number of entries where S ≠ 0.
    """
    residual, alignment, active = 0.0, 0.0, 0
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    for i in range(height):
        z = Z[row + i, column : column + width]
        t = T[row + i, column : column + width]
        L = tile[i]
        r2, zc, at = zero, zero, 0
        for j in range(width):
            seen = z[j] == z[j]
            y = clipped(z[j], unit, one) if seen else zero
            limit = bound if seen else zero
            d = first * y if first != zero else (t[j] - L[j]) * keep
            a = (y - L[j] + d) * soften
            c = min(max(a, -limit), limit)  # = T − L, the dual over μ
            r2 += (c - d) * (c - d)
            zc += c * y
            at += seen and abs(a) > limit
            L[j] += c
            t[j] = L[j]
        residual += r2
        alignment += zc
        active += at
    return residual, alignment, active


@kernel
def clean_residual(Z, row, column, tile, unit, zeta):
    """From L in the tile to R = Z − L where |Z − L| ≤ ζ and 0 elsewhere.

    Returns ‖R‖², the number of entries within ζ, and Σ|Z − L| beyond it.
    """
    residual, clean, beyond = 0.0, 0, 0.0
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    for i in range(height):
        z = Z[row + i, column : column + width]
        L = tile[i]
        r2, kept, out = zero, 0, zero
        for j in range(width):
            e = clipped(z[j], unit, one) - L[j]
            inside = abs(e) <= zeta  # False for NaN
            kept += inside
            r = e if inside else zero
            r2 += r * r
            out += abs(e) if abs(e) > zeta else zero
            L[j] = r
        residual += r2
        clean += kept
        beyond += out
    return residual, clean, beyond


@kernel
def read(Z, T, row, column, tile):
    """Copy an array laid out as the data into the tile."""
    height, width = tile.shape
    for i in range(height):
        t = T[row + i, column : column + width]
        for j in range(width):
            tile[i, j] = t[j]


@kernel
def dual_of_step(Z, M, T, row, column, tile, mu, lam):
    """From L of the last step in the tile to its dual M = μ(T − L), at most λ."""
    height, width = tile.shape
    zero = lam * 0
    for i in range(height):
        z = Z[row + i, column : column + width]
        m = M[row + i, column : column + width]
        t = T[row + i, column : column + width]
        L = tile[i]
        for j in range(width):
            limit = lam if z[j] == z[j] else zero
            m[j] = min(max(mu * (t[j] - L[j]), -limit), limit)


@kernel
def start_from_dual(Z, T, M, row, column, tile, mu):
    """From L in the tile and a dual M to T = L + M/μ: where a warm start begins."""
    height, width = tile.shape
    for i in range(height):
        t = T[row + i, column : column + width]
        m = M[row + i, column : column + width]
        L = tile[i]
        for j in range(width):
            t[j] = L[j] + m[j] / mu


@kernel
def pin_dual_to_support(Z, M, row, column, tile, unit, lam, inner, zeta):
    """Set M = λ sign(S) where S = Z − L is beyond ζ; elsewhere |M| ≤ `inner` < λ.

    So the support of S can from then on be told from M alone.  L is in the tile, and
    leaves it as M.
    """
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    for i in range(height):
        z = Z[row + i, column : column + width]
        m = M[row + i, column : column + width]
        L = tile[i]
        for j in range(width):
            seen = z[j] == z[j]
            e = clipped(z[j], unit, one) - L[j] if seen else zero
            limit = inner if seen else zero
            free = min(max(m[j], -limit), limit)
            m[j] = (lam if e > zero else -lam) if abs(e) > zeta else free
            L[j] = m[j]


@kernel
def project_dual(Z, M, row, column, tile, lam, inner):
    """M ← clip(M − N) off the pinned support, with N in the tile; leaves M there."""
    height, width = tile.shape
    zero = lam * 0
    for i in range(height):
        z = Z[row + i, column : column + width]
        m = M[row + i, column : column + width]
        N = tile[i]
        for j in range(width):
            limit = inner if z[j] == z[j] else zero
            free = min(max(m[j] - N[j], -limit), limit)
            m[j] = m[j] if abs(m[j]) >= lam else free
            N[j] = m[j]


@kernel
def certificate_sums(Z, M, row, column, tile, unit, lam, knee):
    """From L in the tile to what a certificate needs, with e = Z − L where observed.

    Returns Σ|e|, ⟨M, Z⟩, ⟨M, e⟩, the penalty Σρ(e), and ‖M‖². ρ is Huber's: λ|e| beyond
    the knee λ/κ, up to a constant, and quadratic within; the knee is zero if κ = ∞.
    """
    absolute, product, aligned, penalty, square = 0.0, 0.0, 0.0, 0.0, 0.0
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    half = knee / 2
    for i in range(height):
        z = Z[row + i, column : column + width]
        m = M[row + i, column : column + width]
        L = tile[i]
        for j in range(width):
            seen = z[j] == z[j]
            y = clipped(z[j], unit, one) if seen else zero
            e = y - L[j] if seen else zero
            size = abs(e)
            absolute += size
            product += float(m[j]) * y
            aligned += float(m[j]) * e
            square += float(m[j]) * m[j]
            if size > knee:
                penalty += lam * (size - half)
            elif size > zero:  # so the knee is not zero
                penalty += lam * size * size / (2 * knee)
    return absolute, product, aligned, penalty, square


@kernel
def low_rank_part(Z, X, row, column, tile, unit):
    """From L in the tile to X in the scale of the data."""
    height, width = tile.shape
    for i in range(height):
        x = X[row + i, column : column + width]
        for j in range(width):
            x[j] = tile[i, j] / unit


@kernel
def sparse_part(Z, S, M, row, column, tile, unit, reach, zeta):
    """From L in the tile to S = Z − L where |Z − L| > ζ and |M| ≥ `reach`, else 0.

    Here an entry beyond ±1 counts in full, and always.
    """
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    for i in range(height):
        z = Z[row + i, column : column + width]
        s = S[row + i, column : column + width]
        m = M[row + i, column : column + width]
        L = tile[i]
        for j in range(width):
            e = clipped(z[j], unit, one) - L[j]
            inside = abs(e) > zeta and abs(m[j]) >= reach  # False for NaN
            inside = inside or abs(z[j] * unit) > one
            s[j] = z[j] - L[j] / unit if inside else zero


@kernel
def find_wrongly_clipped(Z, row, column, tile, unit, share):
    """From L in the tile to what was clipped to ±1 though it is not corrupt.

    That is an entry of which S = Z − L takes less than a share, so that its size
    matters.  Returns the largest of them, their number, and that of all clipped ones.
    """
    largest, wrong, beyond = 0.0, 0, 0
    height, width = tile.shape
    one = unit / unit
    for i in range(height):
        z = Z[row + i, column : column + width]
        L = tile[i]
        for j in range(width):
            y = z[j] * unit
            if abs(y) > one:
                beyond += 1
                if one - (L[j] if y > 0 else -L[j]) < share:
                    largest = max(largest, float(abs(z[j])))
                    wrong += 1
    return largest, wrong, beyond


@kernel
def residual_part(Z, R, S, row, column, tile, unit):
    """From L in the tile to R = Z − L − S, in data units; NaN where Z is missing."""
    height, width = tile.shape
    for i in range(height):
        z = Z[row + i, column : column + width]
        for j in range(width):
            R[row + i, column + j] = z[j] - tile[i, j] / unit - S[row + i, column + j]


@kernel
def flagged_part(Z, S, wrong, row, column, tile, unit):
    """From L in the tile to S = Z − L where wrong and 0 elsewhere, in data units."""
    height, width = tile.shape
    zero = unit * 0
    for i in range(height):
        z = Z[row + i, column : column + width]
        for j in range(width):
            inside = wrong[row + i, column + j]
            S[row + i, column + j] = z[j] - tile[i, j] / unit if inside else zero

"""The passes of the implicit integrator for arrays on a device.

Each function is the twin of the one of that name in `robust_pca.rows.kernels`,
which says what it is for. It is given some rows z of the data, L = U Cᵀ there, the same
rows of further arrays and the scalars, and writes to none of them: it returns the tile,
the rows of the first array as they are to be (or None), and the sums.
"""

from dataclasses import dataclass
from typing import Any

from discrepant.core.device_arrays import Place

Found = tuple[Any, Any, tuple[Any, ...]]


@dataclass(frozen=True)
class Cells:
    """What the kernels need to know of the data beside some rows of them."""

    place: Place
    complete: bool  # whether no entry is missing

    @property
    def xp(self) -> Any:
        """The library."""
        return self.place.xp

    def seen(self, z: Any) -> Any:
        """Return which entries are observed."""
        return ~self.xp.isnan(z)

    def clipped(self, z: Any, unit: float) -> Any:
        """Return entries in their unit, and gross ones as ±1; NaN stays NaN."""
        return self.place.clip(z * unit, -1.0, 1.0)

    def filled(self, z: Any, values: Any) -> Any:
        """Return values, and zero where z is missing."""
        return values if self.complete else self.xp.where(self.seen(z), values, 0.0)

    def within(self, z: Any, values: Any, limit: float) -> Any:
        """Return values within ±limit, and zero where z is missing."""
        return self.filled(z, self.place.clip(values, -limit, limit))

    def total(self, x: Any) -> Any:
        """Return the sum of all entries, that of the rows in the widest type."""
        by_row = self.xp.astype(self.xp.sum(x, axis=1), self.place.widest)
        return self.xp.sum(by_row)

    def number(self, mask: Any, like: Any) -> Any:
        """Return how many entries hold; exact, as a block has less than 2²⁴."""
        return self.total(self.xp.astype(mask, like.dtype))


def scan(cells: Cells, z: Any, L: Any, zero: float) -> Found:
    """Find the largest |entry| and the number of observed entries."""
    xp, seen = cells.xp, cells.seen(z)
    size = xp.where(seen, xp.abs(z), 0.0)
    return z, None, (xp.max(size), cells.number(seen, z))


def data(cells: Cells, z: Any, L: Any, unit: float) -> Found:
    """Take the data in their unit; missing entries become zero."""
    tile = cells.filled(z, cells.clipped(z, unit))
    return tile, None, (cells.total(tile * tile),)


def step(
    cells: Cells,
    z: Any,
    L: Any,
    t: Any,
    unit: float,
    first: float,
    keep: float,
    bound: float,
    soften: float,
) -> Found:
    """Make one implicit step: T ← L + clip(w·(Z − L + D), λ/μ)."""
    y = cells.filled(z, cells.clipped(z, unit))
    d = first * y if first else (t - L) * keep
    a = y - L + d
    if soften != 1:
        a = a * soften
    c = cells.within(z, a, bound)
    off = c - d
    beyond = cells.xp.abs(a) > bound
    if not cells.complete:
        beyond = beyond & cells.seen(z)
    T = L + c
    sums = cells.total(off * off), cells.total(c * y), cells.number(beyond, z)
    return T, T, sums


def clean_residual(cells: Cells, z: Any, L: Any, unit: float, zeta: float) -> Found:
    """Take R = Z − L where |Z − L| ≤ ζ and 0 elsewhere."""
    xp = cells.xp
    e = cells.filled(z, cells.clipped(z, unit) - L)
    size = xp.abs(e)
    inside = size <= zeta
    R = xp.where(inside, e, 0.0)
    beyond = xp.where(inside, 0.0, size)
    if not cells.complete:
        inside = inside & cells.seen(z)
    return R, None, (cells.total(R * R), cells.number(inside, z), cells.total(beyond))


def read(cells: Cells, z: Any, L: Any, t: Any) -> Found:
    """Take an array laid out as the data."""
    return t, None, ()


def dual_from(
    cells: Cells, z: Any, L: Any, m: Any, t: Any, mu: float, lam: float
) -> Found:
    """Return the dual M = μ(T − L) of the last step, at most λ."""
    M = cells.within(z, mu * (t - L), lam)
    return M, M, ()


def lift(cells: Cells, z: Any, L: Any, t: Any, m: Any, mu: float) -> Found:
    """Return T = L + M/μ: where a warm start begins."""
    T = L + m / mu
    return T, T, ()


def pin(
    cells: Cells,
    z: Any,
    L: Any,
    m: Any,
    unit: float,
    lam: float,
    inner: float,
    zeta: float,
) -> Found:
    """Set M = λ sign(S) where S = Z − L is beyond ζ; elsewhere |M| ≤ `inner` < λ."""
    xp = cells.xp
    e = cells.filled(z, cells.clipped(z, unit) - L)
    free = cells.within(z, m, inner)
    M = xp.where(xp.abs(e) > zeta, lam * xp.sign(e), free)
    return M, M, ()


def correct(cells: Cells, z: Any, N: Any, m: Any, lam: float, inner: float) -> Found:
    """Let M ← clip(M − N) off the pinned support."""
    xp = cells.xp
    pinned = xp.abs(m) > (lam + inner) / 2  # |M| is λ there, and `inner` at most else
    M = xp.where(pinned, m, cells.within(z, m - N, inner))
    return M, M, ()


def score(
    cells: Cells, z: Any, L: Any, m: Any, unit: float, lam: float, knee: float
) -> Found:
    """Sum up what a certificate needs, with e = Z − L where observed."""
    xp = cells.xp
    y = cells.filled(z, cells.clipped(z, unit))
    e = cells.filled(z, y - L)
    size = xp.abs(e)
    penalty = lam * (size - knee / 2)
    if knee > 0:
        penalty = xp.where(size > knee, penalty, lam / (2 * knee) * size * size)
    parts = size, m * y, m * e, penalty, m * m
    return L, None, tuple(cells.total(part) for part in parts)


def low_rank_part(cells: Cells, z: Any, L: Any, x: Any, unit: float) -> Found:
    """Return X in the scale of the data."""
    X = L if unit == 1 else L / unit
    return L, X, ()


def sparse_part(
    cells: Cells,
    z: Any,
    L: Any,
    s: Any,
    m: Any,
    unit: float,
    reach: float,
    zeta: float,
) -> Found:
    """Return S = Z − L where |Z − L| > ζ and |M| ≥ `reach`, else 0."""
    xp = cells.xp
    inside = xp.abs(cells.clipped(z, unit) - L) > zeta  # False for NaN
    if reach > 0:
        inside = inside & (xp.abs(m) >= reach)
    inside = inside | (xp.abs(z * unit) > 1)
    return L, xp.where(inside, z - L / unit, 0.0), ()


def unexplained(cells: Cells, z: Any, L: Any, unit: float, share: float) -> Found:
    """Look for what was clipped to ±1 though it is not corrupt."""
    xp = cells.xp
    y = z * unit
    beyond = xp.abs(y) > 1
    wrong = beyond & (1 - xp.where(y > 0, L, -L) < share)
    largest = xp.max(xp.where(wrong, xp.abs(z), 0.0))
    return L, None, (largest, cells.number(wrong, z), cells.number(beyond, z))


def remainder(cells: Cells, z: Any, L: Any, r: Any, s: Any, unit: float) -> Found:
    """Return R = Z − L − S, in data units; NaN where Z is missing."""
    return L, z - L / unit - s, ()


def difference(cells: Cells, z: Any, L: Any, s: Any, wrong: Any, unit: float) -> Found:
    """Return S = Z − L where wrong and 0 elsewhere, in data units."""
    return L, cells.xp.where(wrong, z - L / unit, 0.0), ()

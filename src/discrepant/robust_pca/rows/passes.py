"""Typed passes over the data: what each one computes, from what, in which unit.

Every function makes one pass over all entries. A low-rank matrix L = U Cᵀ is given as
`low_rank` = (U, C), with U of shape (m, r) and C of shape (n, r). Data Y are multiplied
by `unit` and clipped to ±1; "in data units" means that neither is done.
Arrays of the size of the data are laid out as `Rows.empty_like_data` returns them.
Missing entries (NaN) are left out of every sum.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.rows.robust_kernels import BINS, BINS_PER_LINE
from discrepant.robust_pca.rows.rows import Pass, Rows

Factors = tuple[Array, Array]  # U (m, r) and C (n, r) of a low-rank matrix U Cᵀ

# ------------------------------------------------------------------------- the data


class DataScan(NamedTuple):
    """Largest |entry| in data units, and the number of observed entries."""

    largest: float
    n_observed: int


def scan(rows: Rows) -> DataScan:
    """Find the largest |entry| and count the observed entries."""
    tiles = rows.run(Pass("scan", (0.0,))).tile_sums.reshape(-1, 2)
    return DataScan(float(tiles[:, 0].max(initial=0.0)), int(tiles[:, 1].sum()))


class Products(NamedTuple):
    """Products of an m×n matrix with narrow factors."""

    right: Array  # (m, k)
    left: Array  # (n, k)


class DataProducts(NamedTuple):
    """Products of the data Y with narrow factors, and their squared norm."""

    right: Array  # Y · right, (m, k)
    left: Array  # Yᵀ · left, (n, k)
    square: float  # ‖Y‖²


def multiply_data(
    rows: Rows,
    *,
    unit: float,
    right: Array | None = None,
    left: Array | None = None,
    power: bool = False,
) -> DataProducts:
    """Multiply the data by narrow factors; with `power`, left = Y · right is used."""
    out = rows.run(Pass("data", (unit,), right=right, left=left, power=power))
    return DataProducts(out.right, out.left, float(out.tile_sums.sum()))


def multiply(
    rows: Rows,
    X: Array,
    *,
    right: Array | None = None,
    left: Array | None = None,
    power: bool = False,
) -> Products:
    """Multiply an array of the size of the data by narrow factors."""

    def read(tile: Array, Y: Array, X: Array) -> None:
        tile[:] = X

    out = rows.run(Pass(read, arrays=(X,), right=right, left=left, power=power))
    return Products(out.right, out.left)


# -------------------------------------------------------------- the exact solver's step


class ImplicitStep(NamedTuple):
    """Products with the new T, and sums of one augmented-Lagrangian step."""

    right: Array  # T · right
    left: Array  # Tᵀ · left
    residual_square: float  # ‖Y − L − S − N‖², with the noise N = M/κ
    n_corrupt: float  # number of entries where S ≠ 0


def implicit_step(
    rows: Rows,
    T: Array,
    low_rank: Factors,
    *,
    unit: float,
    dual_scale: float,
    bound: float,
    noise_shrinkage: float,
    right: Array,
    left: Array | None = None,
    power: bool = False,
) -> ImplicitStep:
    """Update T ← L + clip(w·(Y − L + D), bound) in place, with D = M/μ.

    D is `dual_scale`·(T − L) with the dual scale μ_old/μ. `bound` is λ/μ, and
    w = `noise_shrinkage` is κ/(κ + μ), or one without noise.
    """
    step = Pass(
        "step",
        (unit, dual_scale, bound, noise_shrinkage),
        arrays=(T,),
        low_rank=low_rank,
        right=right,
        left=left,
        power=power,
    )
    out = rows.run(step)
    return ImplicitStep(out.right, out.left, *out.tile_sums.sum(axis=0))


def start_from_dual(
    rows: Rows, T: Array, M: Array, low_rank: Factors, *, mu: float
) -> None:
    """Set T = L + M/μ: where a warm start begins."""
    _entrywise(rows, lambda L, Y, M: L + M / mu, low_rank, M, out=T)


class CleanResidual(NamedTuple):
    """R = Y − L where |Y − L| ≤ ζ, and zero elsewhere; entries are clean within ζ."""

    right: Array  # R · C, (m, r)
    left: Array  # Rᵀ · U, (n, r)
    square: float  # ‖R‖²
    data_square: float  # ‖Y‖²
    n_clean: tuple[Array, Array]  # clean entries of each row and of each column


def clean_residual(
    rows: Rows, low_rank: Factors, *, unit: float, zeta: float, products: bool = True
) -> CleanResidual:
    """Compute R and, unless it is only for the sums, its products with both factors."""
    left, right = low_rank if products else (None, None)
    out = rows.run(
        Pass(
            "clean_residual",
            (unit, zeta),
            low_rank=low_rank,
            right=right,
            left=left,
            n_sums=(1, 1),
        )
    )
    square, data_square = map(float, out.tile_sums.reshape(-1, 2).sum(axis=0))
    n_clean = out.by_row[0], out.by_column[0]
    return CleanResidual(out.right, out.left, square, data_square, n_clean)


def count_observed(rows: Rows) -> tuple[Array, Array]:
    """Return the number of observed entries of each row and of each column."""
    nothing = np.zeros((rows.m, 0)), np.zeros((rows.n, 0))
    return clean_residual(rows, nothing, unit=1.0, zeta=np.inf).n_clean


def largest_wrongly_clipped(
    rows: Rows,
    low_rank: Factors,
    *,
    unit: float,
    corrupt_fraction: float,
    tolerated: float = 0.0,
) -> float:
    """Return the largest |entry|, in data units, that was clipped to ±1 but is clean.

    It is clean if S = Y − L takes less than `corrupt_fraction` of it. Zero if no more
    than a `tolerated` fraction of the clipped entries is clean.
    """
    kernel = partial(_wrongly_clipped, unit=unit, corrupt_fraction=corrupt_fraction)
    tiles = rows.run(Pass(kernel, low_rank=low_rank)).tile_sums
    n_wrong, n_clipped = tiles[:, 1:].sum(axis=0)
    return float(tiles[:, 0].max()) if n_wrong > tolerated * n_clipped else 0.0


def _wrongly_clipped(
    L: Array, Y: Array, *, unit: float, corrupt_fraction: float
) -> tuple[float, int, int]:
    with np.errstate(over="ignore"):
        is_clipped = np.abs(Y * unit) > 1
    wrong = is_clipped & (1 - np.where(Y > 0, L, -L) < corrupt_fraction)
    largest = np.max(np.abs(Y), where=wrong, initial=0)
    return float(largest), wrong.sum(), is_clipped.sum()


# ----------------------------------------------------------------- dual and certificate


def dual_of_step(
    rows: Rows, M: Array, T: Array, low_rank: Factors, *, mu: float, lam: float
) -> None:
    """Set M = μ(T − L), clipped to ±λ and zero where Y is missing; M may be T."""

    def dual(L: Array, Y: Array, T: Array) -> Array:
        return np.where(np.isnan(Y), 0, np.clip(mu * (T - L), -lam, lam))

    _entrywise(rows, dual, low_rank, T, out=M)


def pin_dual_to_support(
    rows: Rows,
    M: Array,
    low_rank: Factors,
    *,
    unit: float,
    lam: float,
    inner: float,
    zeta: float,
    right: Array,
    left: Array,
) -> Products:
    """Set M = λ sign(Y − L) where |Y − L| > ζ; elsewhere clip it to `inner` < λ.

    Returns the products of the new M. Its support is from then on where |M| = λ.
    """

    def pin(tile: Array, Y: Array, M: Array) -> None:
        e = _clipped(Y, unit) - tile
        free = np.where(np.isnan(Y), 0, np.clip(M, -inner, inner))
        M[:] = tile[:] = np.where(np.abs(e) > zeta, np.where(e > 0, lam, -lam), free)

    out = rows.run(Pass(pin, arrays=(M,), low_rank=low_rank, right=right, left=left))
    return Products(out.right, out.left)


def project_dual(
    rows: Rows,
    M: Array,
    low_rank: Factors,
    *,
    lam: float,
    inner: float,
    right: Array,
    left: Array,
) -> Products:
    """Subtract L from M off the pinned support and clip to `inner`, in place.

    Returns the products of the new M.
    """

    def project(tile: Array, Y: Array, M: Array) -> None:
        free = np.where(np.isnan(Y), 0, np.clip(M - tile, -inner, inner))
        M[:] = tile[:] = np.where(np.abs(M) >= lam, M, free)

    out = rows.run(
        Pass(project, arrays=(M,), low_rank=low_rank, right=right, left=left)
    )
    return Products(out.right, out.left)


class CertificateSums(NamedTuple):
    """Sums over the observed entries, with e = Y − L."""

    dual_product: float  # ⟨M, Y⟩
    penalty: float  # Σρ(e), Huber's penalty with slope λ beyond the knee
    dual_square: float  # ‖M‖²


def certificate_sums(
    rows: Rows, M: Array, low_rank: Factors, *, unit: float, lam: float, knee: float
) -> CertificateSums:
    """Sum what a certificate needs; the knee is λ/κ, and zero without noise."""

    def sums(L: Array, Y: Array, M: Array) -> tuple[Any, ...]:
        y = np.nan_to_num(_clipped(Y.astype(np.float64), unit))
        e = np.where(np.isnan(Y), 0, y - L)
        size, m = np.abs(e), M.astype(np.float64)
        penalty = np.where(size > knee, size - knee / 2, size**2 / (2 * knee or 1))
        return np.vdot(m, y), lam * penalty.sum(), np.vdot(m, m)

    out = rows.run(Pass(sums, arrays=(M,), low_rank=low_rank))
    return CertificateSums(*out.tile_sums.sum(axis=0))


def _clipped(Y: Array, unit: float) -> Array:
    """Return entries times the unit, clipped to ±1; NaN stays NaN."""
    with np.errstate(over="ignore"):
        return np.clip(Y * unit, -1, 1)


# --------------------------------------------------- parts of the result, in data units


def low_rank_part(rows: Rows, factors: Factors) -> Array:
    """Return X = U Cᵀ."""
    return _entrywise(rows, lambda X, Y: X, factors)


def sparse_part(
    rows: Rows,
    M: Array | None,
    low_rank: Factors,
    *,
    unit: float,
    dual_cutoff: float,
    zeta: float,
) -> Array:
    """Return S = Y − L where |Y − L| > ζ and |M| ≥ `dual_cutoff`, else zero.

    L is in the clipped unit of the solver, S in data units. An entry beyond ±1 always
    counts, in full. Without M the residual alone decides.
    """
    S = rows.empty_like_data()
    dual, cutoff = (S, 0.0) if M is None else (M, dual_cutoff)
    scalars = unit, cutoff, zeta
    rows.run(Pass("sparse_part", scalars, arrays=(S, dual), low_rank=low_rank))
    return S


def residual_part(rows: Rows, S: Array, factors: Factors) -> Array:
    """Return R = Y − X − S with X = U Cᵀ; NaN where Y is missing."""
    return _entrywise(rows, lambda X, Y, S: Y - X - S, factors, S)


def flagged_part(rows: Rows, flagged: Array, factors: Factors) -> Array:
    """Return S = Y − X where an entry is flagged, and zero elsewhere."""
    return _entrywise(rows, lambda X, Y, f: np.where(f, Y - X, 0), factors, flagged)


def _entrywise(
    rows: Rows,
    function: Callable[..., Array],
    low_rank: Factors,
    *arrays: Array,
    out: Array | None = None,
) -> Array:
    """Return a function of L, Y and further arrays, entry by entry."""

    def write(L: Array, Y: Array, result: Array, *parts: Array) -> None:
        result[:] = function(L, Y, *parts)

    result = rows.empty_like_data() if out is None else out
    rows.run(Pass(write, arrays=(result, *arrays), low_rank=low_rank))
    return result


# --------------------------------------------------------------------- fit with noise


class RobustStep(NamedTuple):
    """Products with T = L + ω·w(z)·e, and sums of the weighted residual w·e."""

    right: Array  # T · right
    left: Array  # Tᵀ · (T · right)
    squares: tuple[Array, Array]  # Σ(w·e)² of each row and of each column
    n_outliers: tuple[Array, Array]  # entries with z > 3, of each row and column
    histogram: Array  # (BINS,) of z, over every stride-th row
    line_histograms: Array  # (BINS_PER_LINE, lines along `histogram_axis`)


def robust_step(
    rows: Rows,
    low_rank: Factors,
    *,
    unit: float,
    omega: float,
    stride: int,
    line_values: tuple[Array, Array],
    weights: Array,
    right: Array,
    histogram_axis: int | None,
) -> RobustStep:
    """Make one robust step: residuals e, their sizes z in units of the noise, weights.

    `line_values` (2, m) and (2, n) are, for each row and column, the factor that brings
    the data to units of the noise, and 1/√(1 − h) with the leverage h. `weights` is
    w(z) at the BINS + 1 edges of the bins, and `omega` the factor of the step. Every
    stride-th row enters the histograms. `histogram_axis` says whether each row (0),
    each column (1) or no line (None) gets a histogram of its own.
    """
    n_bins = BINS_PER_LINE if histogram_axis is not None else 0
    strides = (1.0, float(stride)) if rows.long_axis_is_second else (float(stride), 1.0)
    step = Pass(
        "robust_step",
        (unit, omega, *strides, _kernel_axis(rows, histogram_axis)),
        low_rank=low_rank,
        line_values=line_values,
        table=weights,
        n_sums=(2 + n_bins * (histogram_axis == 0), 2 + n_bins * (histogram_axis == 1)),
        bins=BINS,
        right=right,
        power=True,
    )
    out = rows.run(step)
    own = out.by_row if histogram_axis == 0 else out.by_column
    return RobustStep(
        out.right,
        out.left,
        (out.by_row[0], out.by_column[0]),
        (out.by_row[1], out.by_column[1]),
        out.histogram,
        own[2:],
    )


class LeaveOneOut(NamedTuple):
    """Histograms of the residuals that entries have if left out of the fit."""

    histogram: Array  # (BINS,)
    line_histograms: Array  # (BINS_PER_LINE, lines along `histogram_axis`)


def leave_one_out(
    rows: Rows,
    low_rank: Factors,
    *,
    unit: float,
    line_values: tuple[Array, Array],
    weights: Array,
    histogram_axis: int,
) -> LeaveOneOut:
    """Count the leave-one-out residuals, in units of the noise."""
    sums = BINS_PER_LINE * (histogram_axis == 0), BINS_PER_LINE * (histogram_axis == 1)
    count = Pass(
        "leave_one_out",
        (unit, _kernel_axis(rows, histogram_axis)),
        low_rank=low_rank,
        line_values=line_values,
        table=weights,
        n_sums=sums,
        bins=BINS,
    )
    out = rows.run(count)
    return LeaveOneOut(out.histogram, (out.by_row, out.by_column)[histogram_axis])


def corrupt_probability(
    rows: Rows,
    low_rank: Factors,
    *,
    unit: float,
    line_values: tuple[Array, Array],
    weights: Array,
    probability: Array,
) -> Array:
    """Return the probability that each entry is corrupt; zero where it is missing.

    `weights` and `probability` are tables by leave-one-out residual, at the edges of
    the bins; the rest is as in `leave_one_out`.
    """
    result = rows.empty_like_data()
    evaluate = Pass(
        "corrupt_probability",
        (unit,),
        low_rank=low_rank,
        line_values=line_values,
        table=np.concatenate([weights, probability]),
        arrays=(result,),
        bins=len(weights),
        n_sums=(0, 0),
    )
    rows.run(evaluate)
    return result


def _kernel_axis(rows: Rows, axis: int | None) -> float:
    """Return the axis of the kernels' array for rows (0) or columns (1); −1 if none."""
    if axis is None:
        return -1.0
    return float(1 - axis if rows.long_axis_is_second else axis)

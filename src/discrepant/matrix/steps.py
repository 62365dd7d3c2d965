"""One implicit step, and the state that it moves.

T = L + M/μ stands for the dual M and is the only array of the size of the data; L is
kept as factors U Cᵀ, and V are the columns through which T is looked at.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg

from discrepant.errors import InputError
from discrepant.linalg import CORRUPT, Array, clip_bound
from discrepant.matrix.spectra import distance, eigenpairs, triplets
from discrepant.matrix.sweep import kernels
from discrepant.matrix.sweep.rows import Rows

LOOK = 3e-2  # residual at which the rank and the support begin to show
START_RANK = 16


class Step(NamedTuple):
    """What one step did."""

    gait: str  # "fast", "polish" or "careful"
    residual: float  # ‖Y − X − S‖ / ‖Y‖
    dual_residual: float  # μ‖ΔX‖ / ‖M‖; NaN in polish
    rank: int
    mu: float  # step size, in the unit of the integration; NaN in polish
    support: float  # share of observed entries where S ≠ 0


@dataclass(frozen=True)
class Scale:
    """What there is to see before the first step."""

    observed: int  # entries
    top: float  # the largest |entry|
    bound: float  # where |entries| are clipped

    @classmethod
    def of(cls, rows: Rows) -> "Scale":
        """Scan the data."""
        _, _, scanned = rows.sweep(kernels.scan, scalars=(0.0,))
        top = float(scanned[:, 0].max(initial=0.0)) if scanned.size else 0.0
        if not np.isfinite(top):
            raise InputError(
                "The data contain infinite values; replace them by NaN to mark them "
                "as missing."
            )
        observed = int(scanned[:, 1].sum()) if scanned.size else 0
        return cls(observed, top, clip_bound(rows.Z, top))

    def unit(self, dtype: np.dtype) -> float:
        """Return what the data are multiplied by, so that the bound becomes one."""
        highest = float(np.finfo(dtype).max) / 4
        return 1.0 if self.top == 0 else min(1 / self.bound, highest)


class Stepper:
    """Steps of any size μ from a state to the next.

    Parameters
    ----------
    rows : Rows
        The data.
    scale : Scale
        Their scale; all numbers here are in units of its bound.
    lam : float
        The weight λ of ‖S‖₁.
    psd : bool
        Whether X ⪰ 0.
    rng : numpy.random.Generator
        Draws the few random columns that look for new directions.
    T : ndarray
        Laid out as the data; its content does not matter before the first step.
    """

    def __init__(
        self,
        rows: Rows,
        scale: Scale,
        lam: float,
        psd: bool,
        rng: np.random.Generator,
        T: Array,
    ) -> None:
        self.rows, self.scale, self.lam, self.psd, self.rng = rows, scale, lam, psd, rng
        self.unit = scale.unit(rows.dtype)
        self.norm_Y = 1.0
        self.T = T
        self.U, self.C = np.zeros((rows.m, 0)), np.zeros((rows.n, 0))  # L = U Cᵀ
        self.V = np.zeros((rows.n, 0))
        self.s = np.zeros(0)  # singular values of T
        self.mu = 1.0
        self.last, self.last_mu = (self.U, self.C), self.mu  # L and μ inside T
        self.first, self.keep = 0.0, 1.0  # M/μ as a multiple of Y, and of T − L
        self.below = 0.0  # X ⪰ 0: the most negative eigenvalue of M, turned positive
        self.product = 0.0  # ⟨M, Y⟩
        self.active = 0.0  # entries where S ≠ 0
        self.saturated = False  # whether every column of V was needed

    def begin(self) -> None:
        """Look at the spectrum of Y and start M, μ and V."""
        rows, k = self.rows, min(START_RANK, self.rows.n)
        V = self.rng.standard_normal((rows.n, k))
        P, B, sums = rows.sweep(kernels.data, scalars=(self.unit,), right=V, power=True)
        self.norm_Y = float(np.sqrt(sums.sum()))
        _, self.V, s = triplets(P, B)
        spectral = 1.01 * s[0]
        self.mu = 1.25 / spectral
        self.first = 1 / (max(spectral, 1 / self.lam) * self.mu)
        self.keep = 0.0
        self.V = self.widen(self.V, k)
        if self.psd:
            self.V = linalg.qr(self.V, mode="economic")[0]

    def start_from(self, U: Array, C: Array, M: Array, mu: float) -> None:
        """Start where a low-rank part, a dual and a step are known."""
        rows = self.rows
        _, _, sums = rows.sweep(kernels.data, scalars=(self.unit,))
        self.norm_Y = float(np.sqrt(sums.sum()))
        rows.sweep(kernels.lift, (self.T, M), (mu,), low_rank=(U, C))
        self.U, self.C, self.mu = U, C, mu
        self.first, self.keep, self.below = 0.0, 1.0, 0.0
        V = C / np.linalg.norm(C, axis=0)
        k = max(V.shape[1] + 4, START_RANK)
        self.V = self.widen(V, min(k, rows.n))

    def step(self, gait: str) -> Step:
        """One pass: S by clipping, L by shrinking the spectrum of T."""
        rows, mu = self.rows, self.mu
        self.last, self.last_mu = (self.U, self.C), mu
        scalars = (self.unit, self.first, self.keep, self.lam / mu)
        P, B, sums = rows.sweep(
            kernels.step,
            (self.T,),
            scalars,
            low_rank=self.last,
            right=self.V,
            left=self.V if self.psd else None,
            power=not self.psd,
        )
        if self.psd:
            # Shifted by half the most negative eigenvalue seen, so that the largest
            # are also the foremost: the dual is bounded from above only.
            P = (P + B) / 2 + (self.below / (2 * mu)) * self.V
            U, V, s = eigenpairs(rows, self.T, P)
            self.below = max(self.below, -s[-1] * mu)
        else:
            U, V, s = triplets(P, B)
        residual, alignment, active = sums.sum(axis=0)
        r = int(np.sum(s > 1 / mu))
        self.U, self.C = U[:, :r], V[:, :r] * (s[:r] - 1 / mu)
        self.s, self.product, self.active = s, alignment * mu, active
        relative = float(np.sqrt(residual) / self.norm_Y)
        dual_residual = np.nan  # of no use while μ grows
        if gait == "careful" or relative <= LOOK:
            change = distance(self.last, (self.U, self.C))
            dual_residual = mu * change / np.sqrt(max(r, 1) + self.lam**2 * active)
        # Every direction was needed: there may be more, so look for them.
        self.saturated = r == self.V.shape[1] and r < rows.n
        spare = max(4, r // 10) if gait == "fast" else 20
        wanted = 2 * r if self.saturated else max(r + spare, START_RANK)
        self.V = self.widen(V, min(wanted, rows.n))
        if self.psd:
            self.V = linalg.qr(self.V, mode="economic")[0]
        self.first = 0.0
        support = float(active / self.scale.observed)
        return Step(gait, relative, float(dual_residual), r, mu, support)

    def grow(self, growth: float) -> None:
        """Change μ for the next step."""
        self.keep = 1 / growth
        self.mu *= growth

    def widen(self, V: Array, k: int) -> Array:
        """Take k columns of V, filled up with random ones orthogonal to it."""
        if k <= V.shape[1]:
            return V[:, :k]
        X = self.rng.standard_normal((len(V), k - V.shape[1]))
        X -= V @ (V.T @ X)
        return np.hstack([V, X / np.linalg.norm(X, axis=0)])

    def wrongly_clipped(self, share: float = 0.0) -> float:
        """Return the largest |entry| that was clipped though it is not corrupt.

        It is zero if there are none, or no more than a share of those clipped.
        """
        if self.scale.bound == self.scale.top:
            return 0.0
        _, _, found = self.rows.sweep(
            kernels.unexplained,
            (),
            (self.unit, CORRUPT),
            low_rank=(self.U, self.C),
        )
        wrong, beyond = found[:, 1:].sum(axis=0)
        return float(found[:, 0].max()) if wrong > share * beyond else 0.0

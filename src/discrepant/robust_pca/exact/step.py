"""One implicit step, and the state that it moves.

T = L + M/μ stands for the dual M and is the only array of the size of the data; L is
kept as factors U Cᵀ, and V are the columns through which T is looked at.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from discrepant.core.linalg import Array
from discrepant.robust_pca.exact.factored_svd import distance, eigenpairs, triplets
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.recorder import Step
from discrepant.robust_pca.rows import passes


@dataclass(frozen=True)
class Tuning:
    """Constants of a step; each changes how long a solve takes, not what it finds."""

    # Columns of V to begin with: more cost time at low rank, fewer a step or two.
    start_columns: int = 16
    # Residual, relative to ‖Y‖, at which the rank and the support begin to show: below
    # it the dual residual is worth its price, and a polish may be tried.
    showing: float = 3e-2
    # μ₀‖Y‖₂ of the first step, as is usual for augmented Lagrangians of this program.
    first_mu: float = 1.25
    # Columns of V beyond the rank: while μ grows the rank grows with it, and later on
    # more columns settle the small singular values sooner.
    spare_growing: int = 4
    spare_settled: int = 20


TUNING = Tuning()


@dataclass(frozen=True)
class State:
    """Where an integration stands or ended; nothing of it is written to afterwards.

    All in the unit of the program and in the orientation of the blocks.
    """

    U: Array  # (m, r); L = U Cᵀ is the low-rank part
    C: Array  # (n, r)
    # Laid out as the data: L of the last step + M/μ. Without it the dual is looked for
    # anew.
    T: Array | None
    last: tuple[Array, Array]  # that L, as factors
    mu: float
    zeta: float = 0.0  # polished: where the clean residuals end; 0 if it was not
    residual: float = 0.0  # ‖Y − X − S − N‖ / ‖Y‖ of the last step

    @property
    def polished(self) -> bool:
        """Whether the low-rank part is exact to rounding."""
        return self.zeta > 0


class Stepper:
    """Steps of any size μ from a state to the next.

    Parameters
    ----------
    program : Program
        What is solved; all numbers here are in its unit.
    rng : numpy.random.Generator
        Draws the few random columns that look for new directions.
    T : ndarray
        Laid out as the data, and written to; its content does not matter before the
        first step.
    """

    def __init__(
        self, program: ConvexProblem, rng: np.random.Generator, T: Array
    ) -> None:
        rows = program.rows
        self.program, self.rng = program, rng
        self.kappa = program.kappa / program.unit
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
        rows, lam = self.program.rows, self.program.lam
        k = min(TUNING.start_columns, rows.n)
        V = self.rng.standard_normal((rows.n, k))
        data = passes.multiply_data(rows, unit=self.program.unit, right=V, power=True)
        self.norm_Y = float(np.sqrt(data.square))
        _, self.V, s = triplets(data.right, data.left)
        spectral = 1.01 * s[0]
        self.mu = TUNING.first_mu / spectral
        self.first = 1 / (max(spectral, 1 / lam) * self.mu)
        self.keep = 0.0
        self.V = self.widen(self.V, k)
        if self.program.psd:
            self.V = linalg.qr(self.V, mode="economic")[0]

    def start_from(self, U: Array, C: Array, M: Array, mu: float) -> None:
        """Start where a low-rank part, a dual and a step are known."""
        rows = self.program.rows
        data = passes.multiply_data(rows, unit=self.program.unit)
        self.norm_Y = float(np.sqrt(data.square))
        passes.start_from_dual(rows, self.T, M, (U, C), mu=mu)
        self.U, self.C, self.mu = U, C, mu
        self.first, self.keep, self.below = 0.0, 1.0, 0.0
        V = C / np.linalg.norm(C, axis=0)
        k = max(V.shape[1] + TUNING.spare_growing, TUNING.start_columns)
        self.V = self.widen(V, min(k, rows.n))

    def step(self, phase: str) -> Step:
        """One pass: S by clipping, L by shrinking the spectrum of T."""
        program, rows, mu = self.program, self.program.rows, self.mu
        self.last, self.last_mu = (self.U, self.C), mu
        soften = 1.0 if math.isinf(self.kappa) else self.kappa / (self.kappa + mu)
        P, B, residual, alignment, active = passes.implicit_step(
            rows,
            self.T,
            self.last,
            unit=program.unit,
            initial_dual_scale=self.first,
            dual_scale=self.keep,
            bound=program.lam / mu,
            noise_shrinkage=soften,
            right=self.V,
            left=self.V if program.psd else None,
            power=not program.psd,
        )
        if program.psd:
            # Shifted by half the most negative eigenvalue seen, so that the largest
            # are also the foremost: the dual is bounded from above only.
            P = (P + B) / 2 + (self.below / (2 * mu)) * self.V
            U, V, s = eigenpairs(rows, self.T, P)
            self.below = max(self.below, -s[-1] * mu)
        else:
            U, V, s = triplets(P, B)
        r = int(np.sum(s > 1 / mu))
        self.U, self.C = U[:, :r], V[:, :r] * (s[:r] - 1 / mu)
        self.s, self.product, self.active = s, alignment * mu, active
        relative = float(np.sqrt(residual) / self.norm_Y)
        dual_residual = np.nan  # of no use while μ grows
        if phase == "careful" or relative <= TUNING.showing:
            change = distance(self.last, (self.U, self.C))
            dual_residual = mu * change / np.sqrt(max(r, 1) + program.lam**2 * active)
        # Every direction was needed: there may be more, so look for them.
        self.saturated = r == self.V.shape[1] and r < rows.n
        growing = max(TUNING.spare_growing, r // 10)
        spare = growing if phase == "fast" else TUNING.spare_settled
        wanted = 2 * r if self.saturated else max(r + spare, TUNING.start_columns)
        self.V = self.widen(V, min(wanted, rows.n))
        if program.psd:
            self.V = linalg.qr(self.V, mode="economic")[0]
        self.first = 0.0
        support = float(active / program.scale.observed)
        return Step(phase, relative, float(dual_residual), r, mu, support)

    def grow(self, growth: float) -> None:
        """Change μ for the next step."""
        self.keep = 1 / growth
        self.mu *= growth

    def hold(self) -> None:
        """Keep μ for the next step."""
        self.keep = 1.0

    def widen(self, V: Array, k: int) -> Array:
        """Take k columns of V, filled up with random ones orthogonal to it."""
        if k <= V.shape[1]:
            return V[:, :k]
        X = self.rng.standard_normal((len(V), k - V.shape[1]))
        X -= V @ (V.T @ X)
        return np.hstack([V, X / np.linalg.norm(X, axis=0)])

    def wrongly_clipped(self, share: float = 0.0) -> float:
        """Return what was clipped for no reason (`ConvexProblem.wrongly_clipped`)."""
        return self.program.wrongly_clipped((self.U, self.C), share)

"""One augmented-Lagrangian step of the exact solver, and its state.

T = L + M/μ represents the dual M and is the only array of the size of the data. L is
kept as factors U Cᵀ, and V spans the search space for the singular vectors of T.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from discrepant.core.linalg import Array
from discrepant.robust_pca.exact.factored_svd import (
    eigenpairs,
    factor_distance,
    svd_from_products,
)
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.result import Step
from discrepant.robust_pca.rows import passes

# Constants of a step. Each changes how long a solve takes, not its result.

# Initial number of columns of V: more cost time at low rank, fewer cost a step or two.
START_COLUMNS = 16
# Residual relative to ‖Y‖ below which rank and support become visible: the dual
# residual is then worth computing, and a polish is tried.
VISIBLE_BELOW = 3e-2
# μ₀‖Y‖₂ of the first step, from M = 0. At 0.3 and at 0.9 as many solves are faster as
# slower.
FIRST_MU = 0.6
# Columns of V beyond the rank while μ (and with it the rank) grows.
SPARE_GROWING = 4
# Columns of V beyond the rank afterwards: small singular values converge sooner.
SPARE_SETTLED = 20


@dataclass(frozen=True)
class State:
    """State of the solver after a step, immutable.

    All values are in the unit of the problem and in the orientation of the rows.
    """

    U: Array  # (m, r); L = U Cᵀ is the low-rank part
    C: Array  # (n, r)
    # L of the last step + M/μ, laid out as the data; if None, the dual is computed anew
    T: Array | None
    last: tuple[Array, Array]  # L of the last step, as factors
    mu: float
    zeta: float = 0.0  # cutoff of the clean residuals after a polish, else 0
    residual: float = 0.0  # ‖Y − X − S − N‖ / ‖Y‖ of the last step

    @property
    def polished(self) -> bool:
        """Whether the low-rank part is exact to rounding."""
        return self.zeta > 0


class Stepper:
    """Augmented-Lagrangian steps with step size μ, in the unit of the problem.

    T is a working array of zeros, laid out as the data.
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
        self.dual_scale = 1.0  # M/μ as a multiple of T − L
        self.negative_eigenvalue = 0.0  # X ⪰ 0: size of the most negative one of M
        self.n_corrupt = 0.0  # entries with S ≠ 0
        self.basis_is_full = False  # whether every column of V was needed

    def begin(self) -> None:
        """Initialise μ and V from the leading singular values of Y; M is zero."""
        rows = self.program.rows
        k = min(START_COLUMNS, rows.n)
        V = self.rng.standard_normal((rows.n, k))
        data = passes.multiply_data(rows, unit=self.program.unit, right=V, power=True)
        self.norm_Y = float(np.sqrt(data.square))
        _, self.V, s = svd_from_products(data.right, data.left)
        self.mu = FIRST_MU / s[0]
        self.V = self.widen(self.V, k)
        if self.program.psd:
            self.V = linalg.qr(self.V, mode="economic")[0]

    def start_from(self, U: Array, C: Array, M: Array, mu: float) -> None:
        """Start from a given low-rank part, dual variable and step size."""
        rows = self.program.rows
        data = passes.multiply_data(rows, unit=self.program.unit)
        self.norm_Y = float(np.sqrt(data.square))
        passes.start_from_dual(rows, self.T, M, (U, C), mu=mu)
        self.U, self.C, self.mu = U, C, mu
        self.dual_scale = 1.0
        self.negative_eigenvalue = 0.0
        V = C / np.linalg.norm(C, axis=0)
        k = max(V.shape[1] + SPARE_GROWING, START_COLUMNS)
        self.V = self.widen(V, min(k, rows.n))

    def step(self, phase: str) -> Step:
        """Make one pass: S by clipping, L by shrinking the singular values of T."""
        program, rows, mu = self.program, self.program.rows, self.mu
        self.last, self.last_mu = (self.U, self.C), mu
        noise_shrinkage = (
            1.0 if math.isinf(self.kappa) else self.kappa / (self.kappa + mu)
        )
        P, B, residual, n_corrupt = passes.implicit_step(
            rows,
            self.T,
            self.last,
            unit=program.unit,
            dual_scale=self.dual_scale,
            bound=program.lam / mu,
            noise_shrinkage=noise_shrinkage,
            right=self.V,
            left=self.V if program.psd else None,
            power=not program.psd,
        )
        if program.psd:
            # Shift by half the most negative eigenvalue so far, so that the largest
            # eigenvalues are also largest in absolute value.
            P = (P + B) / 2 + (self.negative_eigenvalue / (2 * mu)) * self.V
            U, V, s = eigenpairs(rows, self.T, P)
            self.negative_eigenvalue = max(self.negative_eigenvalue, -s[-1] * mu)
        else:
            U, V, s = svd_from_products(P, B)
        r = int(np.sum(s > 1 / mu))
        self.U, self.C = U[:, :r], V[:, :r] * (s[:r] - 1 / mu)
        self.s, self.n_corrupt = s, n_corrupt
        relative = float(np.sqrt(residual) / self.norm_Y)
        dual_residual = np.nan  # not needed while μ grows
        if phase == "careful" or relative <= VISIBLE_BELOW:
            change = factor_distance(self.last, (self.U, self.C))
            dual_residual = (
                mu * change / np.sqrt(max(r, 1) + program.lam**2 * n_corrupt)
            )
        # If every column was needed, there may be more directions.
        self.basis_is_full = r == self.V.shape[1] and r < rows.n
        growing = max(SPARE_GROWING, r // 10)
        spare = growing if phase == "fast" else SPARE_SETTLED
        wanted = 2 * r if self.basis_is_full else max(r + spare, START_COLUMNS)
        self.V = self.widen(V, min(wanted, rows.n))
        if program.psd:
            self.V = linalg.qr(self.V, mode="economic")[0]
        support = float(n_corrupt / program.scale.observed)
        return Step(phase, relative, float(dual_residual), r, mu, support)

    def grow(self, growth: float) -> None:
        """Multiply μ by a factor for the next step."""
        self.dual_scale = 1 / growth
        self.mu *= growth

    def widen(self, V: Array, k: int) -> Array:
        """Return k columns: those of V, then random ones orthogonal to them."""
        if k <= V.shape[1]:
            return V[:, :k]
        X = self.rng.standard_normal((len(V), k - V.shape[1]))
        X -= V @ (V.T @ X)
        return np.hstack([V, X / np.linalg.norm(X, axis=0)])

    def wrongly_clipped(self, fraction: float = 0.0) -> float:
        """Return the largest clipped entry that is clean; 0 if there is none."""
        return self.program.wrongly_clipped((self.U, self.C), fraction)

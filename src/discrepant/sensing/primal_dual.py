"""The convex program for any operator, solved by primal-dual steps; operator norm.

    min ‖X‖_* + λ‖s‖₁ + (κ/2)‖y − A(X) − s‖²      (κ = ∞: A(X) + s = y)

The flow of the paper is Ṁ = y − A(X) − s with A*(M) ∈ ∂‖X‖_* and M ∈ ∂λ‖s‖₁. A step
that is implicit in both variables, and linearised in A so that no system has to be
solved, is a primal-dual step (Chambolle and Pock): shrink the singular values of
X + τA*(ν), then add the new residual to ν and clip it at λ. A step takes two
applications. The ratio of the two step sizes follows the ratio of ‖ν‖ and ‖X‖.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

from discrepant.core.linalg import Array, Symmetry, dual_norm, norm, shrink
from discrepant.fixed_rank.measurements import (
    Measurements,
    clipped,
    product,
)
from discrepant.fixed_rank.tangent_space import (
    FixedRankMatrix,
    shrunk,
)

# Over-relaxation; any value below 2 converges.
RELAXATION = 1.6
# Product of both step sizes and ‖A‖², over the largest that converges, as a root.
STEP_SAFETY = 0.98
# Lanczos steps to estimate ‖A‖.
LANCZOS_STEPS = 6
# Factor of the estimate of ‖A‖: the error that these steps may leave.
NORM_MARGIN = 1.03
# Steps after which the ratio of step sizes stays: with an ever changing ratio the
# iteration may not converge.
RATIO_STEPS = 200
# Steps between two changes of the ratio.
RATIO_INTERVAL = 10


@dataclass(frozen=True)
class ConvexProgram:
    """The convex program of measurements y, its objective and its dual objective."""

    A: Measurements
    kind: Symmetry
    lam: float  # λ, the weight of ‖s‖₁
    y: Array  # the data, perhaps with gross entries clipped
    kappa: float = np.inf  # κ, the weight of the squared noise; ∞ for no noise

    def primal(self, at: FixedRankMatrix, e: Array) -> float:
        """Return the objective at X = `at`, with the best s for it."""
        s = shrink(e, self.lam / self.kappa)
        is_noisy = np.isfinite(self.kappa)
        noise = self.kappa / 2 * norm(e - s) ** 2 if is_noisy else 0.0
        return float(np.abs(at.d).sum() + self.lam * np.abs(s).sum()) + noise

    def feasible(self, nu: Array) -> Array:
        """Return a dual clipped and scaled so that it satisfies both constraints."""
        nu = clipped(nu, self.lam)
        return np.asarray(nu / max(1.0, dual_norm(self.A.adjoint(nu), self.kind)))

    def dual(self, nu: Array) -> float:
        """Return the lower bound ⟨ν, y⟩ − ‖ν‖²/2κ of a feasible dual."""
        return product(nu, self.y) - norm(nu) ** 2 / (2 * self.kappa)


@dataclass
class PrimalDualState:
    """X and the dual after a primal-dual step."""

    at: FixedRankMatrix  # X, after its shrinkage
    nu: Array  # the dual, |ν| ≤ λ
    e: Array  # y − A(X)
    change: float  # of X and ν in the last step, relative to their sizes


def operator_norm(A: Measurements, rng: np.random.Generator) -> float:
    """Return an estimate of ‖A‖ from above, by a few Lanczos steps on A*A.

    They are far more accurate than as many steps of the power iteration.
    """
    X = rng.standard_normal(A.shape).astype(A.dtype)
    X, last = X / norm(X), np.zeros_like(X)
    diagonal: list[float] = []
    off_diagonal: list[float] = [0.0]
    for _ in range(LANCZOS_STEPS):
        following = A.adjoint(A.forward_matrix(X)) - off_diagonal[-1] * last
        diagonal.append(product(X, following))
        following = following - diagonal[-1] * X
        off_diagonal.append(norm(following))
        if off_diagonal[-1] <= 1e-12 * abs(diagonal[0]):
            break
        X, last = following / off_diagonal[-1], X
    largest = eigh_tridiagonal(diagonal, off_diagonal[1:-1], eigvals_only=True)[-1]
    return NORM_MARGIN * float(np.sqrt(max(largest, 0.0)))


def primal_dual_steps(
    program: ConvexProgram,
    rng: np.random.Generator,
    start: tuple[FixedRankMatrix, Array] | None = None,
) -> Iterator[PrimalDualState]:
    """Yield the state after each primal-dual step, without end, from (X, ν) or zero."""
    A, y, lam, kind = program.A, program.y, program.lam, program.kind
    L = operator_norm(A, rng) or 1.0
    y_size = float(np.median(np.abs(y))) or float(np.mean(np.abs(y))) or 1.0
    ratio = lam * L / y_size  # of ‖ν‖ to ‖X‖
    if start is None:
        X, nu = np.zeros(A.shape, A.dtype), np.zeros_like(y)
        AX = np.zeros_like(y)
    else:
        X, nu = start[0].value(), start[1]
        AX = A.forward(*start[0].factors)
        ratio = _ratio(X, nu, ratio)
    step = 0
    while True:
        tau, sigma = STEP_SAFETY / (L * ratio), STEP_SAFETY * ratio / L
        at = shrunk(X + tau * A.adjoint(nu), tau, kind)
        AX_new = A.forward(*at.factors)
        nu_new = (nu + sigma * (y - 2 * AX_new + AX)) / (1 + sigma / program.kappa)
        nu_new = clipped(nu_new, lam)
        change_X, change_nu = at.value() - X, nu_new - nu
        sizes = norm(X) + norm(change_X), norm(nu) + norm(change_nu)
        change = norm(change_X) / (sizes[0] or 1.0)
        change += norm(change_nu) / (sizes[1] or 1.0)
        yield PrimalDualState(at, nu_new, y - AX_new, change)
        X, nu = X + RELAXATION * change_X, nu + RELAXATION * change_nu
        AX = AX + RELAXATION * (AX_new - AX)
        step += 1
        if step % RATIO_INTERVAL == 0 and step <= RATIO_STEPS:
            ratio = float(np.sqrt(ratio * _ratio(X, nu, ratio)))


def _ratio(X: Array, nu: Array, default: float) -> float:
    """Return ‖ν‖/‖X‖; a default if either is zero."""
    sizes = norm(nu), norm(X)
    return sizes[0] / sizes[1] if min(sizes) > 0 else default

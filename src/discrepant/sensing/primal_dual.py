"""The convex program itself, for any operator, by proximal steps on both sides.

    min ‖X‖_* + λ‖s‖₁ + (κ/2)‖y − A(X) − s‖²      (κ = ∞: A(X) + s = y)

The flow of the paper is Ṁ = y − A(X) − s with A*(M) ∈ ∂‖X‖_* and M ∈ ∂λ‖s‖₁. A step
that is implicit on both sides, and linearised in A as far as it must be so that no
system is solved, is a primal-dual step (Chambolle and Pock): shrink the singular values
of X + τA*(ν), then move ν by the new residual and clip it at λ. Two applications a
step.

The ratio of the two step sizes is steered to the ratio of the sizes of ν and X.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

from discrepant.core.linalg import Array, norm
from discrepant.fixed_rank.measurements import Measurements, clipped, product
from discrepant.fixed_rank.tangent_space import FixedRankMatrix, Symmetry, shrunk


@dataclass(frozen=True)
class Tuning:
    """Constants of the flow."""

    relax: float = 1.6  # over-relaxation; any value below 2 converges
    safety: float = 0.98  # of the largest product of steps that converges
    lanczos: int = 6  # steps to find ‖A‖
    above: float = 1.03  # what they may have missed of it
    steered: int = 200  # steps after which the ratio stays: an ever changing one may
    every: int = 10  # not converge; and how often it changes before


TUNING = Tuning()


@dataclass
class Moving:
    """Where the flow stands."""

    at: FixedRankMatrix  # X, after its shrinkage
    nu: Array  # the dual, |ν| ≤ λ
    e: Array  # y − A(X)
    change: float  # of X and ν in the last step, relative to their sizes


def operator_norm(A: Measurements, rng: np.random.Generator) -> float:
    """Return ‖A‖ from above, as surely as a random start misses nothing.

    By a few steps of Lanczos on A*A, which see far more than as many of the power
    iteration.
    """
    X = rng.standard_normal(A.shape).astype(A.dtype)
    X, last = X / norm(X), np.zeros_like(X)
    diagonal: list[float] = []
    beside: list[float] = [0.0]
    for _ in range(TUNING.lanczos):
        ahead = A.adjoint(A.forward_matrix(X)) - beside[-1] * last
        diagonal.append(product(X, ahead))
        ahead = ahead - diagonal[-1] * X
        beside.append(norm(ahead))
        if beside[-1] <= 1e-12 * abs(diagonal[0]):
            break
        X, last = ahead / beside[-1], X
    largest = eigh_tridiagonal(diagonal, beside[1:-1], eigvals_only=True)[-1]
    return TUNING.above * float(np.sqrt(max(largest, 0.0)))


def flow(
    A: Measurements,
    kind: Symmetry,
    lam: float,
    kappa: float,
    rng: np.random.Generator,
    start: tuple[FixedRankMatrix, Array] | None = None,
    y: Array | None = None,
) -> Iterator[Moving]:
    """Yield where the flow stands, step by step, without end.

    From a start or from zero, and for data other than those of A where they are given.
    """
    y = A.y if y is None else y
    L = operator_norm(A, rng) or 1.0
    usual = float(np.median(np.abs(y))) or float(np.mean(np.abs(y))) or 1.0
    ratio = lam * L / usual  # of the size of ν to that of X
    if start is None:
        X, nu = np.zeros(A.shape, A.dtype), np.zeros_like(y)
        AX = np.zeros_like(y)
    else:
        X, nu = start[0].value(), start[1]
        AX = A.forward(*start[0].factors)
        ratio = _ratio(X, nu, ratio)
    step = 0
    while True:
        tau, sigma = TUNING.safety / (L * ratio), TUNING.safety * ratio / L
        at = shrunk(X + tau * A.adjoint(nu), tau, kind)
        seen = A.forward(*at.factors)
        raised = (nu + sigma * (y - 2 * seen + AX)) / (1 + sigma / kappa)
        ahead = clipped(raised, lam)
        moved_X, moved_nu = at.value() - X, ahead - nu
        sizes = norm(X) + norm(moved_X), norm(nu) + norm(moved_nu)
        change = norm(moved_X) / (sizes[0] or 1.0) + norm(moved_nu) / (sizes[1] or 1.0)
        yield Moving(at, ahead, y - seen, change)
        X, nu = X + TUNING.relax * moved_X, nu + TUNING.relax * moved_nu
        AX = AX + TUNING.relax * (seen - AX)
        step += 1
        if step % TUNING.every == 0 and step <= TUNING.steered:
            ratio = float(np.sqrt(ratio * _ratio(X, nu, ratio)))


def _ratio(X: Array, nu: Array, otherwise: float) -> float:
    sizes = norm(nu), norm(X)
    return sizes[0] / sizes[1] if min(sizes) > 0 else otherwise

"""The dual of a solution and the certificate that it gives.

At an exact solution with support S and tangent space T the dual ν is λ sign(s) on S,
and P_T A*(ν) = U Vᴴ. The smallest ν off S that satisfies this is a least-squares
solution on T; entries of it that exceed λ are fixed at λ, and the others are solved
again. That takes a few steps of conjugate gradients, and gives an optimal dual if X is
well within what the convex program recovers. Otherwise primal-dual steps improve it.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from discrepant.core.linalg import Array, dual_norm, norm, shrink
from discrepant.core.results import Certificate
from discrepant.fixed_rank.measurements import (
    Measurements,
    clipped,
    direction,
)
from discrepant.fixed_rank.tangent_space import (
    FixedRankMatrix,
    solve_normal_equations,
)
from discrepant.sensing.primal_dual import ConvexProgram, primal_dual_steps

# Relative gap at which a dual is not improved further.
GOOD_ENOUGH = 5e-5
# Rounds of improvement by primal-dual steps, and steps between two checks of the gap.
MAX_ROUNDS, STEPS_PER_ROUND = 60, 5
# Rounds of the least-squares dual in which entries are fixed at λ.
MAX_CLIPPING_ROUNDS = 6
# Steps of conjugate gradients in each of these rounds.
CG_STEPS = 20
# Relative error of P_T A*(ν) while entries are being fixed, and in the end.
ROUGH_TOL, FINE_TOL = 1e-2, 1e-6


@dataclass(frozen=True)
class CertificateInputs:
    """The numbers besides X from which a certificate is computed."""

    e: Array  # y − A(X), flat
    is_outlier: Array  # where s ≠ 0
    lam: float
    kappa: float = np.inf  # weight of the squared noise
    nu: Array | None = None  # the dual, if the solver has one


def certificate_and_dual(
    A: Measurements, at: FixedRankMatrix, inputs: CertificateInputs, bound: float
) -> tuple[Certificate, Array]:
    """Return the certificate of a solution and its dual.

    Data beyond ±`bound` are clipped: a single gross error would otherwise hide the gap
    of everything else.
    """
    lam, y = inputs.lam, clipped(A.y, bound)
    program = ConvexProgram(A, at.kind, lam, y, inputs.kappa)
    if np.isfinite(inputs.kappa):
        nu = clipped(inputs.kappa * inputs.e, lam)
    elif inputs.nu is not None:
        nu = inputs.nu
    elif at.rank:
        nu = dual_of_exact(A, at, inputs.e, inputs.is_outlier, lam)
    else:
        nu = lam * direction(inputs.e)
    return _improve(program, at, inputs.e + (y - A.y), nu)


def dual_of_exact(
    A: Measurements, at: FixedRankMatrix, e: Array, is_outlier: Array, lam: float
) -> Array:
    """Return the least-squares dual of an exact solution with residual e."""
    nu = np.where(is_outlier, lam * direction(e), 0)
    free = ~is_outlier
    target = at.signs()
    tol = ROUGH_TOL
    for _ in range(MAX_CLIPPING_ROUNDS):
        back = A.adjoint(nu)
        g = target - at.project(back)
        error = norm(g) / norm(target)
        if error <= tol:
            # If the normal part of the spectrum is too large, accuracy is no use.
            if tol == FINE_TOL or dual_norm(at.project_normal(back), at.kind) > 1:
                break
            tol = FINE_TOL
        weights = free.astype(float)
        solution = solve_normal_equations(
            A, at, weights, g, CG_STEPS, tol / (2 * error)
        )
        nu = nu + np.where(free, solution.measured, 0)
        exceeds = np.abs(nu) > lam
        nu, free = clipped(nu, lam), free & ~exceeds
    return nu


def _improve(
    program: ConvexProgram, at: FixedRankMatrix, e: Array, nu: Array
) -> tuple[Certificate, Array]:
    """Improve a dual by primal-dual steps from the solution, while that helps.

    With noise X moves too: it is then the solution of a program close to this one.
    """
    best = program.dual(program.feasible(nu)), nu
    primal = program.primal(at, e)
    if primal - best[0] > GOOD_ENOUGH * primal:
        steps = primal_dual_steps(program, np.random.default_rng(0), (at, nu))
        for _ in range(MAX_ROUNDS):
            *_, state = islice(steps, STEPS_PER_ROUND)
            value = program.dual(program.feasible(state.nu))
            if np.isfinite(program.kappa):
                at, e = state.at, state.e
                primal = program.primal(at, e)
            if value > best[0]:
                best = value, state.nu
            if primal - best[0] <= GOOD_ENOUGH * primal:
                break
    return _certificate(program, at, e, program.feasible(best[1])), best[1]


def _certificate(
    program: ConvexProgram, at: FixedRankMatrix, e: Array, nu: Array
) -> Certificate:
    """Certify X with residual e by a feasible dual."""
    y, s = program.y, shrink(e, program.lam / program.kappa)
    return Certificate(
        primal=program.primal(at, e),
        dual=program.dual(nu),
        feasibility=norm(e - s) / (norm(y) or 1.0),
    )

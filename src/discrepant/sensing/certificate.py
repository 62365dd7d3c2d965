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

from discrepant.core.linalg import Array, norm
from discrepant.core.results import Certificate, certificate_from_products
from discrepant.fixed_rank.measurements import (
    Measurements,
    clipped,
    direction,
    product,
    shrunk_modulus,
)
from discrepant.fixed_rank.tangent_space import (
    FixedRankMatrix,
    Symmetry,
    dual_norm,
    solve_normal_equations,
)
from discrepant.sensing.primal_dual import primal_dual_steps

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
    lam, kappa = inputs.lam, inputs.kappa
    y = clipped(A.y, bound)
    e = inputs.e + (y - A.y)
    if np.isfinite(kappa):
        nu = clipped(kappa * inputs.e, lam)
        return _improve(A, at, y, e, nu, lam, kappa, move_X=True)
    if inputs.nu is not None:
        nu = inputs.nu
    elif at.rank:
        nu = dual_of_exact(A, at, inputs.e, inputs.is_outlier, lam)
    else:
        nu = lam * direction(inputs.e)
    return _improve(A, at, y, e, nu, lam, kappa, move_X=False)


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


def dual_value(
    A: Measurements, y: Array, nu: Array, lam: float, kappa: float, kind: Symmetry
) -> float:
    """Return the lower bound of the optimum that a dual gives, after scaling it."""
    nu = _feasible(A, nu, lam, kind)
    return product(nu, y) - norm(nu) ** 2 / (2 * kappa)


def primal_value(at: FixedRankMatrix, e: Array, lam: float, kappa: float) -> float:
    """Return the objective at X, with the best s for it."""
    nuclear, l1, noise = _penalties(at, e, lam, kappa)
    return nuclear + l1 + noise


def _improve(
    A: Measurements,
    at: FixedRankMatrix,
    y: Array,
    e: Array,
    nu: Array,
    lam: float,
    kappa: float,
    move_X: bool,
) -> tuple[Certificate, Array]:
    """Improve a dual by primal-dual steps from the solution, while that helps.

    With `move_X` X moves too: it is then the solution of a program close to this one.
    """
    best = dual_value(A, y, nu, lam, kappa, at.kind), nu
    primal = primal_value(at, e, lam, kappa)
    if primal - best[0] > GOOD_ENOUGH * primal:
        rng = np.random.default_rng(0)
        steps = primal_dual_steps(A, at.kind, lam, kappa, rng, (at, nu), y)
        for _ in range(MAX_ROUNDS):
            *_, state = islice(steps, STEPS_PER_ROUND)
            value = dual_value(A, y, state.nu, lam, kappa, at.kind)
            if move_X:
                at, e = state.at, state.e
                primal = primal_value(at, e, lam, kappa)
            if value > best[0]:
                best = value, state.nu
            if primal - best[0] <= GOOD_ENOUGH * primal:
                break
    return _certificate(A, at, y, e, best[1], lam, kappa), best[1]


def _certificate(
    A: Measurements,
    at: FixedRankMatrix,
    y: Array,
    e: Array,
    nu: Array,
    lam: float,
    kappa: float,
) -> Certificate:
    """Certify X with residual e by a dual.

    With κ < ∞ there is noise, s = shrink(y − A(X), λ/κ), and the dual value of ν is
    ⟨ν, y⟩ − ‖ν‖²/2κ.
    """
    nu = _feasible(A, nu, lam, at.kind)
    nuclear, l1, noise = _penalties(at, e, lam, kappa)
    s = shrunk_modulus(e, lam / kappa)
    return certificate_from_products(
        nuclear=nuclear,
        primal=nuclear + l1 + noise,
        dual=product(nu, y) - norm(nu) ** 2 / (2 * kappa),
        on_signal=product(nu, y - e),
        on_corruption=product(nu, s),
        weighted_l1=l1,
        feasibility=norm(e - s) / (norm(y) or 1.0),
    )


def _feasible(A: Measurements, nu: Array, lam: float, kind: Symmetry) -> Array:
    """Return a dual clipped and scaled so that it satisfies both constraints."""
    nu = clipped(nu, lam)
    return np.asarray(nu / max(1.0, dual_norm(A.adjoint(nu), kind)))


def _penalties(
    at: FixedRankMatrix, e: Array, lam: float, kappa: float
) -> tuple[float, float, float]:
    """Return ‖X‖_*, λ‖s‖₁ and (κ/2)‖noise‖², with the best s for X."""
    s = shrunk_modulus(e, lam / kappa)
    noise = kappa / 2 * norm(e - s) ** 2 if np.isfinite(kappa) else 0.0
    return float(np.abs(at.d).sum()), lam * float(np.abs(s).sum()), noise

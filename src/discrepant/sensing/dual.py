"""The dual of a solve, and the certificate that it gives.

At an exact solution with support S and tangent space T the dual ν is λ sign(s) on S,
and P_T A*(ν) = U Vᴴ. The smallest ν off S that meets this is a least squares on T; if
some of its entries exceed λ, they are held there and the rest makes up for them. That
costs a few steps of conjugate gradients, and is an optimal dual wherever X is well
within what the convex program recovers.
"""

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

ROUNDS = 6  # of holding entries at λ
STEPS = 20  # of conjugate gradients a round
ROUGH, ACCURATE = 1e-2, 1e-6  # relative to U Vᴴ, while entries are held and at the end


def dual_of_exact(
    A: Measurements, at: FixedRankMatrix, e: Array, wrong: Array, lam: float
) -> Array:
    """Return the dual of an exact solution with residual e on its wrong entries."""
    nu = np.where(wrong, lam * direction(e), 0)
    free = ~wrong
    target = at.signs()
    aim = ROUGH
    for _ in range(ROUNDS):
        back = A.adjoint(nu)
        g = target - at.project(back)
        left = norm(g) / norm(target)
        if left <= aim:
            # Where the rest of the spectrum is too large, accuracy is no use.
            if aim == ACCURATE or dual_norm(at.project_normal(back), at.kind) > 1:
                break
            aim = ACCURATE
        solved = solve_normal_equations(
            A, at, free.astype(float), g, STEPS, aim / (2 * left)
        )
        nu = nu + np.where(free, solved.measured, 0)
        beyond = np.abs(nu) > lam
        nu, free = clipped(nu, lam), free & ~beyond
    return nu


def bound_from(
    A: Measurements, y: Array, nu: Array, lam: float, kappa: float, kind: Symmetry
) -> float:
    """Return the lower bound of the optimum that a dual gives, made feasible."""
    nu = _feasible(A, nu, lam, kind)
    return product(nu, y) - norm(nu) ** 2 / (2 * kappa)


def primal_of(at: FixedRankMatrix, e: Array, lam: float, kappa: float) -> float:
    """Return the objective at X, with the s that is best for it."""
    nuclear, l1, noise = _parts(at, e, lam, kappa)
    return nuclear + l1 + noise


def certificate_of(
    A: Measurements,
    at: FixedRankMatrix,
    y: Array,
    e: Array,
    nu: Array,
    lam: float,
    kappa: float = np.inf,
) -> Certificate:
    """Certify X with residual e by a dual.

    With κ < ∞ there is noise, s = shrink(y − A(X), λ/κ), and the dual value of ν is
    ⟨ν, y⟩ − ‖ν‖²/2κ.
    """
    nu = _feasible(A, nu, lam, at.kind)
    nuclear, l1, noise = _parts(at, e, lam, kappa)
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
    nu = clipped(nu, lam)
    return np.asarray(nu / max(1.0, dual_norm(A.adjoint(nu), kind)))


def _parts(
    at: FixedRankMatrix, e: Array, lam: float, kappa: float
) -> tuple[float, float, float]:
    s = shrunk_modulus(e, lam / kappa)
    noise = kappa / 2 * norm(e - s) ** 2 if np.isfinite(kappa) else 0.0
    return float(np.abs(at.d).sum()), lam * float(np.abs(s).sum()), noise

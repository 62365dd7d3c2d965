"""The dual of an implicit solve, and the certificate that it gives.

Both are functions of a program and of the state in which its solve ended, and write to
neither. Everything goes through `passes`: no singular value decomposition of
anything m×n.
"""

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.results import Certificate, certificate_from_products
from discrepant.robust_pca.exact.factored_svd import largest_value
from discrepant.robust_pca.exact.step import State, Stepper
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.rows import passes

GOOD_ENOUGH = 5e-6  # gap at which the dual of a polished result is not improved further
ROUNDS, STEPS = 10, 25  # of improvement, at the most; each round ends in a certificate


def dual_of(program: ConvexProblem, state: State) -> Array:
    """Return the dual M of a state, a new array laid out as the data."""
    rows = program.rows
    with rows:
        M = rows.empty_like_data(fill=0.0 if state.T is None else None)
        if state.T is not None:
            passes.dual_of_step(
                rows, M, state.T, state.last, mu=state.mu, lam=program.lam
            )
        if state.polished and state.C.shape[1]:
            _settle(program, state, M)
            if certificate_of(program, state, M).gap > GOOD_ENOUGH:
                _improve(program, state, M)
    return M


def certificate_of(program: ConvexProblem, state: State, M: Array) -> Certificate:
    """Certify the low-rank part of a state by the dual M, with |M| ≤ λ.

    With noise the dual value of M is ⟨M, Y⟩ − ‖M‖²/2κ.
    """
    rows, unit, lam = program.rows, program.unit, program.lam
    nuclear = float(np.linalg.norm(state.C, axis=0).sum())
    kappa = program.kappa / unit
    with rows:
        sums = passes.certificate_sums(
            rows, M, (state.U, state.C), unit=unit, lam=lam, knee=lam / kappa
        )
        # |M| ≤ λ holds by clipping; a dual that is too small is not scaled up.
        scale = max(largest_value(rows, M, program.psd), 1.0)
    product, aligned = sums.dual_product, sums.dual_on_residual
    return certificate_from_products(
        nuclear=nuclear / unit,
        primal=(nuclear + sums.penalty) / unit,
        dual=(product / scale - sums.dual_square / (2 * kappa * scale**2)) / unit,
        on_signal=(product - aligned) / scale / unit,
        on_corruption=aligned / scale / unit,
        weighted_l1=lam * sums.absolute / unit,
        feasibility=state.residual,
    )


def _settle(program: ConvexProblem, state: State, M: Array, rounds: int = 12) -> None:
    """Move M to the nearest dual of an exact solution, in place.

    There M = λ sign(S) on the support and P_T M = U Vᵀ on the tangent space of L; the
    two are met by alternating projections, which contract as fast as polish did.
    """
    rows, lam, inner = program.rows, program.lam, program.on_bound
    U, C = state.U, state.C
    V = C / np.linalg.norm(C, axis=0)
    MV, MU = passes.pin_dual_to_support(
        rows,
        M,
        (U, C),
        unit=program.unit,
        lam=lam,
        inner=inner,
        zeta=state.zeta,
        right=V,
        left=U,
    )
    before = np.inf
    for k in range(rounds):
        if program.psd:
            MV = MU = (MV + MU) / 2
        X = MU - V
        Y = MV - U @ (U.T @ MV)
        off = np.sqrt(np.sum(X**2) + np.sum(Y**2))
        if off < 1e-7 or off > before or k == rounds - 1:
            break
        before = off
        normal = (np.hstack([U, Y]), np.hstack([X, V]))
        MV, MU = passes.project_dual(
            rows, M, normal, lam=lam, inner=inner, right=V, left=U
        )


def _improve(program: ConvexProblem, state: State, M: Array) -> None:
    """Step on from the solution for the sake of M alone, in place.

    Near the limit of what is recoverable, a polish succeeds long before the dual has
    converged.  L is right already, so a large and constant μ serves M best.
    """
    stepper = Stepper(program, np.random.default_rng(0), M)
    mu, factors = 64 * state.mu, (state.U, state.C)
    for _ in range(ROUNDS):
        stepper.start_from(*factors, M, mu)
        for _ in range(STEPS):
            stepper.step("careful")
            stepper.hold()
        passes.dual_of_step(program.rows, M, M, stepper.last, mu=mu, lam=program.lam)
        factors = stepper.last
        if certificate_of(program, state, M).gap < GOOD_ENOUGH:
            return

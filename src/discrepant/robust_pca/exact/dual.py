"""Dual variable and optimality certificate of the exact solver.

Both are functions of a problem and of the final state of its solve, and modify neither.
All work on m×n data is done by `passes`; no m×n matrix is decomposed.
"""

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.results import Certificate
from discrepant.robust_pca.exact.factored_svd import spectral_bound
from discrepant.robust_pca.exact.step import State, Stepper
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.rows import passes

SMALL_GAP = 5e-6  # duality gap at which the dual of a polished result is kept
MAX_PROJECTIONS = 11  # alternating projections on the duals of an exact solution
PROJECTED = 1e-7  # distance of the dual from its tangent part at which they end
MAX_ROUNDS = 10  # rounds of improvement of the dual; each ends with a certificate
STEPS_PER_ROUND = 25  # augmented-Lagrangian steps of one round


def dual_variable(program: ConvexProblem, state: State) -> Array:
    """Return the dual variable M of a state as a new array, laid out as the data."""
    rows = program.rows
    with rows:
        M = rows.empty_like_data(fill=0.0 if state.T is None else None)
        if state.T is not None:
            passes.dual_of_step(
                rows, M, state.T, state.last, mu=state.mu, lam=program.lam
            )
        if state.polished and state.C.shape[1]:
            _project_on_optimal_duals(program, state, M)
            if certificate_of(program, state, M).gap > SMALL_GAP:
                _improve(program, state, M)
    return M


def certificate_of(program: ConvexProblem, state: State, M: Array) -> Certificate:
    """Certify the low-rank part of a state by the dual M, with |M| ≤ λ.

    With noise, the dual value of M is ⟨M, Y⟩ − ‖M‖²/2κ.
    """
    rows, unit, lam = program.rows, program.unit, program.lam
    nuclear = float(np.linalg.norm(state.C, axis=0).sum())
    kappa = program.kappa / unit
    with rows:
        sums = passes.certificate_sums(
            rows, M, (state.U, state.C), unit=unit, lam=lam, knee=lam / kappa
        )
        # |M| ≤ λ holds by clipping; M is scaled down to ‖M‖₂ ≤ 1, never up.
        scale = max(spectral_bound(rows, M, program.psd), 1.0)
    dual = sums.dual_product / scale - sums.dual_square / (2 * kappa * scale**2)
    return Certificate(
        primal=(nuclear + sums.penalty) / unit,
        dual=dual / unit,
        feasibility=state.residual,
    )


def _project_on_optimal_duals(program: ConvexProblem, state: State, M: Array) -> None:
    """Project M in place on the duals of an exact solution.

    There M = λ sign(S) on the support and P_T M = U Vᵀ on the tangent space of L.
    Alternating projections meet both and contract as fast as the polish did.
    """
    rows, lam, inner = program.rows, program.lam, program.saturated_dual
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
    for _ in range(MAX_PROJECTIONS):
        if program.psd:
            MV = MU = (MV + MU) / 2
        X = MU - V
        Y = MV - U @ (U.T @ MV)
        if np.sqrt(np.sum(X**2) + np.sum(Y**2)) < PROJECTED:
            break
        normal = (np.hstack([U, Y]), np.hstack([X, V]))
        MV, MU = passes.project_dual(
            rows, M, normal, lam=lam, inner=inner, right=V, left=U
        )


def _improve(program: ConvexProblem, state: State, M: Array) -> None:
    """Improve M in place by further steps from the solution.

    Near the limit of what is recoverable, a polish succeeds long before the dual has
    converged. L is exact already, so a large and constant μ is best for M.
    """
    stepper = Stepper(program, np.random.default_rng(0), M)
    mu, factors = 64 * state.mu, (state.U, state.C)
    for _ in range(MAX_ROUNDS):
        stepper.start_from(*factors, M, mu)
        for _ in range(STEPS_PER_ROUND):
            stepper.step("careful")
        passes.dual_of_step(program.rows, M, M, stepper.last, mu=mu, lam=program.lam)
        factors = stepper.last
        if certificate_of(program, state, M).gap < SMALL_GAP:
            return

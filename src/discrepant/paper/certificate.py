"""Duality gap of a recovery: how far it is at most from a global optimum.

The convex program and its dual are

    p = min ‖X‖_* + λ‖s‖₁      s.t. A(X) + s = y  (and X ⪰ 0)
    d = max ⟨ν, y⟩             s.t. ‖A*(ν)‖₂ ≤ 1,  ‖ν‖_∞ ≤ λ

where X ⪰ 0 relaxes the first bound to λ_max(sym A*(ν)) ≤ 1. Any ν that satisfies both
gives a lower bound on p, and any X with s = y − A(X) an upper one. Their relative
difference certifies the result without knowledge of the truth.
"""

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from discrepant.core.linalg import Array, Symmetry, dual_norm, norm, svd
from discrepant.core.results import Certificate


def certify(recovery: Any) -> Certificate:
    """Return the certificate of a recovery that carries its dual variable.

    Parameters
    ----------
    recovery : result of `recover`
        With the problem (``y``, ``operator``, ``lam``, ``psd``), both parts, a positive
        multiple of the ``dual``, and the ``bound`` at which the solver clipped y.
    """
    A, lam = recovery.operator, recovery.lam
    X = recovery.signal.astype(np.float64)
    y = recovery.y.astype(np.float64)
    gross = np.abs(y) > recovery.bound
    y = np.clip(y, -recovery.bound, recovery.bound)
    nu = recovery.dual.astype(np.float64)

    nu = _best_feasible(nu, y, recovery)
    remainder = y - A.forward(X)  # the corruption that makes X feasible
    s = np.where(gross, remainder, recovery.corruption)
    return Certificate(
        primal=float(svd(X)[1].sum() + lam * np.abs(remainder).sum()),
        dual=float(np.vdot(nu, y)),
        feasibility=norm(remainder - s) / (norm(y) or np.inf),
    )


def _best_feasible(xi: Array, y: Array, recovery: Any) -> Array:
    """Return the feasible dual of largest value among rescaled ``clip(ξ/t, ±λ)``.

    A very small entry of the random start g₀ makes its entry of ξ large. Scaling all of
    ξ by that entry would make the bound poor; clipping it costs almost nothing.
    """
    lam, A = recovery.lam, recovery.operator
    kind: Symmetry = "psd" if recovery.psd else "general"
    largest = float(np.max(np.abs(xi)))
    if largest == 0:
        return xi

    def feasible(log_t: float) -> Array:
        clipped: Array = np.clip(xi / np.exp(log_t), -lam, lam)
        clipped /= max(1.0, dual_norm(A.adjoint(clipped), kind))
        return clipped

    t = np.log(max(dual_norm(A.adjoint(xi), kind), largest / lam))
    search = minimize_scalar(
        lambda log_t: -float(np.vdot(feasible(log_t), y)),
        bounds=(t - 3.0, t),
        method="bounded",
        options={"xatol": 1e-3, "maxiter": 20},
    )
    return max(feasible(t), feasible(search.x), key=lambda nu: float(np.vdot(nu, y)))

"""How far a recovery is from a global optimum, from its own dual.

The convex program and its dual are

    p = min ‖X‖_* + λ‖s‖₁      s.t. A(X) + s = y  (and X ⪰ 0)
    d = max ⟨ν, y⟩             s.t. ‖A*(ν)‖₂ ≤ 1,  ‖ν‖_∞ ≤ λ

where X ⪰ 0 relaxes the first bound to λ_max(sym A*(ν)) ≤ 1. Any ν, scaled until it
satisfies both bounds, gives a lower bound on p; any X with s = y − A(X) an upper one.
Their relative distance certifies the answer without knowing the truth.
"""

from dataclasses import dataclass

import numpy as np

from discrepant.linalg import Array, sym
from discrepant.result import Recovery


@dataclass(frozen=True)
class Certificate:
    """Evidence for a recovery.

    Attributes
    ----------
    gap : float
        Relative duality gap ``(p − d)/p``: the objective at X is at most this share
        above the global optimum. Zero is perfect; one says nothing.
    feasibility : float
        ``‖A(X) + s − y‖ / ‖y‖``.
    signal_alignment : float
        ``⟨A*(ν), X⟩ / ‖X‖_*``; one at an optimum.
    corruption_alignment : float
        ``⟨ν, s⟩ / λ‖s‖₁``; one at an optimum.
    primal, dual : float
        The two bounds p and d.
    """

    gap: float
    feasibility: float
    signal_alignment: float
    corruption_alignment: float
    primal: float
    dual: float

    def __str__(self) -> str:
        return (
            f"within {self.gap:.1e} of the global optimum "
            f"(residual {self.feasibility:.1e}, alignment of the signal "
            f"{self.signal_alignment:.4f}, of the corruption "
            f"{self.corruption_alignment:.4f})"
        )


def certify(recovery: Recovery) -> Certificate:
    """Certify any recovery that carries its dual."""
    A, psd, lam = recovery.operator, recovery.psd, recovery.lam
    X = recovery.signal.astype(np.float64)
    s = recovery.corruption.astype(np.float64)
    y = recovery.y.astype(np.float64)
    nu = recovery.dual.astype(np.float64)

    back = A.adjoint(nu)
    scale = max(_dual_norm(back, psd), float(np.max(np.abs(nu))) / lam)
    if scale > 0:
        nu, back = nu / scale, back / scale

    nuclear = float(np.linalg.svd(X, compute_uv=False).sum())
    left_over = y - A.forward(X)  # the corruption that makes X feasible
    return from_parts(
        nuclear=nuclear,
        primal=nuclear + lam * float(np.abs(left_over).sum()),
        dual=float(np.vdot(nu, y)),
        on_signal=float(np.vdot(back, X)),
        on_corruption=float(np.vdot(nu, s)),
        weighted_l1=lam * float(np.abs(s).sum()),
        feasibility=_ratio(_norm(left_over - s), _norm(y), 0.0),
    )


def from_parts(
    *,
    nuclear: float,
    primal: float,
    dual: float,
    on_signal: float,
    on_corruption: float,
    weighted_l1: float,
    feasibility: float,
) -> Certificate:
    """Assemble a certificate from inner products with a feasible dual."""
    return Certificate(
        gap=_ratio(primal - dual, primal, 0.0),
        feasibility=feasibility,
        signal_alignment=_ratio(on_signal, nuclear, 1.0),
        corruption_alignment=_ratio(on_corruption, weighted_l1, 1.0),
        primal=primal,
        dual=dual,
    )


def _dual_norm(back: Array, psd: bool) -> float:
    """Return ‖·‖₂, or under X ⪰ 0 the largest eigenvalue if it is positive."""
    if psd:
        return max(0.0, float(np.linalg.eigvalsh(sym(back))[-1]))
    return float(np.linalg.norm(back, 2))


def _norm(z: Array) -> float:
    return float(np.linalg.norm(z))


def _ratio(part: float, whole: float, if_empty: float) -> float:
    return float(part / whole) if whole > 0 else if_empty

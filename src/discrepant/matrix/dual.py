"""The dual of an implicit solve: made exact where the solution is, then a certificate.

Everything goes through `blocks.Rows.sweep`: no singular value decomposition of anything
m×n.
"""

from collections.abc import Callable

import numpy as np

from discrepant.linalg import Array
from discrepant.matrix.spectra import largest_value
from discrepant.matrix.sweep import kernels
from discrepant.matrix.sweep.rows import Rows
from discrepant.paper.certificate import Certificate, from_parts


def certify_factors(
    rows: Rows,
    M: Array,
    factors: tuple[Array, Array],
    nuclear: float,
    *,
    psd: bool,
    unit: float,
    lam: float,
    feasibility: float,
) -> Certificate:
    """Certify ``L = U Cᵀ`` of the given nuclear norm by the dual M, with |M| ≤ λ."""
    _, _, sums = rows.sweep(kernels.score, (M,), (unit,), low_rank=factors)
    absolute, product, aligned = sums.sum(axis=0) if sums.size else np.zeros(3)
    # |M| ≤ λ holds by clipping; a dual that is too small is not scaled up.
    scale = max(largest_value(rows, M, psd), 1.0)
    return from_parts(
        nuclear=nuclear / unit,
        primal=(nuclear + lam * absolute) / unit,
        dual=product / scale / unit,
        on_signal=(product - aligned) / scale / unit,
        on_corruption=aligned / scale / unit,
        weighted_l1=lam * absolute / unit,
        feasibility=feasibility,
    )


def settle(
    rows: Rows,
    M: Array,
    factors: tuple[Array, Array],
    psd: bool,
    unit: float,
    lam: float,
    reach: float,
    zeta: float,
    passes: int = 12,
) -> None:
    """Move M to the nearest dual of an exact solution, in place.

    There M = λ sign(S) on the support and P_T M = U Vᵀ on the tangent space of L; the
    two are met by alternating projections, which contract as fast as polish did.
    """
    U, C = factors
    V = C / np.linalg.norm(C, axis=0)
    scalars: tuple[float, ...] = (unit, lam, reach, zeta)
    kernel: Callable[..., None] = kernels.pin
    low_rank = (U, C)
    before = np.inf
    for _ in range(passes):
        MV, MU, _ = rows.sweep(
            kernel, (M,), scalars, low_rank=low_rank, right=V, left=U
        )
        if psd:
            MV = MU = (MV + MU) / 2
        X = MU - V
        Y = MV - U @ (U.T @ MV)
        off = np.sqrt(np.sum(X**2) + np.sum(Y**2))
        if off < 1e-7 or off > before:
            break
        before = off
        kernel, scalars = kernels.correct, (lam, reach)
        low_rank = (np.hstack([U, Y]), np.hstack([X, V]))

"""Singular values and vectors of m×n matrices from narrow factors and products.

m×n matrices enter only through `passes`.
"""

import numpy as np
from scipy import linalg

from discrepant.core.linalg import Array, svd, sym
from discrepant.robust_pca.rows import passes
from discrepant.robust_pca.rows.rows import Rows

DENSE = 16  # columns per Lanczos pass if n ≤ 4 × 16: the whole space is then searched


def orthonormal(P: Array) -> Array:
    """Return K such that P K is orthonormal.

    The columns of P are nearly orthogonal but of very different lengths. Scaled to unit
    length, their Gram matrix can be factored safely.
    """
    G = P.T @ P
    length = np.sqrt(np.diag(G))
    length[length == 0] = 1.0
    G /= length
    G /= length[:, None]
    R, failed = linalg.lapack.dpotrf(G)
    if not failed and np.diag(R).min() > 1e-5:
        K: Array = linalg.lapack.dtrtri(R)[0]
    else:
        w, H = linalg.eigh(G)
        good = w > 1e-10 * w[-1]
        K = H[:, good] / np.sqrt(w[good])
    return K / length[:, None]


def svd_from_products(P: Array, B: Array) -> tuple[Array, Array, Array]:
    """Return U, V and s of the part of T in the span of P = T V, given B = TᵀP."""
    K = orthonormal(P)
    W = B @ K  # = TᵀQ with Q = P K
    _, H = linalg.eigh(W.T @ W)
    H = H[:, ::-1]
    right = W @ H
    s = np.linalg.norm(right, axis=0)
    return P @ (K @ H), right / np.maximum(s, np.finfo(float).tiny), s


def eigenpairs(rows: Rows, T: Array, P: Array) -> tuple[Array, Array, Array]:
    """Return the eigenpairs of sym(T) in the span of P as U, V = U and values."""
    Q = P @ orthonormal(P)
    F, E = passes.multiply(rows, T, right=Q, left=Q)
    s, H = linalg.eigh(Q.T @ (F + E) / 2)
    U = Q @ H[:, ::-1]
    return U, U, s[::-1]


def svd_of_product(A: Array, B: Array) -> tuple[Array, Array, Array]:
    """Return U, V and s of A Bᵀ."""
    QA, RA = linalg.qr(A, mode="economic")
    QB, RB = linalg.qr(B, mode="economic")
    U, s, Vt = svd(RA @ RB.T)
    return QA @ U, QB @ Vt.T, s


def factor_distance(one: tuple[Array, Array], two: tuple[Array, Array]) -> float:
    """Return ‖U₁C₁ᵀ − U₂C₂ᵀ‖ for orthonormal U, without cancellation."""
    (U, C), (U2, C2) = two, one
    K = U2.T @ U
    E = U - U2 @ K  # orthogonal to U₂
    outside = np.sqrt(np.sum((E.T @ E) * (C.T @ C)).clip(0))
    return float(np.hypot(outside, np.linalg.norm(C @ K.T - C2)))


def spectral_bound(
    rows: Rows, M: Array, psd: bool, max_passes: int = 60, accuracy: float = 1e-7
) -> float:
    """Bound ‖M‖₂, or the largest eigenvalue of sym M, from above.

    Block Lanczos approaches it from below. The remaining error is bounded by the
    residual of the leading vector, and by the last gain times the number of passes,
    since gains decrease. For few columns the whole space is searched.
    """
    n = rows.n
    width = min(DENSE if n <= 4 * DENSE else 4, n)
    V = np.random.default_rng(0).standard_normal((n, width))
    basis = images = np.zeros((n, 0))
    value = before = bound = -np.inf
    for k in range(1, max_passes + 1):
        for _ in range(2):  # twice suffices for orthogonality
            V = linalg.qr(V - basis @ (basis.T @ V), mode="economic")[0]
        if psd:
            P, B = passes.multiply(rows, M, right=V, left=V)
            B = (P + B) / 2  # = sym(M) V
        else:
            _, B = passes.multiply(rows, M, right=V, power=True)  # = MᵀM V
        basis, images = np.hstack([basis, V]), np.hstack([images, B])
        values, H = linalg.eigh(sym(basis.T @ images))
        value, h = float(values[-1]), H[:, -1]
        missed = float(np.linalg.norm(images @ h - value * (basis @ h)))
        left = n - basis.shape[1]
        bound = value + (min(missed, k * (value - before)) if left else 0.0)
        if not left or bound - value < accuracy:
            break
        before, V = value, B[:, :left]
    bound += 8 * float(np.finfo(rows.dtype).eps) * abs(bound)
    return bound if psd else float(np.sqrt(max(bound, 0.0)))

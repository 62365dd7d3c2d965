"""Norms, proximal maps of the penalties ‖X‖_* and ‖s‖₁, and numerical ranks."""

from typing import Literal

import numpy as np
from scipy import linalg

Array = np.ndarray  # of floating point numbers
Symmetry = Literal["general", "symmetric", "psd"]  # set of matrices in which X lies


def norm(z: Array) -> float:
    """Return the Euclidean norm of an array of any shape and scale."""
    largest = float(np.max(np.abs(z), initial=0.0))
    if not 0 < largest < np.inf:
        return largest
    return largest * float(np.linalg.norm(z / largest))


def svd(Z: Array) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition U, s, Vᴴ of a matrix.

    LAPACK's divide and conquer can fail to converge on finite matrices; its QR
    iteration, which is slower, then takes its place.
    """
    try:
        return np.linalg.svd(Z, full_matrices=False)
    except np.linalg.LinAlgError:
        if not np.isfinite(Z).all():
            raise
        U, s, Vh = linalg.svd(Z, full_matrices=False, lapack_driver="gesvd")
        return U, s, Vh


def shrink(z: Array, threshold: float | Array) -> Array:
    """Return the soft threshold of z, real or complex: the prox of ``threshold·‖·‖₁``.

    Signs and phases are unchanged.
    """
    return np.asarray(np.sign(z) * np.maximum(np.abs(z) - threshold, 0))


def shrink_singular(Z: Array, threshold: float) -> tuple[Array, Array]:
    """Return the proximal map of ``threshold·‖·‖_*`` at Z and its singular values."""
    U, sigma, Vt = svd(Z)
    sigma = np.maximum(sigma - threshold, 0)
    k = int(np.count_nonzero(sigma))
    return (U[:, :k] * sigma[:k]) @ Vt[:k], sigma[:k]


def shrink_eigen(Z: Array, threshold: float) -> tuple[Array, Array]:
    """Return the proximal map of ``threshold·trace`` over X ⪰ 0 and its eigenvalues.

    It depends on Z only through its symmetric part.
    """
    values, Q = np.linalg.eigh(sym(Z))
    values = np.maximum(values - threshold, 0)
    keep = values > 0
    return (Q[:, keep] * values[keep]) @ Q[:, keep].T, values[keep]


def sym(Z: Array) -> Array:
    """Return the symmetric part ``(Z + Zᵀ)/2``."""
    return np.asarray((Z + Z.T) / 2)


def dual_norm(G: Array, kind: Symmetry) -> float:
    """Return the dual norm of ‖·‖_* over matrices of a kind.

    ‖G‖₂ in general, and of the Hermitian part of G if "symmetric"; if "psd" its largest
    eigenvalue, or zero if none is positive.
    """
    if kind == "general":
        return float(np.linalg.norm(G, 2))
    values = np.linalg.eigvalsh((G + G.conj().T) / 2)
    return max(0.0, float(values[-1]), 0.0 if kind == "psd" else -float(values[0]))


def rank_at_gap(sigma: Array) -> int:
    """Return the number of singular values (decreasing) before the largest gap.

    The descent ends at a finite distance from low rank: the singular values of
    directions that are not part of the signal are small, not zero. A gap is the ratio
    of two neighbouring values. Only values of at least a hundredth of the largest count
    as signal. Values below a thousandth of it are raised to that, so that the gap to
    exact zeros is not always the largest.
    """
    if not len(sigma) or sigma[0] <= 0:
        return 0
    relative = np.append(sigma, 0.0) / sigma[0]
    signal = np.flatnonzero(relative >= 0.01)
    gaps = relative[signal] / np.maximum(relative[signal + 1], 1e-3)
    return int(signal[np.argmax(gaps)]) + 1


def spectral_norm(Z: Array, rng: np.random.Generator, steps: int = 30) -> float:
    """Estimate ‖Z‖₂ from below by power iteration, to within a few per cent."""
    v = rng.standard_normal((Z.shape[1], 1))
    value = 0.0
    for _ in range(steps):
        w = Z @ (v / norm(v))
        value = norm(w)
        if value == 0:
            break
        v = Z.T @ (w / value)
    return value

"""Norms and proximal maps of the two penalties: ‖X‖_* and ‖s‖₁."""

from contextlib import AbstractContextManager, nullcontext

import numpy as np
from threadpoolctl import threadpool_limits

from discrepant.errors import InputError

Array = np.ndarray  # of floats


def shrink(z: Array, threshold: float | Array) -> Array:
    """Soft threshold: the proximal map of ``threshold·‖·‖₁``."""
    return np.sign(z) * np.maximum(np.abs(z) - threshold, 0)


def shrink_singular(Z: Array, threshold: float) -> tuple[Array, Array]:
    """Proximal map of ``threshold·‖·‖_*``; also the singular values that are left."""
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    sigma = np.maximum(sigma - threshold, 0)
    k = int(np.count_nonzero(sigma))
    return (U[:, :k] * sigma[:k]) @ Vt[:k], sigma[:k]


def shrink_eigen(Z: Array, threshold: float) -> tuple[Array, Array]:
    """Proximal map of ``threshold·trace`` over X ⪰ 0; only sym(Z) acts on it."""
    values, Q = np.linalg.eigh(sym(Z))
    values = np.maximum(values - threshold, 0)
    keep = values > 0
    return (Q[:, keep] * values[keep]) @ Q[:, keep].T, values[keep]


def sym(Z: Array) -> Array:
    """Return the symmetric part ``(Z + Zᵀ)/2``."""
    return (Z + Z.T) / 2


def check_square(shape: tuple[int, ...], psd: bool) -> None:
    """Refuse X ⪰ 0 where X is not square."""
    m, n = shape
    if psd and m != n:
        raise InputError(
            f"psd=True needs a square matrix, but this one is {m}×{n}; pass psd=False."
        )


def spectral_norm(Z: Array, rng: np.random.Generator, steps: int = 30) -> float:
    """Estimate ‖Z‖₂ from below by power iteration; a few per cent are enough here."""
    v = rng.standard_normal((Z.shape[1], 1))
    norm = 0.0
    for _ in range(steps):
        size = float(np.linalg.norm(v))
        if size == 0:
            return 0.0
        w = Z @ (v / size)
        norm = float(np.linalg.norm(w))
        v = Z.T @ w
    return norm


def blas_threads(multiplications: int) -> AbstractContextManager:
    """Hold BLAS to one thread where a product is too small to be worth sharing."""
    if multiplications < 4_000_000:
        return threadpool_limits(limits=1, user_api="blas")
    return nullcontext()

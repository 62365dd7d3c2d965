"""Norms, proximal maps of the penalties ‖X‖_* and ‖s‖₁, and where to clip data."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from threadpoolctl import threadpool_limits

from discrepant.core.device_arrays import parts_of, place_of

# The matrix solver still looks for it here.

Array = np.ndarray  # of floats

# Clipping (`clipping_bound`). The size of a row or column is the lower quartile of its
# |entries|, 0.32 σ where they are normal: 30 times that is 9.6 σ, beyond any of them.
CLIP = 30.0  # times the size of the largest row or column: where entries are clipped
GROSS = 100.0  # times the usual size: below it nothing drowns, and nothing is clipped
COMPARABLE = 1e3  # times the usual size: a row or column beyond it cannot be kept
MIN_CORRUPT_FRACTION = (
    0.1  # share of a clipped entry that the corruption takes, at the least
)

WORTH_SHARING = 4_000_000  # multiplications, about 1 ms of one core: worth two threads


def norm(z: Array) -> float:
    """Return the Euclidean norm of an array of any shape and scale."""
    top = float(np.max(np.abs(z), initial=0.0))
    return top * float(np.linalg.norm(z / top)) if 0 < top < np.inf else top


def clipping_bound(Y: Array, top: float) -> float:
    """Return where to clip the entries of Y, of which the largest has size `top`."""

    def lines() -> Array:
        flat = np.zeros(0)
        return np.append(row_scales(Y), row_scales(Y.T)) if Y.ndim == 2 else flat

    return clipping_bound_from(Y[even_sample(Y.shape)], top, lines)


def clipping_bound_from(some: Array, top: float, lines: Callable[[], Array]) -> float:
    """Return where to clip, given some entries and the sizes of rows and columns.

    The convex optimum does not depend on how large a gross error is, only on its sign.
    So gross ones may be clipped, far above the usual size, and then drown nothing. A
    row or column that is large as a whole is no error: the bound is above it, unless
    everything else would be lost beside it.
    """
    sizes = np.abs(some[(some != 0) & ~np.isnan(some)])
    usual = float(np.median(sizes)) if sizes.size else top
    if top <= GROSS * usual:
        return top
    found = lines()
    largest = float(np.max(found, where=found <= COMPARABLE * usual, initial=usual))
    return min(top, CLIP * largest)


def even_sample(shape: tuple[int, ...], entries: int = 1 << 14) -> tuple[slice, ...]:
    """Return evenly spread rows and columns, of about so many entries."""
    if math.prod(shape) <= entries:
        return tuple(slice(None) for _ in shape)
    most = round(entries ** (1 / len(shape)))
    return tuple(slice(None, None, max(size // most, 1)) for size in shape)


def row_scales(Y: Array, entries: int = 256, block: int = 1 << 12) -> Array:
    """Return the lower quartile of the nonzero |entries| of each row.

    Some entries are looked at; where they are fewer than eight, the result is zero. Of
    an array on a device only these numbers leave it.
    """
    place, (rows, columns) = place_of(Y), Y.shape
    xp, found = place.xp, np.zeros(rows)
    step = max(columns // entries, 1)
    for part in parts_of(rows, block):
        sizes = xp.abs(Y[part, ::step])
        counted = sizes > 0  # False for NaN
        sizes = xp.sort(xp.where(counted, sizes, xp.inf), axis=1)
        count = xp.sum(xp.astype(counted, xp.int32), axis=1, keepdims=True)
        enough = count >= 8
        quartiles = xp.take_along_axis(sizes, xp.where(enough, count // 4, 0), axis=1)
        quartiles = xp.where(enough, quartiles, 0.0)
        found[part] = place.fetch(quartiles[:, 0])
    return found


def shrink(z: Array, threshold: float | Array) -> Array:
    """Soft threshold: the proximal map of ``threshold·‖·‖₁``."""
    return np.asarray(np.sign(z) * np.maximum(np.abs(z) - threshold, 0))


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
    return np.asarray((Z + Z.T) / 2)


def rank_at_gap(sigma: Array) -> int:
    """Count the singular values (decreasing) before the largest gap between two.

    The descent ends a finite distance from low rank: directions that it did not choose
    are small, not zero. A gap is the ratio of two neighbours. Only values down to a
    hundredth of the largest are taken for signal, and a value below a thousandth
    counts as one, so that the gap to exact zeros does not always win.
    """
    if not len(sigma) or sigma[0] <= 0:
        return 0
    relative = np.append(sigma, 0.0) / sigma[0]
    heads = np.flatnonzero(relative >= 0.01)
    gaps = relative[heads] / np.maximum(relative[heads + 1], 1e-3)
    return int(heads[np.argmax(gaps)]) + 1


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


def blas_threads(multiplications: int) -> AbstractContextManager[object]:
    """Hold BLAS to one thread where a product is too small to be worth sharing."""
    if multiplications >= WORTH_SHARING:
        return nullcontext()
    limited: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limited

"""Smooth images: a thin plate whose colour channels bend together.

The energy is ``Σ_cd P_cd ⟨x_c, Q x_d⟩`` with Q the bending of a thin plate. P, the
inverse covariance of the channels' differences, is what makes it strong: where one
channel is lost, an edge seen in another is an edge in this one.
"""

import numpy as np
from scipy.ndimage import uniform_filter

from discrepant.linalg import Array

TENSION = 0.3  # share of membrane in the plate: less overshoot in wide gaps
RIDGE = 0.02  # no combination of channels counts as smoother than this


def coupling(x: Array, clean: Array | None = None) -> Array:
    """Return P, from neighbours of which both are clean in both channels."""
    channels = x.shape[2]
    if channels == 1:
        return np.ones((1, 1), np.float32)
    covariance = np.zeros((channels, channels))
    pairs = np.zeros((channels, channels))
    for axis in (0, 1):
        d = np.diff(x, axis=axis).reshape(-1, channels)
        if clean is None:
            pairs += len(d)
        else:
            both = np.diff(clean.astype(np.int8), axis=axis) == 0
            both &= np.delete(clean, 0, axis=axis)
            weight = both.reshape(-1, channels).astype(np.float32)
            d = d * weight
            pairs += weight.T @ weight
        covariance += d.T @ d
    covariance /= np.maximum(pairs, 1)
    values, vectors = np.linalg.eigh(covariance)
    if values[-1] <= 0:
        return np.eye(channels, dtype=np.float32)
    inverse = (vectors / np.maximum(values, RIDGE * values[-1])) @ vectors.T
    return (inverse / np.mean(np.diag(inverse))).astype(np.float32)


def smooth(
    y: Array, weight: Array, stiffness: float, P: Array, start: Array, steps: int = 15
) -> Array:
    """Minimise ``Σ weight (x − y)² + stiffness · energy(x)`` by conjugate gradients."""
    pull = np.float32(stiffness)
    diagonal = weight + pull * (20 + 4 * TENSION) * np.diag(P)
    return _conjugate(weight * y, weight, pull, P, diagonal, start, steps)


def leverage(density: Array, stiffness: float, P: Array) -> Array:
    """Return how much a value of weight 1 pulls `smooth` to itself.

    The answer for an even weight of this density, from the spectrum of Q.
    """
    angles = np.pi * (np.arange(32) + 0.5) / 32
    laplacian = (2 - 2 * np.cos(angles))[:, None] + (2 - 2 * np.cos(angles))
    bending = (laplacian**2 + TENSION * laplacian).ravel()
    values, vectors = np.linalg.eigh(P.astype(float))
    densities = np.linspace(0.02, 1, 50)
    table = np.array(
        [
            [np.mean(1 / (level + stiffness * bending * value)) for value in values]
            for level in densities
        ]
    )
    table = table @ (vectors**2).T
    out = np.empty_like(density)
    for channel in range(density.shape[2]):
        out[..., channel] = np.interp(
            density[..., channel], densities, table[:, channel]
        )
    return out


def _bending(x: Array, P: Array) -> Array:
    from discrepant.image.restore.kernels import bend

    out = np.empty_like(x)
    bend(x, TENSION, out)
    return out if len(P) == 1 else out @ P


def _conjugate(
    b: Array,
    weight: Array,
    stiffness: np.float32,
    P: Array,
    diagonal: Array,
    start: Array,
    steps: int,
) -> Array:
    """Solve ``(weight + stiffness · Q P) x = b``, preconditioned by the diagonal."""

    def apply(v: Array) -> Array:
        out = _bending(v, P)
        out *= stiffness
        out += weight * v
        return out

    x = start.copy()
    r = b - apply(x)
    z = r / diagonal
    p = z.copy()
    old = first = float(np.vdot(r, z))
    for _ in range(steps):
        Ap = apply(p)
        curvature = float(np.vdot(p, Ap))
        if old <= 1e-9 * first or curvature <= 1e-30:
            break
        step = np.float32(old / curvature)
        x += step * p
        r -= step * Ap
        z = r / diagonal
        new = float(np.vdot(r, z))
        p *= np.float32(new / old)
        p += z
        old = new
    return x


def spread(y: Array, clean: Array) -> Array:
    """Return y where it is clean and, elsewhere, the mean of what is near.

    Means of 2×2 blocks are taken until no gap is left, and handed down again: a start
    for gaps of any size.
    """
    rows, columns, _ = y.shape
    if clean.all():
        return y
    if max(rows, columns) < 2 or not clean.any():
        count = np.maximum(clean.sum((0, 1)), 1)
        mean = np.where(clean, y, 0).sum((0, 1)) / count
        return np.where(clean, y, mean).astype(y.dtype)
    pad = ((0, rows % 2), (0, columns % 2), (0, 0))
    total = _blocks(np.pad(np.where(clean, y, 0), pad))
    count = _blocks(np.pad(clean.astype(y.dtype), pad))
    coarse = spread(total / np.maximum(count, 1), count > 0)
    fine = coarse.repeat(2, 0).repeat(2, 1)[:rows, :columns]
    return np.where(clean, y, uniform_filter(fine, (3, 3, 1)))


def _blocks(x: Array) -> Array:
    return x[::2, ::2] + x[1::2, ::2] + x[::2, 1::2] + x[1::2, 1::2]

"""Thin-plate spline whose colour channels are coupled.

The bending energy is ``Σ_cd P_cd ⟨x_c, Q x_d⟩``. Q is the bending energy of a thin
plate, and P is the inverse covariance of the channels' differences between neighbours.
P carries edges over from one channel to another: where a channel is corrupted, an edge
of the other channels is an edge of this one.
"""

import numpy as np

from discrepant.core.linalg import Array

# Weight of a membrane's energy beside the plate's. A plate alone overshoots in wide
# gaps; a membrane alone has a peak at every value that it passes through.
TENSION = 0.3
# Smallest eigenvalue of the channels' covariance in P, as a fraction of the largest.
# Without it, channels that are nearly equal would be forced to be equal.
MIN_EIGENVALUE_RATIO = 0.02
# Steps of conjugate gradients. Each solve starts from the last image, so few suffice.
CG_STEPS = 15
# Conjugate gradients end early once the squared residual has fallen by this factor.
CG_TOLERANCE = 1e-9
# Diagonal of Q away from the border for a plate: 6 from x_ii², 6 from x_jj², 8 from
# 2 x_ij².
PLATE_DIAGONAL = 20
# Diagonal of Q away from the border for a membrane: 2 from x_i², 2 from x_j².
MEMBRANE_DIAGONAL = 4


def channel_precision(x: Array) -> Array:
    """Return P for an image, scaled to a mean of 1 on its diagonal."""
    channels = x.shape[2]
    if channels == 1:
        return np.ones((1, 1), np.float32)
    covariance = np.zeros((channels, channels))
    n_pairs = 0
    for axis in (0, 1):
        difference = np.diff(x, axis=axis).reshape(-1, channels)
        covariance += difference.T @ difference
        n_pairs += len(difference)
    covariance /= max(n_pairs, 1)
    values, vectors = np.linalg.eigh(covariance)
    if values[-1] <= 0:
        return np.eye(channels, dtype=np.float32)
    smallest = MIN_EIGENVALUE_RATIO * values[-1]
    inverse = (vectors / np.maximum(values, smallest)) @ vectors.T
    P: Array = (inverse / np.mean(np.diag(inverse))).astype(np.float32)
    return P


def fit_thin_plate(
    y: Array,
    weight: Array,
    stiffness: float,
    P: Array,
    start: Array,
    steps: int = CG_STEPS,
) -> Array:
    """Minimise ``Σ weight (x − y)² + stiffness · energy(x)`` by conjugate gradients.

    Parameters
    ----------
    y, weight : ndarray of shape (rows, columns, channels)
        Observed values and their weights.
    stiffness : float
        Weight of the bending energy.
    P : ndarray of shape (channels, channels)
        Coupling of the channels, from `channel_precision`.
    start : ndarray
        Initial image.
    steps : int
        Largest number of steps.
    """
    single = np.float32(stiffness)
    diagonal_of_q = PLATE_DIAGONAL + MEMBRANE_DIAGONAL * TENSION
    diagonal = weight + single * diagonal_of_q * np.diag(P)
    return _conjugate_gradients(weight * y, weight, single, P, diagonal, start, steps)


def leverage(density: Array, stiffness: float, P: Array) -> Array:
    """Return how far a value of weight 1 attracts the spline, per unit of its own.

    If a value of weight w changes by one unit, the spline changes at the same place by
    w times the leverage. The result is exact where all weights equal ``density``: there
    Q is diagonal in cosines, and the leverage is the mean over its spectrum of
    ``1 / (density + stiffness · eigenvalue)``. This mean is tabulated for densities
    from 2% in steps of 2%, over 32×32 cosines.
    """
    angles = np.pi * (np.arange(32) + 0.5) / 32
    laplacian = (2 - 2 * np.cos(angles))[:, None] + (2 - 2 * np.cos(angles))
    spectrum = (laplacian**2 + TENSION * laplacian).ravel()
    values, vectors = np.linalg.eigh(P.astype(float))
    densities = np.linspace(0.02, 1, 50)
    system = densities[:, None, None] + stiffness * values[:, None] * spectrum
    table = np.mean(1 / system, axis=2) @ (vectors**2).T
    out = np.empty_like(density)
    for channel in range(density.shape[2]):
        out[..., channel] = np.interp(
            density[..., channel], densities, table[:, channel]
        )
    return out


def _conjugate_gradients(
    b: Array,
    weight: Array,
    stiffness: np.float32,
    P: Array,
    diagonal: Array,
    start: Array,
    steps: int,
) -> Array:
    """Solve ``weight∘x + stiffness · Q x P = b``, preconditioned by the diagonal."""
    from discrepant.image.restore.core.kernels import (
        apply_bending_energy,
        apply_system,
        cg_direction,
        cg_update,
        mix_channels,
    )

    shape, rows, channels = b.shape, len(b), b.shape[2]
    b, weight, diagonal = (
        np.ascontiguousarray(a, np.float32).reshape(rows, -1)
        for a in (b, weight, diagonal)
    )
    x = np.array(start, np.float32, order="C").reshape(rows, -1)
    Ap = np.empty_like(x)

    def apply(v: Array) -> float:
        """Write ``A v`` to Ap, and return ``⟨v, A v⟩``."""
        apply_bending_energy(v.reshape(shape), np.float32(TENSION), Ap.reshape(shape))
        if channels > 1:
            mix_channels(Ap.reshape(-1, channels), P)
        return float(apply_system(Ap, weight, v, stiffness))

    apply(x)
    r = b - Ap
    p = r / diagonal
    old = first = float(np.vdot(r, p))
    for _ in range(steps):
        curvature = apply(p)
        if old <= CG_TOLERANCE * first or curvature <= 1e-30:  # no division by zero
            break
        new = float(cg_update(x, r, p, Ap, diagonal, np.float32(old / curvature)))
        cg_direction(r, p, diagonal, np.float32(new / old))
        old = new
    return x.reshape(shape)

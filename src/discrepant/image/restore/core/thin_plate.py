"""Smooth images: a thin plate whose colour channels bend together.

The energy is ``Σ_cd P_cd ⟨x_c, Q x_d⟩`` with Q the bending of a thin plate. P, the
inverse covariance of the channels' differences between neighbours, is what makes it
strong: where one channel is lost, an edge seen in another is an edge in this one.
"""

from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/restore.py --tuning` tries again.

    Attributes
    ----------
    tension : float
        Share of a membrane in the plate. A plate alone overshoots in wide gaps, a
        membrane alone has a peak at every value it is pinned to.
    ridge : float
        The least eigenvalue of the covariance in P, as a share of the largest. Channels
        that are nearly equal would otherwise be forced to be so.
    steps : int
        Steps of conjugate gradients. Each solve starts from the last round's image, so
        a few suffice.
    settled : float
        They end sooner once the squared residual has fallen by this factor.
    """

    tension: float = 0.3
    ridge: float = 0.02
    steps: int = 15
    settled: float = 1e-9


TUNING = Tuning()
# The diagonals of Q away from the border. A plate has 6 from x_ii², 6 from x_jj² and
# 8 from 2 x_ij²; a membrane has 2 from x_i² and 2 from x_j².
PLATE_DIAGONAL, MEMBRANE_DIAGONAL = 20, 4


def channel_precision(x: Array) -> Array:
    """Return P from the differences of all neighbours, of mean 1 on its diagonal."""
    channels = x.shape[2]
    if channels == 1:
        return np.ones((1, 1), np.float32)
    covariance = np.zeros((channels, channels))
    pairs = 0
    for axis in (0, 1):
        d = np.diff(x, axis=axis).reshape(-1, channels)
        covariance += d.T @ d
        pairs += len(d)
    covariance /= max(pairs, 1)
    values, vectors = np.linalg.eigh(covariance)
    if values[-1] <= 0:
        return np.eye(channels, dtype=np.float32)
    inverse = (vectors / np.maximum(values, TUNING.ridge * values[-1])) @ vectors.T
    P: Array = (inverse / np.mean(np.diag(inverse))).astype(np.float32)
    return P


def fit_thin_plate(
    y: Array,
    weight: Array,
    stiffness: float,
    P: Array,
    start: Array,
    steps: int | None = None,
) -> Array:
    """Minimise ``Σ weight (x − y)² + stiffness · energy(x)`` by conjugate gradients."""
    pull = np.float32(stiffness)
    bending = PLATE_DIAGONAL + MEMBRANE_DIAGONAL * TUNING.tension
    diagonal = weight + pull * bending * np.diag(P)
    steps = TUNING.steps if steps is None else steps
    return _conjugate(weight * y, weight, pull, P, diagonal, start, steps)


def leverage(density: Array, stiffness: float, P: Array) -> Array:
    """Return how much a value of weight 1 pulls `fit_thin_plate` to itself.

    A value of weight w moves the smooth image at its own place by w times this, for
    each unit that it moves itself. What is returned holds where all weights equal
    ``density``: there Q is diagonal in cosines, and the mean over its spectrum of
    ``1 / (density + stiffness · eigenvalue)`` is the answer. It is tabulated over the
    densities, from 2% in steps of 2%, and over 32×32 cosines.
    """
    angles = np.pi * (np.arange(32) + 0.5) / 32
    laplacian = (2 - 2 * np.cos(angles))[:, None] + (2 - 2 * np.cos(angles))
    bending = (laplacian**2 + TUNING.tension * laplacian).ravel()
    values, vectors = np.linalg.eigh(P.astype(float))
    densities = np.linspace(0.02, 1, 50)
    pulls = densities[:, None, None] + stiffness * values[:, None] * bending
    table = np.mean(1 / pulls, axis=2) @ (vectors**2).T
    out = np.empty_like(density)
    for channel in range(density.shape[2]):
        out[..., channel] = np.interp(
            density[..., channel], densities, table[:, channel]
        )
    return out


def _conjugate(
    b: Array,
    weight: Array,
    stiffness: np.float32,
    P: Array,
    diagonal: Array,
    start: Array,
    steps: int,
) -> Array:
    """Solve ``weight∘x + stiffness · Q x P = b``, preconditioned by the diagonal."""
    from discrepant.image.restore.core.kernels import bend, descend, mix, pull, turn

    shape, rows, channels = b.shape, len(b), b.shape[2]
    b, weight, diagonal = (
        np.ascontiguousarray(a, np.float32).reshape(rows, -1)
        for a in (b, weight, diagonal)
    )
    x = np.array(start, np.float32, order="C").reshape(rows, -1)
    Ap = np.empty_like(x)

    def apply(v: Array) -> float:
        """Write ``A v`` to Ap, and return ``⟨v, A v⟩``."""
        bend(v.reshape(shape), np.float32(TUNING.tension), Ap.reshape(shape))
        if channels > 1:
            mix(Ap.reshape(-1, channels), P)
        return float(pull(Ap, weight, v, stiffness))

    apply(x)
    r = b - Ap
    p = r / diagonal
    old = first = float(np.vdot(r, p))
    for _ in range(steps):
        curvature = apply(p)
        if old <= TUNING.settled * first or curvature <= 1e-30:  # no division by zero
            break
        new = float(descend(x, r, p, Ap, diagonal, np.float32(old / curvature)))
        turn(r, p, diagonal, np.float32(new / old))
        old = new
    return x.reshape(shape)

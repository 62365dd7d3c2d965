"""A cheap look at all of a picture, to work only where something may be wrong.

Where corruption is rare, the median of a value's eight neighbours is a fair start, and
three rounds of the thin plate leave in doubt little but what is wrong. Where it is not,
nothing is lost but this look.
"""

from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array
from discrepant.image.restore.core.full_pass import TUNING as DETECTION
from discrepant.image.restore.core.mixture import BINS, Belief, Judge
from discrepant.image.restore.core.residual_scale import blur, local_mean
from discrepant.image.restore.core.thin_plate import coupling, filled, leverage, smooth


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/restore.py --tuning` tries again.

    Attributes
    ----------
    rare : float
        Share of corruption up to which it is rare: impulses seldom touch each other.
    anywhere : float
        Odds of values that nothing gives away (no hot pixels, no salt) up to which
        they need no more than this look; beyond, the patches find more of them.
    supposed : float
        Odds that are supposed of any value before the patches look at what is in doubt.
    plenty : float
        Share at a look beyond which another is not worth it.
    stiffness : tuple of float
        Of the plate in each round: the last ones of `detect`.
    steps : int
        Of conjugate gradients in each round.
    smallest : int
        Rows and columns that an image needs for its neighbourhoods to be whole.
    known : float
        Share of its pixels that must be known.
    """

    rare: float = 0.02
    anywhere: float = 0.0005
    supposed: float = 0.001
    plenty: float = 0.1
    stiffness: tuple[float, ...] = (2.0, 1.0, 0.5)
    steps: int = 8
    smallest: int = 8
    known: float = 0.7


TUNING = Tuning()


def screen(y: Array, known: Array, judge: Judge) -> tuple[Array, Array] | None:
    """Return a smooth image and who is clean, or None unless corruption is rare.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and which values may be looked at.
    judge : Judge
        Learns the share and the values of the corruption.
    """
    if min(y.shape[:2]) < TUNING.smallest or known.mean() < TUNING.known:
        return None
    from discrepant.image.restore.core.kernels import ring_median

    whole = y if known.all() else filled(y, known)
    x = np.empty_like(y)
    ring_median(np.ascontiguousarray(whole), x)
    x = np.where(known, x, whole)
    odds = TUNING.rare / (1 - TUNING.rare)
    judge.belief = Belief(TUNING.rare, np.full(BINS, odds))
    weight = known.astype(np.float32)
    usual = np.full(y.shape, DETECTION.start_scale, np.float32)
    scale = _scale(y - x, weight, usual)
    weight = judge.weigh(y - x, scale)
    if judge.belief.share > TUNING.plenty:
        return None
    P = coupling(x)
    x = np.where(weight > 0.5, y, x)
    for stiffness in TUNING.stiffness:
        x = smooth(y, weight, stiffness, P, x, TUNING.steps)
        P = coupling(x)
        error = y - x
        own = weight * leverage(blur(weight, DETECTION.density_window), stiffness, P)
        error /= np.maximum(1 - own, DETECTION.least_left)
        scale = _scale(error, weight, scale)
        weight = judge.weigh(error, scale)
        if judge.belief.share > TUNING.plenty:
            return None
    belief = judge.belief
    if belief.share > TUNING.rare or np.median(belief.odds) > TUNING.anywhere:
        return None
    # With next to none found, the odds have fallen so low that what is left goes
    # unseen: suppose some, for the patches to look at.
    judge.belief = Belief(belief.share, np.maximum(belief.odds, TUNING.supposed))
    return x, judge.weighed(error, scale)


def _scale(error: Array, weight: Array, before: Array) -> Array:
    """Return how far clean values stray, from errors clipped by the last scale."""
    square = np.minimum(error**2, DETECTION.clip**2 * before**2)
    floor = np.float32(DETECTION.floor**2)
    scale: Array = np.float32(DETECTION.scale_ratio) * np.sqrt(
        local_mean(square, weight) + floor
    )
    return scale

"""Which values are corrupted: told neither the kind of corruption nor its level.

Two questions are answered in turn, ten times. Given how likely each value is to be
clean, what is the smooth image through the clean ones (`smooth`)? Given that image, how
likely is each value to be clean (`judge`)? The plate starts stiff and softens.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array
from discrepant.image.restore.core.local_mode import local_mode
from discrepant.image.restore.core.mixture import Judge
from discrepant.image.restore.core.residual_scale import blur, local_mean
from discrepant.image.restore.core.thin_plate import coupling, leverage, smooth

# Told the probability of each value to be clean after a round; says whether to go on.
Proceed = Callable[[Array], bool]


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/restore.py --tuning` tries again.

    Attributes
    ----------
    stiffness : tuple of float
        Of the plate in each round: from where it carries over gaps in which nearly all
        is wrong to where it follows detail, halved every second round.
    start_scale : float
        How far a clean value strays from the first guess.
    clip : float
        Errors beyond so many scales count as that many in the next scale.
    scale_ratio : float
        Student's scale over the root mean square of errors clipped so. For errors that
        follow Student's density, clipped at 3, it would be 0.77.
    floor : float
        No scale is finer than the step of 8-bit values, times ``scale_ratio``.
    density_window : float
        Pixels of the Gaussian over which the density of clean values is taken, from
        which follows how much a value pulls the plate to itself.
    least_left : float
        At least this much of a value's error is taken to be left over by its own pull.
    """

    stiffness: tuple[float, ...] = (8.0, 8.0, 4.0, 4.0, 2.0, 2.0, 1.0, 1.0, 0.5, 0.5)
    start_scale: float = 0.05
    clip: float = 3.0
    scale_ratio: float = 0.8
    floor: float = 1 / 255
    density_window: float = 1.5
    least_left: float = 0.1


TUNING = Tuning()


def detect(
    y: Array, known: Array, judge: Judge, proceed: Proceed, noise: float = 0.0
) -> tuple[Array, Array]:
    """Find the corrupted values, and a smooth image through the others.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and which values may be looked at.
    judge : Judge
        Learns the share and the values of the corruption.
    proceed : callable
        Told the weights after each round; says whether to go on.
    noise : float
        Variance that every clean value is known to have.

    Returns
    -------
    x, weight : ndarray
        The smooth image and the probability of being clean.
    """
    x = local_mode(y, known, judge.clean_odds())
    scale = np.full(y.shape, TUNING.start_scale, np.float32)
    weight = judge.weigh(y - x, scale, rounds=1)
    P = coupling(x)
    softer = (*TUNING.stiffness[1:], TUNING.stiffness[-1])
    for number, (stiffness, next_) in enumerate(
        zip(TUNING.stiffness, softer, strict=True)
    ):
        error = y - x
        most = TUNING.clip**2 * scale**2
        if number:
            # A value is judged by how well the others predict it: its own pull on the
            # plate made its error smaller by this share.
            own = weight * leverage(blur(weight, TUNING.density_window), stiffness, P)
            error /= np.maximum(1 - own, TUNING.least_left)
            square = local_mean(np.minimum(error**2, most), weight)
        else:
            square = np.minimum(error**2, most)
            mean = float((weight * square).sum() / max(float(weight.sum()), 1e-6))
            square = np.full(y.shape, mean, np.float32)
        ratio, floor = (
            np.float32(TUNING.scale_ratio),
            np.float32(TUNING.floor**2 + noise),
        )
        scale = ratio * np.sqrt(square + floor)
        weight = judge.weigh(error, scale)
        x = smooth(y, weight, next_, P, x)
        P = coupling(x)
        if not proceed(weight):
            break
    return x, weight

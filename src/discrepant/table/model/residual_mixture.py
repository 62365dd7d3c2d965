"""How clean residuals and wrong values are spread.

A clean residual follows a mixture of three normals of one, two and four times a width
that is the column's own, in one of a few shapes from normal to heavy; a wrong value is
broad around the column's middle. Unlike a Student law, the mixture may have heavy
shoulders and still end: what lies twenty widths out is wrong in any column.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from discrepant.core.linalg import Array

RATIOS = np.array([1.0, 2.0, 4.0])  # as in `kernels.one_odds`
# Weights of the three normals, from normal to heavy. With free weights the widest
# normal took the wrong cells for its own (F1 0.65 instead of 0.75 in the mean).
SHAPES = np.array(
    [
        [0.99997, 0.00002, 0.00001],
        [0.9699, 0.03, 0.0001],
        [0.899, 0.1, 0.001],
        [0.84, 0.15, 0.01],
        [0.75, 0.21, 0.04],
        [0.6, 0.28, 0.12],
    ]
)
ROOT = float(np.sqrt(2 * np.pi))


@dataclass(frozen=True)
class Tuning:
    """Chosen on the development tables of ``python benchmarks/tables.py dev``."""

    penalty: float = 0.5  # log likelihood that each heavier shape must gain
    broad_normal: float = 2.0  # deviation of half of the wrong values: mirrored ones
    broad_cauchy: float = 5.0  # scale of the other half: ten times too large, and more
    borrowed: float = 40.0  # cells by which a column's shape leans on the others'
    steps: int = 4  # of expectation and maximisation; the rounds around it go on
    prior: float = 5.0  # cells by which a width leans on where it started
    narrowest: float = 0.05  # times what the covariance says; wider: the inverse


TUNING = Tuning()


def log_broad(standard: Array) -> Array:
    """Log density of a wrong value: half normal of 2, half Cauchy of 5 spreads."""
    narrow, wide = TUNING.broad_normal, TUNING.broad_cauchy
    normal = np.exp(-0.5 * (standard / narrow) ** 2) / (narrow * ROOT)
    cauchy = 1 / (np.pi * wide * (1 + (standard / wide) ** 2))
    return np.asarray(np.log(0.5 * normal + 0.5 * cauchy))


def fit(z: Array, log_rival: Array, seen: Array, share: Array) -> tuple[Array, Array]:
    """Fit each column's width and shape, beside the wrong cells.

    Parameters
    ----------
    z : array (n, p)
        Residuals over their model's deviation.
    log_rival : array (n, p)
        Log density of the wrong values, per unit of z.
    seen : bool array (n, p)
    share : array (p,)
        Share of wrong cells in each column.

    Returns
    -------
    width, weights : arrays (p,), (p, 3)
    """
    from discrepant.table.model.cell_search import fit_width

    rival = share * np.exp(np.minimum(log_rival, 50.0)) + 1e-300
    square = z * z
    p = z.shape[1]
    widths, scores = np.ones((len(SHAPES), p)), np.zeros((len(SHAPES), p))
    settings = TUNING.steps, TUNING.prior, TUNING.narrowest
    for j in range(p):
        own, other = square[seen[:, j], j], rival[seen[:, j], j]
        start = 1.4826 * np.sqrt(np.median(own)) if len(own) else 1.0
        start = float(np.clip(start, TUNING.narrowest, 1 / TUNING.narrowest))
        for k, shape in enumerate(SHAPES):
            widths[k, j], score = fit_width(
                own, other, share[j], start, shape, *settings
            )
            scores[k, j] = score - TUNING.penalty * k
    counts = np.maximum(seen.sum(axis=0), 1)
    scores += TUNING.borrowed * (scores / counts).mean(axis=1, keepdims=True)
    best = np.argmax(scores, axis=0)
    return widths[best, np.arange(p)], SHAPES[best]


def quantile(weights: Array, chance: float) -> float:
    """Give the distance, in widths, that a clean residual exceeds by so much chance."""
    low, high = 0.0, 40.0
    for _ in range(50):
        middle = (low + high) / 2
        beyond = float((weights * 2 * ndtr(-middle / RATIOS)).sum())
        low, high = (middle, high) if beyond > chance else (low, middle)
    return high

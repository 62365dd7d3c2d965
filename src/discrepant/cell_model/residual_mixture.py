"""Densities of clean residuals and of corrupted values.

A clean residual follows a mixture of three normals of 1, 2 and 4 times a scale that is
the column's own, with weights of one of six shapes from normal to heavy-tailed. A
corrupted value is spread widely around the column's median. Unlike a Student
distribution, the mixture can have heavy shoulders and still end: a residual of twenty
scales is corrupted in any column.
"""

import numpy as np
from scipy.special import ndtr

from discrepant.core.linalg import Array

# Constants without a derivation were chosen on the development tables of
# ``python benchmarks/tables.py dev``.

# Scales of the three normals, in the column's scale; as in `cell_search.cell_log_odds`.
SCALE_RATIOS = np.array([1.0, 2.0, 4.0])
# Weights of the three normals, from normal to heavy-tailed. With free weights the
# widest normal fitted the corrupted cells (mean F1 0.65 instead of 0.75).
TAIL_SHAPES = np.array(
    [
        [0.99997, 0.00002, 0.00001],
        [0.9699, 0.03, 0.0001],
        [0.899, 0.1, 0.001],
        [0.84, 0.15, 0.01],
        [0.75, 0.21, 0.04],
        [0.6, 0.28, 0.12],
    ]
)
# Log-likelihood that each heavier shape must gain over the one before it.
SHAPE_PENALTY = 0.5
# Standard deviation of the first half of the corrupted values (mirrored ones), in
# standard units.
CORRUPT_NORMAL_SD = 2.0
# Scale of the second half, a Cauchy distribution: ten times too large, and more.
CORRUPT_CAUCHY_SCALE = 5.0
# Cells by which a column's shape is shrunk towards that of all columns.
SHAPE_PRIOR_CELLS = 40.0
# Expectation–maximisation steps; the iterations around the fit continue it.
EM_STEPS = 4
# Cells by which a column's scale is shrunk towards its start.
SCALE_PRIOR_CELLS = 5.0
# Smallest scale of residuals, relative to the model's; the largest is its inverse.
MIN_SCALE = 0.05
ROOT_2PI = float(np.sqrt(2 * np.pi))


def corrupt_log_density(standard: Array) -> Array:
    """Return the log density of corrupted values: ½ N(0, 2²) + ½ Cauchy(0, 5)."""
    normal = np.exp(-0.5 * (standard / CORRUPT_NORMAL_SD) ** 2) / (
        CORRUPT_NORMAL_SD * ROOT_2PI
    )
    cauchy = 1 / (
        np.pi * CORRUPT_CAUCHY_SCALE * (1 + (standard / CORRUPT_CAUCHY_SCALE) ** 2)
    )
    return np.asarray(np.log(0.5 * normal + 0.5 * cauchy))


def tail_density(z: Array, tail_weights: Array) -> Array:
    """Return the density of clean residuals z, in units of their scale."""
    normals = (
        weight * np.exp(-0.5 * (z / ratio) ** 2) / (ratio * ROOT_2PI)
        for weight, ratio in zip(tail_weights.T, SCALE_RATIOS, strict=True)
    )
    return np.asarray(sum(normals))


def mixture_variance(tail_weights: Array) -> Array:
    """Return each column's variance of clean residuals over their squared scale."""
    return np.asarray((tail_weights * SCALE_RATIOS**2).sum(axis=1))


def fit_tails(
    z: Array, corrupt_density: Array, observed: Array, corrupt_rate: Array
) -> tuple[Array, Array]:
    """Fit each column's residual scale and tail shape, beside its corrupted cells.

    Parameters
    ----------
    z : array (n, p)
        Residuals over their standard deviation by the model.
    corrupt_density : array (n, p)
        Log density of the corrupted values, per unit of z.
    observed : bool array (n, p)
    corrupt_rate : array (p,)
        Fraction of corrupted cells in each column.

    Returns
    -------
    residual_scale, tail_weights : arrays (p,), (p, 3)
    """
    from discrepant.cell_model.cell_search import fit_residual_scale

    corrupt = corrupt_rate * np.exp(np.minimum(corrupt_density, 50.0)) + 1e-300
    square = z * z
    p = z.shape[1]
    scales = np.ones((len(TAIL_SHAPES), p))
    likelihoods = np.zeros((len(TAIL_SHAPES), p))
    settings = EM_STEPS, SCALE_PRIOR_CELLS, MIN_SCALE
    for j in range(p):
        own, other = square[observed[:, j], j], corrupt[observed[:, j], j]
        start = 1.4826 * np.sqrt(np.median(own)) if len(own) else 1.0
        start = float(np.clip(start, MIN_SCALE, 1 / MIN_SCALE))
        for k, shape in enumerate(TAIL_SHAPES):
            scales[k, j], likelihood = fit_residual_scale(
                own, other, corrupt_rate[j], start, shape, *settings
            )
            likelihoods[k, j] = likelihood - SHAPE_PENALTY * k
    counts = np.maximum(observed.sum(axis=0), 1)
    mean = (likelihoods / counts).mean(axis=1, keepdims=True)
    likelihoods += SHAPE_PRIOR_CELLS * mean
    best = np.argmax(likelihoods, axis=0)
    return scales[best, np.arange(p)], TAIL_SHAPES[best]


def residual_quantile(tail_weights: Array, level: float) -> float:
    """Return the distance, in scales, that a clean residual exceeds with a probability.

    Parameters
    ----------
    tail_weights : array (3,)
        Weights of the three normals.
    level : float
        The probability, of both tails together.
    """
    low, high = 0.0, 40.0
    for _ in range(50):
        middle = (low + high) / 2
        beyond = float((tail_weights * 2 * ndtr(-middle / SCALE_RATIOS)).sum())
        low, high = (middle, high) if beyond > level else (low, middle)
    return high

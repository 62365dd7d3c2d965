"""How likely what hangs together is a mark on the picture, not a part of it.

Each measure of a component adds to the logarithm of its odds; the weights are those of
a logistic regression over scans that were made of photographs.
"""

import numpy as np
from scipy import ndimage

from discrepant.linalg import Array

BIAS = -1.4
WEIGHTS = {
    "grow": (
        (1, 1.3, 1.6, 2, 3, 5),
        (-0.1, 0.2, 0.3, 0.3, -0.4, -1.0),
    ),
    "top": (
        (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2),
        (-1.3, -1.3, -0.2, 0.6, 1.4, 1.6, 1.4),
    ),
    "mid": (
        (0.35, 0.45, 0.55, 0.65, 0.8),
        (0.3, -0.4, -0.2, 0.2, 0.8),
    ),
    "edge": (
        (-0.2, 0.1, 0.2, 0.3, 0.4, 0.7),
        (-1.3, 0.3, 0.3, 0.2, -0.4, -1.2),
    ),
    "misfit": (
        (0, 0.7, 1, 1.5, 2.5, 5),
        (-0.1, 2.3, 1.5, 0.4, 0.2, -0.9),
    ),
    "beyond": (
        (0, 0.1, 0.3),
        (0.1, -2.8, -0.3),
    ),
    "texture": (
        (0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1),
        (2.1, 1.0, 0.5, -0.0, -0.2, -0.3, -1.3),
    ),
    "alike": (
        (0, 0.02, 0.1, 0.4),
        (0.2, -0.6, -0.5, -0.5),
    ),
    "deep": (
        (0, 0.05, 0.2),
        (0.2, -2.5, -2.1),
    ),
    "slender": (
        (1, 1.5, 2.5, 4, 7, 12),
        (1.3, 0.2, -0.1, -0.8, -0.2, 0.5),
    ),
    "sides": (
        (0, 0.1, 0.2, 0.4, 0.7, 1.2),
        (2.1, 0.1, -0.3, -0.8, -1.1, -0.5),
    ),
}
LEAST = 4  # pixels that a mark has at least
# No mark has a colour this far from the line between ground and colour, in deviations
# of the noise, or lies beyond the colour in such a share of its pixels.
MISFIT, BEYOND = 2.5, 0.2
NEVER = -9.0
KAPPA = 3.0
FRIENDS = 1.0


def evidence(measures: dict[str, Array]) -> Array:
    """Return the logarithm of how much likelier each component is if it is a mark."""
    total: Array = np.full(measures["size"].shape, BIAS)
    for name, (places, weights) in WEIGHTS.items():
        total = total + np.interp(measures[name], places, weights)
    possible = (
        (measures["size"] >= LEAST)
        & (measures["core"] >= 3)
        & (measures["misfit"] < MISFIT)
        & (measures["beyond"] < BEYOND)
    )
    return np.where(possible, total, NEVER)


def chances(weights: Array, cells: Array, company: Array, shape: tuple[int, int]) -> Array:
    """Return the probability of each piece to be a mark; how many are is learned.

    ``cells`` tells in which cell of a grid of the given shape each lies: marks keep
    company, and the share of them is learned for each cell and those around it.
    """
    share, chance = 0.1, np.full(weights.shape, 0.1)
    around = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    around = ndimage.convolve(around.astype(float), np.ones((3, 3)), mode="constant")
    others = around.ravel()[cells] - 1
    one, other = company.T
    friends = np.bincount(one, minlength=len(weights))
    for _ in range(30):
        found = np.bincount(cells, chance, shape[0] * shape[1]).reshape(shape)
        found = ndimage.convolve(found, np.ones((3, 3)), mode="constant")
        near = (KAPPA * share + found.ravel()[cells] - chance) / (KAPPA + others)
        beside = np.bincount(one, chance[other], len(chance))
        near = (near + FRIENDS * beside) / (1 + FRIENDS * friends)
        near = np.clip(near, 1e-4, 0.95)
        odds = np.exp(weights) * near / (1 - near)
        chance = odds / (1 + odds)
        share = float((chance.sum() + 0.3) / (chance.size + 30))
    return chance

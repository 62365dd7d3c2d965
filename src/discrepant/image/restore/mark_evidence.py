"""How likely what hangs together is a mark on the picture, not a part of it.

Each measure of a piece adds to the logarithm of its odds, by a weight that is a broken
line in the measure. The weights are those of a logistic regression on the pieces of
some 130 scans that were made of photographs as in ``benchmarks/scans.py``, with noise
of 0 to 10 grey levels.

- ``grow``: its pixels over those that are mostly covered; little for a sharp edge.
- ``top``, ``mid``: how far its most covered and its middle pixels are covered.
- ``edge``: how far the pixels beside it are, over ``mid``.
- ``misfit``: distance from the line between ground and colour over the noise; 0 for
  grey images.
- ``beyond``: the share of pixels that lie beyond the colour.
- ``texture``: how rough the picture around is, over the contrast.
- ``alike``: how much of the picture around has the same colour.
- ``deep``: the share of pixels with three more on all sides.
- ``slender``: length over width.
- ``sides``: how much the picture on both sides of it differs, over the contrast.
"""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from discrepant.linalg import Array

BIAS = -1.4
WEIGHTS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
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


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/marks.py --only scan` tries again.

    Attributes
    ----------
    size, core : int
        Pixels that a mark has at least, and those of them that it mostly covers.
    misfit, beyond : float
        No mark is further from the line between ground and colour, in deviations of the
        noise, or lies beyond the colour in a larger share of its pixels.
    never : float
        Evidence of what cannot be a mark.
    start : float
        The share of marks to begin with.
    doubt : int
        The share is learned as if so many more had been seen, of which next to none is
        a mark.
    around : float
        The share around a piece is learned from those in its cell and the cells beside,
        as if so many had been seen elsewhere.
    company : float
        And a piece that touches it, or lies on one line with it, counts as so many.
    rounds : int
        How often shares and probabilities follow from one another.
    """

    size: int = 4
    core: int = 3
    misfit: float = 2.5
    beyond: float = 0.2
    never: float = -9.0
    start: float = 0.1
    doubt: int = 30
    around: float = 6.0
    company: float = 1.0
    rounds: int = 30


TUNING = Tuning()


def evidence(measures: dict[str, Array]) -> Array:
    """Return the logarithm of how much likelier each piece is if it is a mark."""
    total: Array = np.full(measures["size"].shape, BIAS)
    for name, (places, weights) in WEIGHTS.items():
        total = total + np.interp(measures[name], places, weights)
    possible = (
        (measures["size"] >= TUNING.size)
        & (measures["core"] >= TUNING.core)
        & (measures["misfit"] < TUNING.misfit)
        & (measures["beyond"] < TUNING.beyond)
    )
    return np.where(possible, total, TUNING.never)


def chances(
    weights: Array, cells: Array, company: Array, grid: tuple[int, int]
) -> Array:
    """Return the probability of each piece to be a mark; how many are is learned.

    Marks keep company: the share of them is learned for each piece from those around,
    those that it touches, and those on one straight line with it.

    Parameters
    ----------
    weights : ndarray of shape (pieces,)
        What `evidence` returns.
    cells : ndarray of int
        In which cell of the grid each lies.
    company : ndarray of shape (pairs, 2)
        Pieces that touch or lie on one line, each pair both ways.
    grid : (int, int)
        Rows and columns of cells.
    """

    def near(values: Array) -> Array:
        total = np.bincount(cells, values, grid[0] * grid[1]).reshape(grid)
        total = ndimage.convolve(total, np.ones((3, 3)), mode="constant")
        others: Array = total.ravel()[cells] - values
        return others

    one, other = company.T
    others, friends = (
        near(np.ones(weights.shape)),
        np.bincount(one, minlength=len(weights)),
    )
    share, chance = TUNING.start, np.full(weights.shape, TUNING.start)
    for _ in range(TUNING.rounds):
        local = (TUNING.around * share + near(chance)) / (TUNING.around + others)
        beside = np.bincount(one, chance[other], len(chance))
        local += TUNING.company * beside
        local = np.clip(local / (1 + TUNING.company * friends), 1e-4, 0.95)
        odds = np.exp(weights) * local / (1 - local)
        chance = odds / (1 + odds)
        known = chance.size + TUNING.doubt
        share = float(chance.sum() + 0.01 * TUNING.doubt) / known
    return chance

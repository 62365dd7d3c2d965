"""From log odds to flags at a false discovery rate, and to calibrated probabilities."""

from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array

SURE = 50.0  # log odds of what needs no company to be wrong: codes, strays, infinities


@dataclass(frozen=True)
class Tuning:
    """Log odds as the model scores them, and as they came true.

    Read off the development half of ``python benchmarks/tables.py``, seeds 0 and 1, as
    the mean over the tables of the share that is wrong: a user has one table, not all
    of their cells. Real rows are not normal, and what a model calls certain is now and
    then a cell that is odd but right: no score is worth more than 99.3%.
    """

    said: tuple[float, ...] = (
        *(-50.0, -4.9, -3.9, -3.1, -1.9, -0.7, 0.5, 1.5, 2.5, 3.5, 4.5, 5.8, 7.3, 9.1),
        *(10.9, 13.4, 17.2, 30.0, 50.0, 1000.0),
    )
    true: tuple[float, ...] = (
        *(-50.0, -5.1, -4.0, -2.9, -1.8, -0.9, 0.0, 0.4, 1.2, 1.8, 2.3, 2.5, 2.5, 2.7),
        *(3.3, 3.5, 3.8, 4.0, 4.1, 5.0),
    )
    # Sure cells would otherwise pay for coin tosses: without it precision was 0.965
    # on normal data at a false discovery rate of 0.01, with it 0.992.
    # So the odds of each cell to be right may be 11 times those of the rate: at 0.01 a
    # cell is flagged if it is right with a probability of at most 0.1.
    alone: float = 11.0


TUNING = Tuning()


def probability(score: Array) -> Array:
    """Give the chance that cells of these scores are wrong, as it came true."""
    odds = np.interp(score, TUNING.said, TUNING.true)
    return np.asarray((1 / (1 + np.exp(-odds))).astype(score.dtype))


def least_odds(fdr: float) -> float:
    """Return the log odds below which no cell is flagged at a false discovery rate."""
    return float(np.log((1 - fdr) / (TUNING.alone * fdr)))


def cutoff(score: Array, fdr: float) -> float:
    """Give the log odds from which on cells are flagged.

    Most are flagged whose mean chance of being right, by the model's own odds, is at
    most fdr; each must also be sure enough by itself (`least_odds`).
    """
    least = least_odds(fdr)
    likely = score[score >= np.float32(least)].astype(np.float64)
    likely = np.sort(likely)[::-1]
    right = 1 / (1 + np.exp(np.minimum(likely, SURE)))
    mean = np.cumsum(right) / np.arange(1, len(right) + 1)
    count = int(np.sum(mean <= fdr))
    if count == len(likely):
        return least
    # Where no cell is sure enough, a new row's may be: one that meets the rate alone.
    return float(likely[count - 1]) if count else float(np.log((1 - fdr) / fdr))


def flags(score: Array, cut: float) -> Array:
    """Give the cells at or above a cutoff; what is missing is below any."""
    return np.asarray(score >= np.float32(cut))

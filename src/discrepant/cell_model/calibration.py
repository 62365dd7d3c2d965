"""Threshold of log-odds at a false discovery rate, and calibrated probabilities."""

import numpy as np
from scipy.special import expit, logit

from discrepant.core.linalg import Array

# Log-odds of cells that violate a rule: infinities, missing-value codes, values outside
# of the valid range. The negative marks cells that were not scored.
CERTAIN = 50.0

# Log-odds as the model computes them …
SCORE = (
    *(-50.0, -4.9, -3.9, -3.1, -1.9, -0.7, 0.5, 1.5, 2.5, 3.5, 4.5, 5.8, 7.3, 9.1),
    *(10.9, 13.4, 17.2, 30.0, 50.0, 1000.0),
)
# … and the log-odds with which such cells were corrupted, in the development tables of
# ``python benchmarks/tables.py``, seeds 0 and 1: the mean over the tables of the
# fraction, as a user has one table. Real rows are not normal, so that an unusual but
# correct cell can have any score: none is worth more than 99.3%.
CALIBRATED_LOG_ODDS = (
    *(-50.0, -5.1, -4.0, -2.9, -1.8, -0.9, 0.0, 0.4, 1.2, 1.8, 2.3, 2.5, 2.5, 2.7),
    *(3.3, 3.5, 3.8, 4.0, 4.1, 5.0),
)
# Odds of each flagged cell to be clean, over the odds of the false discovery rate: at
# 0.01 a cell is flagged only if it is clean with a probability of at most 0.1. Without
# this limit, sure cells would let in coin tosses: precision 0.965 instead of 0.992 on
# normal data at a rate of 0.01.
MAX_CELL_ODDS_RATIO = 11.0


def calibrated_probability(score: Array) -> Array:
    """Return the calibrated probability that cells of these log-odds are corrupted."""
    log_odds = np.interp(score, SCORE, CALIBRATED_LOG_ODDS)
    return np.asarray(expit(log_odds).astype(score.dtype))


def score_of(probability: float) -> float:
    """Return the log-odds whose calibrated probability is the one given."""
    return float(np.interp(logit(probability), CALIBRATED_LOG_ODDS, SCORE))


def min_log_odds(fdr: float) -> float:
    """Return the log-odds below which no cell is flagged at a false discovery rate."""
    return float(np.log((1 - fdr) / (MAX_CELL_ODDS_RATIO * fdr)))


def fdr_threshold(
    score: Array, fdr: float, counts: Array | None = None, least: float | None = None
) -> float:
    """Return the log-odds from which cells are flagged at a false discovery rate.

    The largest set is flagged whose mean posterior probability of being clean is at
    most ``fdr``; each cell must also reach ``least``, by default `min_log_odds`.
    ``counts`` are the numbers of cells with each score, by default one.
    """
    least = min_log_odds(fdr) if least is None else least
    counts = np.ones(len(score)) if counts is None else counts
    is_candidate = (score >= np.float32(least)) & (counts > 0)
    candidates, counts = score[is_candidate].astype(np.float64), counts[is_candidate]
    order = np.argsort(-candidates)
    candidates, counts = candidates[order], counts[order]
    mean = np.cumsum(counts * expit(-candidates)) / np.cumsum(counts)
    number = int(np.sum(mean <= fdr))
    if number == len(candidates):
        return least
    # Without any flag, a cell of a new row must meet the rate alone.
    return float(candidates[number - 1]) if number else float(np.log((1 - fdr) / fdr))


def exceeds(score: Array, threshold: float) -> Array:
    """Return which log-odds (float32) reach a threshold; NaN does not."""
    return np.asarray(score >= np.float32(threshold))

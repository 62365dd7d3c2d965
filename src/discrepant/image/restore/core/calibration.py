"""A probability that means what it says: of values said 90%, nine in ten are corrupt.

The judge's densities are heavy-tailed so that an edge is not taken for an impulse, and
what it says is too cautious in between. How cautious, the image itself tells: values
drawn from the corruption that was found, put in the place of each value and judged by
the same rule, show how often a corrupted value is said to be so likely to be corrupted;
the image, how often any value is. By Bayes' rule the ratio of the two, times the share
of corruption, is the probability. No truth is needed, and the order of values is kept.
"""

import numpy as np

from discrepant.core.linalg import Array
from discrepant.image.restore.core.mixture import CorruptionMixture

# Probability of being corrupted from which on a value counts as certainly corrupted.
CERTAIN = 0.99
# Smallest number of certainly corrupted values, so that the corrupted fraction is known
# to 15%. With fewer, the probabilities are not changed.
MIN_CERTAIN = 50
# Factor by which the residual of a corrupted value over its scale is reduced because
# the value influenced its own prediction and scale, measured on photographs. A value in
# a peak of the corrupted values was never trusted and influences nothing.
DRAWN_IN = 0.7
# Bins of log-odds, each with the same number of observed and drawn values together.
N_BINS = 100


def calibrate(
    weight: Array, judge: CorruptionMixture, error: Array, scale: Array, where: Array
) -> Array:
    """Return the probability of each value to be clean as the image bears it out.

    Parameters
    ----------
    weight : ndarray
        What the judge said.
    judge : Judge
        Judges what is drawn as it judged the values.
    error, scale : ndarray
        How far each value lies from its prediction, and a clean one usually does.
    where : ndarray of bool
        The values that were judged by these.
    """
    open_ = where & judge.valid & ~judge.dead_lines
    said = weight[open_]
    certain = said < 1 - CERTAIN
    if certain.sum() < MIN_CERTAIN:
        return weight
    drawn = judge.sample_corrupted(weight, open_)
    drawn_in = np.where(judge.is_corruption_peak(drawn), 1, np.float32(DRAWN_IN))
    trial = judge.clean_posterior_if_value_were(
        drawn, error[open_], scale[open_] / drawn_in, open_
    )
    share = certain.sum() / max(float((trial < 1 - CERTAIN).sum()), 1.0)
    if share >= 1:
        return weight
    seen, tried = _log_odds(said), _log_odds(trial)
    both = np.quantile(np.concatenate([seen, tried]), np.linspace(0, 1, N_BINS))
    edges = np.unique(both)[1:-1]
    counts, draws = (
        np.bincount(np.digitize(a, edges), minlength=len(edges) + 1).astype(float)
        for a in (seen, tried)
    )
    chance = _falling(share * draws, counts)
    centres = np.concatenate([[edges[0]], (edges[1:] + edges[:-1]) / 2, [edges[-1]]])
    found = 1 - np.interp(seen, centres, chance)
    out = weight.copy()
    # What is said for certain stays so: by it, all else was measured.
    out[open_] = np.where(certain, np.minimum(said, found), found)
    return out


def _log_odds(weight: Array) -> Array:
    w = np.clip(weight.astype(np.float64), 1e-9, 1 - 1e-7)
    odds: Array = np.log(w) - np.log1p(-w)
    return odds


def _falling(part: Array, whole: Array) -> Array:
    """Return part / whole, at most 1, made to fall by pooling neighbours that rise."""
    pools: list[tuple[float, float, int]] = []
    for a, b in zip(part.tolist(), whole.tolist(), strict=True):
        pools.append((a, b, 1))
        while len(pools) > 1 and _ratio(pools[-1]) > _ratio(pools[-2]):
            (a1, b1, n1), (a2, b2, n2) = pools.pop(), pools.pop()
            pools.append((a1 + a2, b1 + b2, n1 + n2))
    ratios = np.minimum([_ratio(pool) for pool in pools], 1)
    return np.repeat(ratios, [pool[2] for pool in pools])


def _ratio(pool: tuple[float, float, int]) -> float:
    return pool[0] / pool[1] if pool[1] else 1.0

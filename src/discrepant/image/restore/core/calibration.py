"""Calibrate probabilities so that, of values at 90%, nine in ten are corrupted.

The density of clean residuals has heavy tails, so that edges are not taken for
impulses; the posterior is therefore too cautious. The image itself shows by how much.
Values drawn from the estimated corruption are put in the place of each value, and their
posterior is computed by the same rule: this gives the distribution of the log-odds for
corrupted values. The image gives the distribution for all values. By Bayes' rule the
ratio of the two, times the corrupted fraction, is the probability. No ground truth is
needed, and the order of the values is preserved.
"""

import numpy as np

from discrepant.core.linalg import Array
from discrepant.image.restore.core.mixture import CorruptionMixture

# Probability of being corrupted from which on a value counts as certainly corrupted.
# The corrupted fraction follows from the certain values.
CERTAIN = 0.99
# Smallest number of certainly corrupted values, so that the corrupted fraction is known
# to 15%. With fewer, the probabilities are not changed.
MIN_CERTAIN = 50
# Factor by which the residual of a corrupted value over its scale is reduced because
# the value influenced its own prediction and scale, measured on photographs. A value in
# a peak of the corrupted values was never trusted and influences nothing.
SELF_INFLUENCE = 0.7
# Bins of log-odds, each with the same number of observed and drawn values together.
N_BINS = 100


def calibrate(
    clean: Array,
    mixture: CorruptionMixture,
    residual: Array,
    scale: Array,
    where: Array,
) -> Array:
    """Return calibrated probabilities of being clean.

    Parameters
    ----------
    clean : ndarray of shape (rows, columns, channels)
        Posterior probabilities of being clean.
    mixture : CorruptionMixture
        The mixture from which they were computed.
    residual, scale : ndarray
        Residual of each value, and the scale of clean residuals.
    where : ndarray of bool
        Values whose posterior was computed from these residuals.
    """
    uncertain = where & mixture.valid & ~mixture.dead_lines
    observed = clean[uncertain]
    certain = observed < 1 - CERTAIN
    if certain.sum() < MIN_CERTAIN:
        return clean
    values = mixture.sample_corrupted(clean, uncertain)
    in_peak = mixture.is_corruption_peak(values)
    influence = np.where(in_peak, 1, np.float32(SELF_INFLUENCE))
    drawn = mixture.clean_posterior_if_value_were(
        values, residual[uncertain], scale[uncertain] / influence, uncertain
    )
    fraction = certain.sum() / max(float((drawn < 1 - CERTAIN).sum()), 1.0)
    if fraction >= 1:
        return clean
    observed_odds, drawn_odds = _log_odds(observed), _log_odds(drawn)
    both = np.concatenate([observed_odds, drawn_odds])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, N_BINS)))[1:-1]
    n_observed, n_drawn = (
        np.bincount(np.digitize(odds, edges), minlength=len(edges) + 1).astype(float)
        for odds in (observed_odds, drawn_odds)
    )
    corrupt = _decreasing_ratio(fraction * n_drawn, n_observed)
    centres = np.concatenate([[edges[0]], (edges[1:] + edges[:-1]) / 2, [edges[-1]]])
    calibrated = 1 - np.interp(observed_odds, centres, corrupt)
    out = clean.copy()
    # Certain values stay certain, since the fraction was measured by them.
    out[uncertain] = np.where(certain, np.minimum(observed, calibrated), calibrated)
    return out


def _log_odds(clean: Array) -> Array:
    p = np.clip(clean.astype(np.float64), 1e-9, 1 - 1e-7)
    odds: Array = np.log(p) - np.log1p(-p)
    return odds


def _decreasing_ratio(part: Array, whole: Array) -> Array:
    """Return part / whole, at most 1, made decreasing by pooling adjacent violators."""
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

"""Low-rank fit with noise on every measurement: noise level, outliers, least squares.

Least squares on the measurements that are not flagged as outliers needs no correction
for shrinkage, and is the best estimate if the flags are right. The noise level is
estimated from the residuals of the fit, and outliers are flagged at a false discovery
rate (Benjamini and Hochberg). Fit, noise level and flags are repeated until the
residuals stop changing.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import erfc

from discrepant.core.linalg import Array
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.pursuit import (
    MIN_FREE_FRACTION,
    Fit,
    RoundLog,
    detection_limit,
    outliers_explained_by_signal,
    refit_with_shrinking_cutoff,
    residual_scale,
    without_noise_components,
)
from discrepant.fixed_rank.tangent_space import FixedRankMatrix, fit_least_squares

# Largest number of rounds; a round is a fit and new flags.
MAX_ROUNDS = 12
# Largest number of steps of conjugate gradients per round.
GRADIENT_STEPS = 15
# Relative accuracy at which conjugate gradients stop earlier.
GRADIENT_TOL = 1e-4
# Root mean square change of the residuals, in noise levels, below which the fit has
# settled.
SETTLED = 1e-2
# Quantiles of the moduli of flagged residuals from which the cutoff of a refit starts:
# all of them first, then the smaller ones only, because a huge error in a row or column
# pulls the fit away from the other measurements of it.
REFIT_QUANTILES = (1.0, 0.5, 0.1)
# Fraction of the unflagged measurements that are left out to test the prediction.
HELD_OUT = 0.1
# Iterations of expectation maximisation for the probabilities of corruption.
EM_ITERATIONS = 20
# Smallest variance of errors, in variances of the noise, to keep the two apart.
MIN_ERROR_VARIANCE = 4
# Variance of errors, in variances of the noise, to start from if nothing is flagged.
FIRST_ERROR_VARIANCE = 100
# Largest fraction of corrupt measurements in the mixture.
MAX_ERROR_FRACTION = 0.9
# Gauss-Newton steps of the refit without the held-out measurements.
HELD_OUT_STEPS = 2


@dataclass(frozen=True)
class FitWithNoise:
    """A low-rank fit with its noise level and outliers."""

    at: FixedRankMatrix  # X
    e: Array  # y − A(X)
    sigma: float  # standard deviation of the noise, of each part if complex
    is_outlier: Array  # mask of the flagged measurements
    corrupt_probability: Array  # of each measurement
    settled: bool  # whether the residuals stopped changing
    # Smallest component that the noise cannot hide, relative to the largest.
    detection_limit: float
    held_out_scale: float = np.inf  # scale of the residuals of held-out measurements
    objection: str | None = None  # what speaks against the fit, as half a sentence

    @property
    def expected_held_out_scale(self) -> float:
        """Value of `held_out_scale` to expect if the fit and its noise are right."""
        numbers = 2 if np.iscomplexobj(self.e) else 1
        n_fitted = numbers * float(np.sum(~self.is_outlier)) * (1 - HELD_OUT)
        freedom_fraction = self.at.degrees_of_freedom / max(n_fitted, 1)
        free = max(1 - freedom_fraction, MIN_FREE_FRACTION)
        return float(self.sigma / np.sqrt(free))


def fit_with_noise(
    A: Measurements,
    fit: Fit,
    sigma: float | None,
    fdr: float,
    rng: np.random.Generator,
    log: RoundLog,
) -> FitWithNoise:
    """Refit the result of a pursuit to the measurements that are not outliers.

    The noise level is estimated if `sigma` is None.
    """
    e = fit.e
    noise = fit.scale if sigma is None else sigma
    is_outlier = flag_outliers(e, noise, fdr)
    at = without_noise_components(A, fit, (~is_outlier).astype(float), rng)
    if at.rank < fit.at.rank:
        e = A.y - A.forward(*at.factors)
    settled = False
    for _ in range(MAX_ROUNDS):
        weights = (~is_outlier).astype(float)
        at = fit_least_squares(A, at, weights, e, GRADIENT_STEPS, GRADIENT_TOL)
        last_e, e = e, A.y - A.forward(*at.factors)
        noise = _noise_level(e, is_outlier, at) if sigma is None else sigma
        is_outlier = flag_outliers(e, noise, fdr)
        change = float(np.sqrt(np.mean(np.abs(e - last_e) ** 2)))
        settled = change <= SETTLED * noise
        if not log.note("noise", at, e, A) or settled:
            break
    refit, weights = replace(fit, at=at, e=e), (~is_outlier).astype(float)
    return FitWithNoise(
        at=at,
        e=e,
        sigma=noise,
        is_outlier=is_outlier,
        corrupt_probability=_corrupt_probability(e, noise, is_outlier),
        settled=settled,
        detection_limit=detection_limit(A, refit, weights, rng),
    )


def refit_outliers(
    A: Measurements, fit: Fit, fdr: float, rng: np.random.Generator, log: RoundLog
) -> Fit:
    """Return a pursuit with fewer outliers, if a change of X explains some of them."""
    is_outlier = flag_outliers(fit.e, fit.scale, fdr)
    if not outliers_explained_by_signal(A, fit.at, fit.e, is_outlier, rng):
        return fit
    for quantile in REFIT_QUANTILES:
        cutoff = float(np.quantile(np.abs(fit.e[is_outlier]), quantile))
        refit = refit_with_shrinking_cutoff(A, fit, cutoff, rng, log)
        is_refit_outlier = flag_outliers(refit.e, refit.scale, fdr)
        if is_refit_outlier.sum() < is_outlier.sum():
            fit, is_outlier = refit, is_refit_outlier
        if fit.exact or not is_outlier.any():
            break
    return fit


def held_out_scale(
    A: Measurements, fit: FitWithNoise, rng: np.random.Generator
) -> float:
    """Return the scale of held-out residuals, predicted from the other measurements."""
    unflagged = np.flatnonzero(~fit.is_outlier)
    n_held_out = max(1, round(HELD_OUT * len(unflagged)))
    held_out = rng.choice(unflagged, n_held_out, replace=False)
    weights = (~fit.is_outlier).astype(float)
    weights[held_out] = 0.0
    at, e = fit.at, fit.e
    for _ in range(HELD_OUT_STEPS):
        at = fit_least_squares(A, at, weights, e, GRADIENT_STEPS, GRADIENT_TOL)
        e = A.y - A.forward(*at.factors)
    return residual_scale(e[held_out])


def _noise_level(e: Array, is_outlier: Array, at: FixedRankMatrix) -> float:
    """Return the standard deviation of unflagged residuals, per remaining freedom."""
    unflagged = e[~is_outlier]
    n_numbers = unflagged.size * (2 if np.iscomplexobj(e) else 1)
    free = max(n_numbers - at.degrees_of_freedom, MIN_FREE_FRACTION * n_numbers, 1)
    return float(np.sqrt(np.sum(np.abs(unflagged) ** 2) / free))


def flag_outliers(e: Array, sigma: float, fdr: float) -> Array:
    """Return the mask of residuals too large for the noise, at a false discovery rate.

    By the procedure of Benjamini and Hochberg.
    """
    z = np.abs(e) / (sigma or 1.0)
    p_value = np.exp(-(z**2) / 2) if np.iscomplexobj(e) else erfc(z / np.sqrt(2))
    ordered = np.sort(p_value)
    passed = np.flatnonzero(ordered <= fdr * np.arange(1, z.size + 1) / z.size)
    limit = ordered[passed[-1]] if passed.size else -1.0
    return np.asarray(p_value <= limit)


def _corrupt_probability(e: Array, sigma: float, is_outlier: Array) -> Array:
    """Return the posterior probability of each measurement to be corrupt.

    By expectation maximisation for a mixture of the noise, of known variance, and
    normal errors, whose fraction and variance are estimated.
    """
    numbers = 2 if np.iscomplexobj(e) else 1
    square = np.abs(e) ** 2 / numbers
    noise_variance = sigma**2 or np.finfo(float).tiny
    min_fraction = 0.5 / e.size
    fraction = max(float(is_outlier.mean()), min_fraction)
    variance = FIRST_ERROR_VARIANCE * noise_variance
    if is_outlier.any():
        variance = float(square[is_outlier].mean())
    for _ in range(EM_ITERATIONS):
        variance = max(variance, MIN_ERROR_VARIANCE * noise_variance)
        excess = square / noise_variance - square / variance
        log_ratio = numbers / 2 * (excess - np.log(variance / noise_variance))
        log_odds = np.log(fraction / (1 - fraction)) + log_ratio
        probability = 1 / (1 + np.exp(-np.clip(log_odds, -700, 700)))
        mean = float(probability.mean())
        fraction = min(max(mean, min_fraction), MAX_ERROR_FRACTION)
        variance = float(probability @ square / probability.sum())
    return np.asarray(probability)

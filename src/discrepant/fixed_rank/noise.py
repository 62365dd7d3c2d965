"""Low-rank fit with noise on every measurement: noise level, outliers, least squares.

Least squares on the measurements that are not flagged as outliers needs no correction
for shrinkage, and is the best estimate if the flags are right. The noise level is
estimated from the residuals of the fit, and outliers are flagged at a false discovery
rate (Benjamini and Hochberg). Fit, noise level and flags are repeated until the
residuals stop changing.
"""

from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from discrepant.core.linalg import Array, norm
from discrepant.fixed_rank.measurements import (
    MIN_FREE_FRACTION,
    Measurements,
    residual_scale,
)
from discrepant.fixed_rank.pursuit import Fit, Pursuit, flag_outliers
from discrepant.fixed_rank.tangent_space import FixedRankMatrix

# Largest number of rounds; a round is a fit and new flags.
MAX_ROUNDS = 12
# Largest number of steps of conjugate gradients per round.
GRADIENT_STEPS = 15
# Relative accuracy at which conjugate gradients stop earlier.
GRADIENT_TOL = 1e-4
# Root mean square change of the residuals, in noise levels, below which the fit has
# settled.
SETTLED = 1e-2
# Fraction of the unflagged measurements that are left out to test the prediction.
HELD_OUT = 0.1
# Gauss-Newton steps of the refit without the held-out measurements.
HELD_OUT_STEPS = 2
# Iterations of expectation maximisation for the mixture of noise and errors.
EM_ITERATIONS = 40
# Smallest variance of errors, in variances of the noise, to keep the two apart.
MIN_ERROR_VARIANCE = 4
# Standard deviation of the noise, in units of the data, below which a smaller one does
# not shorten a description.
MIN_NOISE = 1e-9


@dataclass(frozen=True)
class FitWithNoise:
    """A low-rank fit with its noise level and outliers."""

    A: Measurements
    at: FixedRankMatrix  # X
    e: Array  # y − A(X)
    sigma: float  # standard deviation of the noise, of each part if complex
    is_outlier: Array  # mask of the flagged measurements
    settled: bool  # whether the residuals stopped changing
    # Smallest component that the noise cannot hide, relative to the largest.
    detection_limit: float

    @property
    def corrupt_probability(self) -> Array:
        """Posterior probability of each measurement to be corrupt."""
        numbers = 2 if np.iscomplexobj(self.e) else 1
        variance = self.sigma**2 or np.finfo(float).tiny
        square = np.abs(self.e) ** 2 / numbers
        return fit_mixture(square, variance, numbers=numbers).corrupt_probability

    @property
    def noise_fraction(self) -> float:
        """Size of the noise, relative to that of the data."""
        return self.sigma / (self.A.scale or 1.0)

    @property
    def expected_error(self) -> float:
        """Expected error that the noise alone leaves in A(X), relative to its size."""
        error = self.sigma * float(np.sqrt(self.at.degrees_of_freedom))
        return error / (norm(self.A.y - self.e) or 1.0)

    def held_out_scale(self, rng: np.random.Generator) -> float:
        """Return the scale of residuals of measurements that a refit leaves out."""
        included = ~self.is_outlier
        unflagged = np.flatnonzero(included)
        n_held_out = max(1, round(HELD_OUT * len(unflagged)))
        held_out = rng.choice(unflagged, n_held_out, replace=False)
        included[held_out] = False
        fit = Fit(self.A, self.at, redescending=True)
        for _ in range(HELD_OUT_STEPS):
            fit.refit(included.astype(float), GRADIENT_STEPS, GRADIENT_TOL)
        return residual_scale(fit.e[held_out])

    @property
    def expected_held_out_scale(self) -> float:
        """Value of `held_out_scale` to expect if the fit and its noise are right."""
        n_fitted = np.mean(~self.is_outlier) * self.A.n_numbers * (1 - HELD_OUT)
        freedom_fraction = self.at.degrees_of_freedom / max(float(n_fitted), 1)
        sigma = max(self.sigma, MIN_NOISE * self.A.scale)
        return float(sigma / np.sqrt(max(1 - freedom_fraction, MIN_FREE_FRACTION)))


def fit_with_noise(pursuit: Pursuit, fit: Fit) -> FitWithNoise:
    """Refit the result of a pursuit to the measurements that are not outliers."""
    A, sigma, fdr = pursuit.A, pursuit.sigma, pursuit.fdr
    noise = fit.scale if sigma is None else sigma
    is_outlier = flag_outliers(fit.e, noise, fdr)
    fit = copy(fit)
    at = pursuit.without_noise_components(fit, (~is_outlier).astype(float))
    if at.rank < fit.at.rank:
        fit.move(at)
    settled = False
    for _ in range(MAX_ROUNDS):
        last_e = fit.e
        fit.refit((~is_outlier).astype(float), GRADIENT_STEPS, GRADIENT_TOL)
        noise = _noise_level(fit, is_outlier) if sigma is None else sigma
        is_outlier = flag_outliers(fit.e, noise, fdr)
        change = float(np.sqrt(np.mean(np.abs(fit.e - last_e) ** 2)))
        settled = change <= SETTLED * max(noise, A.rounding * A.scale)
        if not pursuit.record("noise", fit.at, fit.e) or settled:
            break
    limit = pursuit.detection_limit(fit, (~is_outlier).astype(float))
    return FitWithNoise(A, fit.at, fit.e, noise, is_outlier, settled, limit)


def _noise_level(fit: Fit, is_outlier: Array) -> float:
    """Return the standard deviation of unflagged residuals, per remaining freedom."""
    unflagged = fit.e[~is_outlier]
    n_numbers = unflagged.size * fit.A.n_numbers / fit.A.y.size
    free = n_numbers - fit.at.degrees_of_freedom
    free = max(free, MIN_FREE_FRACTION * n_numbers, 1)
    return float(np.sqrt(np.sum(np.abs(unflagged) ** 2) / free))


class ResidualMixture(NamedTuple):
    """Mixture of normal noise and normal errors, fitted to residuals."""

    corrupt_probability: Array
    noise_variance: float
    n_clean: float  # expected number of residuals without an error
    log_likelihood: float  # without the constant ½ log 2π of each residual


def fit_mixture(
    square: Array,
    noise_variance: float,
    numbers: int = 1,
    freedom: int | None = None,
) -> ResidualMixture:
    """Fit a mixture of noise and errors to residuals by expectation maximisation.

    Parameters
    ----------
    square : ndarray
        Squared moduli of the residuals, per real number.
    noise_variance : float
        Variance of the noise; a first guess if `freedom` is given.
    numbers : int
        Real numbers of each residual: two if they are complex.
    freedom : int, optional
        Degrees of freedom of the fit; then the variance of the noise is estimated.
    """
    min_fraction = 0.5 / square.size
    fraction, error_variance = 0.1, float(square.mean())
    for _ in range(EM_ITERATIONS):
        error_variance = max(error_variance, MIN_ERROR_VARIANCE * noise_variance)
        log_noise, log_error = (
            np.log(weight) - numbers / 2 * (np.log(variance) + square / variance)
            for weight, variance in (
                (1 - fraction, noise_variance),
                (fraction, error_variance),
            )
        )
        probability = expit(log_error - log_noise)
        fraction = float(np.clip(probability.mean(), min_fraction, 1 - min_fraction))
        error_variance = float(probability @ square / max(probability.sum(), 1e-9))
        n_clean = float((1 - probability).sum())
        if freedom is not None:
            left = max(n_clean - freedom, 0.05 * n_clean, 1.0)
            noise_variance = float((1 - probability) @ square) / left
            noise_variance = max(noise_variance, MIN_NOISE**2)
    likelihood = float(np.logaddexp(log_noise, log_error).sum())
    return ResidualMixture(probability, noise_variance, n_clean, likelihood)


def description_length(e: Array, freedom: int) -> float:
    """Return the description length of a fit, in nats, from its residuals.

    It is −log likelihood of the residuals plus the digits of X. The residuals are noise
    or errors, both normal, with variances fitted by EM. Each parameter of X takes the
    digits above the noise, and those by which its estimate is more precise.

    Parameters
    ----------
    e : ndarray
        Residuals, in units of the size of the data.
    freedom : int
        Degrees of freedom of X.
    """
    square, best = e * e, np.inf
    # χ² with one degree of freedom: its median is 0.455, its lower quartile 0.1.
    variances = (np.median(square) / 0.455, np.quantile(square, 0.25) / 0.1, 0.0)
    for variance in variances:
        mixture = fit_mixture(square, max(variance, MIN_NOISE**2), freedom=freedom)
        digits = max(-0.5 * np.log(mixture.noise_variance), 0.0)
        digits += 0.5 * np.log(max(mixture.n_clean / max(freedom, 1), 1) + 1)
        best = min(best, float(freedom * digits - mixture.log_likelihood))
    return best

"""Gaussian scale mixture of residuals: rounding, ringing and impulses.

The residual of each value is normal, with a variance from a geometric sequence:
rounding has the smallest, ringing larger ones, impulses the largest. The weights of the
components are fitted by EM. The posterior over the components gives the precision of
each value as an observation of the clean image.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from discrepant.core.linalg import Array

# Ratio of successive variances: a factor of 2 in the standard deviation. A residual
# twice as large is about as likely under either component.
VARIANCE_RATIO = 4.0
# EM iterations; the weights settle to 1% in about ten.
N_ITERATIONS = 20
# Residuals that the weights are fitted to, evenly subsampled, at least.
N_SAMPLES = 40_000
# Smallest weight of a component.
MIN_WEIGHT = 1e-6


@dataclass(frozen=True, eq=False)
class ScaleMixture:
    """The fitted mixture for the residuals of one plane.

    Attributes
    ----------
    variances : ndarray of shape (components,)
        Variance of each component, from that of a clean value upwards.
    weights : ndarray of shape (components,)
        Weight of each component.
    responsibilities : ndarray of shape (components, rows, columns)
        Posterior probability of each component for each value.
    mean_log_likelihood : float
        Mean log-likelihood of a value, up to a constant.
    """

    variances: Array
    weights: Array
    responsibilities: Array
    mean_log_likelihood: float

    @classmethod
    def fit(
        cls,
        residual: Array,
        prediction_variance: Array,
        rounding_variance: float,
        group: Array | None = None,
    ) -> "ScaleMixture":
        """Fit the mixture to residuals of predictions with known variances.

        ``rounding_variance`` is the variance of a clean value around the truth; the
        sequence of variances ends below 1. If ``group`` is given, an integer for each
        value, each group has its own weights; those returned are the overall ones.
        """
        if group is not None:
            return cls._fit_groups(
                residual, prediction_variance, rounding_variance, group
            )
        n_components = int(np.log(1 / rounding_variance) / np.log(VARIANCE_RATIO)) + 1
        powers = VARIANCE_RATIO ** np.arange(n_components)
        variances = (rounding_variance * powers).astype(np.float32)
        every = max(residual.size // N_SAMPLES, 1)
        likelihood = _relative_likelihood(
            residual.ravel()[::every], prediction_variance.ravel()[::every], variances
        )
        weights = np.full(n_components, 1 / n_components, np.float32)
        for _ in range(N_ITERATIONS):
            joint = likelihood * weights[:, None]
            responsibilities = joint / joint.sum(axis=0)
            weights = np.maximum(responsibilities.mean(axis=1), MIN_WEIGHT)
        log = _log_likelihood(residual, prediction_variance, variances)
        log += np.log(weights).reshape(-1, *(1,) * residual.ndim)
        total = logsumexp(log, axis=0)
        return cls(variances, weights, np.exp(log - total), float(total.mean()))

    @classmethod
    def _fit_groups(
        cls,
        residual: Array,
        prediction_variance: Array,
        rounding_variance: float,
        group: Array,
    ) -> "ScaleMixture":
        responsibilities, variances, mean_log_likelihood = None, np.empty(0), 0.0
        for each in np.unique(group):
            where = group == each
            part = cls.fit(
                residual[where], prediction_variance[where], rounding_variance
            )
            if responsibilities is None:
                variances = part.variances
                shape = (len(variances), *residual.shape)
                responsibilities = np.empty(shape, np.float32)
            responsibilities[:, where] = part.responsibilities
            mean_log_likelihood += part.mean_log_likelihood * where.mean()
        assert responsibilities is not None  # there is at least one group
        weights = responsibilities.mean(axis=tuple(range(1, responsibilities.ndim)))
        return cls(variances, weights, responsibilities, float(mean_log_likelihood))

    @property
    def precision(self) -> Array:
        """The mean precision of each value as an observation of the clean image."""
        precision: Array = np.tensordot(1 / self.variances, self.responsibilities, 1)
        return precision

    @property
    def clean_probability(self) -> Array:
        """The probability that each value deviates by rounding only."""
        probability: Array = self.responsibilities[0]
        return probability


def _relative_likelihood(
    residual: Array, prediction_variance: Array, variances: Array
) -> Array:
    """Return the normal density under each component, relative to the largest."""
    log = _log_likelihood(residual, prediction_variance, variances)
    relative: Array = np.exp(log - log.max(axis=0))
    return relative


def _log_likelihood(
    residual: Array, prediction_variance: Array, variances: Array
) -> Array:
    """Return the log of the normal density under each component, up to a constant."""
    total = prediction_variance + variances.reshape(
        -1, *(1,) * prediction_variance.ndim
    )
    log: Array = -0.5 * (np.log(total) + residual**2 / total)
    return log

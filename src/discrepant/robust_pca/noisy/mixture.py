"""Mixture model of residuals: Student noise for clean entries, any density for errors.

The residuals z of all entries, in units of the present noise estimate, follow

    (1−π)·t_ν(z/τ)/τ + π·g(z)

with Student's t (normal for ν = ∞) for the noise and a density g of errors that is free
except for being flat near zero, where the noise hides it. All four are fitted to one
histogram. The posterior probability of being clean weights an entry in the fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma, log, pi, sqrt

import numpy as np
from scipy.special import expit, logit, stdtrit

from discrepant.cell_model.calibration import fdr_threshold
from discrepant.core.linalg import Array
from discrepant.core.robust_statistics import MAD
from discrepant.robust_pca.noisy.histogram import (
    BIN_CENTRES,
    BIN_WIDTHS,
    COARSE_BIN_CENTRES,
    quantile,
    to_table,
)

NORMAL = 1e6  # value of ν that denotes the normal distribution
# Degrees of freedom to try. Below 2.5, noise and errors cannot be distinguished.
DEGREES = (NORMAL, 30.0, 12.0, 7.0, 5.0, 4.0, 3.0, 2.5)
FLAT = 4.0  # multiple of τ below which g is flat, because the noise hides it
LONGER = 1.25  # ratio of the lengths of successive bands of g
HEAVIER = 3.0  # log-likelihood that heavier tails must gain (AIC, two parameters)
MIN_COLUMN_RATIO = 0.1  # least noise of a column, relative to the median column
MIN_ENTRIES = 8  # entries of a column that are needed to estimate its noise


@dataclass(frozen=True)
class Mixture:
    """Fitted mixture of noise and errors."""

    nu: float
    tau: float
    clean: float  # 1 − π
    density: Array  # π·g by bin
    corrupt: Array  # posterior probability of being an error, by bin
    log_likelihood: float  # mean over the entries

    @property
    def weight(self) -> Array:
        """Regression weight by bin of z/τ: P(clean) times the weight of Student's t."""
        return self.weight_at(self.tau)

    def weight_at(self, ratio: float) -> Array:
        """Return the same by bin of z/ratio."""
        corrupt = np.interp(BIN_CENTRES * ratio, BIN_CENTRES, self.corrupt)
        heavy = 1.0 if self.nu == NORMAL else (self.nu + 1) / (self.nu + BIN_CENTRES**2)
        return np.asarray((1 - corrupt) * heavy)


@dataclass(frozen=True)
class Posterior:
    """Posterior probability that an entry is corrupt, given its residual."""

    mixture: Mixture
    corrupt: Array  # the probability, at the edges of the bins
    fdr_threshold: float  # probability from which on an entry is flagged


def clean_density(z: Array, nu: float, tau: float | Array) -> Array:
    """Return the density of |t_ν|·τ."""
    z = z / tau
    if nu == NORMAL:
        return np.asarray(2 / sqrt(2 * pi) * np.exp(-z * z / 2) / tau)
    constant = 2 * exp(lgamma((nu + 1) / 2) - lgamma(nu / 2)) / sqrt(nu * pi)
    return np.asarray(constant * (1 + z * z / nu) ** (-(nu + 1) / 2) / tau)


def fit_mixture(
    histogram: Array,
    tau: float = 1.0,
    degrees: Sequence[float] = DEGREES,
    *,
    scale_is_given: bool = False,
) -> Mixture:
    """Fit the mixture to a histogram of z whose clean scale is near or exactly τ."""
    from discrepant.robust_pca.noisy.kernels import fit_two_groups

    counts = histogram.astype(np.float64)
    # At least half of the entries are clean, so the quarter nearest zero lies within
    # their median. Without this bound, τ could follow interpolated entries to zero.
    floor = max(float(quantile(counts, 0.25)[0]) / MAD, 1e-6)
    bounds = (tau, tau) if scale_is_given else (floor, np.inf)
    for _ in range(3):
        longer = np.log(BIN_CENTRES / (FLAT * tau)) / log(LONGER)
        band = np.maximum(np.floor(longer).astype(np.int64) + 1, 0)
        band = np.unique(band, return_inverse=True)[1].astype(np.int64)
        fits = {
            nu: fit_two_groups(
                counts, BIN_CENTRES, BIN_WIDTHS, nu, tau, band, 100, *bounds
            )
            for nu in degrees
        }
        nu = max(fits, key=lambda nu: fits[nu][0] - HEAVIER * (nu != NORMAL))
        _, scale, clean, density = fits[nu]
        near = 0.8 < scale / tau < 1.25
        tau = scale
        if near:
            break
    f = clean * clean_density(BIN_CENTRES, nu, tau)
    with np.errstate(invalid="ignore"):
        corrupt = np.where(f + density > 0, density / (f + density), 1.0)
    # The fitted density of errors depends on how they lie in the bins; the size of an
    # error in the description of the data is taken as log-uniform instead.
    start, end = FLAT * tau, BIN_CENTRES[-1]
    sizes = 1 / np.maximum(BIN_CENTRES, start) / (1 + log(max(end / start, 1.0)))
    likelihood = counts @ np.log(f + (1 - clean) * sizes + 1e-300)
    corrupt = np.maximum.accumulate(corrupt)
    mean = float(likelihood) / max(float(counts.sum()), 1.0)
    return Mixture(nu, tau, clean, density, corrupt, mean)


def leave_one_out_posterior(
    histogram: Array, fdr: float, tau: float = 1.0, *, scale_is_given: bool = False
) -> Posterior:
    """Fit the mixture to the residuals that entries have if left out of the fit."""
    mixture = fit_mixture(histogram, tau, scale_is_given=scale_is_given)
    log_odds = logit(np.minimum(mixture.corrupt, 1 - 1e-15))
    # No entry is flagged that is more likely clean than corrupt.
    threshold = float(expit(fdr_threshold(log_odds, fdr, histogram, least=0.0)))
    return Posterior(mixture, to_table(mixture.corrupt), threshold)


def column_scales(histograms: Array, mixture: Mixture, present: Array) -> Array:
    """Return the noise of each column from its coarse histogram (one per row of them).

    `present` is the noise by which the residuals are divided. The new noise is shrunk
    towards a common one; it is common if columns do not differ by more than chance.
    """
    common = np.full(len(histograms), mixture.tau * np.exp(np.mean(np.log(present))))
    n_entries = histograms.sum(axis=1)
    good = n_entries >= MIN_ENTRIES
    if good.sum() < 3:
        return common
    nu, clean = mixture.nu, mixture.clean
    median = MAD if nu == NORMAL else float(stdtrit(nu, 0.75))
    tau = quantile(histograms, float(np.clip(clean, 0.3, 1.0)) / 2) / median
    tau = np.where(good, np.maximum(tau, 1e-4), mixture.tau)
    density = np.interp(COARSE_BIN_CENTRES, BIN_CENTRES, mixture.density)
    density += 1e-9 / (1 + COARSE_BIN_CENTRES**2)
    for start in range(0, len(histograms), 2048):
        part = slice(start, start + 2048)
        counts, t = histograms[part], tau[part]
        for _ in range(6):
            f = clean * clean_density(COARSE_BIN_CENTRES, nu, t[:, None])
            expected = counts * (f / (f + density))
            w = (
                1.0
                if nu == NORMAL
                else (nu + 1) / (nu + (COARSE_BIN_CENTRES / t[:, None]) ** 2)
            )
            square = (expected * w * COARSE_BIN_CENTRES**2).sum(axis=1)
            square /= np.maximum(expected.sum(axis=1), 1e-9)
            t = np.where(square > 0, np.sqrt(square), t)
        tau[part] = np.where(good[part], t, mixture.tau)
    # The log of a scale from k normal values has variance 1/2k; slightly more here.
    heavy = 1.0 if nu == NORMAL else (nu + 3) / nu
    chance = 0.6 * heavy / np.maximum(n_entries * clean, 1)
    d = np.log(tau * present)
    centre = np.median(d[good])
    extra = np.mean((d[good] - centre) ** 2) - np.mean(chance[good])
    if extra < np.mean(chance[good]) * max(0.5, 4 * sqrt(2 / good.sum())):
        return common
    d = centre + (d - centre) * extra / (extra + chance)
    d = np.maximum(np.where(good, d, centre), centre + log(MIN_COLUMN_RATIO))
    return np.asarray(np.exp(d))

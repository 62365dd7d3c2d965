"""Two groups of cells: clean ones, whose deviation is noise, and errors of any size.

The deviations z of all cells, in units of the noise as known so far, are distributed as

    (1−π)·t_ν(z/τ)/τ + π·g(z)

with Student's t (normal for ν = ∞) for the noise, and a density g of errors of which
nothing is assumed but that it is flat near zero, where it is hidden. All four are read
off one histogram. The probability of being clean is the weight of a cell in the fit, as
in the expectation step of a robust regression.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma, log, pi, sqrt

import numpy as np
from scipy import special

from discrepant.core.linalg import Array
from discrepant.robust_pca.noisy.histogram import (
    COARSE_MIDDLE,
    MAD,
    MIDDLE,
    WIDTH,
    quantile,
)

NORMAL = 1e6  # the ν that stands for the normal distribution
# Degrees of freedom that are tried. Below 2.5 noise cannot be told from errors.
DEGREES = (NORMAL, 30.0, 12.0, 7.0, 5.0, 4.0, 3.0, 2.5)
FLAT = 4.0  # τ within which g is flat: there it is mostly hidden
LONGER = 1.25  # each band of g beyond is longer by so much
HEAVIER = 3.0  # log-likelihood that heavier tails must gain: two more parameters, AIC
LEAST_OWN = 0.2  # of the usual: a column that L fits by itself shows no noise
LEAST_CELLS = 8  # of a column, to say anything of its noise


@dataclass(frozen=True)
class Mixture:
    """The two groups as found.

    ``corrupt`` is the probability of each bin to be an error, ``density`` π·g.
    """

    nu: float
    tau: float
    clean: float  # 1 − π
    density: Array
    corrupt: Array

    @property
    def weight(self) -> Array:
        """Weight of a cell by bin of z/τ: that of being clean, times Student's own."""
        corrupt = np.interp(MIDDLE * self.tau, MIDDLE, self.corrupt)
        heavy = 1.0 if self.nu == NORMAL else (self.nu + 1) / (self.nu + MIDDLE**2)
        return np.asarray((1 - corrupt) * heavy)


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
    told: bool = False,
) -> Mixture:
    """Fit the two groups to a histogram of z whose clean scale is near τ, or told."""
    from discrepant.robust_pca.noisy.kernels import two_groups

    counts = histogram.astype(np.float64)
    # At least half of the cells are clean: the quarter nearest zero lies within their
    # median. Without a floor τ can chase the cells that L interpolates down to zero.
    least = max(float(quantile(counts, 0.25)[0]) / MAD, 1e-6)
    bounds = (tau, tau) if told else (least, np.inf)
    for _ in range(3):
        longer = np.log(MIDDLE / (FLAT * tau)) / log(LONGER)
        band = np.maximum(np.floor(longer).astype(np.int64) + 1, 0)
        band = np.unique(band, return_inverse=True)[1].astype(np.int64)
        found = {
            nu: two_groups(counts, MIDDLE, WIDTH, nu, tau, band, 100, *bounds)
            for nu in degrees
        }
        nu = max(found, key=lambda nu: found[nu][0] - HEAVIER * (nu != NORMAL))
        _, scale, clean, density = found[nu]
        near = 0.8 < scale / tau < 1.25
        tau = scale
        if near:
            break
    f = clean * clean_density(MIDDLE, nu, tau)
    with np.errstate(invalid="ignore"):
        corrupt = np.where(f + density > 0, density / (f + density), 1.0)
    return Mixture(nu, tau, clean, density, np.maximum.accumulate(corrupt))


def flagged_from(histogram: Array, mixture: Mixture, rate: float) -> float:
    """Return the probability from which on cells are flagged.

    Of all flagged ones the expected share of clean ones, the false discovery rate, is
    then at most the given one, and none is flagged that is more likely clean.
    """
    false = np.cumsum(((1 - mixture.corrupt) * histogram)[::-1])[::-1]
    number = np.cumsum(histogram[::-1])[::-1]
    good = (false <= rate * number) & (mixture.corrupt > 0.5) & (number > 0)
    return float(mixture.corrupt[good][0]) if good.any() else 2.0


def own_scales(own: Array, mixture: Mixture) -> Array:
    """Return the clean scale of each column from its own, coarse histogram (row).

    It is shrunk to the common one by as much as chance explains: all come out the same
    if they do not differ by more than that.
    """
    common = np.full(len(own), mixture.tau)
    seen = own.sum(axis=1)
    good = seen >= LEAST_CELLS
    if good.sum() < 3:
        return common
    nu, clean = mixture.nu, mixture.clean
    median = MAD if nu == NORMAL else float(special.stdtrit(nu, 0.75))
    tau = quantile(own, float(np.clip(clean, 0.3, 1.0)) / 2) / median
    tau = np.where(good, np.maximum(tau, 1e-4), mixture.tau)
    density = np.interp(COARSE_MIDDLE, MIDDLE, mixture.density)
    density += 1e-9 / (1 + COARSE_MIDDLE**2)
    for start in range(0, len(own), 2048):
        part = slice(start, start + 2048)
        counts, t = own[part], tau[part]
        for _ in range(6):
            f = clean * clean_density(COARSE_MIDDLE, nu, t[:, None])
            expected = counts * (f / (f + density))
            w = (
                1.0
                if nu == NORMAL
                else (nu + 1) / (nu + (COARSE_MIDDLE / t[:, None]) ** 2)
            )
            square = (expected * w * COARSE_MIDDLE**2).sum(axis=1)
            square /= np.maximum(expected.sum(axis=1), 1e-9)
            t = np.where(square > 0, np.sqrt(square), t)
        tau[part] = np.where(good[part], t, mixture.tau)
    # The log of a scale from k normal cells has variance 1/2k; a little more here.
    heavy = 1.0 if nu == NORMAL else (nu + 3) / nu
    chance = 0.6 * heavy / np.maximum(seen * clean, 1)
    d = np.log(tau / mixture.tau)
    centre = np.median(d[good])
    extra = np.mean((d[good] - centre) ** 2) - np.mean(chance[good])
    if extra < np.mean(chance[good]) * max(0.5, 4 * sqrt(2 / good.sum())):
        return common
    d = centre + (d - centre) * extra / (extra + chance)
    d = np.maximum(np.where(good, d, centre), centre + log(LEAST_OWN))
    return np.asarray(mixture.tau * np.exp(d))

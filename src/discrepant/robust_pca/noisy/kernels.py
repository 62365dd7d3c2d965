"""Compiled loops of the mixture fit and of the spectrum edge."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

from math import exp, lgamma, log, pi, sqrt

import numpy as np

from discrepant.core.jit import njit


@njit(cache=True, nogil=True)
def fit_two_groups(counts, centre, width, nu, tau, band, iterations, tau_min, tau_max):
    """Fit (1−π)·t_ν(z/τ)/τ + π·g(z) to a histogram by expectation–maximisation.

    The density g of errors is flat on each band of bins, and τ stays within bounds.
    Returns the log-likelihood, τ, 1−π, and π·g of each bin.
    """
    n = len(counts)
    bands = band[n - 1] + 1
    total = counts.sum()
    mass, length = np.zeros(bands), np.zeros(bands)
    for b in range(n):
        length[band[b]] += width[b]
        if band[b] > 0:
            mass[band[b]] += 0.9 * counts[b] / total
    mass[0] = min(0.02, 0.05 * mass.sum() + 1e-6)
    clean = max(1 - mass.sum(), 1e-3)
    normal = nu >= 1e5
    constant = 2 / sqrt(2 * pi)
    if not normal:
        constant = 2 * exp(lgamma((nu + 1) / 2) - lgamma(nu / 2)) / sqrt(nu * pi)
    likelihood = 0.0
    for _ in range(iterations):
        new = np.zeros(bands)
        clean_mass, square, likelihood = 0.0, 0.0, 0.0
        for b in range(n):
            if counts[b] == 0:
                continue
            z2 = (centre[b] / tau) ** 2
            if normal:
                f = constant / tau * exp(-z2 / 2)
                weight = 1.0
            else:
                f = constant / tau * exp(-(nu + 1) / 2 * log(1 + z2 / nu))
                weight = (nu + 1) / (nu + z2)
            p0 = clean * f * width[b]
            p = p0 + mass[band[b]] * width[b] / length[band[b]] + 1e-300
            q = counts[b] / total
            c = q * p0 / p
            likelihood += counts[b] * log(p)
            clean_mass += c
            square += c * weight * centre[b] ** 2
            new[band[b]] += max(q - c, 0.0)  # rounding may leave less than zero
        clean = max(clean_mass, 1e-3)
        before = tau
        tau = min(max(sqrt(square / max(clean_mass, 1e-12)), tau_min), tau_max)
        moved = abs(tau - before) / tau + np.abs(new - mass).sum()
        mass[:] = new
        if moved < 1e-5:
            break
    density = np.empty(n)
    for b in range(n):
        density[b] = mass[band[b]] / length[band[b]]
    return likelihood, tau, clean, density


@njit(cache=True, nogil=True)
def is_beyond_edge(a, b, E):
    """Return whether X = Σaᵢ/(E − aᵢY), Y = Σbⱼ/(E − bⱼX) has a real solution.

    Each row of a and b is a value and its multiplicity.
    """
    Y = 0.0
    for _ in range(400):
        X1, Y1 = 0.0, 0.0
        for k in range(len(a)):
            d = E - a[k, 0] * Y
            if d <= 0:
                return False
            X1 += a[k, 1] * a[k, 0] / d
        for k in range(len(b)):
            d = E - b[k, 0] * X1
            if d <= 0:
                return False
            Y1 += b[k, 1] * b[k, 0] / d
        if Y1 - Y <= 1e-4 * Y1:
            return True
        Y = Y1
    return False

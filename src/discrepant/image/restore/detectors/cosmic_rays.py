"""Detect cosmic rays in star fields: features sharper than the point-spread function.

The optics blur all light, so a star field S is a sum of point-spread functions (PSF).
For a Gaussian PSF of standard deviation s it satisfies, at a distance d to either side,

    S(p) ≤ exp(d² / 2s²) · (S(p − d) + S(p + d)) / 2,

with equality for a star centred on p: no star, galaxy or group of them is sharper, in
any direction. A cosmic ray or a hot pixel is; a long track is sharp across. The bound
exp(κ) of each direction is measured on the stars of the field, for which
``ln S(p) − (ln S(p − d) + ln S(p + d)) / 2`` does not depend on the position of their
centre. Values that exceed the bound by more than the noise are flagged at a false
discovery rate, and replaced for the next pass, so that tracks are followed to their
ends.
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter, maximum_filter, minimum_filter, zoom
from scipy.stats import norm

from discrepant.core.linalg import Array
from discrepant.image.restore.budget import Budget
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.detectors.weak_outliers import (
    benjamini_hochberg,
    binary_exponent,
)
from discrepant.image.restore.estimate import Estimate

# Directions as (rows, columns): to the neighbours, and to the pixels behind them.
STEPS = ((0, 1), (1, 0), (1, 1), (1, -1), (0, 2), (2, 0), (2, 2), (2, -2))
# Groups of directions, by index, that are averaged: less noise for single pixels.
RINGS = ((0, 1), (0, 1, 2, 3), (4, 5))


# The constants below were chosen on synthetic star fields of other seeds than those of
# `benchmarks/images/cosmic_rays.py`.

# Rows and columns of a cell whose quantile is the background; larger than any star.
CELL_SIDE = 32
# Noise standard deviations above the background from which a peak counts for the PSF.
MIN_PEAK_Z = 25.0
# Stars that must agree on the PSF.
MIN_STARS = 8
# Largest deviation of a star's κ from the most frequent one, as a fraction of it.
MAX_KAPPA_DEVIATION = 0.35
# Largest scatter of the stars' κ, as a fraction of it: detail does not agree so.
MAX_KAPPA_SCATTER = 0.25
# Smallest standard deviation of a PSF, in pixels: narrower peaks are not light.
MIN_PSF_STD = 0.6
# Largest standard deviation of a PSF, in pixels: with wider ones nearly everything,
# noise included, is sharper than the stars.
MAX_PSF_STD = 3.2
# Largest fraction of values whose sharpness exceeds the bound by 3 to 5 standard
# deviations; photographs, compressed or not, have more.
MAX_TAIL_FRACTION = 0.004
# Smallest relative error of the bound.
MIN_PSF_ERROR = 0.03
# Relative standard deviation of the values that replace flagged ones.
FILL_ERROR = 0.5
# False discovery rate at a sensitivity of 1.
FALSE_DISCOVERY_RATE = 0.01
# Standard deviations from which a neighbour of a flagged value is flagged too.
NEIGHBOUR_Z = 2.7
# Largest number of passes; each follows tracks further.
MAX_PASSES = 6
# Smallest fraction of values within the noise of the background: other images have no
# background.
MIN_BACKGROUND_FRACTION = 0.5


@dataclass(frozen=True, eq=False)
class CosmicRays:
    """Predictions, mask and corruption probabilities of one channel."""

    prediction: Array
    mask: Array
    probability: Array


def repair_star_field(
    values: Array, known_bad: Array, detector: Detector
) -> Estimate | None:
    """Replace cosmic rays in an image of a star field; None if it is not one.

    All channels must be star fields. Without a gain, 8-bit images are taken for
    photographs.
    """
    kind, size = values.dtype.kind, values.dtype.itemsize
    from_detector = detector.gain is not None or (kind == "f" or size > 1)
    if kind not in "uif" or not from_detector:
        return None
    channels = [
        detect_cosmic_rays(values[..., c], known_bad[..., c], detector)
        for c in range(values.shape[2])
    ]
    star_fields = [channel for channel in channels if channel is not None]
    if len(star_fields) < len(channels):
        return None
    prediction, mask, probability = (
        np.stack([getattr(channel, name) for channel in star_fields], axis=2)
        for name in ("prediction", "mask", "probability")
    )
    prediction = np.rint(prediction) if kind in "ui" else prediction
    valid = values[~known_bad]
    prediction = np.clip(prediction, valid.min(), valid.max()).astype(values.dtype)
    no_defects = np.zeros(values.shape[:2], bool)
    return Estimate(
        image=np.where(mask, prediction, values),
        mask=mask,
        probability=probability,
        history=Budget(lambda done, note: True, 1, 1, None).history(),
        complete=True,
        undetermined=False,
        is_graphic=False,
        defects=no_defects,
        suggestions=no_defects,
    )


def detect_cosmic_rays(
    plane: Array, known_bad: Array, detector: Detector
) -> CosmicRays | None:
    """Detect values sharper than the stars of one channel; None if it has no stars.

    Parameters
    ----------
    plane, known_bad : ndarray of shape (rows, columns)
        Values in their own unit, and True where they are known to be bad.
    detector : Detector
        Gain and read noise where known. Otherwise the noise of the background is
        measured, and taken for the noise of its light.
    """
    if min(plane.shape) < 2 * CELL_SIDE or known_bad.mean() > 0.1:
        return None
    y = plane.astype(np.float64)
    saturated = detector.is_saturated(y)
    valid = ~known_bad & np.isfinite(y)
    exponent = binary_exponent(y[valid])
    y, detector = np.ldexp(y, -exponent), detector.in_unit(exponent)
    y = np.where(valid, y, np.median(y[valid]))
    background = _background(y)
    signal = y - background
    noise = _LinearVariance.fit(signal, background, detector)
    if noise is None:
        return None
    flagged = ~valid
    psf = _fit_point_spread(signal, noise, saturated | flagged)
    if psf is None:
        return None
    rate = FALSE_DISCOVERY_RATE * detector.sensitivity
    max_z = np.zeros(y.shape)
    for _ in range(MAX_PASSES):
        filled = _fill_flagged(signal, saturated | flagged, flagged, psf)
        z = _sharpness_z(filled, signal, flagged, noise, psf, saturated)
        z[saturated | ~valid] = 0
        if np.mean((z > 3) & (z < 5)) > MAX_TAIL_FRACTION:
            return None
        discovered = benjamini_hochberg(norm.sf(z) * len(STEPS), rate)
        near_flagged = maximum_filter(flagged | discovered, 3)
        new = (discovered | (near_flagged & (z > NEIGHBOUR_Z))) & ~flagged
        max_z = np.maximum(max_z, z)
        flagged |= new
        if not new.any():
            break
    filled = _fill_flagged(signal, saturated | flagged, flagged, psf)
    prediction = np.ldexp(filled + background, exponent)
    return CosmicRays(prediction, flagged, _probability(max_z, flagged))


@dataclass(frozen=True)
class _LinearVariance:
    """Noise variance linear in the signal: ``dark + slope · signal``."""

    dark: float
    slope: float

    @classmethod
    def fit(
        cls, signal: Array, background: Array, detector: Detector
    ) -> "_LinearVariance | None":
        """Return the noise model; None if most of the image is not background."""
        level = max(float(np.median(background)), 0.0)
        if detector.gain is not None:
            dark = (detector.read_noise / detector.gain) ** 2 + level / detector.gain
            return cls(dark, 1 / float(detector.gain))
        median = float(np.median(signal))
        below = signal[signal < median]
        if not below.size:  # a constant background
            return None
        std = float(np.median(np.abs(below - median))) / 0.6745
        in_background = np.mean(signal < median + 3 * std)
        if std <= 0 or in_background < MIN_BACKGROUND_FRACTION:
            return None
        return cls(std**2, std**2 / max(level, std))

    def at(self, signal: Array) -> Array:
        """Return the variance at a signal above the background."""
        variance: Array = self.dark + self.slope * np.maximum(signal, 0)
        return variance


@dataclass(frozen=True)
class _PointSpread:
    """Sharpness κ of a star in each direction, and its scatter among stars."""

    kappa: Array
    scatter: Array

    @property
    def std(self) -> float:
        """The standard deviation of the PSF in pixels."""
        return float(np.sqrt(1 / (2 * np.mean(self.kappa[:2]))))


def _background(y: Array) -> Array:
    """Return the background under the stars, rather too low than too high.

    The 0.4 quantile of each cell, the smallest of 3×3 cells, interpolated linearly.
    """
    rows, columns = (-(-n // CELL_SIDE) for n in y.shape)
    padded = np.pad(
        y,
        ((0, rows * CELL_SIDE - y.shape[0]), (0, columns * CELL_SIDE - y.shape[1])),
        "symmetric",
    )
    cells = padded.reshape(rows, CELL_SIDE, columns, CELL_SIDE).swapaxes(1, 2)
    coarse = minimum_filter(np.quantile(cells, 0.4, axis=(2, 3)), 3)
    fine = zoom(coarse, CELL_SIDE, order=1, mode="nearest", grid_mode=True)
    background: Array = fine[: y.shape[0], : y.shape[1]]
    return background


def _neighbours(signal: Array, step: tuple[int, int]) -> tuple[Array, Array]:
    """Return the values at minus and plus a step; beyond the edge, those at it."""
    reach = max(map(abs, step))
    padded = np.pad(signal, reach, mode="edge")
    rows, columns = signal.shape
    sides = []
    for sign in (-1, 1):
        i, j = reach + sign * step[0], reach + sign * step[1]
        sides.append(padded[i : i + rows, j : j + columns])
    return sides[0], sides[1]


def _fit_point_spread(
    signal: Array, noise: _LinearVariance, excluded: Array
) -> _PointSpread | None:
    """Fit the PSF to the bright peaks; None if they do not agree on one."""
    peak = (signal == maximum_filter(signal, 5)) & ~maximum_filter(excluded, 7)
    peak &= signal > MIN_PEAK_Z * np.sqrt(noise.dark)
    peak[:3] = peak[-3:] = False
    peak[:, :3] = peak[:, -3:] = False
    kappas = []
    min_signal = np.sqrt(noise.dark)
    for step in STEPS:
        a, b = (side[peak] for side in _neighbours(signal, step))
        log_a, log_b = (
            np.log(np.maximum(a, min_signal)),
            np.log(np.maximum(b, min_signal)),
        )
        kappas.append(np.log(signal[peak]) - (log_a + log_b) / 2)
    kappa = np.array(kappas)  # (steps, peaks)
    # A star is as sharp along rows as along columns; tracks of rays are not. Flat peaks
    # are saturated.
    sharpest = np.maximum(kappa[0], kappa[1])
    kappa = kappa[:, sharpest > 0]
    sharpest = sharpest[sharpest > 0]
    if len(sharpest) < MIN_STARS:
        return None
    mode = _half_sample_mode(sharpest)
    is_star = np.abs(sharpest - mode) < MAX_KAPPA_DEVIATION * mode
    if is_star.sum() < max(MIN_STARS, 0.2 * is_star.size) or mode <= 0:
        return None
    stars = kappa[:, is_star]
    median = np.median(stars, axis=1)
    scatter = np.median(np.abs(stars - median[:, None]), axis=1) / 0.6745
    psf = _PointSpread(median, scatter)
    agree = scatter[:2].mean() < MAX_KAPPA_SCATTER * median[:2].mean()
    return psf if agree and MIN_PSF_STD < psf.std < MAX_PSF_STD else None


def _half_sample_mode(x: Array) -> float:
    """Return the mode of values: repeatedly, the half of them that lies closest."""
    x = np.sort(x)
    while len(x) > 4:
        half = -(-len(x) // 2)
        widths = x[half - 1 :] - x[: len(x) - half + 1]
        start = int(np.argmin(widths))
        x = x[start : start + half]
    return float(np.mean(x))


def _sharpness_z(
    filled: Array,
    signal: Array,
    flagged: Array,
    noise: _LinearVariance,
    psf: _PointSpread,
    saturated: Array,
) -> Array:
    """Return by how many standard deviations the signal exceeds the bound.

    ``filled`` is the signal with ``flagged`` values replaced; on a star the replaced
    values are known only roughly.
    """
    fill_variance = np.where(flagged, (FILL_ERROR * np.maximum(filled, 0)) ** 2, 0)
    bounds, variances, relative_errors = [], [], []
    for step, kappa, scatter in zip(STEPS, psf.kappa, psf.scatter, strict=True):
        factor = np.exp(kappa)
        a, b = _neighbours(filled, step)
        mean = (a + b) / 2
        bounds.append(np.maximum(factor * mean, mean))  # where the mean is negative
        variance = noise.at(a) + noise.at(b) + sum(_neighbours(fill_variance, step))
        variances.append(factor**2 * variance / 4)
        relative_errors.append(max(float(scatter), MIN_PSF_ERROR))
    z = np.full(filled.shape, -np.inf)
    single_directions = [(k,) for k in range(len(STEPS))]
    for group in (*single_directions, *RINGS):
        bound = np.mean([bounds[k] for k in group], axis=0)
        variance = np.sum([variances[k] for k in group], axis=0) / len(group) ** 2
        error = np.mean([relative_errors[k] for k in group]) * np.maximum(bound, 0)
        own = noise.at(bound)
        z = np.maximum(z, (signal - bound) / np.sqrt(own + variance + error**2))
    # Next to saturated values the bound is not known.
    z[maximum_filter(saturated, 5)] = 0
    return z


def _fill_flagged(
    signal: Array, excluded: Array, flagged: Array, psf: _PointSpread
) -> Array:
    """Replace flagged values by a Gaussian mean of the values not excluded."""
    if not flagged.any():
        return signal
    weight = (~excluded).astype(float)
    std = 0.7 * psf.std
    total = gaussian_filter(signal * weight, std, truncate=6)
    total_weight = gaussian_filter(weight, std, truncate=6)
    filled: Array = np.where(flagged, total / np.maximum(total_weight, 1e-12), signal)
    return filled


def _probability(z: Array, flagged: Array) -> Array:
    """Return corruption probabilities: logistic in z, 0.5 at the weakest flagged z."""
    if not flagged.any():
        return np.zeros(z.shape, np.float32)
    weakest = float(z[flagged].min()) if (z[flagged] > 0).any() else 0.0
    probability = 1 / (1 + np.exp(np.clip(weakest - z, -50, 50)))
    probability = np.where(
        flagged, np.maximum(probability, 0.5), np.minimum(probability, 0.49)
    )
    return probability.astype(np.float32)

"""Detect surface defects on photographs: dust, scratches, hairs, text, stamps.

The gate network estimates the log-odds of each pixel from its surroundings. Defects
also share their colours all over the image, which the network cannot see: the colours
are learned from the image itself, in alternation with the log-odds. If there may be
defects, a second, larger gate network decides with all this evidence. Where many pixels
are nearly certain and cross detail beneath, there are defects: the segmentation network
gives the pixels to replace. Features that may as well belong to the image are only
suggested.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter, maximum_filter
from scipy.special import expit

from discrepant.core.linalg import Array
from discrepant.image.restore.defects.network import (
    image_features,
    run_gate,
    run_with_evidence,
)
from discrepant.image.restore.fill import fill_gaps

# `python benchmarks/images/surface_defects.py` measures the results with these
# constants.

# Smallest number of rows and columns of an image that is searched.
MIN_SIDE = 32
# Smallest fraction of valid pixels.
MIN_VALID_FRACTION = 0.5
# Mean difference between channels below which an image counts as grey.
MAX_GREY_DIFFERENCE = 0.01
# Bins of each channel of a colour histogram.
COLOUR_BINS = 16
# Bins of the histogram of a grey image.
GREY_BINS = 64
# Power of its probability with which a pixel counts in the histogram: the most certain
# pixels lie completely under a defect and have its colour.
HISTOGRAM_POWER = 3.0
# Standard deviation, in bins, of the Gaussian that smooths a histogram.
HISTOGRAM_WINDOW = 0.7
# Pseudo-count of pixels, with the colours of the image, in each histogram.
PSEUDO_COUNT = 20.0
# Smallest log-odds of a colour.
MIN_COLOUR_LOG_ODDS = -3.0
# Largest log-odds of a colour.
MAX_COLOUR_LOG_ODDS = 4.0
# Standard deviation, in pixels, of the Gaussian over which colours are averaged: at the
# edge of a defect they are mixtures.
COLOUR_WINDOW = 1.0
# Alternations of histograms and log-odds.
COLOUR_ITERATIONS = 3
# Probability of the pixels that the gate counts.
GATE_PROBABILITY = 0.95
# Fraction of such pixels above which an image passes the gate.
GATE_FRACTION = 0.001
# Standard deviation, in pixels, of the Gaussian over which the local fraction of pixels
# under defects is averaged.
DENSITY_WINDOW = 16.0
# Local fraction that defects have; texture that resembles them has more.
USUAL_DENSITY = 0.1
# Log-odds subtracted per unit of local fraction above the usual one.
DENSITY_PENALTY = 8.0
# Probability above which a pixel is replaced.
REPLACED_PROBABILITY = 0.67
# Probability above which a pixel is suggested in an image with certain defects.
SUGGESTED_PROBABILITY = 0.15
# Probability above which a pixel is suggested in another image.
SUGGESTED_PROBABILITY_ALONE = 0.5
# Probability of the pixels that are counted to decide whether there are defects.
CERTAIN_PROBABILITY = 0.85
# Fraction of such pixels, on relief, above which there are defects. Of 280 clean
# photographs, with and without noise, none but a page of writing had more than 0.0046,
# on relief or not.
MIN_CERTAIN_FRACTION = 0.0035
# Deviation from the smoothed image above which there is relief beneath a defect.
# Writing on an unevenly lit page, or a mast before the sky, has no relief beneath it.
MIN_RELIEF = 0.045
# Standard deviation, in pixels, of the Gaussian that smooths the image.
RELIEF_WINDOW = 32.0
# Fraction of adjacent pixels that are exactly equal above which an image is drawn by a
# program: its letters and lines belong to it. Scans and photographs have noise.
MAX_EQUAL_FRACTION = 0.3

Evidence = tuple[Array, Array, Array]  # log-odds of the gate and of the colours


@dataclass(frozen=True, eq=False)
class SurfaceDefects:
    """Pixels under surface defects, of shape (rows, columns).

    Attributes
    ----------
    mask : ndarray of bool
        Pixels that certainly lie under a defect.
    suggested : ndarray of bool
        Other pixels that may lie under one.
    """

    mask: Array
    suggested: Array


def detect_surface_defects(y: Array, valid: Array) -> SurfaceDefects:
    """Detect surface defects on a photograph.

    Parameters
    ----------
    y, valid : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and True where its values are valid.
    """
    mask, suggested = np.zeros((2, *y.shape[:2]), bool)
    valid_pixels: Array = np.asarray(valid.all(axis=2))
    if (
        y.shape[2] not in (1, 3)
        or min(y.shape[:2]) < MIN_SIDE
        or valid_pixels.mean() < MIN_VALID_FRACTION
    ):
        return SurfaceDefects(mask, suggested)
    y = fill_gaps(y, valid)
    if is_grey(y):
        y = y.mean(axis=2, keepdims=True)
    x = image_features(y)
    gate = expit(gate_log_odds(y, x)) * valid_pixels
    if np.mean(gate > GATE_PROBABILITY) <= GATE_FRACTION:
        return SurfaceDefects(mask, suggested)
    evidence = collect_evidence(y, x)
    probability = expit(log_odds_with_evidence("second_gate", x, evidence))
    probability = probability * valid_pixels
    certain = (probability > CERTAIN_PROBABILITY) & _has_relief(y, probability)
    if np.mean(certain) > MIN_CERTAIN_FRACTION and not _is_computer_drawn(y):
        probability = expit(log_odds_with_evidence("segmentation", x, evidence))
        probability = probability * valid_pixels
        mask = probability > REPLACED_PROBABILITY
        suggested = probability > SUGGESTED_PROBABILITY
    else:
        suggested = probability > SUGGESTED_PROBABILITY_ALONE
    return SurfaceDefects(mask, suggested & ~mask)


def _has_relief(y: Array, probability: Array) -> Array:
    """Return where the image beneath possible defects deviates from a smooth one."""
    near_defect: Array = maximum_filter(probability > SUGGESTED_PROBABILITY, 3)
    grey = y.mean(axis=2, keepdims=True)
    beneath = fill_gaps(grey, ~near_defect[..., None])[..., 0]
    relief = beneath - gaussian_filter(beneath, RELIEF_WINDOW)
    return np.asarray(np.abs(relief) > MIN_RELIEF)


def _is_computer_drawn(y: Array) -> bool:
    """Return whether so many adjacent pixels are equal that a program drew them."""
    down, across = y[1:] == y[:-1], y[:, 1:] == y[:, :-1]
    equal = min(np.mean(each.all(axis=2)) for each in (down, across))
    return float(equal) > MAX_EQUAL_FRACTION


def is_grey(y: Array) -> bool:
    """Return whether the channels of an image are nearly equal."""
    difference = np.abs(y - y.mean(axis=2, keepdims=True)).mean()
    return float(difference) < MAX_GREY_DIFFERENCE


def gate_log_odds(y: Array, x: Array) -> Array:
    """Return the log-odds of the gate network and the colours.

    Parameters
    ----------
    y, x : ndarray of shape (rows, columns, channels)
        The image, and its `image_features`.
    """
    gate = run_gate(x)
    return np.asarray(gate + colour_log_odds(y, gate)[1])


def collect_evidence(y: Array, x: Array) -> Evidence:
    """Return the inputs of the larger networks.

    They are the gate's log-odds, averaged over reflections, and the log-odds of each
    pixel's own colour and of the colours around it.
    """
    gate = run_gate(x, reflect=True)
    return gate, *colour_log_odds(y, gate)


def log_odds_with_evidence(network: str, x: Array, evidence: Evidence) -> Array:
    """Return the log-odds of the second gate or the segmentation network."""
    log_odds = run_with_evidence(network, x, *evidence)
    density = gaussian_filter(expit(log_odds), DENSITY_WINDOW)
    excess = np.maximum(density - USUAL_DENSITY, 0)
    return np.asarray(log_odds - DENSITY_PENALTY * excess)


def colour_log_odds(y: Array, gate: Array) -> tuple[Array, Array]:
    """Return the log-odds of each pixel's own colour and of the colours around it."""
    bins = _colour_bins(y)
    weight = expit(gate) ** 2 + 1e-4
    total_weight = gaussian_filter(weight, COLOUR_WINDOW)
    local = np.zeros_like(gate)
    for _ in range(COLOUR_ITERATIONS):
        probability = expit(gate + local) ** HISTOGRAM_POWER
        own = _log_odds_of_bins(bins, probability, y.shape[2])
        local = gaussian_filter(weight * own, COLOUR_WINDOW) / total_weight
    return own, local


def _colour_bins(y: Array) -> Array:
    """Return the number of the histogram bin of each pixel's colour."""
    shape = _histogram_shape(y.shape[2])
    index = np.clip((y * shape[0]).astype(np.int64), 0, shape[0] - 1)
    bins: Array = np.ravel_multi_index(tuple(np.moveaxis(index, 2, 0)), shape)
    return bins


def _histogram_shape(channels: int) -> tuple[int, ...]:
    """Return the number of bins of each channel."""
    return (COLOUR_BINS if channels > 1 else GREY_BINS,) * channels


def _log_odds_of_bins(bins: Array, probability: Array, channels: int) -> Array:
    """Return the log-ratio of the histograms under and beside defects, per pixel."""
    shape = _histogram_shape(channels)

    def histogram(weight: Array) -> Array:
        counts = np.bincount(bins.ravel(), weight.ravel(), math.prod(shape))
        smooth: Array = gaussian_filter(
            counts.reshape(shape), HISTOGRAM_WINDOW, mode="constant"
        )
        return smooth.ravel()

    under, beside = histogram(probability), histogram(1 - probability)
    total = under + beside
    prior = PSEUDO_COUNT * total / total.sum() + 1e-12

    def density(counts: Array) -> Array:
        fractions: Array = (counts + prior) / (counts.sum() + PSEUDO_COUNT)
        return fractions

    log_odds = np.log(density(under) / density(beside))
    clipped: Array = np.clip(log_odds, MIN_COLOUR_LOG_ODDS, MAX_COLOUR_LOG_ODDS)[bins]
    return clipped

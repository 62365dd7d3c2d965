"""Mixture of clean and corrupted values: posterior probabilities and their EM fit.

Every value is drawn from a mixture. A clean value lies near its prediction, with
Student's density and a local scale (`residual_scale`). A corrupted value has any value
on [0, 1] with equal density, plus peaks at values that corruption prefers (salt,
pepper, hot pixels). Expectation-maximisation alternates between the posterior
probabilities and the corrupted fraction with its histogram. Isolated hot pixels,
salt-and-pepper noise and random values are thus detected by one rule, and their
fraction is estimated rather than given.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.ndimage import median_filter

from discrepant.core.linalg import Array
from discrepant.image.restore.core.lines import (
    featureless_lines,
    unexplained_lines,
    without_border,
)
from discrepant.image.restore.core.residual_scale import student_density

# Clean-to-corrupt odds of a value that is known to be clean.
CLEAN_ODDS = np.float32(1e4)
# Bins of the histogram of values on [0, 1]: one for each 8-bit value.
N_BINS = 256

# Corrupted fraction before the first iteration: both alternatives are equally likely.
START_FRACTION = 0.5
# Smallest and largest estimate of the corrupted fraction: from 0 or 1 it could not
# change any more.
MIN_FRACTION, MAX_FRACTION = 1e-4, 0.95
# Largest density of a peak among the corrupted values. Student's density, 0.37 / scale
# at its centre, reaches it at a scale of 0.012: a value predicted that well is kept,
# even if it is the most frequent corrupted one.
MAX_PEAK_DENSITY = 30.0
# Smallest density of the corrupted values beside their peaks.
MIN_FLAT_DENSITY = 0.01
# Smallest fraction of the values beside peaks. An image with less has few different
# values (a drawing, a mask), and its peaks are not evidence of corruption.
MIN_BACKGROUND_FRACTION = 0.1
# Weight of the prior in the estimated corruption rate of a bin, in values: the rate in
# all channels starts from the fraction, the rate in one channel from that in all.
PSEUDO_COUNTS = 20.0
# Bins of the running median with which a peak of the histogram is compared.
PEAK_WINDOW = 15
# A peak exceeds this multiple of the running median …
PEAK_RATIO = 4.0
# … plus this density.
PEAK_OFFSET = 1.0
# Smallest fraction of all values in a peak: about the 1/256 of a uniform histogram.
MIN_PEAK_FRACTION = 0.004
# Smallest rows and columns of the blocks in which the values of a peak are counted.
MIN_BLOCK_SIDE = 32
# Smallest expected count per block; blocks are enlarged until they reach it.
MIN_COUNT_PER_BLOCK = 16
# Smallest ratio of a peak's fraction in the lower quartile of the blocks to its
# fraction in the image. Corruption occurs in every block; a black background occurs
# only in its own place.
MIN_BLOCK_RATIO = 0.3
# EM iterations per prediction.
N_ITERATIONS = 3


@dataclass(frozen=True, eq=False)
class CorruptionModel:
    """Prior odds of corruption, before a value is compared with its prediction.

    Attributes
    ----------
    fraction : float
        Corrupted fraction of the values.
    value_odds : ndarray of shape (N_BINS,) or (channels, N_BINS)
        Corrupt-to-clean odds of the values in each bin: those of the fraction, and
        larger ones at peaks of the corrupted values.
    """

    fraction: float
    value_odds: Array


class CorruptionMixture:
    """Posterior probability that each value of an image is clean, fitted by EM.

    Parameters
    ----------
    y : ndarray of shape (rows, columns, channels)
        The image on [0, 1].
    valid : ndarray of bool
        False where a value is known to be corrupted.
    counted : ndarray of bool, optional
        Values of the initial histogram, by default the valid ones.
    known_clean : ndarray of bool, optional
        Values that are certainly clean; they do not take part in the fit.
    model : CorruptionModel, optional
        Initial model, for instance that of another part of the same image. By default,
        values that are frequent everywhere in the image are suspicious.

    Attributes
    ----------
    model : CorruptionModel
        Current model.
    dead_lines : ndarray of bool, of shape (rows, columns, 1)
        Rows and columns that are corrupted as a whole.
    """

    def __init__(
        self,
        y: Array,
        valid: Array,
        *,
        counted: Array | None = None,
        known_clean: Array | None = None,
        model: CorruptionModel | None = None,
    ) -> None:
        self.valid = valid
        self._known_clean = (
            np.zeros_like(valid) if known_clean is None else valid & known_clean
        )
        self._uncertain = valid & ~self._known_clean
        counted = self._uncertain if counted is None else counted
        self.dead_lines = np.zeros((*y.shape[:2], 1), bool)
        self._y = y
        self._bin = _bin_number(y)
        self._channel_bin = self._bin + N_BINS * np.arange(y.shape[2], dtype=np.int32)
        self._counts = self._histogram(counted)
        counts = self._counts.sum(axis=0)
        density = counts * N_BINS / max(counts.sum(), 1)
        self._block_fractions: dict[tuple[int, int], float] = {}
        peak = self._widespread_peaks(density, counts)
        background = density[~peak].sum()
        self._has_few_values = background < MIN_BACKGROUND_FRACTION * density.sum()
        if model is None:
            peak_odds = np.minimum(density, MAX_PEAK_DENSITY)
            odds = np.where(peak & ~self._has_few_values, peak_odds, 1)
            model = CorruptionModel(START_FRACTION, odds)
        self.model = model

    @cached_property
    def _featureless(self) -> list[Array]:
        """The rows, and the columns, without image content that are not a frame."""
        masks = []
        for axis in (0, 1):
            constant, random = featureless_lines(self._y, self.valid, axis)
            masks.append(without_border(constant) | random)
        return masks

    def _histogram(self, weight: Array) -> Array:
        """Return the total weight of each bin of each channel."""
        bins = self._bin.shape[2] * N_BINS
        counts = np.bincount(self._channel_bin.ravel(), weight.ravel(), bins)
        return counts.reshape(-1, N_BINS)

    def _value_odds(self) -> Array:
        """Return the corrupt-to-clean odds of each bin of each channel."""
        return np.broadcast_to(self.model.value_odds, self._counts.shape)

    def _widespread_peaks(self, density: Array, counts: Array) -> Array:
        """Return which bins are peaks of a density that occur all over the image.

        ``counts`` are the counts from which the density was computed.
        """
        peak = _peaks(density)
        for number in np.nonzero(peak)[0].tolist():
            fraction = float(counts[number]) / self._bin.size
            side = _block_side(fraction * self._bin.shape[2])
            key = (number, side)
            if key not in self._block_fractions:
                self._block_fractions[key] = _lower_quartile_block_fraction(
                    self._bin == number, side
                )
            peak[number] = self._block_fractions[key] >= MIN_BLOCK_RATIO * fraction
        return peak

    def clean_odds(self) -> Array:
        """Return the prior clean-to-corrupt odds of each value."""
        odds: Array = (1 / self._value_odds().ravel()).astype(np.float32)[
            self._channel_bin
        ]
        odds[self._known_clean] = CLEAN_ODDS
        odds[~self.valid | self.dead_lines] = 0
        return odds

    def update(
        self, residual: Array, scale: Array, n_iterations: int = N_ITERATIONS
    ) -> Array:
        """Fit dead lines and the model to residuals; return the clean posterior.

        Parameters
        ----------
        residual, scale : ndarray
            Difference of each value and its prediction, and the scale of such
            differences for clean values.
        n_iterations : int
            EM iterations.
        """
        density = student_density(residual, scale)
        # Log-likelihood ratio of a value that is corrupted (with density 1) against
        # one that follows the mixture.
        fraction = self.model.fraction
        log_ratio = -np.log((1 - fraction) * density + fraction)
        rows, columns = (
            unexplained_lines(log_ratio, self.valid, axis) & featureless
            for axis, featureless in enumerate(self._featureless)
        )
        self.dead_lines = rows | columns
        return self.update_from_density(density, n_iterations)

    def update_from_density(
        self, clean_density: Array, n_iterations: int = N_ITERATIONS
    ) -> Array:
        """Fit the model by EM; return the posterior probability of being clean.

        ``clean_density`` is the density of each value under the hypothesis that it is
        clean.
        """
        state = self._state()
        for _ in range(n_iterations):
            clean, corrupt_counts = self._posterior(clean_density, state)
            self.model = self._fit_to_counts(corrupt_counts)
        return clean

    def clean_posterior(self, residual: Array, scale: Array) -> Array:
        """Return the probability that each value is clean under the current model."""
        return self._posterior(student_density(residual, scale), self._state())[0]

    def fit_model(self, clean: Array) -> CorruptionModel:
        """Return the model that follows from given probabilities of being clean."""
        corrupt = np.where(self._uncertain & ~self.dead_lines, 1 - clean, 0)
        return self._fit_to_counts(self._histogram(corrupt))

    def sample_corrupted(self, clean: Array, where: Array) -> Array:
        """Draw one value for each place in ``where`` from the corrupted values there.

        ``clean`` holds the probabilities of being clean.
        """
        cumulative = np.cumsum(1 - clean[where], dtype=np.float64)
        drawn = np.random.default_rng(0).random(len(cumulative)) * cumulative[-1]
        values: Array = self._y[where][np.searchsorted(cumulative, drawn)]
        return values

    def is_corruption_peak(self, values: Array) -> Array:
        """Return which values lie in a bin that corruption prefers."""
        odds = self._value_odds()
        in_peak: Array = (odds > 2 * np.median(odds)).any(axis=0)[_bin_number(values)]
        return in_peak

    def clean_posterior_if_value_were(
        self, values: Array, residual: Array, scale: Array, where: Array
    ) -> Array:
        """Return the clean posterior that other values would have in given places.

        ``residual`` and ``scale`` are those of the actual values in ``where``.
        """
        residual = residual + values - self._y[where]
        odds = self._value_odds()[np.nonzero(where)[2], _bin_number(values)]
        clean_odds = student_density(residual, scale) / odds
        clean: Array = clean_odds / (1 + clean_odds)
        return clean

    def _state(self) -> Array:
        """Return 0 for values known to be corrupted, 1 for uncertain, 2 for clean."""
        state: Array = np.where(
            self.dead_lines, 0, self.valid.astype(np.uint8) + self._known_clean
        )
        return state.astype(np.uint8)

    def _posterior(self, clean_density: Array, state: Array) -> tuple[Array, Array]:
        """Return the clean posterior, and corrupted counts per channel and bin."""
        from discrepant.image.restore.core.kernels import clean_posterior

        odds = np.append(1 / self._value_odds(), CLEAN_ODDS).astype(np.float32)
        clean = np.empty(clean_density.shape, np.float32)
        corrupt_counts = np.zeros(len(odds) - 1)
        density = np.ascontiguousarray(clean_density).ravel()
        bins = self._channel_bin.ravel()
        clean_posterior(
            density, bins, odds, state.ravel(), clean.ravel(), corrupt_counts
        )
        return clean, corrupt_counts.reshape(-1, N_BINS)

    def _fit_to_counts(self, counts: Array) -> CorruptionModel:
        """Return the model that follows from corrupted counts per channel and bin."""
        total = max(float(self._counts.sum()), 1)
        fraction = counts.sum() / total
        fraction = float(np.clip(fraction, MIN_FRACTION, MAX_FRACTION))
        all_channels = counts.sum(axis=0)
        density = all_channels * N_BINS / max(float(all_channels.sum()), 1e-9)
        peak = self._widespread_peaks(density, all_channels) & ~self._has_few_values
        flat = max(float(density[~peak].sum()) / N_BINS, MIN_FLAT_DENSITY)
        # A value that is frequent among clean values too is no evidence of corruption.
        # This is decided per channel: a sky may be saturated in blue only.
        rate = _corruption_rate(all_channels, self._counts.sum(axis=0), fraction)
        rate = _corruption_rate(counts, self._counts, rate)
        extra = np.where(peak, rate * np.minimum(density, MAX_PEAK_DENSITY), 0)
        return CorruptionModel(fraction, (flat + extra) * fraction / (1 - fraction))


def _corruption_rate(corrupt: Array, counts: Array, prior: Array | float) -> Array:
    """Return the corrupted fraction of each bin, shrunk towards a prior rate."""
    rate: Array = (corrupt + PSEUDO_COUNTS * prior) / (counts + PSEUDO_COUNTS)
    return rate


def _bin_number(y: Array) -> Array:
    """Return the histogram bin of each value."""
    bins: Array = np.clip((y * N_BINS).astype(np.int16), 0, N_BINS - 1)
    return bins


def _block_side(per_pixel: float) -> int:
    """Return the side of blocks that hold enough values, given their mean per pixel."""
    side = MIN_BLOCK_SIDE
    while side**2 * per_pixel < MIN_COUNT_PER_BLOCK:
        side *= 2
    return side


def _lower_quartile_block_fraction(where: Array, side: int) -> float:
    """Return the lower quartile, over blocks, of the fraction of marked values."""
    rows, columns = (m // side for m in where.shape[:2])
    if not rows or not columns:
        return 1.0
    inner = where[: rows * side, : columns * side]
    fractions = inner.reshape(rows, side, columns, -1).mean(axis=(1, 3))
    return float(np.quantile(fractions, 0.25))


def _peaks(density: Array) -> Array:
    """Return which bins of a density are well above the running median."""
    usual = median_filter(density, PEAK_WINDOW, mode="mirror")
    above = density > PEAK_RATIO * usual + PEAK_OFFSET
    peaks: Array = above & (density > MIN_PEAK_FRACTION * N_BINS)
    return peaks

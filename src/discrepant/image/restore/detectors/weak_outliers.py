"""Detect weak hot and dead pixels on smooth backgrounds.

In a photograph clean values deviate far from their neighbours, and a deviation of eight
times the noise may be detail. On a smooth background (a dark frame, a sky, a
micrograph, a scan) all deviations are noise: measured as a function of brightness, they
are normal, and larger ones are flagged at a false discovery rate. The distribution of
the deviations shows which of the two an image is.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import convolve, uniform_filter
from scipy.stats import norm

from discrepant.core.arrays import round_to_dtype
from discrepant.core.linalg import Array
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.estimate import Estimate

# Half-width, in pixels, of the window that predicts a value from those around it.
RADIUS = 3
# Standard deviation, in pixels, of the Gaussian weights of that window.
WINDOW_STD = 1.5
# Bins of brightness, with equal numbers of values, in which noise is measured.
N_BINS = 16
# Values that a bin needs for its standard deviation to be known to 5%.
MIN_BIN_SIZE = 400
# Smallest noise of integer images, in steps of 1. With less, the values are those of a
# drawing or of an 8-bit photograph.
MIN_INTEGER_NOISE = 1.0
# Largest fraction of residuals between 3 and 5 standard deviations. The normal
# distribution has 0.0027, photographs have ten times as much.
MAX_TAIL_FRACTION = 0.006
# False discovery rate at a sensitivity of 1.
FALSE_DISCOVERY_RATE = 0.01
# Factor by which standard deviations are enlarged for p-values: Poisson counts of mean
# 50 exceed 5 deviations ten times as often as normal values.
TAIL_INFLATION = 1.15
# Largest mean deviation of the four adjacent pixels, as a fraction of a defect's: a
# defect is isolated. A star with a standard deviation of 1 pixel has 0.6 there, less
# what the window's mean takes of it.
MAX_ADJACENT_FRACTION = 0.2
# Standard deviations from the median of nine beyond which a value is excluded from
# means in the first pass.
GROSS_Z = 8.0
# Rows and columns in the middle that are tested first: they rule out most images.
MAX_TESTED_SIDE = 512
# Largest fraction of changed values with which noise can be measured by a median of
# residuals: each residual has some twenty values in its prediction.
MAX_CHANGED_FRACTION = 0.03


@dataclass(frozen=True, eq=False)
class WeakOutliers:
    """Predictions, mask and corruption probabilities of one channel."""

    prediction: Array
    mask: Array
    probability: Array


def with_weak_outliers(
    estimate: Estimate, values: Array, known_bad: Array, detector: Detector
) -> Estimate:
    """Add weak outliers on smooth backgrounds to the estimate of an image.

    Parameters
    ----------
    estimate : Estimate
        Result of the stages before; its replaced values are used as they are.
    values, known_bad : ndarray of shape (rows, columns, channels)
        The image, and True where its values are known to be bad.
    detector : Detector
        Sensitivity, gain and read noise.
    """
    kind = values.dtype.kind
    changed = estimate.mask | (estimate.image != values)  # JPEG repair: whole blocks
    too_many = changed.mean() > MAX_CHANGED_FRACTION
    if kind not in "uif" or not estimate.complete or too_many:
        return estimate
    image, mask, probability = estimate.image, estimate.mask, estimate.probability
    for c in range(values.shape[2]):
        plane, exponent = estimate.image[..., c].astype(np.float64), 0
        if kind == "f":  # integers have steps of 1, which bound the noise from below
            exponent = binary_exponent(plane)
        outliers = detect_weak_outliers(
            np.ldexp(plane, -exponent),
            known_bad[..., c],
            is_integer=kind in "ui",
            sensitivity=float(detector.sensitivity),
            gain=detector.in_unit(exponent).gain,
            read_noise=float(detector.read_noise),
        )
        if outliers is None:
            continue
        if image is estimate.image:  # copy only now: few images reach this line
            image, mask, probability = image.copy(), mask.copy(), probability.copy()
        low, high = values[..., c].min(), values[..., c].max()
        prediction = np.clip(np.ldexp(outliers.prediction, exponent), low, high)
        prediction = (
            round_to_dtype(prediction, values.dtype)
            if kind in "ui"
            else prediction.astype(values.dtype)
        )
        image[..., c] = np.where(outliers.mask, prediction, image[..., c])
        mask[..., c] |= outliers.mask
        probability[..., c] = np.maximum(probability[..., c], outliers.probability)
    return replace(estimate, image=image, mask=mask, probability=probability)


def detect_weak_outliers(
    plane: Array,
    known_bad: Array,
    *,
    is_integer: bool,
    sensitivity: float = 1.0,
    gain: float | None = None,
    read_noise: float = 0.0,
) -> WeakOutliers | None:
    """Detect weak outliers in one channel; None if it is not a smooth background.

    Parameters
    ----------
    plane, known_bad : ndarray of shape (rows, columns)
        Values in their own unit, and True where they are known to be bad.
    is_integer : bool
        Whether the values are integers.
    sensitivity : float
        Factor of the false discovery rate.
    gain, read_noise : float
        Electrons per count, and electrons of noise in the dark; without a gain the
        noise is measured.
    """
    if plane.size < N_BINS * MIN_BIN_SIZE or known_bad.any():
        return None
    y = plane.astype(np.float64)
    rows, columns = (max(n - MAX_TESTED_SIDE, 0) // 2 for n in y.shape)
    if rows or columns:
        middle = np.s_[
            rows : rows + MAX_TESTED_SIDE, columns : columns + MAX_TESTED_SIDE
        ]
        tested = detect_weak_outliers(
            *(plane[middle], known_bad[middle]),
            is_integer=is_integer,
            gain=gain,
            read_noise=read_noise,
        )
        if tested is None:
            return None
    # Each pass excludes from the means what the pass before flagged.
    flagged = _isolated_gross_outliers(y)
    for _ in range(2):
        prediction = _predict_from_ring(_fill_flagged(y, flagged))
        residual = y - prediction
        if gain is None:
            noise = _measure_noise(prediction, np.where(flagged, np.nan, residual))
        else:
            noise = np.sqrt(np.maximum(prediction, 0) / gain + (read_noise / gain) ** 2)
            noise *= np.sqrt(1 + float((KERNEL**2).sum()))
        if noise is None or noise.min() < (MIN_INTEGER_NOISE if is_integer else 1e-300):
            return None
        z = residual / noise
        tail_fraction = float(np.mean((np.abs(z) > 3) & (np.abs(z) < 5)))
        if tail_fraction > MAX_TAIL_FRACTION:
            return None
        p_values = 2 * norm.sf(np.abs(z) / TAIL_INFLATION)
        discovered = benjamini_hochberg(p_values, FALSE_DISCOVERY_RATE * sensitivity)
        flagged = discovered & _is_isolated(z, flagged)
    return WeakOutliers(prediction, flagged, _probability(z))


def binary_exponent(values: Array) -> int:
    """Return the least n with ``|values| < 2ⁿ``.

    In the unit ``2ⁿ`` squares of values neither overflow nor vanish, and no value is
    rounded.
    """
    largest = np.abs(values[np.isfinite(values)]).max(initial=0)
    return int(np.frexp(largest)[1])


def _ring_kernel() -> Array:
    """Return weights that predict the middle of a window from the rest of it.

    Gaussian weights without the middle, corrected so that a quadratic background is
    predicted exactly: they sum to 1, and their second moment is 0.
    """
    i, j = np.mgrid[-RADIUS : RADIUS + 1, -RADIUS : RADIUS + 1]
    square = (i**2 + j**2).astype(float)
    window = np.exp(-square / (2 * WINDOW_STD**2))
    window[RADIUS, RADIUS] = 0
    # w = window · (a + b r²) with sum 1 and no second moment.
    moments = [(window * square**k).sum() for k in range(3)]
    matrix = np.array([[moments[0], moments[1]], [moments[1], moments[2]]])
    a, b = np.linalg.solve(matrix, [1.0, 0.0])
    weights: Array = window * (a + b * square)
    return weights


KERNEL = _ring_kernel()


def _predict_from_ring(y: Array) -> Array:
    prediction: Array = convolve(y, KERNEL, mode="mirror")
    return prediction


def _isolated_gross_outliers(y: Array) -> Array:
    """Return which single pixels deviate far from the median around them.

    In the means, each of them would move some thirty others into the tail.
    """
    from discrepant.image.restore.core.kernels import median_of_nine

    median = np.empty(y.shape)
    median_of_nine(np.pad(y, 1, mode="reflect"), median)
    deviation = np.abs(y - median)
    std = float(np.median(deviation)) / 0.6745
    gross = deviation > GROSS_Z * max(std, 1e-300)
    isolated: Array = gross & (uniform_filter(gross.astype(np.float32), 3) < 1.5 / 9)
    return isolated


def _fill_flagged(y: Array, flagged: Array) -> Array:
    """Return values with the flagged ones replaced by the mean of those around."""
    out = y.copy()
    at = np.nonzero(flagged)
    padded, unflagged = (np.pad(a, RADIUS, mode="reflect") for a in (y, ~flagged))
    total, total_weight = np.zeros((2, len(at[0])))
    for (i, j), kernel_weight in np.ndenumerate(np.abs(KERNEL)):
        neighbour = at[0] + i, at[1] + j
        weight = kernel_weight * unflagged[neighbour]
        total += weight * padded[neighbour]
        total_weight += weight
    out[at] = total / np.maximum(total_weight, 1e-9)
    return out


def _measure_noise(prediction: Array, residual: Array) -> Array | None:
    """Return the standard deviation of the noise at each brightness."""
    edges = np.quantile(prediction, np.linspace(0, 1, N_BINS + 1)[1:-1])
    bins = np.digitize(prediction, edges)
    levels, stds = [], []
    for number in range(N_BINS):
        inside = bins == number
        e = residual[inside]
        e = e[np.isfinite(e)]
        if e.size >= MIN_BIN_SIZE:
            levels.append(float(np.median(prediction[inside])))
            # The median of |e| is 0.6745 standard deviations.
            stds.append(float(np.median(np.abs(e - np.median(e)))) / 0.6745)
    if not levels or min(stds) <= 0:
        return None
    # The variance is linear in brightness for counted light and constant for
    # electronics: fit a line, bounded below by half of the smallest measured variance.
    variances = np.square(stds)
    slope, offset = (
        np.polyfit(levels, variances, 1)
        if np.ptp(levels) > 1e-9
        else (0.0, float(np.mean(variances)))
    )
    variance = np.maximum(offset + slope * prediction, variances.min() / 2)
    noise: Array = np.sqrt(variance)
    return noise


def benjamini_hochberg(p_values: Array, rate: float) -> Array:
    """Return the discoveries at a false discovery rate (Benjamini, Hochberg; 1995)."""
    ordered = np.sort(p_values, axis=None)
    allowed = rate * np.arange(1, ordered.size + 1) / ordered.size
    below = np.flatnonzero(ordered <= allowed)
    if not len(below):
        return np.zeros(p_values.shape, bool)
    discovered: Array = p_values <= ordered[below[-1]]
    return discovered


def _is_isolated(z: Array, flagged: Array) -> Array:
    """Return which values deviate while the four adjacent ones do not."""
    cross = np.array([[0, 0.25, 0], [0.25, 0, 0.25], [0, 0.25, 0]])
    adjacent = convolve(np.where(flagged, 0, z), cross, mode="mirror")
    isolated: Array = adjacent * np.sign(z) < MAX_ADJACENT_FRACTION * np.abs(z)
    return isolated


def _probability(z: Array) -> Array:
    """Return the probability that each value is corrupted, from tail counts.

    The normal distribution explains some of the values beyond |z|; the rest are
    corrupted.
    """
    size = np.abs(z).ravel()
    order = np.argsort(-size)
    n_beyond = np.arange(1, size.size + 1)
    expected = 2 * norm.sf(size[order] / TAIL_INFLATION) * size.size
    corrupted_fraction = 1 - np.minimum(expected / n_beyond, 1)
    out = np.empty(size.size)
    out[order] = np.minimum.accumulate(corrupted_fraction)
    probability: Array = out.reshape(z.shape).astype(np.float32)
    return probability

"""Values that stand out of the noise of a smooth ground: weak hot and dead pixels.

In a photograph clean values stray far from what is around them, and one that strays by
eight times the noise may well belong there. On a smooth ground (a dark frame, a sky, a
micrograph, a scan) all that strays is noise: measured as a function of brightness, it
follows the normal law, and what is too far out for it is found at a false discovery
rate. Which of the two an image is, its own values say.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import convolve, uniform_filter
from scipy.stats import norm

from discrepant.core.arrays import round_to_dtype
from discrepant.core.linalg import Array
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.estimate import Estimate

# A value is predicted by a plane through those around it: on a symmetric window, by
# their mean. Weights of a Gaussian of deviation 1.5 pixels, the middle left out, minus
# what a curved ground would add (the sum of weight times squared distance is 0).
REACH = 3


@dataclass(frozen=True)
class Tuning:
    """When an image is a smooth ground, and what stands out of it.

    Attributes
    ----------
    bins : int
        Of brightness, each with the same number of values, in which noise is measured.
    fewest : int
        Values a bin needs for its spread to be known to 5%.
    finest : float
        Noise in steps of whole numbers, at least: with less, values are those of a
        drawing, or of a photograph of 8 bits.
    tail : float
        Share of errors between 3 and 5 deviations, at most; the normal law has
        0.0027, and photographs ten times that.
    rate : float
        The false discovery rate.
    skewed : float
        Deviations count as so many times fewer: of 50 counted, those beyond 5
        deviations are ten times as many as the normal law has.
    lone : float
        A fault stands alone: the four beside it stray by no more than this share of
        it, in the mean. A star of deviation 1 has 0.6 there, less what the window's
        mean takes of it.
    gross : float
        Deviations from the median around it beyond which a value has no part in means
        from the start.
    tried : int
        Rows and columns in the middle that are looked at first: most images are told
        from a smooth ground by them.
    """

    bins: int = 16
    fewest: int = 400
    finest: float = 1.0
    tail: float = 0.006
    rate: float = 0.01
    skewed: float = 1.15
    lone: float = 0.2
    tried: int = 512
    gross: float = 8.0


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class WeakOutliers:
    """What stands out: new values, which they are, and how likely each is wrong."""

    guess: Array
    mask: Array
    probability: Array


def binary_exponent(values: Array) -> int:
    """Return the least n with ``|values| < 2ⁿ``.

    In the unit ``2ⁿ`` squares of values neither overflow nor vanish, and no value is
    rounded.
    """
    largest = np.abs(values[np.isfinite(values)]).max(initial=0)
    return int(np.frexp(largest)[1])


def detect_weak_outliers(
    plane: Array,
    bad: Array,
    *,
    whole: bool,
    sensitivity: float = 1.0,
    gain: float | None = None,
    read_noise: float = 0.0,
) -> WeakOutliers | None:
    """Find what stands out of the noise of one channel; None if that cannot be told.

    Parameters
    ----------
    plane, bad : ndarray of shape (rows, columns)
        Values in their own unit, and which are known to be wrong.
    whole : bool
        Whether they are whole numbers.
    sensitivity : float
        Times which the false discovery rate is allowed.
    gain, read_noise : float
        Electrons a unit, and electrons of noise where there is no light; without a
        gain the noise is measured.
    """
    if plane.size < TUNING.bins * TUNING.fewest or bad.any():
        return None
    y = plane.astype(np.float64)
    rows, columns = (max(n - TUNING.tried, 0) // 2 for n in y.shape)
    if rows or columns:
        inner = np.s_[rows : rows + TUNING.tried, columns : columns + TUNING.tried]
        first = detect_weak_outliers(
            *(plane[inner], bad[inner]), whole=whole, gain=gain, read_noise=read_noise
        )
        if first is None:
            return None
    # Each look leaves out of the means what the one before found.
    flagged = _gross(y)
    for _ in range(2):
        guess = _around(_filled(y, flagged))
        error = y - guess
        if gain is None:
            noise = _measured(guess, np.where(flagged, np.nan, error))
        else:
            noise = np.sqrt(np.maximum(guess, 0) / gain + (read_noise / gain) ** 2)
            noise *= np.sqrt(1 + float((KERNEL**2).sum()))
        if noise is None or noise.min() < (TUNING.finest if whole else 1e-300):
            return None
        z = error / noise
        between = float(np.mean((np.abs(z) > 3) & (np.abs(z) < 5)))
        if between > TUNING.tail:
            return None
        chance = 2 * norm.sf(np.abs(z) / TUNING.skewed)
        flagged = benjamini_hochberg(chance, TUNING.rate * sensitivity) & _lone(
            z, flagged
        )
    return WeakOutliers(guess, flagged, _probability(z))


def _kernel() -> Array:
    """Return weights that predict the middle of a window from the rest of it."""
    i, j = np.mgrid[-REACH : REACH + 1, -REACH : REACH + 1]
    square = (i**2 + j**2).astype(float)
    window = np.exp(-square / (2 * 1.5**2))
    window[REACH, REACH] = 0
    # w = window · (a + b r²) with sum 1 and no second moment.
    moments = [(window * square**k).sum() for k in range(3)]
    matrix = np.array([[moments[0], moments[1]], [moments[1], moments[2]]])
    a, b = np.linalg.solve(matrix, [1.0, 0.0])
    weights: Array = window * (a + b * square)
    return weights


KERNEL = _kernel()


def _around(y: Array) -> Array:
    found: Array = convolve(y, KERNEL, mode="mirror")
    return found


def _gross(y: Array) -> Array:
    """Return which values stand far out by themselves, whatever is around.

    In the means around it each would raise some thirty others into the tail.
    """
    from discrepant.image.restore.core.kernels import median_of_nine

    around = np.empty(y.shape)
    median_of_nine(np.pad(y, 1, mode="reflect"), around)
    stray = np.abs(y - around)
    usual = float(np.median(stray)) / 0.6745
    far = stray > TUNING.gross * max(usual, 1e-300)
    found: Array = far & (uniform_filter(far.astype(np.float32), 3) < 1.5 / 9)
    return found


def _filled(y: Array, flagged: Array) -> Array:
    """Return values with the flagged ones replaced by the mean of those around."""
    out = y.copy()
    at = np.nonzero(flagged)
    wide, kept = (np.pad(a, REACH, mode="reflect") for a in (y, ~flagged))
    total, count = np.zeros((2, len(at[0])))
    for (i, j), weight in np.ndenumerate(np.abs(KERNEL)):
        near = at[0] + i, at[1] + j
        share = weight * kept[near]
        total += share * wide[near]
        count += share
    out[at] = total / np.maximum(count, 1e-9)
    return out


def _measured(guess: Array, error: Array) -> Array | None:
    """Return the noise as a function of brightness, from medians in bins of it."""
    edges = np.quantile(guess, np.linspace(0, 1, TUNING.bins + 1)[1:-1])
    which = np.digitize(guess, edges)
    levels, spreads = [], []
    for number in range(TUNING.bins):
        inside = which == number
        e = error[inside]
        e = e[np.isfinite(e)]
        if e.size >= TUNING.fewest:
            levels.append(float(np.median(guess[inside])))
            # The median of |e| is 0.6745 standard deviations.
            spreads.append(float(np.median(np.abs(e - np.median(e)))) / 0.6745)
    if not levels or min(spreads) <= 0:
        return None
    # Variance is a line in brightness for light that is counted, constant for
    # electronics: a line is fitted, and kept above half of the least that was seen.
    variances = np.square(spreads)
    slope, offset = (
        np.polyfit(levels, variances, 1)
        if np.ptp(levels) > 1e-9
        else (0.0, float(np.mean(variances)))
    )
    variance = np.maximum(offset + slope * guess, variances.min() / 2)
    found: Array = np.sqrt(variance)
    return found


def benjamini_hochberg(chance: Array, rate: float) -> Array:
    """Return what is found at a false discovery rate (Benjamini and Hochberg; 1995)."""
    ordered = np.sort(chance, axis=None)
    allowed = rate * np.arange(1, ordered.size + 1) / ordered.size
    below = np.flatnonzero(ordered <= allowed)
    if not len(below):
        return np.zeros(chance.shape, bool)
    found: Array = chance <= ordered[below[-1]]
    return found


def _lone(z: Array, flagged: Array) -> Array:
    """Return which values stray and those beside them do not."""
    cross = np.array([[0, 0.25, 0], [0.25, 0, 0.25], [0, 0.25, 0]])
    beside = convolve(np.where(flagged, 0, z), cross, mode="mirror")
    lone: Array = beside * np.sign(z) < TUNING.lone * np.abs(z)
    return lone


def _probability(z: Array) -> Array:
    """Return how likely each value is wrong, from how many are as far out.

    Of the values beyond |z| the normal law explains some; the others are wrong.
    """
    size = np.abs(z).ravel()
    order = np.argsort(-size)
    beyond = np.arange(1, size.size + 1)
    expected = 2 * norm.sf(size[order] / TUNING.skewed) * size.size
    share = 1 - np.minimum(expected / beyond, 1)
    out = np.empty(size.size)
    out[order] = np.minimum.accumulate(share)
    found: Array = out.reshape(z.shape).astype(np.float32)
    return found


# Largest fraction of changed values with which noise can be measured by a median of
# residuals: each residual has some twenty values in its prediction.
MAX_CHANGED_FRACTION = 0.03


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
        more = detect_weak_outliers(
            np.ldexp(plane, -exponent),
            known_bad[..., c],
            whole=kind in "ui",
            sensitivity=float(detector.sensitivity),
            gain=detector.in_unit(exponent).gain,
            read_noise=float(detector.read_noise),
        )
        if more is None:
            continue
        if image is estimate.image:  # copy only now: few images reach this line
            image, mask, probability = image.copy(), mask.copy(), probability.copy()
        low, high = values[..., c].min(), values[..., c].max()
        prediction = np.clip(np.ldexp(more.guess, exponent), low, high)
        prediction = (
            round_to_dtype(prediction, values.dtype)
            if kind in "ui"
            else prediction.astype(values.dtype)
        )
        image[..., c] = np.where(more.mask, prediction, image[..., c])
        mask[..., c] |= more.mask
        probability[..., c] = np.maximum(probability[..., c], more.probability)
    return replace(estimate, image=image, mask=mask, probability=probability)

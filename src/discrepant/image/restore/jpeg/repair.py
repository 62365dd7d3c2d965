"""Restore images that were corrupted before they were saved as JPEG.

JPEG stores luma in full and chroma at half the rows and columns, and rounds the DCT
coefficients of both. An impulse in one channel becomes an impulse in luma, ringing in
its block, and a chroma error over sixteen pixels. Luma and chroma are therefore
restored separately: a smooth initial estimate, then predictions from similar patches,
where a Gaussian scale mixture gives the precision of each value. The restored luma
guides the chroma. In blocks with corruption all values are replaced, because ringing
changed all of them, but only impulses are flagged; other blocks are unchanged.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.image.restore.core.mixture import CorruptionMixture
from discrepant.image.restore.core.photograph import full_pass
from discrepant.image.restore.core.residual_scale import blur
from discrepant.image.restore.core.similar_patches import (
    PatchSearch,
    predict_from_patches,
)
from discrepant.image.restore.estimate import Estimate
from discrepant.image.restore.jpeg.chroma import (
    TO_RGB,
    TO_YCBCR,
    downsample,
    invert_upsample,
    luma,
    undo_clipping,
    upsample,
)
from discrepant.image.restore.jpeg.detection import (
    blocks_with_flat_spectrum,
    jpeg_rounding_std,
)
from discrepant.image.restore.jpeg.scale_mixture import ScaleMixture
from discrepant.image.restore.tiling import Tile

# `python benchmarks/images/jpeg.py` measures the PSNR with these constants.

# Smallest ratio of the 99th to the 25th percentile of the absolute difference between
# input and restored luma. The normal distribution has 8 (noise, which is kept),
# impulses have 30 and more.
MIN_TAIL_RATIO = 20.0
# Variance of the smooth initial estimate: that of 8 grey levels.
INITIAL_VARIANCE = (8 / 255) ** 2
# True over predicted variance of predictions from similar patches.
VARIANCE_INFLATION = 1.5
# Largest number of predictions of luma from similar patches.
MAX_LUMA_PASSES = 4
# Predictions of chroma from similar patches, each time that it is restored.
CHROMA_PASSES = 4
# Smallest standard deviation of a clean chroma value: chroma rings too, and patches
# would reproduce the ringing.
MIN_CHROMA_STD = 8 / 255
# Bounds, in standard deviations of rounding, between the classes of residuals that
# have mixture weights of their own.
RESIDUAL_CLASS_BOUNDS = (2.0, 4.0, 8.0)
# Standard deviation, in pixels, of the Gaussian means from which the surviving fraction
# is estimated.
SURVIVING_WINDOW = 8.0
# Standard deviation, in pixels of chroma, of the Gaussian mean that chroma starts from.
CHROMA_WINDOW = 2.0
# Rows and columns of a cell of a colour image that is replaced as a whole: a block of
# chroma. A grey image has cells of half the side.
CELL_SIDE = 16
# Smallest expected number of impulses of a cell that is replaced.
MIN_IMPULSES_PER_CELL = 0.5
# Standard deviations of a clean value from which a component can be one of impulses.
MIN_IMPULSE_STD = 3.0
# Slope from the log-odds of the mixture to calibrated ones, measured on photographs:
# some values that the mixture assigns to impulses are ringing beside them.
CALIBRATION_SLOPE = 0.8
# Offset of the calibrated log-odds.
CALIBRATION_OFFSET = -1.3
# Probability above which a value is flagged.
MIN_FLAGGED_PROBABILITY = 0.9
# Rows and columns of a tile's core; a multiple of a cell.
TILE_SIDE = 512
# Rows and columns that a tile extends beyond its core; a multiple of a cell.
TILE_OVERLAP = 32
# Standard deviations, in pixels, of the Gaussian means that compete with the patches.
MEAN_WINDOWS = (2.0, 4.0)
# Standard deviation, in pixels, of the window over which squared errors of predictions
# are compared: wide, because noise contributes to all of them.
COMPARISON_WINDOW = 8.0
# A mean is preferred if its squared errors are at most so many times those of the
# patches, which also predict some of the ringing.
MEAN_PREFERENCE = 1.4
# Smallest variance of a mean, as a fraction of the variance of a value.
MIN_MEAN_VARIANCE = 0.02
# Precision of a value that is not valid.
INVALID_PRECISION = 1e-6
# Note of the progress reports.
NOTE = "corrupted before JPEG"

KeepGoing = Callable[[], bool]


@dataclass(frozen=True, eq=False)
class PlaneEstimate:
    """The restoration of one plane.

    Attributes
    ----------
    image : ndarray of shape (rows, columns, 1)
        Posterior mean of each value.
    prediction, variance : ndarray
        Prediction of each value from the others, and its variance.
    impulse_probability : ndarray
        Probability that each value is an impulse.
    """

    image: Array
    prediction: Array
    variance: Array
    impulse_probability: Array


def repair_if_jpeg(
    estimate: Estimate,
    values: Array,
    known_bad: Array,
    search: PatchSearch,
    seconds: float | None,
    report: Report,
) -> Estimate:
    """Return a better estimate if the image was corrupted before it was saved as JPEG.

    This applies to 8-bit images of one or three channels that are no graphics, because
    a graphic has exact values. The image is tested only if the first estimate contains
    corruption, or if most blocks have the flat spectrum of impulses; clean images are
    unchanged. The work ends after the given number of ``seconds``, if any.
    """
    started = time.perf_counter()
    may_be_jpeg = values.dtype == np.uint8 and values.shape[2] in (1, 3)
    if not (may_be_jpeg and estimate.complete) or estimate.is_graphic:
        return estimate
    rounding_std = None
    if estimate.mask.any():
        rounding_std = jpeg_rounding_std(values, estimate.mask & ~known_bad)
    if rounding_std is None:
        pixels = blocks_with_flat_spectrum(values)
        rounding_std = None if pixels is None else jpeg_rounding_std(values, pixels)
    if rounding_std is None:
        return estimate

    def keep_going(done: float) -> bool:
        late = seconds is not None and time.perf_counter() - started > seconds
        return report(done, NOTE) and not late

    repaired = repair_jpeg(
        estimate, values, known_bad, rounding_std, search, keep_going
    )
    report(1.0, NOTE)
    if not _has_heavy_tails(luma(values) - luma(repaired.image)):
        return replace(estimate, complete=repaired.complete)
    return repaired


def _has_heavy_tails(difference: Array) -> bool:
    """Return whether a difference of images has the heavy tails of impulses."""
    low, high = np.quantile(np.abs(difference), (0.25, 0.99))
    return bool(high > MIN_TAIL_RATIO * max(low, 0.5))  # half a grey level: rounding


def repair_jpeg(
    estimate: Estimate,
    values: Array,
    known_bad: Array,
    rounding_std: float,
    search: PatchSearch,
    keep_going: Callable[[float], bool],
) -> Estimate:
    """Restore an image that was corrupted before it was saved as JPEG, tile by tile.

    Parameters
    ----------
    estimate : Estimate
        The first estimate, which is kept in tiles that are not reached.
    values, known_bad : ndarray of shape (rows, columns, channels)
        The image, of 8 bits and one or three channels, and its known-bad values.
    rounding_std : float
        Standard deviation of JPEG's rounding, in grey levels.
    search : PatchSearch
        Effort of the comparison of patches.
    keep_going : callable
        Called with the fraction of the work done; returns False to stop.
    """
    unit = values.astype(np.float32) / 255
    out, mask = estimate.image.copy(), estimate.mask.copy()
    probability, complete = estimate.probability.copy(), True
    tiles = list(_tiles(*values.shape[:2]))
    for number, tile in enumerate(tiles):

        def keep_going_here(done: float = number / len(tiles)) -> bool:
            nonlocal complete
            complete = complete and keep_going(done)
            return complete

        if number and not keep_going_here():
            break
        core, padded, inside = tile.core, tile.padded, tile.core_in_padded
        image, impulse_probability = _repair_tile(
            unit[padded],
            ~known_bad[padded],
            rounding_std / 255,
            search,
            keep_going_here,
        )
        affected = _affected_cells(impulse_probability)
        affected = affected | known_bad[padded].any(axis=2, keepdims=True)
        rounded = np.rint(255 * np.clip(image, 0, 1)).astype(values.dtype)[inside]
        out[core] = np.where(affected[inside], rounded, values[core])
        calibrated = _calibrate(impulse_probability[inside])
        probability[core] = np.where(known_bad[core], 1, calibrated)
        mask[core] = probability[core] > MIN_FLAGGED_PROBABILITY
    return replace(
        estimate, image=out, mask=mask, probability=probability, complete=complete
    )


def _tiles(rows: int, columns: int) -> Iterator[Tile]:
    """Yield tiles whose cores start at multiples of a cell."""
    for down in _cut_axis(rows):
        for across in _cut_axis(columns):
            yield Tile(*zip(down, across, strict=True))


def _cut_axis(length: int) -> Iterator[tuple[slice, slice, slice]]:
    for start in range(0, length, TILE_SIDE):
        stop = min(start + TILE_SIDE, length)
        low, high = max(start - TILE_OVERLAP, 0), min(stop + TILE_OVERLAP, length)
        yield slice(start, stop), slice(low, high), slice(start - low, stop - low)


def _affected_cells(impulse_probability: Array) -> Array:
    """Return which values lie in a cell that contains corruption."""
    rows, columns, channels = impulse_probability.shape
    side = CELL_SIDE if channels > 1 else CELL_SIDE // 2
    tops, lefts = np.arange(0, rows, side), np.arange(0, columns, side)
    per_pixel = impulse_probability.max(axis=2)
    expected = np.add.reduceat(np.add.reduceat(per_pixel, tops, 0), lefts, 1)
    affected = (expected > MIN_IMPULSES_PER_CELL).repeat(side, 0).repeat(side, 1)
    affected = affected[:rows, :columns, None]
    in_all_channels: Array = np.broadcast_to(affected, impulse_probability.shape)
    return in_all_channels


def _calibrate(probability: Array) -> Array:
    """Return calibrated probabilities that values are impulses."""
    log_odds = logit(np.clip(probability, 1e-6, 1 - 1e-6))
    calibrated: Array = expit(CALIBRATION_SLOPE * log_odds + CALIBRATION_OFFSET)
    return calibrated


def _repair_tile(
    y: Array,
    valid: Array,
    rounding_std: float,
    search: PatchSearch,
    keep_going: KeepGoing,
) -> tuple[Array, Array]:
    """Return the restored tile and the probability that each value is an impulse."""
    rounding_variance = rounding_std**2
    passes = min(search.passes, MAX_LUMA_PASSES)
    valid_pixels: Array = np.min(valid, axis=2, keepdims=True)
    if y.shape[2] == 1:
        initial = _initial_luma(y, valid_pixels, rounding_variance, keep_going)
        grey = _restore_luma(
            y, valid_pixels, initial, rounding_variance, search, passes, keep_going
        )
        return grey.image, grey.impulse_probability
    rows, columns, _ = y.shape
    pad = ((0, rows % 2), (0, columns % 2), (0, 0))
    y, valid_pixels = np.pad(y, pad, "edge"), np.pad(valid_pixels, pad, "edge")
    planes = (undo_clipping(y) @ TO_YCBCR.T).astype(np.float32)
    luma_plane, chroma = planes[..., :1], invert_upsample(planes[..., 1:])
    valid_chroma = downsample(valid_pixels.astype(np.float32)) > 0.99
    initial = _initial_luma(luma_plane, valid_pixels, rounding_variance, keep_going)
    luma_fit = _restore_luma(
        luma_plane, valid_pixels, initial, rounding_variance, search, 2, keep_going
    )
    surviving = _surviving_fraction(luma_plane, luma_fit.image)
    chroma_fit = None
    for _ in range(2 if passes > 2 else 1):
        # An impulse is in both luma and chroma. The mixture of one has different
        # weights for each class of residuals of the other.
        residual = np.abs(luma_plane - luma_fit.image) / rounding_std
        chroma_fit = _restore_chroma(
            chroma,
            valid_chroma,
            luma_fit.image,
            surviving,
            rounding_variance,
            _residual_class(_max_of_2x2(residual)),
            search,
            keep_going,
        )
        residual = np.abs(chroma - chroma_fit).max(axis=2, keepdims=True) / rounding_std
        luma_fit = _restore_luma(
            luma_plane,
            valid_pixels,
            (luma_fit.prediction, luma_fit.variance),
            rounding_variance,
            search,
            passes // 2,
            keep_going,
            _residual_class(residual).repeat(2, 0).repeat(2, 1),
        )
    assert chroma_fit is not None
    ycbcr = np.concatenate([luma_fit.image, upsample(chroma_fit)], axis=2)
    image = ycbcr @ TO_RGB.T
    impulse_probability = np.repeat(luma_fit.impulse_probability, 3, axis=2)
    return image[:rows, :columns], impulse_probability[:rows, :columns]


def _residual_class(residual: Array) -> Array:
    """Return the class of each residual, given in standard deviations."""
    classes: Array = np.digitize(residual[..., 0], RESIDUAL_CLASS_BOUNDS)
    return classes


def _max_of_2x2(a: Array) -> Array:
    """Return the maxima over 2×2 pixels."""
    rows = np.maximum(a[::2], a[1::2])
    maxima: Array = np.maximum(rows[:, ::2], rows[:, 1::2])
    return maxima


def _initial_luma(
    y: Array, valid: Array, rounding_variance: float, keep_going: KeepGoing
) -> tuple[Array, Array]:
    """Return a smooth initial estimate of luma, and its variance."""
    prediction, _ = full_pass(
        y,
        valid,
        CorruptionMixture(y, valid),
        lambda clean_probability: keep_going(),
        noise=rounding_variance,
    )
    return prediction, np.full(y.shape, INITIAL_VARIANCE, np.float32)


def _restore_luma(
    y: Array,
    valid: Array,
    initial: tuple[Array, Array],
    rounding_variance: float,
    search: PatchSearch,
    passes: int,
    keep_going: KeepGoing,
    residual_class: Array | None = None,
) -> PlaneEstimate:
    """Restore one plane from an initial prediction and its variance.

    Patches predict the plane again as long as the likelihood grows. With every pass
    more of the small and rare detail would be classified as impulses.
    """

    def fit_mixture(prediction: Array, variance: Array) -> ScaleMixture:
        residual = y[..., 0] - prediction[..., 0]
        return ScaleMixture.fit(
            residual, variance[..., 0], rounding_variance, residual_class
        )

    prediction, variance = initial
    mixture = fit_mixture(prediction, variance)
    precision = _observation_precision(mixture, valid)
    for number in range(passes):
        if not keep_going():
            break
        image = _posterior_mean(y, precision, prediction, variance)
        new_prediction, new_variance = predict_from_patches(
            image, y, 1 / precision, search
        )
        new_variance *= np.float32(VARIANCE_INFLATION)
        new_mixture = fit_mixture(new_prediction, new_variance)
        # The initial estimate used the values themselves: it does not compare.
        if number and new_mixture.mean_log_likelihood < mixture.mean_log_likelihood:
            break
        prediction, variance, mixture = new_prediction, new_variance, new_mixture
        precision = _observation_precision(mixture, valid)
    best = _prefer_local_means(y, precision, prediction, variance, rounding_variance)
    image = _posterior_mean(y, precision, *best)
    impulses = _impulse_components(mixture, rounding_variance)
    probability = mixture.responsibilities[impulses].sum(axis=0)[..., None]
    return PlaneEstimate(image, prediction, variance, np.where(valid, probability, 1))


def _observation_precision(mixture: ScaleMixture, valid: Array) -> Array:
    """Return the precision of each value as an observation of the clean image."""
    return np.where(valid, mixture.precision[..., None], INVALID_PRECISION)


def _posterior_mean(
    y: Array, precision: Array, prediction: Array, variance: Array
) -> Array:
    """Return the posterior mean of each value, given its observation and prediction."""
    weight = precision * variance / (1 + precision * variance)
    mean: Array = weight * y + (1 - weight) * prediction
    return mean


def _impulse_components(mixture: ScaleMixture, rounding_variance: float) -> Array:
    """Return which components are impulses: those from the least frequent upwards.

    Between ringing and impulses the weights have a minimum.
    """
    large: Array = mixture.variances > MIN_IMPULSE_STD**2 * rounding_variance
    weights = np.where(large, mixture.weights, 0)
    peak, first = int(weights.argmax()), int(large.argmax())
    if peak > first:
        large[: first + int(weights[first:peak].argmin())] = False
    return large


def _prefer_local_means(
    y: Array,
    precision: Array,
    prediction: Array,
    variance: Array,
    rounding_variance: float,
) -> tuple[Array, Array]:
    """Return the prediction, or a local mean where that predicts better.

    In smooth areas no prediction is better than a mean over many values. All
    predictions are compared by their errors at values that they do not use.
    """
    weight = np.minimum(precision * np.float32(rounding_variance), 1)
    total_weight = np.maximum(blur(weight, COMPARISON_WINDOW), 1e-6)
    best_error = blur(weight * (y - prediction) ** 2, COMPARISON_WINDOW) / total_weight
    for window in MEAN_WINDOWS:
        centre = blur(_unit_impulse(), window).max()  # the weight of the value itself
        total = np.maximum(blur(weight, window) - centre * weight, 1e-6)
        mean = (blur(weight * y, window) - centre * weight * y) / total
        error = blur(weight * (y - mean) ** 2, COMPARISON_WINDOW) / total_weight
        better = error < np.float32(MEAN_PREFERENCE) * best_error
        best_error = np.where(better, error / np.float32(MEAN_PREFERENCE), best_error)
        prediction = np.where(better, mean, prediction)
        excess = error - rounding_variance
        mean_variance = np.maximum(excess, MIN_MEAN_VARIANCE * rounding_variance)
        variance = np.where(better, mean_variance, variance)
    return prediction, variance.astype(np.float32)


def _unit_impulse() -> Array:
    """Return an image that is 1 in the middle and 0 elsewhere."""
    side = 8 * int(max(MEAN_WINDOWS))
    image = np.zeros((2 * side + 1, 2 * side + 1, 1), np.float32)
    image[side, side] = 1
    return image


def _surviving_fraction(y: Array, image: Array) -> float:
    """Return the fraction of luma that impulses left, on average.

    If a fraction p of the values is replaced by values independent of the image x, the
    observed mean is ``(1 − p) x`` plus a constant; a regression gives 1 − p. It uses
    means over many pixels, because the restored image still contains some impulses.
    """
    y, image = blur(y, SURVIVING_WINDOW), blur(image, SURVIVING_WINDOW)
    x = image - image.mean()
    slope = float((x * y).sum() / max(float((x * x).sum()), 1e-9))
    return float(np.clip(slope, 0.2, 1))


def _restore_chroma(
    y: Array,
    valid: Array,
    luma_image: Array,
    surviving: float,
    rounding_variance: float,
    residual_class: Array,
    search: PatchSearch,
    keep_going: KeepGoing,
) -> Array:
    """Restore the two chroma planes at half size, guided by the restored luma."""
    clean_variance = max(rounding_variance, MIN_CHROMA_STD**2)
    guide = downsample(luma_image)
    weight = valid.astype(np.float32)
    total = np.maximum(blur(weight, CHROMA_WINDOW), 1e-3)
    prediction = blur(weight * y, CHROMA_WINDOW) / total / np.float32(surviving)
    variance = np.full(y.shape, INITIAL_VARIANCE, np.float32)
    for passes_left in range(CHROMA_PASSES, -1, -1):
        noise, observed = np.empty_like(y), np.empty_like(y)
        for c in range(2):
            mixture = ScaleMixture.fit(
                y[..., c] - prediction[..., c],
                variance[..., c],
                clean_variance,
                residual_class,
            )
            # Impulses shift chroma towards grey, by 1 − surviving on average. Clean
            # values are not shifted, so the others are shifted by more.
            corrupted = max(1 - float(mixture.weights[0]), 1e-3)
            shift = min((1 - surviving) / corrupted, 0.8)
            clean = mixture.clean_probability / (clean_variance * mixture.precision)
            correction = clean + (1 - clean) / (1 - shift)
            observed[..., c] = correction * y[..., c]
            precision = np.where(valid[..., 0], mixture.precision, INVALID_PRECISION)
            noise[..., c] = correction**2 / precision
        own = variance / (noise + variance)
        image: Array = own * observed + (1 - own) * prediction
        if passes_left and keep_going():
            joint_image, joint_observed = (
                np.concatenate([guide, a], axis=2) for a in (image, observed)
            )
            guide_noise = np.full_like(guide, clean_variance)
            joint_noise = np.concatenate([guide_noise, noise], axis=2)
            joint_prediction, joint_variance = predict_from_patches(
                joint_image, joint_observed, joint_noise, search
            )
            prediction = joint_prediction[..., 1:]
            variance = joint_variance[..., 1:] * np.float32(VARIANCE_INFLATION)
    return image

"""Restore a photograph by alternating predictions and posterior probabilities.

A quick pass fits a thin-plate spline from the medians of neighbours; its result is
accepted where corruption is rare. Otherwise a full pass starts from local modes and
fits splines of decreasing stiffness. Patch passes then predict each value from similar
patches. After every prediction the mixture model of `mixture` updates the probability
that each value is clean.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.ndimage import maximum_filter

from discrepant.core.linalg import Array
from discrepant.image.restore.core.calibration import calibrate
from discrepant.image.restore.core.local_mode import local_mode
from discrepant.image.restore.core.mixture import (
    N_BINS,
    CorruptionMixture,
    CorruptionModel,
)
from discrepant.image.restore.core.residual_scale import (
    GREY_LEVEL,
    RESIDUAL_CLIP,
    SCALE_RATIO,
    blur,
    local_scale,
    local_weighted_mean,
    scale_from_variance,
)
from discrepant.image.restore.core.similar_patches import (
    MIN_VARIANCE,
    PatchSearch,
    predict_from_patches,
)
from discrepant.image.restore.core.thin_plate import (
    channel_precision,
    fit_thin_plate,
    leverage,
)
from discrepant.image.restore.estimate import TileEstimate
from discrepant.image.restore.fill import fill_gaps

# Called with the clean probabilities after each step; returns whether to continue.
Step = Callable[[Array], bool]

# `python benchmarks/images/photographs.py --constants` halves and doubles the constants
# of this folder and prints what each change costs.

# Smallest probability of being clean with which a value is kept and takes part in the
# prediction of others. One half: the more likely alternative decides.
MIN_CLEAN_PROBABILITY = 0.5
# Scale of the residuals of clean values before the first prediction, on [0, 1].
START_SCALE = 0.05
# Standard deviation, in pixels, of the Gaussian window in which the density of clean
# values is measured; the leverage of a value on the spline follows from the density.
DENSITY_WINDOW = 1.5
# Smallest fraction of a residual that is assumed to remain after the spline has been
# attracted by the value itself.
MIN_RESIDUAL_LEFT = 0.1

# Quick pass: largest corrupted fraction with which its result is accepted. Impulses
# that rare seldom touch each other.
RARE_FRACTION = 0.02
# Largest median of the corrupt-to-clean odds over all values with which the result is
# accepted. Beyond, many impulses have no value of their own (hot pixels, salt) that
# gives them away, and the patch passes find more of them.
MAX_BACKGROUND_ODDS = 0.0005
# Smallest corrupt-to-clean odds after the quick pass. If it flags hardly anything the
# odds fall so low that the patch passes would predict no value at all.
MIN_ODDS_AFTER = 0.001
# Corrupted fraction at which the quick pass is abandoned.
ABORT_FRACTION = 0.1
# Stiffness of the spline in each round: the last values of the full pass.
QUICK_STIFFNESS = (2.0, 1.0, 0.5)
# Steps of conjugate gradients in each round.
QUICK_CG_STEPS = 8
# Smallest number of rows and columns, so that every value has eight neighbours.
MIN_QUICK_SIDE = 8
# Smallest fraction of valid pixels.
MIN_VALID_FRACTION = 0.7

# Full pass: stiffness of the spline in each round. The first value bridges gaps in
# which nearly everything is corrupted, the last follows detail.
FULL_STIFFNESS = (8.0, 8.0, 4.0, 4.0, 2.0, 2.0, 1.0, 1.0, 0.5, 0.5)

# Patch passes: a squared residual counts at most as so many predicted variances.
VARIANCE_CLIP = 25.0
# Smallest scale of a residual, half a grey level.
PATCH_SCALE_FLOOR = 0.5 * GREY_LEVEL
# Where corruption is rare, only values with at least this probability of being
# corrupted are predicted.
MIN_CORRUPT_PROBABILITY = 0.002
# The same threshold as a multiple of the corrupted fraction; the smaller one holds if
# the fraction is large enough to be known.
MIN_RELATIVE_PROBABILITY = 0.15
# Change of a value between two passes, an eighth of a grey level, above which its
# neighbourhood is predicted again.
VALUE_TOLERANCE = 0.0005
# Change of a clean probability above which its neighbourhood is predicted again.
PROBABILITY_TOLERANCE = 0.01
# Root mean square change of the image, a quarter of a grey level, below which the
# passes end.
SETTLED_RMS = 1e-3


class StepBudget(Protocol):
    """Records steps and says whether there is time for more; see `Budget`."""

    @property
    def keep_going(self) -> bool:
        """Whether another step may be taken."""

    def step(self, clean_probability: Array) -> bool:
        """Record a step; return whether to continue."""


def max_steps(search: PatchSearch) -> int:
    """Return the largest number of steps that a photograph takes."""
    return len(FULL_STIFFNESS) + search.passes


def restore_photograph(
    y: Array,
    valid: Array,
    search: PatchSearch,
    budget: StepBudget,
    known_clean: Array | None = None,
) -> tuple[TileEstimate, CorruptionModel]:
    """Restore a photograph; return its estimate and the fitted corruption model.

    Parameters
    ----------
    y, valid : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and True where its values are valid.
    search : PatchSearch
        Effort of the comparison of patches.
    budget : StepBudget
        Records the steps and ends them in time.
    known_clean : ndarray of bool, optional
        Values that are certainly clean.
    """
    mixture = CorruptionMixture(y, valid, known_clean=known_clean)
    start = quick_pass(y, valid, mixture)
    is_rare = start is not None
    if start is not None:
        budget.step(start[1])
    else:
        mixture = CorruptionMixture(y, valid, known_clean=known_clean)
        start = full_pass(y, valid, mixture, budget.step)
    estimate = TileEstimate(*start, start[1] < MIN_CLEAN_PROBABILITY)
    if budget.keep_going:
        estimate = patch_passes(
            y, valid, start, mixture, search, budget.step, is_rare=is_rare
        )
    return estimate, mixture.model


def quick_pass(
    y: Array, valid: Array, mixture: CorruptionMixture
) -> tuple[Array, Array] | None:
    """Restore an image with rare corruption by three thin-plate fits.

    Parameters
    ----------
    y, valid : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and True where its values are valid.
    mixture : CorruptionMixture
        Updated with the fraction and the values of the corruption.

    Returns
    -------
    x, clean : ndarray
        The smooth image and the probability that each value is clean; or None if
        corruption is not rare.
    """
    if min(y.shape[:2]) < MIN_QUICK_SIDE or valid.mean() < MIN_VALID_FRACTION:
        return None
    from discrepant.image.restore.core.kernels import ring_median

    filled = y if valid.all() else fill_gaps(y, valid)
    x = np.empty_like(y)
    ring_median(np.ascontiguousarray(filled), x)
    x = np.where(valid, x, filled)
    odds = RARE_FRACTION / (1 - RARE_FRACTION)
    mixture.model = CorruptionModel(RARE_FRACTION, np.full(N_BINS, odds))
    start_scale = np.full(y.shape, START_SCALE, np.float32)
    scale = local_scale(y - x, valid.astype(np.float32), start_scale)
    clean = mixture.update(y - x, scale)
    if mixture.model.fraction > ABORT_FRACTION:
        return None
    precision = channel_precision(x)
    x = np.where(clean > 0.5, y, x)
    for stiffness in QUICK_STIFFNESS:
        x = fit_thin_plate(y, clean, stiffness, precision, x, QUICK_CG_STEPS)
        precision = channel_precision(x)
        residual = _leave_one_out(y - x, clean, stiffness, precision)
        scale = local_scale(residual, clean, scale)
        clean = mixture.update(residual, scale)
        if mixture.model.fraction > ABORT_FRACTION:
            return None
    model = mixture.model
    background_odds = np.median(model.value_odds)
    if model.fraction > RARE_FRACTION or background_odds > MAX_BACKGROUND_ODDS:
        return None
    mixture.model = CorruptionModel(
        model.fraction, np.maximum(model.value_odds, MIN_ODDS_AFTER)
    )
    return x, mixture.clean_posterior(residual, scale)


def full_pass(
    y: Array,
    valid: Array,
    mixture: CorruptionMixture,
    step: Step,
    noise: float = 0.0,
) -> tuple[Array, Array]:
    """Restore an image with any fraction of corruption by ten thin-plate fits.

    Parameters
    ----------
    y, valid : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and True where its values are valid.
    mixture : CorruptionMixture
        Updated with the fraction and the values of the corruption.
    step : callable
        Called with the clean probabilities after each round; returns whether to
        continue.
    noise : float
        Variance that every clean value is known to have.

    Returns
    -------
    x, clean : ndarray
        The smooth image and the probability that each value is clean.
    """
    x = local_mode(y, valid, mixture.clean_odds())
    scale = np.full(y.shape, START_SCALE, np.float32)
    clean = mixture.update(y - x, scale, n_iterations=1)
    precision = channel_precision(x)
    following = (*FULL_STIFFNESS[1:], FULL_STIFFNESS[-1])
    for number, (stiffness, next_stiffness) in enumerate(
        zip(FULL_STIFFNESS, following, strict=True)
    ):
        residual = y - x
        if number:
            residual = _leave_one_out(residual, clean, stiffness, precision)
            scale = local_scale(residual, clean, scale, noise)
        else:
            square = np.minimum(residual**2, RESIDUAL_CLIP**2 * scale**2)
            mean = float((clean * square).sum() / max(float(clean.sum()), 1e-6))
            scale = scale_from_variance(np.full(y.shape, mean, np.float32), noise)
        clean = mixture.update(residual, scale)
        x = fit_thin_plate(y, clean, next_stiffness, precision, x)
        precision = channel_precision(x)
        if not step(clean):
            break
    return x, clean


def _leave_one_out(
    residual: Array, clean: Array, stiffness: float, precision: Array
) -> Array:
    """Return residuals from a spline that is fitted to the other values only.

    The spline is attracted by the value itself, which makes its residual smaller by the
    value's leverage.
    """
    density = blur(clean, DENSITY_WINDOW)
    own = clean * leverage(density, stiffness, precision)
    residual /= np.maximum(1 - own, MIN_RESIDUAL_LEFT)
    return residual


def patch_passes(
    y: Array,
    valid: Array,
    start: tuple[Array, Array],
    mixture: CorruptionMixture,
    search: PatchSearch,
    step: Step,
    *,
    is_rare: bool = False,
) -> TileEstimate:
    """Predict values from similar patches and update their probabilities, in turn.

    A value is replaced if its expected squared error, were it kept, exceeds that of its
    prediction; where corruption is rare it must also be more likely corrupted than
    clean.

    Parameters
    ----------
    y, valid : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and True where its values are valid.
    start : (x, clean)
        Result of `quick_pass` or `full_pass`.
    mixture : CorruptionMixture
        Updated after each pass.
    search : PatchSearch
        Effort of the comparison of patches.
    step : callable
        Called with the clean probabilities after each pass; returns whether to
        continue.
    is_rare : bool
        Whether corruption is rare, so that only suspicious values are predicted.
    """
    prediction, clean = start
    variance = np.full_like(prediction, MIN_VARIANCE)
    replaced = ~valid | (clean < MIN_CLEAN_PROBABILITY)
    image = np.where(replaced, prediction, y)
    floor, ratio = np.float32(PATCH_SCALE_FLOOR**2), np.float32(SCALE_RATIO**2)
    where, predicted = np.ones(y.shape, bool), np.zeros(y.shape, bool)
    residual = scale = np.zeros_like(y)
    for _ in range(search.passes):
        if is_rare:
            where = _suspicious(valid, clean, mixture.model.fraction)
        if not where.any():
            break
        residual = y - prediction
        noise = np.where(clean > MIN_CLEAN_PROBABILITY, (1 - clean) * residual**2, -1)
        blend = np.where(valid, clean * y + (1 - clean) * prediction, prediction)
        new, new_variance = predict_from_patches(blend, y, noise, search, where)
        # Where corruption is rare, whole patches around suspicious values count as
        # predicted; otherwise only the values that still change.
        predicted = np.isfinite(new) if is_rare else where
        prediction = np.where(predicted, new, prediction)
        variance = np.where(predicted, new_variance, variance)
        residual = np.where(predicted, y - prediction, 0) if is_rare else y - prediction
        # Ratio of squared residuals to the variances that were predicted for them.
        square = np.minimum(residual**2 / variance, VARIANCE_CLIP)
        inflation = local_weighted_mean(square, clean * predicted if is_rare else clean)
        scale = np.sqrt(ratio * inflation * variance + floor)
        last_clean, clean = clean, mixture.update(residual, scale)
        if is_rare:
            clean = np.where(predicted, clean, last_clean)
        worse = (1 - clean) * residual**2 > clean * scale**2
        if is_rare:
            worse &= clean < MIN_CLEAN_PROBABILITY
        replaced = ~valid | worse
        last_image, image = image, np.where(replaced, prediction, y)
        change = np.abs(image - last_image)
        settled = float(np.mean(change**2)) < SETTLED_RMS**2
        if not step(clean) or settled:
            break
        moved = (change > VALUE_TOLERANCE) | (
            np.abs(clean - last_clean) > PROBABILITY_TOLERANCE
        )
        near = maximum_filter(moved.any(axis=2), 3)
        where = np.repeat(near[..., None], y.shape[2], axis=2)
    tested = predicted if is_rare else np.full(y.shape, predicted.any())
    clean = calibrate(clean, mixture, residual, scale, tested)
    return TileEstimate(prediction, clean, replaced)


def _suspicious(valid: Array, clean: Array, fraction: float) -> Array:
    """Return which values to predict where a small fraction is corrupted."""
    threshold = MIN_CORRUPT_PROBABILITY
    if fraction > threshold / 4:
        threshold = min(threshold, MIN_RELATIVE_PROBABILITY * fraction)
    suspicious: Array = ~valid | (clean < 1 - threshold)
    return suspicious

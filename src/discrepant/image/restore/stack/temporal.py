"""Restore frames of one scene jointly.

A clean value follows one of two predictions: that of the neighbouring frames where the
scene is static or moves as a whole, and that of its own frame where the scene changed.
A corrupted value follows neither. The probability of change is estimated locally, so
that moving objects are classified as in a single image, and static ones by all frames
together.
"""

from typing import NamedTuple

import numpy as np
from scipy.ndimage import convolve
from scipy.special import gamma

from discrepant.core.linalg import Array
from discrepant.image.restore.core.mixture import CorruptionMixture
from discrepant.image.restore.core.photograph import (
    MIN_CLEAN_PROBABILITY,
    PATCH_SCALE_FLOOR,
)
from discrepant.image.restore.core.residual_scale import (
    GREY_LEVEL,
    RESIDUAL_CLIP,
    SCALE_RATIO,
    blur,
    local_weighted_mean,
    student_density,
)
from discrepant.image.restore.detectors.weak_outliers import KERNEL
from discrepant.image.restore.stack.motion import block_motion, warp_blocks

# `python benchmarks/images/stacks.py` measures the PSNR with these constants.

# Frames before and after that predict a frame.
FRAME_REACH = 3
# Alternations of predictions and probabilities.
N_PASSES = 4
# Probability of change at first.
INITIAL_CHANGE_PROBABILITY = 0.1
# Difference between frames at which values of the first pass stop to agree.
AGREEMENT_SCALE = 0.05
# Largest difference between frames that counts: a larger one shows change or
# corruption, whatever its size.
MAX_DIFFERENCE = 0.15
# Power of the local mean squared difference with which a frame's weight falls.
WEIGHT_POWER = 2.0
# Smallest weight in the first pass of a value that its own frame classifies as
# corrupted.
MIN_INITIAL_WEIGHT = 0.5
# Degrees of freedom of Student's density for a static scene: noise has lighter tails
# than the detail of a photograph, which has 3.
STATIC_DEGREES_OF_FREEDOM = 7.0
# Smallest probability of change, and of no change.
MIN_CHANGE_PROBABILITY = 0.01
# Standard deviation, in pixels, of the Gaussian window of the probability of change:
# small, because small objects move too.
CHANGE_WINDOW = 1.5
# Likelihood ratio that change needs to count: on smooth areas both predictions are
# equally good.
MIN_CHANGE_RATIO = 3.0
# Corrupted fraction above which the prediction of the own frame is that of patches;
# below, it is a mean of the adjacent pixels.
MAX_RARE_FRACTION = 0.02

Moves = list[list[tuple[int, Array]]]


class Frame(NamedTuple):
    """One frame on [0, 1] with its restoration.

    Attributes
    ----------
    y, valid : ndarray of shape (rows, columns, channels)
        Observed values, and True where they are valid.
    prediction : ndarray
        Predicted clean values.
    clean_probability : ndarray
        Probability that each value is clean.
    replaced : ndarray of bool
        Values to replace by their prediction.
    is_graphic : bool
        True if the frame was restored as a graphic, whose values are exact.
    """

    y: Array
    valid: Array
    prediction: Array
    clean_probability: Array
    replaced: Array
    is_graphic: bool


def restore_jointly(frames: list[Frame]) -> list[Frame]:
    """Restore consecutive frames from each other; graphics are returned unchanged."""
    if len(frames) < 2 or any(frame.is_graphic for frame in frames):
        return frames
    y, valid, prediction, single_frame_probability = (
        np.stack([frame[k] for frame in frames]) for k in range(4)
    )
    stacked = (-1, *y.shape[2:])  # frames below each other, as one image
    mixture = CorruptionMixture(y.reshape(stacked), valid.reshape(stacked))
    mixture.model = mixture.fit_model(single_frame_probability.reshape(stacked))
    moves = _motion_to_neighbours(y, valid, prediction)
    from_own_frame = _predict_from_own_frame(y, prediction, single_frame_probability)
    clean_probability = single_frame_probability
    change = np.full_like(y, INITIAL_CHANGE_PROBABILITY)
    static_scale: Array | None = None
    own_scale: Array | None = None
    for number in range(N_PASSES):
        from_frames = _predict_from_frames(y, clean_probability, moves, number == 0)
        static_scale = _scale(y - from_frames, clean_probability, static_scale)
        own_scale = _scale(y - from_own_frame, clean_probability, own_scale)
        static = (1 - change) * _static_density(y - from_frames, static_scale)
        changed = change * student_density(y - from_own_frame, own_scale)
        density = (static + changed).reshape(stacked)
        clean = mixture.update_from_density(density).reshape(y.shape)
        change = _change_probability(static, changed, clean)
        clean_probability = clean + change * (single_frame_probability - clean)
        if len(y) == 2:  # both may be corrupted alike
            clean_probability = np.minimum(clean_probability, single_frame_probability)
    assert static_scale is not None and own_scale is not None
    # Combine the two predictions by their precisions.
    weight = (1 - change) / static_scale**2
    combined = weight * from_frames + prediction / own_scale**2
    combined = combined / (weight + 1 / own_scale**2)
    replaced = ~valid | (clean_probability < MIN_CLEAN_PROBABILITY)
    return [
        Frame(*arrays, False)
        for arrays in zip(y, valid, combined, clean_probability, replaced, strict=True)
    ]


def _motion_to_neighbours(y: Array, valid: Array, prediction: Array) -> Moves:
    """Return for each frame the neighbouring frames and its motion to them.

    Observed values are matched, not restored ones: detail that a single frame
    classifies as corrupted would be missing in some frames only.
    """
    observed = np.where(valid, y, prediction).mean(axis=3)
    count = min(2 * FRAME_REACH + 1, len(y))
    moves = []
    for t in range(len(y)):
        first = min(max(t - FRAME_REACH, 0), len(y) - count)
        neighbours = [s for s in range(first, first + count) if s != t]
        moves.append([(s, block_motion(observed[t], observed[s])) for s in neighbours])
    return moves


def _predict_from_frames(
    y: Array, clean_probability: Array, moves: Moves, first_pass: bool
) -> Array:
    """Return the prediction of each value of each frame from its neighbouring frames.

    The weight of a neighbouring frame falls with its local difference. In the first
    pass, when detail may be classified as corrupted in every frame, every frame has
    some weight, and the value on which most frames agree is the prediction.
    """
    predictions = np.empty_like(y)
    floor, max_square = np.float32(GREY_LEVEL**2), np.float32(MAX_DIFFERENCE**2)
    for t, neighbours in enumerate(moves):
        values, weights = [], []
        for s, displacement in neighbours:
            there, clean = warp_blocks(y[s], clean_probability[s], displacement)
            square = np.minimum((there - y[t]) ** 2, max_square)
            both_clean = clean * clean_probability[t]
            distance = local_weighted_mean(square, both_clean) + floor
            if first_pass:
                clean = np.maximum(clean, np.float32(MIN_INITIAL_WEIGHT))
            values.append(there)
            weights.append(clean * (floor / distance) ** np.float32(WEIGHT_POWER))
        average = _weighted_mode if first_pass else _weighted_mean
        predictions[t] = average(np.stack(values), np.stack(weights))
    return predictions


def _weighted_mean(values: Array, weights: Array) -> Array:
    """Return the weighted mean over the first axis; 0.5 where all weights vanish."""
    total = weights.sum(axis=0)
    mean = (weights * values).sum(axis=0) / np.maximum(total, np.float32(1e-12))
    defined: Array = np.where(total > 1e-9, mean, np.float32(0.5))
    return defined


def _weighted_mode(values: Array, weights: Array) -> Array:
    """Return the mean of the values that agree with the best supported one."""
    best_support = np.zeros_like(values[0])
    mode: Array = np.full_like(values[0], 0.5)
    for value in values:
        square = (values - value) ** 2
        agreeing = weights * np.exp(-square / np.float32(AGREEMENT_SCALE**2))
        support = agreeing.sum(axis=0)
        mean = (agreeing * values).sum(axis=0) / np.maximum(support, np.float32(1e-12))
        mode = np.where(support > best_support, mean, mode)
        best_support = np.maximum(best_support, support)
    return mode


def _predict_from_own_frame(
    y: Array, prediction: Array, clean_probability: Array
) -> Array:
    """Return the prediction of each value from the other values of its own frame."""
    if 1 - clean_probability.mean() > MAX_RARE_FRACTION:
        return prediction
    restored = np.where(clean_probability > MIN_CLEAN_PROBABILITY, y, prediction)
    kernel = KERNEL.astype(np.float32)[None, :, :, None]
    from_ring: Array = convolve(restored, kernel, mode="mirror")
    return from_ring


def _scale(residual: Array, clean_probability: Array, previous: Array | None) -> Array:
    """Return the local scale of clean residuals, which are clipped."""
    square = residual**2
    if previous is None:
        std = np.sqrt(np.median(square, axis=(1, 2, 3), keepdims=True)) / 0.6745
        previous = np.maximum(std, GREY_LEVEL)
    square = np.minimum(square, (RESIDUAL_CLIP * previous) ** 2)
    floor = np.float32(PATCH_SCALE_FLOOR**2)
    means = [
        local_weighted_mean(a, weight)
        for a, weight in zip(square, clean_probability, strict=True)
    ]
    scale: Array = np.float32(SCALE_RATIO) * np.sqrt(np.stack(means) + floor)
    return scale


def _static_density(residual: Array, scale: Array) -> Array:
    """Return Student's density of residuals of a static scene."""
    n = STATIC_DEGREES_OF_FREEDOM
    normalisation = gamma((n + 1) / 2) / (gamma(n / 2) * np.sqrt(n * np.pi))
    z = residual / scale
    density: Array = np.float32(normalisation) / scale
    density *= (1 + z * z / np.float32(n)) ** np.float32(-(n + 1) / 2)
    return density


def _change_probability(static: Array, changed: Array, clean: Array) -> Array:
    """Return the local probability that the scene changed between frames."""
    changed = changed / np.float32(MIN_CHANGE_RATIO)
    total = np.maximum(static + changed, np.float32(1e-30))
    fractions = [
        blur(w * c / b, CHANGE_WINDOW) / np.maximum(blur(w, CHANGE_WINDOW), 0.02)
        for w, c, b in zip(clean, changed, total, strict=True)
    ]
    probability: Array = np.clip(
        np.stack(fractions), MIN_CHANGE_PROBABILITY, 1 - MIN_CHANGE_PROBABILITY
    )
    return probability

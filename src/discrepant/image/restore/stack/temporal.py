"""Frames of one scene: what the others say of each value of one.

A clean value follows one of two predictions. Where the scene is still, or moved as a
whole, that of the frames before and after; where it changed, that of its surroundings
in its own frame. A wrong one follows neither. How often the scene changed is learned
around each value, so that what moves is judged as in a single image, and what stands
still by all frames together.
"""

from dataclasses import dataclass
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
from discrepant.image.restore.stack.motion import motion, moved


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/detectors.py` shows what it gives.

    Attributes
    ----------
    reach : int
        Frames before and after that are asked.
    passes : int
        How often predictions and judgements follow from one another.
    near : float
        Values that differ by less, at first, agree.
    clip : float
        Differences beyond this say that something moved or is wrong, not how far.
    sharpness : float
        A frame's say falls with this power of its mean squared difference around.
    heard : float
        The say, at first, of what the frame alone takes for corrupted.
    freedom : float
        Degrees of freedom of the errors of a still scene: noise has lighter tails than
        the detail of a photograph, which has 3.
    change : float
        The chance, at least, that the scene changed at a value.
    window : float
        Pixels of the Gaussian over which the chance of change is taken: small things
        move too.
    unsure : float
        Times which a change must be the likelier of the two to count as one: on flat
        ground both predictions are as good.
    dense : float
        Share of corruption beyond which every value was predicted from patches; below,
        from a few values around it.
    """

    reach: int = 3
    passes: int = 4
    clip: float = 0.15
    sharpness: float = 2.0
    heard: float = 0.5
    near: float = 0.05
    freedom: float = 7.0
    change: float = 0.01
    window: float = 1.5
    unsure: float = 3.0
    dense: float = 0.02


TUNING = Tuning()


class Frame(NamedTuple):
    """One frame on [0, 1]: what was seen, and what the frame alone says of it."""

    y: Array  # (rows, columns, channels)
    known: Array
    guess: Array
    weight: Array
    replace: Array
    graphic: bool


def refine_in_time(frames: list[Frame]) -> list[Frame]:
    """Judge the values of consecutive frames by each other.

    What is judged as a graphic is exact in itself, and left as it is.
    """
    if len(frames) < 2 or any(frame.graphic for frame in frames):
        return frames
    y, known, guess, alone = (
        np.stack([frame[k] for frame in frames]) for k in range(4)
    )
    flat = (-1, *y.shape[2:])  # frames one below the other
    mixture = CorruptionMixture(y.reshape(flat), known.reshape(flat))
    mixture.model = mixture.fit_model(alone.reshape(flat))
    pairs = _pairs(y, known, guess)
    within = _within(y, guess, alone)
    weight, change = alone, np.full_like(y, 0.1)
    scale: Array | None = None
    spread: Array | None = None
    for number in range(TUNING.passes):
        across = _across(y, weight, pairs, number == 0)
        scale = _scales(y - across, weight, scale)
        spread = _scales(y - within, weight, spread)
        still = (1 - change) * _light_tails(y - across, scale)
        changed = change * student_density(y - within, spread)
        clean = mixture.update_from_density((still + changed).reshape(flat)).reshape(
            y.shape
        )
        change = _changes(still, changed, clean)
        weight = clean + change * (alone - clean)
        if len(y) == 2:
            weight = np.minimum(weight, alone)  # both may be wrong alike
    assert scale is not None and spread is not None
    # The better of two predictions has the greater say.
    say = (1 - change) / scale**2
    best = (say * across + guess / spread**2) / (say + 1 / spread**2)
    replace = ~known | (weight < MIN_CLEAN_PROBABILITY)
    return [
        Frame(*parts, False)
        for parts in zip(y, known, best, weight, replace, strict=True)
    ]


def _pairs(y: Array, known: Array, guess: Array) -> list[list[tuple[int, Array]]]:
    """Return for each frame which others are asked, and how it moved to them.

    What is moved is what was seen: detail that a frame alone takes for corrupted would
    be lost in some frames and not in others.
    """
    seen = np.where(known, y, guess).mean(axis=3)
    count = min(2 * TUNING.reach + 1, len(y))
    found = []
    for t in range(len(y)):
        first = min(max(t - TUNING.reach, 0), len(y) - count)
        others = [s for s in range(first, first + count) if s != t]
        found.append([(s, motion(seen[t], seen[s])) for s in others])
    return found


def _across(
    y: Array, weight: Array, pairs: list[list[tuple[int, Array]]], first: bool
) -> Array:
    """Return what the frames around predict for each value of each.

    The say of a frame falls with how far it differs from this one around there. At
    first, when detail may have been taken for corruption in every frame, each has some
    say, and what most of them agree on decides.
    """
    found = np.empty_like(y)
    least, most = np.float32(GREY_LEVEL**2), np.float32(TUNING.clip**2)
    for t, others in enumerate(pairs):
        values, says = [], []
        for s, moves in others:
            there, trust = moved(y[s], weight[s], moves)
            both = trust * weight[t]
            apart = (
                local_weighted_mean(np.minimum((there - y[t]) ** 2, most), both) + least
            )
            if first:
                trust = np.maximum(trust, np.float32(TUNING.heard))
            values.append(there)
            says.append(trust * (least / apart) ** np.float32(TUNING.sharpness))
        mean = _mode if first else _mean
        found[t] = mean(np.stack(values), np.stack(says))
    return found


def _mean(values: Array, says: Array) -> Array:
    total = says.sum(axis=0)
    mean = (says * values).sum(axis=0) / np.maximum(total, np.float32(1e-12))
    found: Array = np.where(total > 1e-9, mean, np.float32(0.5))
    return found


def _mode(values: Array, says: Array) -> Array:
    """Return the mean of those values that most agree with one of them."""
    best = np.zeros_like(values[0])
    found: Array = np.full_like(values[0], 0.5)
    for value in values:
        near = says * np.exp(-((values - value) ** 2) / np.float32(TUNING.near**2))
        support = near.sum(axis=0)
        mean = (near * values).sum(axis=0) / np.maximum(support, np.float32(1e-12))
        found = np.where(support > best, mean, found)
        best = np.maximum(best, support)
    return found


def _within(y: Array, guess: Array, weight: Array) -> Array:
    """Return what a frame alone predicts for each of its values from the others."""
    if 1 - weight.mean() > TUNING.dense:
        return guess
    cleaned = np.where(weight > MIN_CLEAN_PROBABILITY, y, guess)
    kernel = KERNEL.astype(np.float32)[None, :, :, None]
    found: Array = convolve(cleaned, kernel, mode="mirror")
    return found


def _scales(error: Array, weight: Array, before: Array | None) -> Array:
    """Return how far clean values stray, around each, from errors that are clipped."""
    square = error**2
    if before is None:
        usual = np.sqrt(np.median(square, axis=(1, 2, 3), keepdims=True)) / 0.6745
        before = np.maximum(usual, GREY_LEVEL)
    square = np.minimum(square, (RESIDUAL_CLIP * before) ** 2)
    ratio, floor = SCALE_RATIO, np.float32(PATCH_SCALE_FLOOR**2)
    means = [local_weighted_mean(a, w) for a, w in zip(square, weight, strict=True)]
    found: Array = np.float32(ratio) * np.sqrt(np.stack(means) + floor)
    return found


def _light_tails(error: Array, scale: Array) -> Array:
    """Return Student's density with more degrees of freedom than a photograph has."""
    n = TUNING.freedom
    unit = gamma((n + 1) / 2) / (gamma(n / 2) * np.sqrt(n * np.pi))
    z = error / scale
    found: Array = np.float32(unit) / scale
    found *= (1 + z * z / np.float32(n)) ** np.float32(-(n + 1) / 2)
    return found


def _changes(still: Array, changed: Array, clean: Array) -> Array:
    """Return the chance that the scene changed, around each value."""
    changed = changed / np.float32(TUNING.unsure)
    both = np.maximum(still + changed, np.float32(1e-30))
    share = [
        blur(w * c / b, TUNING.window) / np.maximum(blur(w, TUNING.window), 0.02)
        for w, c, b in zip(clean, changed, both, strict=True)
    ]
    found: Array = np.clip(np.stack(share), TUNING.change, 1 - TUNING.change)
    return found

"""Restore a stack of frames of one scene, tile by tile through time.

Each tile of a frame is restored alone, then jointly with the frames before and after
(`temporal`), a few frames at a time, so that memory is bounded. Pixels that are
defective in every frame are detected beforehand in a trimmed mean over time, in which
noise is small and a moving scene is blurred.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.core.validation import check_mapped
from discrepant.image.restore.budget import Budget
from discrepant.image.restore.core.photograph import max_steps
from discrepant.image.restore.core.similar_patches import PatchSearch
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.detectors.weak_outliers import with_weak_outliers
from discrepant.image.restore.intensity_scale import IntensityScale
from discrepant.image.restore.restore_tiles import restore_tile, restore_tiled
from discrepant.image.restore.stack.temporal import (
    FRAME_REACH,
    Frame,
    restore_jointly,
)
from discrepant.image.restore.tiling import Place, Tile, tiles

# Frames that are restored jointly at a time, beside the neighbours that predict them.
FRAMES_PER_GROUP = 6
# Largest number of frames, evenly spaced, in the trimmed mean over time.
MAX_SAMPLED_FRAMES = 48
# Frames that the detection of fixed defects needs.
MIN_FRAMES_FOR_FIXED_DEFECTS = 3
# Fraction of the frames in which a fixed defect must be nearer to its mean value than
# to the restored one; noise moves weak defects beyond in some frames.
MIN_AGREEING_FRACTION = 0.75
# Largest number of sampled frames that the intensity scale is fitted to.
MAX_SCALE_FRAMES = 8


@dataclass(frozen=True, eq=False)
class FrameStack:
    """A stack and the arrays for its restoration.

    All arrays have shape (frames, rows, columns, channels) and may be memory-mapped.
    ``values`` and ``known_bad`` are read; ``image``, ``mask`` and ``probability`` are
    written.
    """

    detector: Detector
    values: Array
    known_bad: Array
    image: Array
    mask: Array
    probability: Array

    def is_known_bad(self, t: int, place: Place) -> Array:
        """Return which values of a part of a frame are known bad or not finite."""
        values = self.values[t][place]
        known_bad: Array = self.known_bad[t][place] != 0
        if values.dtype.kind == "f":
            known_bad = known_bad | ~np.isfinite(values)
        return known_bad

    def is_saturated(self, t: int, place: Place) -> Array:
        """Return which values of a part of a frame are saturated and not known bad."""
        values = self.values[t][place]
        known_bad = self.is_known_bad(t, place)
        saturated: Array = self.detector.is_saturated(values) & ~known_bad
        return saturated

    def sampled_frames(self) -> Array:
        """Return the indices of evenly spaced frames."""
        count = min(MAX_SAMPLED_FRAMES, len(self.values))
        return np.unique(np.linspace(0, len(self.values) - 1, count).astype(int))


def stack_budget(
    shape: tuple[int, ...],
    n_stacks: int,
    search: PatchSearch,
    time_limit: float | None,
    report: Report,
) -> Budget:
    """Return the budget for a number of stacks of the given shape."""
    n_tiles = n_stacks * shape[0] * len(_stack_tiles(shape))
    return Budget(report, n_tiles, max_steps(search), time_limit)


def restore_stack(
    stack: FrameStack, search: PatchSearch, budget: Budget, number: int
) -> None:
    """Restore a stack and write the results to its arrays.

    Parameters
    ----------
    stack : FrameStack
        The stack, and the arrays for its restoration.
    search : PatchSearch
        Effort of the comparison of patches.
    budget : Budget
        Records the steps and ends them in time.
    number : int
        Number of stacks that were restored before with the same budget.
    """
    n_frames, stack_tiles = len(stack.values), _stack_tiles(stack.values.shape)
    fixed_defects = detect_fixed_defects(stack, search)
    scale = _fit_scale(stack, fixed_defects)
    tiles_before = number * n_frames * len(stack_tiles)
    for k, tile in enumerate(stack_tiles):
        through_time = _TileThroughTime(
            stack,
            fixed_defects,
            scale,
            tile,
            search,
            budget,
            tiles_before + k * n_frames,
        )
        for t, frame in through_time.restored_frames():
            _write_tile(stack, t, tile, frame, scale)


def _stack_tiles(shape: tuple[int, ...]) -> list[Tile]:
    """Return tiles so small that a group of frames takes no more memory than a tile."""
    frames_in_memory = FRAMES_PER_GROUP + 2 * FRAME_REACH
    _, rows, columns, channels = shape
    return list(tiles(rows, columns, channels * frames_in_memory))


def detect_fixed_defects(stack: FrameStack, search: PatchSearch) -> Array:
    """Return which values are defective in nearly every frame of a stack."""
    n_frames, *shape = stack.values.shape
    fixed = np.zeros(shape, bool)
    if n_frames < MIN_FRAMES_FOR_FIXED_DEFECTS or stack.values.dtype.kind == "b":
        return fixed
    mean = np.zeros(shape, np.float32)
    rows, columns, channels = shape
    places = list(tiles(rows, columns, channels * len(stack.sampled_frames())))
    for tile in places:
        mean[tile.core] = _trimmed_mean(_sample(stack, tile.core))
    estimate = restore_tiled(mean, fixed, search, None, lambda done, note: True)
    if estimate.is_graphic or estimate.undetermined:
        return fixed
    # The noise of a mean over time is not that of the detector.
    without_gain = Detector(stack.detector.sensitivity)
    estimate = with_weak_outliers(estimate, mean, fixed, without_gain)
    excess = np.abs(mean - estimate.image)
    for tile in places:
        # Impulses of single frames that coincide at a pixel deviate by other amounts.
        deviation = np.abs(_sample(stack, tile.core) - mean[tile.core])
        agreeing = (deviation < excess[tile.core] / 2).mean(axis=0)
        is_fixed = agreeing >= MIN_AGREEING_FRACTION
        fixed[tile.core] = estimate.mask[tile.core] & is_fixed
    return fixed


def _sample(stack: FrameStack, place: Place) -> Array:
    """Return a part of the sampled frames, in single precision."""
    values = np.stack([stack.values[t][place] for t in stack.sampled_frames()])
    return np.nan_to_num(values.astype(np.float32))


def _trimmed_mean(values: Array) -> Array:
    """Return the mean over time of the middle half of the values of each pixel."""
    quarter = max(len(values) // 4, 1)
    middle: Array = np.sort(values, axis=0)[quarter : len(values) - quarter]
    mean: Array = middle.mean(axis=0)
    return mean


def _fit_scale(stack: FrameStack, fixed_defects: Array) -> IntensityScale:
    """Fit one intensity scale for all frames to some of them."""
    sampled = stack.sampled_frames()
    subset = sampled[:: -(-len(sampled) // MAX_SCALE_FRAMES)]
    everywhere = (slice(None), slice(None))
    values = [stack.values[t] for t in subset]
    known_bad = [stack.is_known_bad(t, everywhere) | fixed_defects for t in subset]
    return IntensityScale.fit(np.concatenate(values), np.concatenate(known_bad))


@dataclass(eq=False)
class _TileThroughTime:
    """One tile in all frames; ``tiles_before`` counts those restored before it."""

    stack: FrameStack
    fixed_defects: Array
    scale: IntensityScale
    tile: Tile
    search: PatchSearch
    budget: Budget
    tiles_before: int

    def restored_frames(self) -> Iterator[tuple[int, Frame]]:
        """Yield the index and the joint restoration of each frame, group by group."""
        n_frames = len(self.stack.values)
        single: dict[int, Frame] = {}
        for start in range(0, n_frames, FRAMES_PER_GROUP):
            stop = min(start + FRAMES_PER_GROUP, n_frames)
            low, high = max(start - FRAME_REACH, 0), min(stop + FRAME_REACH, n_frames)
            single = {
                t: single[t] if t in single else self.restore_single(t)
                for t in range(low, high)
            }
            restored = restore_jointly(list(single.values()))
            yield from ((t, restored[t - low]) for t in range(start, stop))

    def restore_single(self, t: int) -> Frame:
        """Restore the tile of one frame without the other frames."""
        check_mapped(self.stack.values)
        padded = self.tile.padded
        y = self.scale.to_unit(self.stack.values[t][padded])
        valid = ~(self.stack.is_known_bad(t, padded) | self.fixed_defects[padded])
        valid &= ~self.stack.is_saturated(t, padded)
        if not self.budget.start_tile(self.tiles_before + t):
            # Out of time: the frame stays unchanged and predicts no other frame.
            grey = np.where(valid, y, np.float32(0.5))
            return Frame(y, valid, grey, valid.astype(np.float32), ~valid, True)
        levels = self.scale.levels
        estimate = restore_tile(y, valid, levels, self.search, self.budget)
        return Frame(
            y,
            valid,
            estimate.prediction,
            estimate.clean_probability,
            estimate.replaced,
            estimate.is_graphic,
        )


def _write_tile(
    stack: FrameStack, t: int, tile: Tile, frame: Frame, scale: IntensityScale
) -> None:
    """Write the restored tile of a frame to the arrays of the stack."""
    check_mapped(stack.values)
    core, inside = tile.core, tile.core_in_padded
    saturated = stack.is_saturated(t, core)
    replaced = frame.replaced[inside] & ~saturated
    prediction = scale.from_unit(frame.prediction[inside])
    stack.image[t][core] = np.where(replaced, prediction, stack.values[t][core])
    stack.mask[t][core] = replaced
    clean = np.where(frame.valid, frame.clean_probability, 0)
    stack.probability[t][core] = np.where(saturated, 0, 1 - clean[inside])

"""Stacks and bursts: tile by tile, each through all frames, in bounded memory.

Of each frame a tile is restored by itself (`tile`), then judged by the frames before
and after (`temporal`). A pixel that is wrong in every frame is found beforehand, in
what is common to all frames: there the noise is small, and a scene that moves is
blurred.
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
from discrepant.image.restore.stack.temporal import TUNING as TIME
from discrepant.image.restore.stack.temporal import Frame, refine_in_time
from discrepant.image.restore.tiling import Tile, tiles


@dataclass(frozen=True)
class Tuning:
    """How a stack is cut.

    Attributes
    ----------
    frames : int
        Frames that are judged at a time, beside those around that are asked.
    sample : int
        Frames, evenly chosen, of which the common part is taken.
    fewest : int
        Frames that are needed for a common part.
    alike : float
        Share of the frames in which a fixed fault is nearer to its usual value than to
        what should be there: noise takes some of the weak ones beyond.
    toned : int
        Frames of the sample that say, at most, how far values reach.
    """

    frames: int = 6
    sample: int = 48
    fewest: int = 3
    alike: float = 0.75
    toned: int = 8


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class FrameStack:
    """A stack, and where what is made of it goes.

    All are of shape (frames, rows, columns, channels) and may lie in files: ``values``
    and ``bad`` are read; ``image``, ``mask`` and ``probability`` are written.
    """

    detector: Detector
    values: Array
    bad: Array
    image: Array
    mask: Array
    probability: Array

    def marked(self, t: int, place: tuple[slice, slice]) -> Array:
        """Return which values of a part of a frame are known to be wrong."""
        values = self.values[t][place]
        marks: Array = self.bad[t][place] != 0
        if values.dtype.kind == "f":
            marks = marks | ~np.isfinite(values)
        return marks

    def full(self, t: int, place: tuple[slice, slice]) -> Array:
        """Return which values of a part of a frame are saturated, and not wrong."""
        values = self.values[t][place]
        full: Array = self.detector.is_saturated(values) & ~self.marked(t, place)
        return full

    def sample(self) -> Array:
        """Return which frames stand for all."""
        count = min(TUNING.sample, len(self.values))
        return np.unique(np.linspace(0, len(self.values) - 1, count).astype(int))


def stack_budget(
    shape: tuple[int, ...],
    stacks: int,
    search: PatchSearch,
    time_limit: float | None,
    report: Report,
) -> Budget:
    """Return the rounds that so many stacks of a shape take."""
    n_tiles = stacks * shape[0] * len(_places(shape))
    return Budget(report, n_tiles, max_steps(search), time_limit)


def restore_stack(
    stack: FrameStack, search: PatchSearch, budget: Budget, number: int
) -> None:
    """Restore a stack.

    Parameters
    ----------
    stack : Frames
        What is restored, and where the result goes.
    search : PatchSearch
        How thoroughly.
    budget : Budget
        Told of each round; says whether to go on.
    number : int
        How many such stacks were restored before.
    """
    frames, places = len(stack.values), _places(stack.values.shape)
    fixed = _fixed(stack, search)
    tone = _tone(stack, fixed)
    begun = number * frames * len(places)
    for k, place in enumerate(places):
        tile = _Column(stack, fixed, tone, place, search, budget, begun + k * frames)
        for t, frame in tile.through():
            _put(stack, t, place, frame, tone)


def _places(shape: tuple[int, ...]) -> list[Tile]:
    """Return where the tiles lie: of all frames that are held, no more than usual."""
    together = TUNING.frames + 2 * TIME.reach
    _, rows, columns, channels = shape
    return list(tiles(rows, columns, channels * together))


def _tone(stack: FrameStack, fixed: Array) -> IntensityScale:
    """Return one map to [0, 1] for all frames, from some."""
    sample = stack.sample()
    some = sample[:: -(-len(sample) // TUNING.toned)]
    everywhere = (slice(None), slice(None))
    values = [stack.values[t] for t in some]
    bad = [stack.marked(t, everywhere) | fixed for t in some]
    return IntensityScale.fit(np.concatenate(values), np.concatenate(bad))


@dataclass(eq=False)
class _Column:
    """One tile, through all frames."""

    stack: FrameStack
    fixed: Array
    tone: IntensityScale
    place: Tile
    search: PatchSearch
    budget: Budget
    begun: int

    def through(self) -> Iterator[tuple[int, Frame]]:
        """Yield the frames as they are judged, a few at a time."""
        last = len(self.stack.values)
        held: dict[int, Frame] = {}
        for start in range(0, last, TUNING.frames):
            stop = min(start + TUNING.frames, last)
            low, high = max(start - TIME.reach, 0), min(stop + TIME.reach, last)
            held = {
                t: held[t] if t in held else self.alone(t) for t in range(low, high)
            }
            judged = refine_in_time(list(held.values()))
            yield from ((t, judged[t - low]) for t in range(start, stop))

    def alone(self, t: int) -> Frame:
        """Restore the tile of one frame by itself."""
        check_mapped(self.stack.values)
        seen = self.place.padded
        y = self.tone.to_unit(self.stack.values[t][seen])
        known = ~(self.stack.marked(t, seen) | self.fixed[seen])
        known &= ~self.stack.full(t, seen)
        if not self.budget.start_tile(self.begun + t):
            # No time: it stays as it is, and says nothing of the others.
            grey = np.where(known, y, np.float32(0.5))
            return Frame(y, known, grey, known.astype(np.float32), ~known, True)
        tile = restore_tile(y, known, self.tone.levels, self.search, self.budget)
        return Frame(
            y,
            known,
            tile.prediction,
            tile.clean_probability,
            tile.replaced,
            tile.is_graphic,
        )


def _put(
    stack: FrameStack, t: int, place: Tile, frame: Frame, tone: IntensityScale
) -> None:
    """Write what was made of a tile of a frame."""
    check_mapped(stack.values)
    own, within = place.core, place.core_in_padded
    full = stack.full(t, own)
    wrong = frame.replace[within] & ~full
    mended = tone.from_unit(frame.guess[within])
    stack.image[t][own] = np.where(wrong, mended, stack.values[t][own])
    stack.mask[t][own] = wrong
    clean = np.where(frame.known, frame.weight, 0)
    stack.probability[t][own] = np.where(full, 0, 1 - clean[within])


def _fixed(stack: FrameStack, search: PatchSearch) -> Array:
    """Return which values are wrong in every frame."""
    frames, *shape = stack.values.shape
    found = np.zeros(shape, bool)
    if frames < TUNING.fewest or stack.values.dtype.kind == "b":
        return found
    common = np.zeros(shape, np.float32)
    rows, columns, channels = shape
    places = list(tiles(rows, columns, channels * len(stack.sample())))
    for place in places:
        common[place.core] = _common(_sampled(stack, place.core))
    made = restore_tiled(common, found, search, None, lambda share, note: True)
    if made.is_graphic or made.undetermined:
        return found
    # The noise of a mean over time is not the detector's.
    made = with_weak_outliers(made, common, found, Detector(stack.detector.sensitivity))
    excess = np.abs(common - made.image)
    for place in places:
        # Wrong in nearly every frame, by as much: no impulses that fell on one place.
        stray = np.abs(_sampled(stack, place.core) - common[place.core])
        alike = (stray < excess[place.core] / 2).mean(axis=0) >= TUNING.alike
        found[place.core] = made.mask[place.core] & alike
    return found


def _sampled(stack: FrameStack, place: tuple[slice, slice]) -> Array:
    values = np.stack([stack.values[t][place] for t in stack.sample()])
    return np.nan_to_num(values.astype(np.float32))


def _common(values: Array) -> Array:
    """Return the mean of the middle half of the values that a pixel has over time."""
    quarter = max(len(values) // 4, 1)
    middle: Array = np.sort(values, axis=0)[quarter : len(values) - quarter]
    mean: Array = middle.mean(axis=0)
    return mean

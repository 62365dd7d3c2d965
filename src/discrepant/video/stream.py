"""Frames in, masks out: one frame at a time, in memory that does not grow."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discrepant.errors import InputError
from discrepant.linalg import Array
from discrepant.matrix.sweep.workers import ONE_BLAS_THREAD
from discrepant.video.bands import Band, Bands
from discrepant.video.foreground import Foreground
from discrepant.video.frames import Levels, Source, ahead
from discrepant.video.model import TUNING, Background, Place, Tuning
from discrepant.video.motion import Steadiness


class Separator:
    """Tell background from foreground, one frame after the other.

    Parameters
    ----------
    first : ndarray of shape (frames, rows, columns, channels)
        The first frames, or some that lie ahead, in grey levels.
    age : float
        For how many frames the plate that they give counts as seen.
    """

    def __init__(self, first: Array, age: float, tuning: Tuning = TUNING) -> None:
        self.tuning = tuning
        shape = first.shape[1:]
        self._bands = Bands(shape)
        self.scene = Background(first, age, self._bands, tuning)
        self.expected = np.empty(shape, np.float32)
        self.front = Foreground(shape, tuning)
        self._recent: deque[tuple[Array, Array]] = deque(maxlen=tuning.window)
        self._count = 0

    def judge(self, frame: Array) -> Place:
        """Judge one frame and learn from it; `expected` and `front` then hold it."""
        scene, front = self.scene, self.front
        place = scene.locate(frame)

        self._bands.each(lambda band: scene.expect(place, self.expected, band))
        # Judging a band looks at the rows beside it: all must be there.
        self._bands.each(lambda band: front.judge(frame, self.expected, scene, band))
        front.tidy(frame, self.expected)
        gain = scene.gain_of(place.c)

        def learn(band: Band) -> None:
            front.trim(frame, self.expected, band)
            hidden = front.covered, front.raw, front.haste
            scene.learn(frame, self.expected, *hidden, place, gain, band)

        self._bands.each(learn)
        self._recent.append((frame, front.covered.copy()))
        self._count += 1
        if self._count % self.tuning.window == 0:
            scene.drop()
            scene.extend(list(self._recent))
        return place

    def close(self) -> None:
        """Let the threads go."""
        self._bands.close()


@dataclass(frozen=True)
class Frame:
    """One frame of a stream, told apart.

    ``background`` is in the type and unit of the frames; ``foreground`` is boolean and
    ``probability`` float32, both of shape (rows, columns).
    """

    number: int
    image: Array
    background: Array
    foreground: Array
    probability: Array


class Stream:
    """Frames told apart as they come; iterate to get a `Frame` for each.

    Memory does not grow. The first frames are held back until there are enough to
    tell what stands still; from then on each comes at once.

    Attributes
    ----------
    rank : int
        Rank of the background: its plate, and the patterns of its changes.
    noise : ndarray of shape (rows, columns)
        Standard deviation of each pixel's noise, in the unit of the frames.
    count : int or None
        How many frames there are, where that is known.
    rate : float
        Frames a second of the source.
    notes : list of str
        What there is to say: a truncated file, a camera that moves.
    """

    def __init__(self, source: Source, tuning: Tuning = TUNING) -> None:
        self.tuning = tuning
        self.count, self.rate, self.name = source.count, source.rate, source.name
        self._source = source
        self._frames = ahead(source)
        first: list[Array] = []
        for frame in self._frames:
            first.append(frame)
            if len(first) == tuning.start:
                break
        if len(first) < 2:
            self._frames.close()
            raise InputError(
                f"{source.name} has {'only one' if first else 'no'} frame; what moves "
                "is told by comparing frames, and two are the least."
            )
        self.levels = Levels.of(first)
        self._first = first
        grey = [self.levels.grey(frame, k) for k, frame in enumerate(first)]
        large = grey[0].shape[0] * grey[0].shape[1] > tuning.large
        look = tuning.start + 1 if large else tuning.look  # medians of large ones cost
        spread = source.some(look, tuning.look_ahead)
        spread = [frame for frame in spread if frame.shape == self.levels.shape]
        if len(spread) > len(first):
            grey = [self.levels.grey(frame, 0) for frame in spread]
        age = min(source.count or len(first), tuning.look_ahead)
        age = age if len(spread) > len(first) else len(first)
        ONE_BLAS_THREAD.enter()  # its products are small, and its threads in the way
        try:
            self.work = Separator(np.stack(grey), age, tuning)
        finally:
            ONE_BLAS_THREAD.leave()
        self._steady = Steadiness(self.levels.shape)
        self._notes = list[str]()
        if max(frame.max() for frame in grey) == min(frame.min() for frame in grey):
            self._notes.append(
                "All pixels of the first frames are the same; there is nothing to tell "
                "apart yet."
            )

    @property
    def rank(self) -> int:
        """Rank of the background."""
        return self.work.scene.rank

    @property
    def noise(self) -> Array:
        """Noise of each pixel, in the unit of the frames."""
        return np.asarray(self.work.scene.noise * np.float64(self.levels.unit))

    @property
    def notes(self) -> list[str]:
        """What there is to say."""
        moved = self._steady.note()
        return [*self._source.notes, *self._notes, *([moved] if moved else [])]

    def judged(self) -> Iterator[tuple[int, Array, Place]]:
        """Yield the number of a frame, the frame and its place, as `work` holds it."""
        number, grey = 0, None
        ONE_BLAS_THREAD.enter()
        try:
            for frames in (self._first, self._frames):
                for frame in frames:
                    grey = self.levels.grey(frame, number, grey)
                    self._steady.look(grey)
                    yield number, frame, self.work.judge(grey)
                    number += 1
                self._first = []
        finally:
            ONE_BLAS_THREAD.leave()
            self._frames.close()
            self.work.close()

    def __iter__(self) -> Iterator[Frame]:
        for number, image, _ in self.judged():
            front = self.work.front
            yield Frame(
                number,
                image,
                self.levels.back(self.work.expected),
                front.mask.copy(),
                front.probability(),
            )

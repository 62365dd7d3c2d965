"""Frames in, masks out: one frame at a time, in memory that does not grow."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.threads import ONE_BLAS_THREAD
from discrepant.video.io.frame_source import Levels, Source, ahead
from discrepant.video.model.background import TUNING, Background, Place, Tuning
from discrepant.video.model.bands import Band, Bands
from discrepant.video.model.camera_motion import Steadiness
from discrepant.video.model.foreground import Foreground
from discrepant.video.model.scene_changes import BACK, STAY, Cuts, scene_length

FEW = 5  # frames, of which most must show the ground
LOUD = 15.0  # grey levels of noise: less hides nothing
DROWNED = 2.0  # times the spread of the background's picture; a grey wall has little


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
        self._cuts = Cuts()
        self._former: Background | None = None  # of the scene before this one
        self.begins: list[int] = []  # the frames from which on the background is anew

    def judge(self, frame: Array) -> Place:
        """Judge one frame and learn from it; `expected` and `front` then hold it."""
        place = self._compare(frame)
        if self._changed(frame):
            place = self._compare(frame)
        scene, front = self.scene, self.front
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

    def _compare(self, frame: Array) -> Place:
        """Fill what is expected of a frame, and what is in front."""
        scene, front = self.scene, self.front
        place = scene.locate(frame)
        self._bands.each(lambda band: scene.expect(place, self.expected, band))
        # Judging a band looks at the rows beside it: all must be there.
        self._bands.each(lambda band: front.judge(frame, self.expected, scene, band))
        front.tidy(frame, self.expected, scene.variance)
        return place

    def _changed(self, frame: Array) -> bool:
        """Go over to another scene where one has begun; whether so.

        The one before this is known again at once, a new one after some frames.
        """
        scene, former = self.scene, self._former
        values = frame.reshape(-1, frame.shape[-1])[scene.places].astype(np.float32)
        covered = self.front.covered.ravel()[scene.places]
        if self._cuts.look(values, scene.sampled_noise, covered):
            seen = [one for one, _ in self._recent][1 - STAY :]
            new = Background(np.stack([*seen, frame]), STAY, self._bands, self.tuning)
        elif self._cuts.suspected and former is not None and former.shows(frame, BACK):
            new = former
        else:
            return False
        self._former, self.scene = scene, new
        self.front = Foreground(frame.shape, self.tuning)
        self._cuts = Cuts()
        self._recent.clear()
        self.begins.append(self._count)
        return True

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
        grey = self.levels.grey_all(first)
        self._known = grey[0]
        # Values that no frame has shown so far: there is no background to tell there.
        self.unseen: Array | None = None
        if first[0].dtype.kind == "f":
            self.unseen = ~np.any([np.isfinite(frame) for frame in first], axis=0)
        large = grey[0].shape[0] * grey[0].shape[1] > tuning.large
        look = tuning.start + 1 if large else tuning.look  # medians of large ones cost
        spread = source.some(look, tuning.look_ahead)
        spread = [frame for frame in spread if frame.shape == self.levels.shape]
        age: float = len(first)
        if len(spread) > len(first):
            ahead_of = self.levels.grey_all(spread)
            same = scene_length(ahead_of)
            if same > len(first):
                grey = ahead_of[:same]
                age = min(source.count or len(first), tuning.look_ahead)
                age *= same / len(ahead_of)
        grey = grey[: max(scene_length(grey), 2)]
        ONE_BLAS_THREAD.enter()  # its products are small, and its threads in the way
        try:
            self.work = Separator(np.stack(grey), age, tuning)
        finally:
            ONE_BLAS_THREAD.leave()
        self._steady = Steadiness(self.levels.shape)
        self._notes = list[str]()
        if len(first) < FEW:
            self._notes.append(
                f"With only {len(first)} frames, what is in front can hardly be told "
                "from what it hides; more are better."
            )
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
        moved = self._steady.note()  # and then little else stands still
        found = [moved, self._anew(), None if moved else self._unrest()]
        said = [note for note in found if note is not None]
        return [*self._source.notes, *self._notes, *said]

    def _anew(self) -> str | None:
        """Say where the background began anew, and how it was noticed."""
        begins = self.work.begins
        if not begins:
            return None
        more = f" and {len(begins) - 3} more" if len(begins) > 3 else ""
        return (
            f"Most of the picture changed at once and stayed so, before frame "
            f"{', '.join(map(str, begins[:3]))}{more}: a cut, or the camera was moved "
            "or set anew. The background begins anew there; the few frames until that "
            "was clear are in front as a whole."
        )

    def _unrest(self) -> str | None:
        """Say so if no picture stands still, so that nothing could be told apart."""
        scene = self.work.scene
        noise, picture = np.median(scene.noise), np.std(scene.U[0])
        if noise < LOUD or noise < DROWNED * picture:
            return None
        return (
            f"Nothing seems to stand still: from frame to frame pixels vary by "
            f"{noise / 2.55:.0f}% of the range of brightness, more than the picture "
            "that they have in common. All of it moves, or noise drowns it; little can "
            "be told apart."
        )

    def judged(self) -> Iterator[tuple[int, Array, Place]]:
        """Yield the number of a frame, the frame and its place, as `work` holds it."""
        number, grey = 0, self._known
        ONE_BLAS_THREAD.enter()
        try:
            for frames in (self._first, self._frames):
                for frame in frames:
                    grey = self.levels.grey(frame, number, grey)
                    if self.unseen is not None and self.unseen.any():
                        self.unseen &= ~np.isfinite(frame)
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
                self.levels.back(self.work.expected, self.unseen),
                front.mask.copy(),
                front.probability(),
            )

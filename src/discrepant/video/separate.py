"""`separate`: background and moving objects of a fixed camera's video.

`Stream._start` makes the first background, `Stream._separate_frame` lists the stages of
each frame.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Progress
from discrepant.core.threads import ONE_BLAS_THREAD
from discrepant.core.validation import check_flag, check_number
from discrepant.video.io.frame_source import FrameSource, open_frames, prefetch
from discrepant.video.io.intensity import IntensityScale
from discrepant.video.io.video_file import read_image
from discrepant.video.model.settings import (
    DEFAULT_LEARNING_TIME,
    LARGE_FRAME,
    PREVIEW_FRAMES,
    PREVIEW_SPAN,
    START_FRAMES,
)
from discrepant.video.result import Frame, Separation
from discrepant.video.whole_video import separate_whole

if TYPE_CHECKING:
    from discrepant.video.model.background import FrameFit

FEW_FRAMES = 5  # frames, of which most must show the background
LOUD_NOISE = 15.0  # grey levels of noise below which nothing is hidden
NOISE_RATIO = 2.0  # noise over the standard deviation of the background image


def separate(
    frames: Any,
    *,
    stream: bool | None = None,
    learning_time: float = DEFAULT_LEARNING_TIME,
    roi: Any = None,
    model: str | Path | None = None,
    learn: bool = True,
    on_frame: Callable[[Frame], None] | None = None,
    progress: bool | Progress | None = False,
) -> "Separation | Stream":
    """Separate the video of a fixed camera into background and moving objects.

    The background has low rank: an image in the present light, and patterns of its
    changes, which are found as they appear. Each pixel has its own noise variance.
    Pixels that the background does not explain are foreground; they are classified
    together with their neighbours in space and time. There is nothing to tune.

    Parameters
    ----------
    frames : array, path, int or iterable
        An array (time, rows, columns[, channels]), the path of a video file or of a
        folder of images, the number of a camera, or any iterable of frames.
    stream : bool, optional
        Return a `Stream`, which yields frame by frame in bounded memory. The default is
        True for cameras and iterators, False for sources that can be read again.
    learning_time : float
        Seconds after which an object that stays becomes background. Arrays, folders
        and iterators count as 25 frames per second.
    roi : array or path, optional
        Region of interest, of the size of a frame: where it is zero, there is no
        foreground.
    model : path, optional
        Start with the background that `Stream.save` or `Separation.save` wrote, instead
        of the first frames.
    learn : bool
        Update the background by each frame. False freezes that of `model`.
    on_frame : callable, optional
        Called with each `Frame` as soon as it is separated: its number, image,
        background, mask (``foreground``), ``probability`` and ``boxes``.
    progress : bool or callable
        See `core.progress.reporting`. If it stops the work, the frames that are done
        are returned.

    Returns
    -------
    Separation or Stream
        ``background``, ``foreground``, ``probability``, ``rank`` and ``noise`` of the
        whole video; or a `Stream` of `Frame`.

    Examples
    --------
    >>> from discrepant import separate
    >>> from discrepant.video.example_data import street
    >>> frames, truth = street(40)
    >>> result = separate(frames)
    >>> result.foreground.shape == truth.shape
    True
    """
    if stream is not None:
        check_flag("stream", stream)
    if on_frame is not None and not callable(on_frame):
        raise InputError(f"`on_frame` must be callable; got {type(on_frame).__name__}.")
    options = SeparationOptions(learning_time, roi, model, learn, on_frame)
    source, rereadable = open_frames(frames)
    flow = Stream(source, options)
    if stream or (stream is None and not rereadable):
        return flow
    result = separate_whole(flow, progress)
    for note in result.notes:
        warnings.warn(note, stacklevel=2)
    return result


@dataclass(frozen=True)
class SeparationOptions:
    """Choices of the user; see `separate`."""

    learning_time: float = DEFAULT_LEARNING_TIME  # seconds
    roi: Any = None  # array or path of an image
    model: str | Path | None = None  # path of a saved model
    learn: bool = True
    on_frame: Callable[[Frame], None] | None = None

    def __post_init__(self) -> None:
        check_flag("learn", self.learn)
        check_number(
            "learning_time", self.learning_time, "a positive number", lambda s: s > 0
        )
        if not self.learn and self.model is None:
            raise InputError("`learn=False` needs `model`, a saved background.")

    def region(self, shape: tuple[int, ...]) -> Array | None:
        """Return the region of interest for frames of a shape, as a boolean array."""
        if self.roi is None:
            return None
        is_file = isinstance(self.roi, str | Path)
        region = (read_image(Path(self.roi)) if is_file else np.asarray(self.roi)) != 0
        region = region.any(axis=-1) if region.ndim == 3 else region
        if region.shape != shape[:2]:
            given, needed = ("×".join(map(str, s)) for s in (region.shape, shape[:2]))
            raise InputError(
                f"`roi` must have the size of a frame, {needed}; got {given}."
            )
        if not region.any():
            raise InputError("`roi` is empty: no pixel of it is set.")
        return np.asarray(region)


DEFAULT_OPTIONS = SeparationOptions()


class Stream:
    """Frames separated as they arrive; iterate to get a `Frame` for each.

    Memory does not grow. The first frames are held back until there are enough for a
    first background; from then on each is returned at once.

    Attributes
    ----------
    rank : int
        Rank of the background: its image, and the patterns of its changes.
    noise : ndarray of shape (rows, columns)
        Standard deviation of each pixel's noise, in the unit of the frames.
    count : int or None
        Number of frames, where it is known.
    rate : float
        Frames per second of the source.
    notes : list of str
        Remarks on the result: a truncated file, a camera that moves.
    """

    def __init__(
        self, source: FrameSource, options: SeparationOptions = DEFAULT_OPTIONS
    ) -> None:
        self.count, self.rate, self.name = source.count, source.rate, source.name
        self.options = options
        self._source = source
        self._frames = prefetch(source)
        self._first = self._read_first_frames()
        self.scale = IntensityScale.of(self._first)
        # Values that no frame has shown so far: their background is unknown.
        self.never_observed: Array | None = None
        if self._first[0].dtype.kind == "f":
            finite = [np.isfinite(frame) for frame in self._first]
            self.never_observed = ~np.any(finite, axis=0)
        ONE_BLAS_THREAD.enter()  # for small products, more threads are slower
        try:
            self._start()
        finally:
            ONE_BLAS_THREAD.leave()

    def _start(self) -> None:
        """Estimate the first background, or load one."""
        # Imported here: it loads the compiler.
        from discrepant.video.model.scene_changes import CameraMotion
        from discrepant.video.model.separator import Separator

        preview, age = self._preview()
        self._notes = _notes_on_preview(len(self._first), preview)
        self._camera_motion = CameraMotion(self.scale.shape)
        options = self.options
        learning_frames = options.learning_time * self.rate
        roi = options.region(self.scale.shape)
        self.separator = Separator(np.stack(preview), age, learning_frames, roi)
        self.separator.learning = options.learn
        if options.model is not None:
            self.separator.load(options.model)

    def _separate_frame(self, grey: Array) -> "FrameFit":
        """Separate one frame: the stages of the method, in their order."""
        separator = self.separator
        frame = separator.register(grey)
        fit = separator.predict_background(frame)
        separator.score_pixels(frame)
        separator.find_components(frame)
        if separator.scene_changed(frame):
            return self._separate_frame(grey)
        separator.follow_components()
        separator.update_background(frame, fit)
        separator.finish_mask(frame)
        self._camera_motion.add_frame(frame)
        return fit._replace(shift=separator.shift)

    def _read_first_frames(self) -> list[Array]:
        first = list(islice(self._frames, START_FRAMES))
        if len(first) < 2:
            self._frames.close()
            raise InputError(
                f"{self.name} has {'only one' if first else 'no'} frame; moving "
                "objects are detected by comparing frames, so at least two are needed."
            )
        return first

    def _preview(self) -> tuple[list[Array], float]:
        """Return frames for the first background, and how many it counts for.

        They are the first, or a sample of later ones of the same scene if the source
        can be read again.
        """
        from discrepant.video.model.scene_changes import scene_length

        preview = self.scale.to_grey_frames(self._first)
        self._first_grey = preview[0]
        age: float = len(preview)
        # Medians of large frames are slow: sample fewer.
        large = preview[0].shape[0] * preview[0].shape[1] > LARGE_FRAME
        count = START_FRAMES + 1 if large else PREVIEW_FRAMES
        sample = self._source.sample(count, PREVIEW_SPAN)
        sample = [frame for frame in sample if frame.shape == self.scale.shape]
        if len(sample) > len(preview):
            later = self.scale.to_grey_frames(sample)
            same = scene_length(later)
            if same > len(preview):
                age = min(self._source.count or len(preview), PREVIEW_SPAN)
                age *= same / len(later)
                preview = later[:same]
        return preview[: max(scene_length(preview), 2)], age

    def save(self, path: str | Path) -> None:
        """Write the background model, for `model` of `separate` on the same camera."""
        self.separator.save(path)

    @property
    def rank(self) -> int:
        """Rank of the background."""
        return self.separator.background.rank

    @property
    def noise(self) -> Array:
        """Noise of each pixel, in the unit of the frames."""
        noise = self.separator.background.noise
        return np.asarray(noise * np.float64(self.scale.unit))

    @property
    def notes(self) -> list[str]:
        """Remarks on the result."""
        moved = self._camera_motion.note()
        # A camera that moves explains new scenes, and why nothing is still.
        optional = [moved] if moved else [self._scene_note(), self._noise_note()]
        notes = [note for note in optional if note is not None]
        return [*self._source.notes, *self._notes, *notes]

    def _scene_note(self) -> str | None:
        """Return a note if the background started again."""
        starts = self.separator.scene_starts
        if not starts:
            return None
        more = f" and {len(starts) - 3} more" if len(starts) > 3 else ""
        return (
            f"Most of the frame changed at once and stayed so, before frame "
            f"{', '.join(map(str, starts[:3]))}{more}: a cut, a moved camera or a new "
            "exposure. A new background starts there; in the few frames until the "
            "change was certain, the whole frame is foreground."
        )

    def _noise_note(self) -> str | None:
        """Return a note if the noise hides the background image."""
        background = self.separator.background
        noise, contrast = np.median(background.noise), np.std(background.state.image)
        if noise < LOUD_NOISE or noise < NOISE_RATIO * contrast:
            return None
        return (
            f"Nothing seems to be still: from frame to frame, pixels vary by "
            f"{noise / 2.55:.0f}% of the range of brightness, more than the image "
            "that the frames have in common. Everything moves, or the noise is too "
            "strong; the separation is unreliable."
        )

    def process(self) -> Iterator[tuple[int, Array, "FrameFit"]]:
        """Yield each frame's number, the frame and its fit; `separator` has the rest.

        This avoids the conversions and copies of iterating over `Frame` objects.
        """
        grey = self._first_grey
        first, self._first = iter(self._first), []
        ONE_BLAS_THREAD.enter()
        try:
            for number, frame in enumerate(chain(first, self._frames)):
                grey = self.scale.to_grey(frame, number, grey)
                if self.never_observed is not None and self.never_observed.any():
                    self.never_observed &= ~np.isfinite(frame)
                yield number, frame, self._separate_frame(grey)
        finally:
            ONE_BLAS_THREAD.leave()
            self._frames.close()
            self.separator.close()

    def __iter__(self) -> Iterator[Frame]:
        for number, image, _ in self.process():
            frame = self.frame(number, image)
            if self.options.on_frame is not None:
                self.options.on_frame(frame)
            yield frame

    def frame(self, number: int, image: Array) -> Frame:
        """Return the last frame that `process` yielded, separated."""
        from discrepant.video.model.separator import PROBABILITY

        separator = self.separator
        background = separator.in_frame(separator.predicted)
        return Frame(
            number,
            image,
            self.scale.from_grey(background, self.never_observed),
            separator.mask,
            PROBABILITY[separator.score_code],
        )


def _notes_on_preview(count: int, preview: list[Array]) -> list[str]:
    """Return notes on the first frames."""
    notes = []
    if count < FEW_FRAMES:
        notes.append(
            f"With only {count} frames, foreground can hardly be distinguished from "
            "the background that it covers; use more frames."
        )
    if max(frame.max() for frame in preview) == min(frame.min() for frame in preview):
        notes.append(
            "All pixels of the first frames are the same; there is nothing to separate "
            "yet."
        )
    return notes

"""Sources of frames: arrays, files, folders, cameras, iterables; prefetching."""

import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import masked_to_nan
from discrepant.image.arrays import as_array
from discrepant.video.io.intensity import size_change
from discrepant.video.io.video_file import (
    DEFAULT_RATE,
    ImageFolder,
    VideoFile,
    sample_numbers,
)

PREFETCHED = 4  # frames that are read ahead


class FrameSource(Protocol):
    """Frames in their order, and what is known of them beforehand."""

    name: str
    rate: float  # frames per second
    count: int | None
    notes: list[str]

    def __iter__(self) -> Iterator[Array]: ...

    def sample(self, count: int, span: int) -> list[Array]:
        """Return `count` of the first `span` frames, or none if they are read once."""
        ...


class ArraySource:
    """An array (time, rows, columns[, channels])."""

    def __init__(self, frames: Array) -> None:
        if frames.ndim not in (3, 4):
            raise InputError(
                "Frames must be an array (time, rows, columns) or (time, rows, "
                f"columns, channels); got shape {frames.shape}."
            )
        self.name, self.rate, self.notes = "array", DEFAULT_RATE, list[str]()
        self.frames = frames
        self.count: int | None = len(frames)

    def __iter__(self) -> Iterator[Array]:
        return map(_as_frame, self.frames)

    def sample(self, count: int, span: int) -> list[Array]:
        """Return `count` of the first `span` frames."""
        numbers = sample_numbers(count, min(span, len(self.frames)))
        return [_as_frame(self.frames[k]) for k in numbers]


class IterableSource:
    """Any iterable of frames, which can be read only once."""

    def __init__(self, frames: Iterable[Any]) -> None:
        self.name, self.rate, self.notes = "stream", DEFAULT_RATE, list[str]()
        self.frames = frames
        self.count: int | None = None

    def __iter__(self) -> Iterator[Array]:
        return map(_as_frame, self.frames)

    def sample(self, count: int, span: int) -> list[Array]:
        """Return nothing: reading ahead would lose frames."""
        return []


def _as_frame(values: Any) -> Array:
    """Return a frame as a NumPy array, with NaN where it is masked."""
    return as_array(masked_to_nan(values), "A frame")


def open_frames(frames: Any) -> tuple[FrameSource, bool]:
    """Return the source of some frames, and whether it can be read again."""
    if isinstance(frames, str | Path):
        path = Path(frames)
        if path.is_dir():
            return ImageFolder(path), True
        video = VideoFile(path)
        return video, not video.is_pipe
    if isinstance(frames, int) and not isinstance(frames, bool):
        return VideoFile(frames), False
    if hasattr(frames, "shape") and hasattr(frames, "dtype"):
        return ArraySource(frames), True
    if isinstance(frames, list | tuple):
        shapes = {np.shape(frame) for frame in frames}
        if len(shapes) > 1:
            one, other = sorted(shapes)[:2]
            raise InputError(size_change(one, other))
        return ArraySource(np.asarray(frames)), True
    if isinstance(frames, Iterable):
        return IterableSource(frames), False
    raise InputError(
        "Frames must be an array, the path of a video or of a folder of images, the "
        f"number of a camera, or an iterator of arrays; got {type(frames).__name__}."
    )


def prefetch(frames: Iterable[Array], depth: int = PREFETCHED) -> Generator[Array]:
    """Yield frames that another thread reads a few ahead."""
    waiting: queue.Queue[Any] = queue.Queue(depth)
    closed = threading.Event()
    end = object()

    def put(item: object) -> None:
        while not closed.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def read() -> None:
        try:
            for frame in frames:
                put(frame)
                if closed.is_set():
                    return
            put(end)
        except BaseException as error:
            put(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        while (item := waiting.get()) is not end:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        closed.set()
        reader.join(timeout=5)

"""Where frames come from, and what a grey level is in each of their types."""

import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import masked_to_nan
from discrepant.image.arrays import as_array
from discrepant.video.io.video_file import RATE, ImageFolder, VideoFile

LEAST = 8  # rows and columns: less has no neighbours to speak of
FEW = 1e-3  # share of the values that may be far outside the others, on either side
FAR = 3.0  # how far, in ranges of the others


class Source(Protocol):
    """Frames, one after the other, and what is known of them beforehand."""

    name: str
    rate: float
    count: int | None
    notes: list[str]

    def __iter__(self) -> Iterator[Array]: ...

    def some(self, count: int, of: int) -> list[Array]:
        """Return frames spread over the first `of`, where one can look ahead."""
        ...


class ArraySource:
    """An array (time, rows, columns[, channels])."""

    def __init__(self, frames: Array) -> None:
        if frames.ndim not in (3, 4):
            raise InputError(
                "Frames are needed as (time, rows, columns) or (time, rows, columns, "
                f"channels); this array is of shape {frames.shape}."
            )
        self.name, self.rate, self.notes = "array", RATE, list[str]()
        self.frames = frames
        self.count: int | None = len(frames)

    def __iter__(self) -> Iterator[Array]:
        return map(_frame, self.frames)

    def some(self, count: int, of: int) -> list[Array]:
        """Return frames spread over the first `of`."""
        length = min(of, len(self.frames))
        places = np.unique(np.linspace(0, length - 1, min(count, length)).astype(int))
        return [_frame(self.frames[int(k)]) for k in places]


class IterableSource:
    """Any iterable of frames; there is no looking ahead."""

    def __init__(self, frames: Iterable[Any]) -> None:
        self.name, self.rate, self.notes = "stream", RATE, list[str]()
        self.frames = frames
        self.count: int | None = None

    def __iter__(self) -> Iterator[Array]:
        return map(_frame, self.frames)

    def some(self, count: int, of: int) -> list[Array]:
        """Return nothing."""
        return []


def _frame(values: Any) -> Array:
    """Return a frame as an array of NumPy, with NaN where it is masked."""
    return as_array(masked_to_nan(values), "A frame")


def open_frames(frames: Any) -> tuple[Source, bool]:
    """Return the source that something stands for, and whether it can be read again."""
    if isinstance(frames, str | Path):
        path = Path(frames)
        if path.is_dir():
            return ImageFolder(path), True
        return VideoFile(path), True
    if isinstance(frames, int) and not isinstance(frames, bool):
        return VideoFile(frames), False
    if hasattr(frames, "shape") and hasattr(frames, "dtype"):
        return ArraySource(frames), True
    if isinstance(frames, list | tuple):
        shapes = {np.shape(frame) for frame in frames}
        if len(shapes) > 1:
            one, other = sorted(shapes)[:2]
            raise InputError(_sizes(one, other))
        return ArraySource(np.asarray(frames)), True
    if isinstance(frames, Iterable):
        return IterableSource(frames), False
    raise InputError(
        "Frames are needed: an array, the path of a video or of a folder of images, "
        "the number of a camera, or an iterator of arrays; got "
        f"{type(frames).__name__}."
    )


def _sizes(
    one: tuple[int, ...], other: tuple[int, ...], number: int | None = None
) -> str:
    where = "" if number is None else f" at frame {number}"
    return (
        f"The frames change their size{where}, from {_size(one)} to {_size(other)}; "
        "split the video there, or scale them to one size."
    )


def _size(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "a single value"


@dataclass(frozen=True)
class Levels:
    """How values become grey levels of 0 to 255, and back again.

    Eight bits are taken as they are. Wider integers and floats are scaled by the
    range of the first frames, without the few values far outside it: beside one hot
    pixel all else would be black. The model has no other unit.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: float
    unit: float  # of the data, in a grey level

    @classmethod
    def of(cls, first: list[Array]) -> "Levels":
        """Read the scale off the first frames."""
        shape, dtype = first[0].shape, first[0].dtype
        if len(shape) not in (2, 3) or (
            len(shape) == 3 and shape[2] not in (1, 2, 3, 4)
        ):
            raise InputError(
                f"A frame is (rows, columns) or (rows, columns, channels), with up to "
                f"four channels; this one is of shape {shape}."
            )
        if min(shape[:2]) < LEAST:
            raise InputError(
                f"Frames of {_size(shape)} are too small; {LEAST}×{LEAST} is the least."
            )
        if dtype == np.uint8:
            return cls(shape, dtype, 0.0, 1.0)
        if dtype.kind not in "iufb":
            raise InputError(f"Frames of type {dtype} are not pictures; numbers are.")
        values = np.stack([f for f in first if f.shape == shape]).astype(np.float64)
        values = values[np.isfinite(values)]
        if not len(values):
            return cls(shape, dtype, 0.0, 1 / 255)
        low, bottom, top, high = np.quantile(values, [0, FEW, 1 - FEW, 1]) / 255
        if top > bottom:
            reach = FAR * (top - bottom)
            low = low if low >= bottom - reach else bottom
            high = high if high <= top + reach else top
        low = min(low, 0.0)
        return cls(shape, dtype, float(255 * low), float(high - low) or 1 / 255)

    def grey(self, frame: Array, number: int, before: Array | None = None) -> Array:
        """Return a frame as (rows, columns, channels), uint8 or float32.

        What is missing (NaN) is as it was `before`.
        """
        if frame.shape != self.shape:
            raise InputError(_sizes(self.shape, frame.shape, number))
        if frame.dtype == np.uint8 and self.dtype == np.uint8:
            values = np.ascontiguousarray(frame)
        else:
            with np.errstate(over="ignore"):  # beyond float32 is as good as missing
                values = (frame - self.low) / self.unit
                values = values.astype(np.float32, order="C")
        values = values.reshape(*self.shape[:2], -1)
        if values.dtype != np.uint8 and not np.isfinite(values).all():
            fill = np.zeros_like(values) if before is None else before
            values = np.where(np.isfinite(values), values, fill)
        return values

    def grey_all(self, frames: list[Array]) -> list[Array]:
        """Return frames as `grey` does; what is missing at first is as it is later."""
        known = None
        for number, frame in reversed([*enumerate(frames)]):
            known = self.grey(frame, number, known)
        found = list[Array]()
        for number, frame in enumerate(frames):
            known = self.grey(frame, number, known)
            found.append(known)
        return found

    def back(self, values: Array, unseen: Array | None = None) -> Array:
        """Return grey levels in the type, shape and unit of the frames.

        What was never seen is missing (NaN).
        """
        if self.dtype == np.uint8:
            from discrepant.video.model.background_kernels import rounded

            levels = np.empty(self.shape, np.uint8)
            rounded(values.reshape(-1), levels.reshape(-1))
            return levels
        # In double precision: a unit may be beyond what float32 holds.
        given = values.reshape(self.shape).astype(np.float64) * self.unit + self.low
        if self.dtype.kind == "f":
            if unseen is not None:
                given[unseen] = np.nan
            return given.astype(self.dtype)
        if self.dtype.kind == "b":
            return np.asarray(given > 0.5)
        limits = np.iinfo(self.dtype)
        # The ends of 64-bit types are no floats: stay one step of a float inside.
        least, most = float(limits.min), float(limits.max)
        most = most if most == limits.max else float(np.nextafter(most, 0))
        return np.clip(np.rint(given), least, most).astype(self.dtype)


def ahead(frames: Iterable[Array], depth: int = 4) -> Generator[Array]:
    """Yield frames that another thread fetches meanwhile, a few ahead."""
    held: queue.Queue[Any] = queue.Queue(depth)
    done = threading.Event()
    end = object()

    def put(item: object) -> None:
        while not done.is_set():
            try:
                held.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def fetch() -> None:
        try:
            for frame in frames:
                put(frame)
                if done.is_set():
                    return
            put(end)
        except BaseException as error:
            put(error)

    worker = threading.Thread(target=fetch, daemon=True)
    worker.start()
    try:
        while (item := held.get()) is not end:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        done.set()
        worker.join(timeout=5)

"""Video files, cameras and pipes by PyAV, folders of images.

Readers yield uint8 frames: (rows, columns) if the video is grey, otherwise with three
channels. `notes` lists problems that do not end the reading, such as a truncated file.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError, missing_extra
from discrepant.core.linalg import Array
from discrepant.core.memory import available_memory, check_memory

VIDEOS = (".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".mpg", ".mpeg", ".ogv")
IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".pgm", ".ppm")
MAX_CHANNEL_DIFFERENCE = 2  # grey levels between channels of a grey frame: rounding
DEFAULT_RATE = 25.0  # frames per second where the source does not say
# Memory that a separation takes, in bytes per pixel of a frame: 970 to 1120 for colour
# frames of 1080×1920; frames below half a million pixels take up to 1.4 GB.
BYTES_PER_PIXEL = 1100
PLAYLISTS = ("concat", "dash", "hls", "imf")
# Codecs of the MP4 files that are written: the first that PyAV has is used.
CODECS: dict[str, dict[str, str]] = {
    "libx264": {"crf": "20", "preset": "veryfast"},
    "mpeg4": {"b": "4000000"},
}
PIPE = "-"  # path that means standard input
CAMERAS = {"linux": "v4l2", "darwin": "avfoundation", "win32": "dshow"}


def pyav() -> Any:
    """Return the module of PyAV, or raise an error that says how to install it."""
    try:
        return import_module("av")
    except ImportError:
        raise missing_extra("Video files need PyAV", "video") from None


class VideoFile:
    """The frames of a video file, a camera or a pipe, decoded on request."""

    def __init__(self, path: Path | int) -> None:
        av = pyav()
        self.is_pipe = path == Path(PIPE)
        if isinstance(path, int):
            self.name = f"camera {path}"
        elif self.is_pipe:
            self.name = "pipe"
        elif path.exists():
            self.name = path.name
        else:
            raise InputError(f"There is no file {path}.")
        self.notes: list[str] = []
        self.count: int | None
        self.path = path
        self._pipe: Any = None  # its container, which cannot be opened twice
        with ExitStack() as open_files:
            container = open_files.enter_context(self._opened())
            stream = container.streams.video[0]
            self.rate = float(
                stream.average_rate or stream.guessed_rate or DEFAULT_RATE
            )
            self.count = stream.frames or None
            if self.count is None and container.duration and stream.average_rate:
                self.count = round(container.duration / av.time_base * self.rate)
            grey = (stream.pix_fmt or "").startswith(("gray", "mono"))
            if self.is_pipe:
                open_files.pop_all()
                self._pipe = container
            else:
                grey = grey or _is_first_frame_grey(container, stream)
            self.format = "gray" if grey else "rgb24"

    def _opened(self) -> Any:
        if self._pipe is not None:
            return self._pipe
        av = pyav()
        name, kind = str(self.path), None
        if isinstance(self.path, int):
            kind = CAMERAS.get(sys.platform)
            name = f"/dev/video{self.path}" if kind == "v4l2" else str(self.path)
        elif self.is_pipe:
            name = "pipe:0"
        memory = available_memory()
        options = {} if kind else {"protocol_whitelist": "file,pipe"}
        if memory is not None:  # frames may also become larger later on
            options["max_pixels"] = str(max(memory // BYTES_PER_PIXEL, 1))
        try:
            container = av.open(
                name, format=kind, options=options, metadata_errors="replace"
            )
        except (av.error.FFmpegError, OSError) as error:
            medium = "camera" if kind else "video"
            raise InputError(
                f"{name} cannot be read as a {medium}: {_reason(error)}."
            ) from None
        try:
            _check_content(name, container)
        except InputError:
            container.close()
            raise
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        stream.codec_context.options = options
        return container

    def __iter__(self) -> Iterator[Array]:
        av = pyav()
        decoded, broken = 0, False
        with self._opened() as container:
            try:
                for frame in container.decode(video=0):
                    decoded += 1
                    yield _pixels(frame, self.format)
            except (av.error.FFmpegError, OSError) as error:
                if not decoded:
                    hint = " A pipe needs a format without seeking, such as nut or mkv."
                    raise InputError(
                        f"No frame of {self.name} can be decoded: {_reason(error)}."
                        f"{hint if self.is_pipe else ''}"
                    ) from None
                broken = True
        if not decoded:
            raise InputError(f"{self.name} holds no frames.")
        if broken or (self.count and decoded < 0.98 * self.count - 1):
            of = f" of {self.count}" if (self.count or 0) > decoded else ""
            self.notes.append(
                f"{self.name} ends after {decoded}{of} frames: it is truncated or "
                "damaged. The frames before that were used."
            )

    def sample(self, count: int, span: int) -> list[Array]:
        """Return `count` of the first `span` frames."""
        if isinstance(self.path, int) or self.is_pipe or not self.count:
            return []
        wanted = sample_numbers(count, min(span, self.count))
        frames: list[Array] = []
        with suppress(OSError, pyav().error.FFmpegError), self._opened() as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number in wanted:
                    frames.append(_pixels(frame, self.format))
                if number >= wanted[-1]:
                    break
        return frames


def sample_numbers(count: int, length: int) -> list[int]:
    """Return up to `count` numbers, evenly spread from 0 to `length` - 1."""
    numbers = np.linspace(0, length - 1, min(count, length)).astype(int)
    return sorted(set(numbers.tolist()))


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).rstrip(".")


def _check_content(name: str, container: Any) -> None:
    """Refuse files without video and frames too large, before a frame is decoded."""
    if container.format.name in PLAYLISTS:
        raise InputError(f"{name} is a list of other files; pass one of these.")
    if not container.streams.video:
        raise InputError(f"{name} holds no video stream.")
    codec = container.streams.video[0].codec_context
    if codec is None:
        raise InputError(f"{name} uses a codec that PyAV does not have.")
    needed = codec.width * codec.height * BYTES_PER_PIXEL
    check_memory(Path(name), needed, "make its frames smaller")


def _is_first_frame_grey(container: Any, stream: Any) -> bool:
    """Whether the channels of the first frame agree, up to rounding."""
    try:
        first = next(container.decode(stream)).to_ndarray(format="rgb24")
    except (pyav().error.FFmpegError, OSError, StopIteration):
        return False
    return bool(np.ptp(first.astype(np.int16), axis=-1).max() <= MAX_CHANNEL_DIFFERENCE)


def _pixels(frame: Any, pixel_format: str) -> Array:
    return np.ascontiguousarray(frame.to_ndarray(format=pixel_format))


class ImageFolder:
    """The images of a folder, in the order of their names; other files are ignored."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        files = sorted(p for p in path.iterdir() if p.is_file())
        self.files = [p for p in files if p.suffix.lower() in IMAGES]
        if not self.files:
            raise InputError(f"{path} holds no images ({', '.join(IMAGES)}).")
        others = [p.name for p in files if p.suffix.lower() not in IMAGES]
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        self.notes = (
            [f"Files that are not images were ignored: {', '.join(others[:3])}{more}."]
            if others
            else []
        )
        self.rate = DEFAULT_RATE
        self.count: int | None = len(self.files)

    def __iter__(self) -> Iterator[Array]:
        for path in self.files:
            yield read_image(path)

    def sample(self, count: int, span: int) -> list[Array]:
        """Return `count` of the first `span` images."""
        numbers = sample_numbers(count, min(span, len(self.files)))
        return [read_image(self.files[k]) for k in numbers]


def read_image(path: Path) -> Array:
    """Return an image file as an array."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            needed = image.width * image.height * BYTES_PER_PIXEL
            check_memory(path, needed, "make its frames smaller")
            usable = image.mode in ("L", "I;16", "F", "RGB")
            return np.asarray(image if usable else image.convert("RGB"))
    except InputError:  # of memory
        raise
    except (
        UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError
    ) as error:  # fmt: skip
        reason = _reason(error)
        raise InputError(f"{path} cannot be read as an image: {reason}.") from None


class VideoWriter:
    """An MP4 file, written frame by frame and complete when closed."""

    def __init__(self, path: Path, rate: float, shape: tuple[int, int]) -> None:
        av = pyav()
        self._av = av
        self._shape = shape
        height, width = (side + side % 2 for side in shape)
        codec = next((name for name in CODECS if name in av.codecs_available), None)
        if codec is None:
            raise InputError("This PyAV cannot write MP4 files.")
        self._container = av.open(str(path), "w")
        exact_rate = Fraction(rate).limit_denominator(1001)
        self._stream = self._container.add_stream(codec, rate=exact_rate)
        self._stream.width, self._stream.height = width, height
        self._stream.pix_fmt = "yuv420p"
        self._stream.options = CODECS[codec]

    def write(self, frame: Array) -> None:
        """Append a frame: uint8, grey or RGB."""
        if frame.ndim == 2:
            frame = np.repeat(frame[..., None], 3, axis=-1)
        odd = [(0, side % 2) for side in self._shape]
        if odd != [(0, 0), (0, 0)]:
            frame = np.pad(frame, (*odd, (0, 0)), mode="edge")
        encoded = self._av.VideoFrame.from_ndarray(
            np.ascontiguousarray(frame), format="rgb24"
        )
        for packet in self._stream.encode(encoded):
            self._container.mux(packet)

    def close(self) -> None:
        """Write the delayed frames and the index."""
        for packet in self._stream.encode():
            self._container.mux(packet)
        self._container.close()

    def __enter__(self) -> "VideoWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # The first error is the one to report.
        hidden = () if kind is None else (OSError, self._av.error.FFmpegError)
        with suppress(*hidden):
            self.close()

"""Video files and cameras by PyAV, folders of images, raw frames from a pipe.

Readers yield frames as they are: uint8 (rows, columns) where the video is grey, with
three channels where it is not. What went wrong on the way without ending it, such as a
truncated file, is said in `notes`.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from discrepant.core.errors import InputError, missing_extra
from discrepant.core.linalg import Array
from discrepant.core.memory import available_memory, check_memory

VIDEOS = (".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".mpg", ".mpeg", ".ogv")
IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".pgm", ".ppm")
COLOURLESS = 2  # grey levels between channels: rounding
RATE = 25.0  # frames a second where nothing says how many
# What telling a video apart takes, in bytes for each pixel of a frame: 970 to 1120 for
# colours of 1080×1920; smaller frames than half a million pixels take up to 1.4 GB.
BYTES_PER_PIXEL = 1100
PLAYLISTS = ("concat", "dash", "hls", "imf")
# What a video is coded by, after the ending of its file: the first that PyAV brings.
CODECS: dict[str, dict[str, dict[str, str]]] = {
    ".mp4": {
        "libx264": {"crf": "20", "preset": "veryfast"},
        "mpeg4": {"b": "4000000"},
    },
    ".webm": {
        "libvpx-vp9": {"crf": "32", "b": "0", "deadline": "realtime", "cpu-used": "8"},
        "libvpx": {"crf": "12", "b": "4000000", "deadline": "realtime"},
    },
}
CAMERAS = {"linux": "v4l2", "darwin": "avfoundation", "win32": "dshow"}


def pyav() -> Any:
    """Return PyAV, or say how to get it."""
    try:
        return import_module("av")
    except ImportError:
        raise missing_extra("Video files need PyAV", "video") from None


class VideoFile:
    """The frames of a video file or a camera, decoded as they are asked for."""

    def __init__(self, path: Path | int) -> None:
        if isinstance(path, Path) and not path.exists():
            raise InputError(f"There is no file {path}.")
        av = pyav()
        self.name = f"camera {path}" if isinstance(path, int) else path.name
        self.notes: list[str] = []
        self.count: int | None
        self.path = path
        with self._opened() as container:
            stream = container.streams.video[0]
            self.rate = float(stream.average_rate or stream.guessed_rate or RATE)
            self.count = stream.frames or None
            if self.count is None and container.duration and stream.average_rate:
                self.count = round(container.duration / av.time_base * self.rate)
            self.format = "gray" if _colourless(container, stream) else "rgb24"

    def _opened(self) -> Any:
        av = pyav()
        name, kind = str(self.path), None
        if isinstance(self.path, int):
            kind = CAMERAS.get(sys.platform)
            name = f"/dev/video{self.path}" if kind == "v4l2" else str(self.path)
        room = available_memory()
        options = {} if kind else {"protocol_whitelist": "file"}
        if room is not None:  # frames may also grow later on
            options["max_pixels"] = str(max(room // BYTES_PER_PIXEL, 1))
        try:
            container = av.open(
                name, format=kind, options=options, metadata_errors="replace"
            )
        except (av.error.FFmpegError, OSError) as error:
            said = (getattr(error, "strerror", None) or str(error)).rstrip(".")
            what = "camera" if kind else "video"
            raise InputError(f"{name} cannot be read as a {what}: {said}.") from None
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
        seen, broken = 0, False
        with self._opened() as container:
            frames = container.decode(video=0)
            while True:
                try:
                    frame = next(frames)
                except StopIteration:
                    break
                except (av.error.FFmpegError, OSError) as error:
                    if not seen:
                        raise InputError(
                            f"No frame of {self.name} can be decoded: {error}."
                        ) from None
                    broken = True
                    break
                seen += 1
                yield _pixels(frame, self.format)
        if not seen:
            raise InputError(f"{self.name} holds no frames.")
        if broken or (self.count and seen < 0.98 * self.count - 1):
            of = f" of {self.count}" if (self.count or 0) > seen else ""
            self.notes.append(
                f"{self.name} ends after {seen}{of} frames: it is truncated or "
                "damaged. What could be read was used."
            )

    def some(self, count: int, of: int) -> list[Array]:
        """Return frames spread over the first `of`: by jumping, if there is where to.

        A jump ends at a key frame; of a file with few of those, all is decoded.
        """
        if isinstance(self.path, int) or not self.count:
            return []
        of = min(of, self.count)
        with suppress(OSError, pyav().error.FFmpegError), self._opened() as container:
            found = self._jumped(container, count, of)
            if 2 * len(found) >= min(count, of):
                return found
        return self._strode(count, of)

    def _jumped(self, container: Any, count: int, of: int) -> list[Array]:
        stream = container.streams.video[0]
        found: dict[int, Array] = {}
        missed = 0
        for share in (np.arange(count) + 0.5) / count:
            seconds = share * of / self.rate
            place = (stream.start_time or 0) + seconds / stream.time_base
            container.seek(int(place), stream=stream)
            frame = next(container.decode(video=0), None)
            if frame is None or frame.pts in found:
                missed += 1
                if 2 * missed > count:
                    break
            else:
                found[frame.pts] = _pixels(frame, self.format)
        return list(found.values())

    def _strode(self, count: int, of: int) -> list[Array]:
        wanted = set(np.linspace(0, of - 1, min(count, of)).astype(int).tolist())
        found: list[Array] = []
        with suppress(OSError, pyav().error.FFmpegError), self._opened() as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number in wanted:
                    found.append(_pixels(frame, self.format))
                if number >= of:
                    break
        return found


def _check_content(name: str, container: Any) -> None:
    """Refuse what is no video, or too large a one, before a frame is decoded."""
    if container.format.name in PLAYLISTS:
        raise InputError(f"{name} is a list of other files; give one of these.")
    if not container.streams.video:
        raise InputError(f"{name} holds no video stream.")
    codec = container.streams.video[0].codec_context
    if codec is None:
        raise InputError(f"{name} is coded in a way that is not known here.")
    needed = codec.width * codec.height * BYTES_PER_PIXEL
    check_memory(Path(name), needed, "make its frames smaller")


def _colourless(container: Any, stream: Any) -> bool:
    """Whether a video is grey: by its format, or because its first frame is."""
    if (stream.pix_fmt or "").startswith(("gray", "mono")):
        return True
    try:
        first = next(container.decode(stream)).to_ndarray(format="rgb24")
    except (pyav().error.FFmpegError, OSError, StopIteration):
        return False
    return bool(np.ptp(first.astype(np.int16), axis=-1).max() <= COLOURLESS)


def _pixels(frame: Any, form: str) -> Array:
    return np.ascontiguousarray(frame.to_ndarray(format=form))


class ImageFolder:
    """The images of a folder, in the order of their names; other files are left out."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        files = sorted(p for p in path.iterdir() if p.is_file())
        self.files = [p for p in files if p.suffix.lower() in IMAGES]
        if not self.files:
            raise InputError(f"{path} holds no images ({', '.join(IMAGES)}).")
        others = [p.name for p in files if p.suffix.lower() not in IMAGES]
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        self.notes = (
            [f"Not images, and left out: {', '.join(others[:3])}{more}."]
            if others
            else []
        )
        self.rate = RATE
        self.count: int | None = len(self.files)

    def __iter__(self) -> Iterator[Array]:
        for path in self.files:
            yield _image(path)

    def some(self, count: int, of: int) -> list[Array]:
        """Return frames spread over the first `of`."""
        length = min(of, len(self.files))
        places = np.unique(np.linspace(0, length - 1, min(count, length)).astype(int))
        return [_image(self.files[k]) for k in places]


def _image(path: Path) -> Array:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            plain = image.mode in ("L", "I;16", "F", "RGB")
            return np.asarray(image if plain else image.convert("RGB"))
    except (UnidentifiedImageError, OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as an image: {error}.") from None


class RawFrames:
    """Raw frames from a pipe: uint8, grey or RGB, of a size that must be told."""

    def __init__(self, pipe: BinaryIO, width: int, height: int, channels: int) -> None:
        self.name, self.notes, self.rate = "pipe", list[str](), RATE
        self.count: int | None = None
        self.pipe = pipe
        self.shape = (height, width) if channels == 1 else (height, width, channels)

    def __iter__(self) -> Iterator[Array]:
        size = int(np.prod(self.shape))
        seen = 0
        while data := self.pipe.read(size):
            if len(data) < size:
                self.notes.append(
                    f"The last {len(data):,} bytes are less than a frame and were left "
                    "out; are width, height and channels right?"
                )
                break
            seen += 1
            # Writeable, as all other frames are: one compiled kernel serves both.
            yield np.frombuffer(bytearray(data), np.uint8).reshape(self.shape)
        if not seen:
            raise InputError("No whole frame came through the pipe.")

    def some(self, count: int, of: int) -> list[Array]:
        """Return nothing: what went by is gone."""
        return []


class VideoWriter:
    """A video file, MP4 or WebM, that is written frame by frame, whole when closed."""

    def __init__(self, path: Path, rate: float, shape: tuple[int, int]) -> None:
        av = pyav()
        self._av = av
        self._shape = shape
        height, width = (side + side % 2 for side in shape)
        known = CODECS[path.suffix]
        codec = next((name for name in known if name in av.codecs_available), None)
        if codec is None:
            raise InputError(f"This PyAV cannot write {path.suffix} videos.")
        self._container = av.open(str(path), "w")
        exact = Fraction(rate).limit_denominator(1001)
        self._stream = self._container.add_stream(codec, rate=exact)
        self._stream.width, self._stream.height = width, height
        self._stream.pix_fmt = "yuv420p"
        self._stream.options = known[codec]

    def write(self, frame: Array) -> None:
        """Add a frame: uint8, grey or RGB."""
        if frame.ndim == 2:
            frame = np.repeat(frame[..., None], 3, axis=-1)
        odd = [(0, side % 2) for side in self._shape]
        if odd != [(0, 0), (0, 0)]:
            frame = np.pad(frame, (*odd, (0, 0)), mode="edge")
        shown = self._av.VideoFrame.from_ndarray(
            np.ascontiguousarray(frame), format="rgb24"
        )
        for packet in self._stream.encode(shown):
            self._container.mux(packet)

    def close(self) -> None:
        """Write what is held back, and the index."""
        for packet in self._stream.encode():
            self._container.mux(packet)
        self._container.close()

    def __enter__(self) -> "VideoWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
            return
        with suppress(OSError, self._av.error.FFmpegError):  # the first error counts
            self.close()


def rewrite(source: Path, target: Path) -> None:
    """Write a video once more, coded as the ending of the target says."""
    video = VideoFile(source)
    frames = iter(video)
    first = next(frames)
    try:
        with VideoWriter(target, video.rate, first.shape[:2]) as writer:
            for frame in chain([first], frames):
                writer.write(frame)
    except (OSError, pyav().error.FFmpegError) as error:
        raise InputError(f"{target.name} cannot be written: {error}.") from None

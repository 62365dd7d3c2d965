"""A video told apart: background, masks and activity written as they are found."""

import io
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.output_files import atomic_output_folder, summary_of, write_json
from discrepant.core.plotting import new_figure, styled
from discrepant.core.progress import Progress, StoppedError, reporting
from discrepant.video.figures import draw_activity
from discrepant.video.io.frame_source import Source, open_frames
from discrepant.video.io.video_file import RawFrames, VideoFile, VideoWriter, pyav
from discrepant.video.stream import Frame, Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PIPE = "-"
Look = Callable[[Array, Array, Array], None]  # frame, background and mask, in bytes
TINT = np.array([230, 40, 60], np.float32)  # of what moves, in the side-by-side video


@dataclass(frozen=True)
class VideoReport:
    """What was found in a video, and where it was written.

    ``active`` counts the frames with foreground; ``foreground`` is its share of all
    pixels. ``complete`` is False where Ctrl-C ended the run.
    """

    file: str
    frames: int
    size: tuple[int, int]
    rank: int
    noise: float
    active: int
    foreground: float
    busiest: int
    frames_a_second: float
    complete: bool
    caveats: tuple[str, ...]
    seconds: float
    folder: Path
    files: tuple[str, ...]
    no_picture: str = ""

    @property
    def summary(self) -> dict[str, Any]:
        """What stands in ``summary.json``."""
        return summary_of(self)

    def __str__(self) -> str:
        stopped = "" if self.complete else " (stopped early)"
        return (
            f"{self.file}: {self.frames} frames of {self.size[0]}×{self.size[1]}"
            f"{stopped}, {self.frames_a_second:.0f} a second; background of rank "
            f"{self.rank}, noise {self.noise:.2g}. Something is in front in "
            f"{self.active} frames, {self.foreground:.2%} of all pixels.\n"
            f"Written to {self.folder}: {', '.join(self.files)}."
        )


def separate_file(
    file: str,
    output: Path,
    *,
    background: bool = False,
    masks: bool = False,
    size: str | None = None,
    grey: bool = False,
    overwrite: bool = False,
    progress: bool | Progress | None = False,
    look: Look | None = None,
) -> VideoReport:
    """Tell background from foreground in a video, a folder, a camera or a pipe.

    Parameters
    ----------
    file : str
        Path of a video or of a folder of images, the number of a camera, or "-" for
        raw frames from standard input.
    output : Path
        Folder for the results; made if needed.
    background : bool
        Whether to write the background as a video, too.
    masks : bool
        Whether to write each mask as a PNG.
    size : str, optional
        Of raw frames: "320x240", columns and rows.
    grey : bool
        Whether raw frames are grey; else they are RGB.
    overwrite : bool
        Whether results that are there already may be replaced.
    progress : bool or callable
        See `discrepant.core.progress.reporting`. Told to stop, what is done is written.
    look : callable, optional
        Shown each frame, its background and its mask, as they are written.
    """
    source = _source(file, size, grey)
    pyav()  # a folder is read without it, but nothing is written
    names = [
        "background.png", "mask.mp4", "side-by-side.mp4", "activity.csv",
        "activity.png", "summary.json",
    ]  # fmt: skip
    names += ["background.mp4"] * background + ["masks"] * masks
    with (
        reporting(progress, "Separating") as watch,
        atomic_output_folder(
            output, names, folders=["masks"], overwrite=overwrite, keep=Path(file)
        ) as scratch,
    ):
        started = time.perf_counter()
        stream = Stream(source)
        shown = _Shown(stream)
        with ExitStack() as open_files:
            writers = _Writers(scratch, stream, background, masks, open_files)
            try:
                for frame in stream:
                    seen = writers.add(shown, frame)
                    if look is not None:
                        look(*seen)
                    speed = (frame.number + 1) / (time.perf_counter() - started)
                    done = (frame.number + 1) / max(stream.count or 0, frame.number + 2)
                    if not watch(
                        done, f"frame {frame.number + 1}, {speed:.0f} a second"
                    ):
                        break
            except OSError as error:
                raise _full(error, output) from None
        if not writers.activity:
            raise StoppedError("stopped before the first frame; nothing was written")
        spent = time.perf_counter() - started
        activity = np.array(writers.activity)
        count = len(activity)
        _save(scratch / "background.png", shown.bytes(writers.last))
        _write_activity(scratch / "activity.csv", activity, stream.rate)
        no_picture = ""
        try:
            activity_plot(activity, stream.rate).savefig(scratch / "activity.png")
        except InputError as error:  # matplotlib is an extra: do without
            no_picture = str(error)
            names.remove("activity.png")
        height, width = stream.levels.shape[:2]
        report = VideoReport(
            file=source.name,
            frames=count,
            size=(width, height),
            rank=writers.rank,
            noise=float(np.median(stream.noise)),
            active=int(np.count_nonzero(activity)),
            foreground=float(activity.mean()),
            busiest=int(activity.argmax()),
            frames_a_second=round(count / spent, 1),
            complete=not watch.stopped,
            caveats=tuple(stream.notes),
            seconds=round(spent, 3),
            folder=output,
            files=tuple(names),
            no_picture=no_picture,
        )
        write_json(scratch / "summary.json", report.summary)
        watch(1.0, "done")
    return report


def _source(file: str, size: str | None, grey: bool) -> Source:
    """Return where the frames come from."""
    if file == PIPE:
        try:
            width, height = map(int, (size or "").lower().split("x"))
            if min(width, height) < 1:
                raise ValueError
        except ValueError:
            raise InputError(
                "Raw frames from a pipe need size=, their columns and rows, such as "
                "320x240."
            ) from None
        return RawFrames(sys.stdin.buffer, width, height, 1 if grey else 3)
    if size is not None or grey:
        raise InputError("size= and grey= are for raw frames from a pipe only.")
    if file.isdigit() and not Path(file).exists():
        return VideoFile(int(file))
    return open_frames(Path(file))[0]


class _Shown:
    """How frames of any type are shown: as bytes."""

    def __init__(self, stream: Stream) -> None:
        self.levels = stream.levels

    def bytes(self, image: Array) -> Array:
        """Return an image in eight bits, of one or three channels."""
        grey = np.clip(np.rint(self.levels.grey(image, 0)), 0, 255).astype(np.uint8)
        return np.asarray(grey[..., 0] if grey.shape[2] < 3 else grey[..., :3])


class _Writers:
    """The videos that are written while frames come, and what is counted."""

    def __init__(
        self,
        folder: Path,
        stream: Stream,
        background: bool,
        masks: bool,
        open_files: ExitStack,
    ) -> None:
        height, width = stream.levels.shape[:2]

        def separate_file(name: str, columns: int) -> VideoWriter:
            path, shape = folder / name, (height, columns)
            return open_files.enter_context(VideoWriter(path, stream.rate, shape))

        self._stream = stream
        self._mask = separate_file("mask.mp4", width)
        self._beside = separate_file("side-by-side.mp4", 3 * width)
        self._background = (
            separate_file("background.mp4", width) if background else None
        )
        self._masks = folder / "masks" if masks else None
        if self._masks is not None:
            self._masks.mkdir()
        self.activity: list[float] = []
        self.rank = 1

    def add(self, shown: _Shown, frame: Frame) -> tuple[Array, Array, Array]:
        """Write one frame; returns it, its background and its mask in bytes."""
        mask, image = frame.foreground, shown.bytes(frame.image)
        ground = shown.bytes(frame.background)
        white = mask.astype(np.uint8) * 255
        self._mask.write(white)
        self._beside.write(_beside(image, ground, mask))
        if self._background is not None:
            self._background.write(ground)
        if self._masks is not None:
            _save(self._masks / f"{frame.number:06d}.png", white)
        self.activity.append(float(mask.mean()))
        self.rank = max(self.rank, self._stream.rank)
        self.last = frame.background
        return image, ground, white


def _beside(image: Array, ground: Array, mask: Array) -> Array:
    """Return input, background, and input with what moves in colour, side by side."""
    if image.ndim == 2:
        image, ground = (np.repeat(a[..., None], 3, axis=-1) for a in (image, ground))
    marked = image // 2
    marked[mask] = (0.55 * image[mask] + 0.45 * TINT).astype(np.uint8)
    return np.concatenate([image, ground, marked], axis=1)


def _save(path: Path, image: Array) -> None:
    from PIL import Image

    held = io.BytesIO()
    Image.fromarray(image).save(held, "PNG")
    path.write_bytes(held.getvalue())


def _write_activity(path: Path, activity: Array, rate: float) -> None:
    """Write the share of foreground of each frame."""
    lines = [f"{k},{k / rate:.3f},{a:.6f}" for k, a in enumerate(activity)]
    path.write_text("\n".join(["frame,seconds,foreground", *lines]) + "\n")


@styled
def activity_plot(activity: Array, rate: float) -> "Figure":
    """Draw how much of the picture is foreground, over time."""
    figure, axes = new_figure(size=(8, 2.6))
    draw_activity(axes, np.arange(len(activity)) / rate, activity)
    axes.set(xlabel="seconds")
    return figure


def _full(error: OSError, output: Path) -> InputError:
    said = error.strerror or str(error)
    return InputError(f"Writing to {output} failed: {said}.")

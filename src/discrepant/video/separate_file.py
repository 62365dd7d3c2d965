"""Separate a video file: write background, masks and activity to a folder."""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from discrepant.core.display import png
from discrepant.core.linalg import Array
from discrepant.core.output_files import atomic_output_folder, write_summary
from discrepant.core.progress import Progress, StoppedError, reporting
from discrepant.video.figures import activity_plot
from discrepant.video.io.frame_source import open_frames
from discrepant.video.io.intensity import IntensityScale
from discrepant.video.io.video_file import VideoWriter, pyav
from discrepant.video.result import Frame
from discrepant.video.separate import DEFAULT_OPTIONS, SeparationOptions, Stream

Preview = Callable[[Array, Array, Array], None]  # frame, background and mask, uint8
PANELS = ("input", "background", "foreground")  # of the side-by-side video
MIN_LABEL_HEIGHT = 10  # pixels of the panels' names: smaller ones cannot be read
TINT = np.array([230, 40, 60], np.float32)  # RGB of moving objects, side by side


@dataclass(frozen=True)
class VideoReport:
    """Summary of a separated video, and the files that were written.

    ``active`` counts the frames with foreground; ``foreground`` is its fraction of all
    pixels. ``complete`` is False if Ctrl-C ended the run.
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

    def __str__(self) -> str:
        stopped = "" if self.complete else " (stopped early)"
        return (
            f"{self.file}: {self.frames} frames of {self.size[0]}×{self.size[1]}"
            f"{stopped}, {self.frames_a_second:.0f} frames per second; background of "
            f"rank {self.rank}, noise {self.noise:.2g}. Movement in {self.active} "
            f"frames, {self.foreground:.2%} of all pixels.\n"
            f"Written to {self.folder}: {', '.join(self.files)}."
        )


def separate_file(
    file: str,
    output: Path,
    *,
    background: bool = False,
    masks: bool = False,
    options: SeparationOptions = DEFAULT_OPTIONS,
    overwrite: bool = False,
    progress: bool | Progress | None = False,
    preview: Preview | None = None,
) -> VideoReport:
    """Separate a video, a folder, a camera or a pipe, and write the results.

    Parameters
    ----------
    file : str
        Path of a video or of a folder of images, the number of a camera, or "-" for a
        video from standard input.
    output : Path
        Folder for the results; created if needed.
    background : bool
        Also write the background as a video.
    masks : bool
        Also write each mask as a PNG.
    options : SeparationOptions
        Learning time, region of interest and model, see `separate`.
    overwrite : bool
        Replace existing results.
    progress : bool or callable
        See `discrepant.core.progress.reporting`. If it stops the work, the frames that
        are done are written.
    preview : callable, optional
        Called with each frame, its background and its mask, as they are written.
    """
    pyav()  # fail now: a folder is read without PyAV, but nothing is written
    is_camera = file.isdigit() and not Path(file).exists()
    source, _ = open_frames(int(file) if is_camera else Path(file))
    names = [
        "background.png", "mask.mp4", "side-by-side.mp4", "activity.csv", "boxes.csv",
        "model.npz", "activity.png", "summary.json",
    ]  # fmt: skip
    names += ["background.mp4"] * background + ["masks"] * masks
    with (
        reporting(progress, "Separating") as watch,
        atomic_output_folder(
            output, names, folders=["masks"], overwrite=overwrite, keep=Path(file)
        ) as scratch,
    ):
        started = time.perf_counter()
        stream = Stream(source, options)
        with ExitStack() as open_files:
            writers = _Writers(scratch, stream, background, masks, open_files)
            for count, frame in enumerate(stream, 1):
                images = writers.add(frame)
                if preview is not None:
                    preview(*images)
                speed = count / (time.perf_counter() - started)
                done = count / max(stream.count or 0, count + 1)
                if not watch(done, f"frame {count}, {speed:.0f} per second"):
                    break
        if not writers.activity:
            raise StoppedError("stopped before the first frame; nothing was written")
        seconds = time.perf_counter() - started
        activity = np.array(writers.activity)
        (scratch / "background.png").write_bytes(png(writers.last_background))
        _write_csv(scratch / "boxes.csv", "frame,x,y,width,height,area", writers.boxes)
        stream.save(scratch / "model.npz")
        rows = [
            (k, f"{k / stream.rate:.3f}", f"{a:.6f}") for k, a in enumerate(activity)
        ]
        _write_csv(scratch / "activity.csv", "frame,seconds,foreground", rows)
        activity_plot(activity, stream.rate).savefig(scratch / "activity.png")
        height, width = stream.scale.shape[:2]
        report = VideoReport(
            file=source.name,
            frames=len(activity),
            size=(width, height),
            rank=writers.rank,
            noise=float(np.median(stream.noise)),
            active=int(np.count_nonzero(activity)),
            foreground=float(activity.mean()),
            busiest=int(activity.argmax()),
            frames_a_second=round(len(activity) / seconds, 1),
            complete=not watch.stopped,
            caveats=tuple(stream.notes),
            seconds=round(seconds, 3),
            folder=output,
            files=tuple(names),
        )
        write_summary(scratch, report)
        watch(1.0, "done")
    return report


def _displayable(image: Array, scale: IntensityScale) -> Array:
    """Return an image in uint8, of one or three channels."""
    grey = np.clip(np.rint(scale.to_grey(image, 0)), 0, 255).astype(np.uint8)
    return np.asarray(grey[..., 0] if grey.shape[2] < 3 else grey[..., :3])


class _Writers:
    """The files that are written frame by frame, and the activity of each frame."""

    def __init__(
        self,
        folder: Path,
        stream: Stream,
        background: bool,
        masks: bool,
        open_files: ExitStack,
    ) -> None:
        height, width = stream.scale.shape[:2]

        def video(name: str, columns: int) -> VideoWriter:
            path, shape = folder / name, (height, columns)
            return open_files.enter_context(VideoWriter(path, stream.rate, shape))

        self._stream = stream
        self._labels = _panel_labels(height, width)
        self._mask = video("mask.mp4", width)
        self._side_by_side = video("side-by-side.mp4", 3 * width)
        self._background = video("background.mp4", width) if background else None
        self._masks = folder / "masks" if masks else None
        if self._masks is not None:
            self._masks.mkdir()
        self.activity: list[float] = []
        self.boxes: list[tuple[int, ...]] = []  # frame, x, y, width, height, area
        self.rank = 1

    def add(self, frame: Frame) -> tuple[Array, Array, Array]:
        """Write one frame; returns it, its background and its mask in uint8."""
        mask, scale = frame.foreground, self._stream.scale
        image = _displayable(frame.image, scale)
        background = _displayable(frame.background, scale)
        white = mask.astype(np.uint8) * 255
        self._mask.write(white)
        panels = _side_by_side(image, background, mask)
        dark = panels[: len(self._labels)]
        dark[:] = dark // 2 + (self._labels // 2)[..., None]
        self._side_by_side.write(panels)
        if self._background is not None:
            self._background.write(background)
        if self._masks is not None:
            (self._masks / f"{frame.number:06d}.png").write_bytes(png(white))
        self.activity.append(float(mask.mean()))
        self.boxes += [(frame.number, *box) for box in frame.boxes.tolist()]
        self.rank = max(self.rank, self._stream.rank)
        self.last_background = background
        return image, background, white


def _side_by_side(image: Array, background: Array, mask: Array) -> Array:
    """Return input, background, and input with the mask in colour, side by side."""
    if image.ndim == 2:
        image, background = (
            np.repeat(grey[..., None], 3, axis=-1) for grey in (image, background)
        )
    marked = image // 2
    marked[mask] = (0.55 * image[mask] + 0.45 * TINT).astype(np.uint8)
    return np.concatenate([image, background, marked], axis=1)


def _panel_labels(height: int, width: int) -> Array:
    """Return the names of the three panels, written in white on a black strip.

    The strip has no rows if a panel is too small for its name.
    """
    from PIL import Image, ImageDraw, ImageFont

    size = max(MIN_LABEL_HEIGHT, height // 20)
    font = ImageFont.load_default(size)
    strip = Image.new("L", (3 * width, size * 3 // 2))
    draw = ImageDraw.Draw(strip)
    if max(draw.textlength(label, font) for label in PANELS) > 0.9 * width:
        return np.zeros((0, 3 * width), np.uint8)
    for number, label in enumerate(PANELS):
        draw.text((number * width + size // 2, size // 8), label, 255, font)
    return np.asarray(strip)


def _write_csv(path: Path, header: str, rows: Iterable[Iterable[object]]) -> None:
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join([header, *lines]) + "\n")

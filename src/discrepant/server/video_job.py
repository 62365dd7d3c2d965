"""Separate moving objects from the background in an uploaded video."""

import shlex
import time
from pathlib import Path

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Report, StoppedError
from discrepant.server.image_job import replace_image
from discrepant.server.jobs import JobResult, ShowPreviews, Upload
from discrepant.video.io.video_file import VideoFile
from discrepant.video.separate_file import separate_file

# 20 minutes at 25 frames per second; a small file may declare any number of frames.
MAX_FRAMES = 30_000
PREVIEW_INTERVAL = 0.4  # seconds between previews
ACTIVITY_POINTS = 600  # points of the activity curve
PREVIEWS = ("frame", "background", "foreground")


def separate_upload(
    upload: Upload, folder: Path, report: Report, show: ShowPreviews
) -> JobResult:
    """Separate the foreground from the background of an uploaded video.

    Parameters
    ----------
    upload : Upload
        The video.
    folder : Path
        Folder for the results.
    report : callable
        Receives the progress; returns False to stop.
    show : callable
        Receives the names of previews: a frame, its background and its mask.
    """
    started = time.perf_counter()
    result_folder = folder / "result"
    if (VideoFile(upload.path).count or 0) > MAX_FRAMES:
        raise _too_long(upload.name)

    def report_or_stop(fraction: float, note: str) -> bool:
        if not report(fraction, note):  # a cancelled job needs no partial result
            raise StoppedError("cancelled")
        return True

    report_or_stop(0, "reading the first frames")
    previews = PreviewWriter(folder, show, upload.name)
    separated = separate_file(
        str(upload.path), result_folder, progress=report_or_stop, preview=previews
    )
    activity = np.loadtxt(
        result_folder / "activity.csv",
        delimiter=",",
        skiprows=1,
        usecols=(1, 2),
        ndmin=2,
    )
    return JobResult(
        page_data={
            "headline": _headline(separated.active, separated.frames),
            "notes": [
                note.replace(upload.path.name, upload.name)
                for note in separated.caveats
            ],
            "size": list(separated.size),
            "activity": _activity_curve(activity),
            "length": float(activity[-1, 0]),
            "downloads": [
                {"file": name, "as": f"{upload.stem}-{name}"}
                for name in separated.files
            ],
            "seconds": round(time.perf_counter() - started, 1),
            "command": f"discrepant video {shlex.quote(upload.name)} "
            f"-o {shlex.quote(upload.stem)}",
            "python": f"result = discrepant.separate({upload.name!r})",
        },
        files={name: result_folder / name for name in separated.files},
    )


class PreviewWriter:
    """Writes previews of a running job, and stops videos with too many frames."""

    def __init__(self, folder: Path, show: ShowPreviews, name: str) -> None:
        self._folder, self._show, self._name = folder, show, name
        self._frames, self._next_time = 0, 0.0

    def __call__(self, *images: Array) -> None:
        """Count a frame; write it with its background and mask if it is time."""
        self._frames += 1
        if self._frames > MAX_FRAMES:
            raise _too_long(self._name)
        if time.monotonic() < self._next_time:
            return
        for name, image in zip(PREVIEWS, images, strict=True):
            replace_image(self._folder / f"{name}.png", image)
        self._show({name: f"{name}.png" for name in PREVIEWS})
        self._next_time = time.monotonic() + PREVIEW_INTERVAL


def _too_long(name: str) -> InputError:
    return InputError(
        f"{name} has more than {MAX_FRAMES:,} frames, the limit of this page; the "
        "command line has no limit."
    )


def _headline(active: int, frames: int) -> str:
    if not active:
        return f"No movement found in {frames} frames."
    number = f"all {frames}" if active == frames else f"{active} of {frames}"
    return f"Movement found in {number} frames."


def _activity_curve(activity: Array) -> list[list[float]]:
    """Return time in seconds and fraction of foreground; peaks only, if long."""
    parts = np.array_split(activity, min(len(activity), ACTIVITY_POINTS))
    return [[round(float(p[0, 0]), 3), round(float(p[:, 1].max()), 6)] for p in parts]

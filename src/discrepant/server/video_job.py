"""A video told apart for the page: what is in front, and what stands behind it."""

import shlex
import threading
import time
from pathlib import Path

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Report, StoppedError
from discrepant.server.image_job import replace_shown
from discrepant.server.job_result import Outcome, Show, Upload
from discrepant.video.io.video_file import VideoFile, rewrite
from discrepant.video.separate_file import separate_file

FRAMES = 30_000  # of a video, at most: 20 minutes; a tiny file may declare any number
PAUSE = 0.4  # seconds between pictures that are shown meanwhile
POINTS = 600  # of the drawn activity
SHOWN = ("frame", "ground", "front")


def heal_video(upload: Upload, folder: Path, report: Report, show: Show) -> Outcome:
    """Tell background from foreground in an uploaded video.

    Parameters
    ----------
    upload : Upload
        The video.
    folder : Path
        Where results go.
    report : callable
        Told of the progress; False ends the work.
    show : callable
        Told of the present frame, its background and its mask now and then.
    """
    started = time.perf_counter()
    result = folder / "result"
    if (VideoFile(upload.path).count or 0) > FRAMES:
        raise _too_long(upload.name)

    def going(share: float, note: str) -> bool:
        if not report(share, note):  # nobody will look at what is done so far
            raise StoppedError("cancelled")
        return True

    going(0, "looking at the first frames")
    look = _Look(folder, show, upload.name)
    found = separate_file(str(upload.path), result, progress=going, look=look)
    activity = np.loadtxt(
        result / "activity.csv", delimiter=",", skiprows=1, usecols=(1, 2), ndmin=2
    )
    return Outcome(
        facts={
            "headline": _headline(found.active, found.frames),
            "caveats": [
                said.replace(upload.path.name, upload.name) for said in found.caveats
            ],
            "size": list(found.size),
            "activity": _drawn(activity),
            "length": float(activity[-1, 0]),
            "downloads": [
                {"file": name, "as": f"{upload.stem}-{name}"} for name in found.files
            ],
            "seconds": round(time.perf_counter() - started, 1),
            "command": f"discrepant video {shlex.quote(upload.name)} "
            f"-o {shlex.quote(upload.stem)}",
            "python": f"found = discrepant.separate({upload.name!r})",
        },
        files={name: result / name for name in found.files},
        kept=threading.Lock(),  # one rewrites at a time
    )


def as_webm(outcome: Outcome, name: str) -> str:
    """Write a video again for browsers that do not play MP4; returns its file's name.

    Parameters
    ----------
    outcome : Outcome
        Of `heal_video`; what is made is added to its files.
    name : str
        Which of its videos.
    """
    path = outcome.files[name]
    made = path.with_suffix(".webm")
    with outcome.kept:
        if made.name not in outcome.files:
            fresh = path.with_name(f"fresh-{made.name}")
            rewrite(path, fresh)
            outcome.files[made.name] = fresh.replace(made)
    return made.name


class _Look:
    """Shows the page a frame now and then, and ends what has too many of them."""

    def __init__(self, folder: Path, show: Show, name: str) -> None:
        self._folder, self._show, self._name = folder, show, name
        self._count, self._next = 0, 0.0

    def __call__(self, *pictures: Array) -> None:
        self._count += 1
        if self._count > FRAMES:
            raise _too_long(self._name)
        if time.monotonic() < self._next:
            return
        for name, image in zip(SHOWN, pictures, strict=True):
            replace_shown(self._folder / f"{name}.png", image)
        self._show({name: f"{name}.png" for name in SHOWN})
        self._next = time.monotonic() + PAUSE


def _too_long(name: str) -> InputError:
    return InputError(
        f"{name} has more than {FRAMES:,} frames, which is what this page takes at "
        "most; on the command line there is no limit."
    )


def _headline(active: int, frames: int) -> str:
    if not active:
        return f"Nothing moves in these {frames} frames."
    return f"Something is in front in {active} of {frames} frames."


def _drawn(activity: Array) -> list[list[float]]:
    """Return seconds and share of foreground, of long videos the peaks only."""
    parts = np.array_split(activity, min(len(activity), POINTS))
    return [[round(float(p[0, 0]), 3), round(float(p[:, 1].max()), 6)] for p in parts]

"""The front door for videos: `separate`."""

import warnings
from bisect import bisect_right
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.memory import check_memory
from discrepant.core.progress import Progress, StoppedError, reporting
from discrepant.core.validation import check_flag
from discrepant.video.io.frame_source import open_frames
from discrepant.video.model.background import Background, Place
from discrepant.video.model.foreground import CHANCES
from discrepant.video.result import Lazy, Separation
from discrepant.video.stream import Stream

PLATES = 64  # snapshots of the background that are kept, at most


def separate(
    frames: Any, *, stream: bool | None = None, progress: bool | Progress | None = False
) -> Separation | Stream:
    """Tell what moves from what stands still, in the video of a fixed camera.

    The background is of low rank: a plate in the present light, and patterns of its
    changes, found as they show. Each pixel has noise of its own size. What neither
    explains is foreground, judged together with its neighbours in space and time.
    Nothing needs to be told.

    Parameters
    ----------
    frames : array, path, int or iterable
        An array (time, rows, columns[, channels]), the path of a video file or of a
        folder of images, the number of a camera, or any iterable of frames.
    stream : bool, optional
        Whether to hand back a `Stream` that yields frame by frame in bounded memory.
        By default so for cameras and iterators, and not for what can be read again.
    progress : bool or callable
        See `core.progress.reporting`. Told to stop, what is done is handed back.

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
    >>> found = separate(frames)
    >>> found.foreground.shape == truth.shape
    True
    """
    if stream is not None:
        check_flag("stream", stream)
    source, again = open_frames(frames)
    flow = Stream(source)
    if stream or (stream is None and not again):
        return flow
    found = _gathered(flow, progress)
    for note in found.notes:
        warnings.warn(note, stacklevel=2)
    return found


class _Plates:
    """Snapshots of the background, ever farther apart, so that few are kept.

    Where the background begins anew, one is kept in any case.
    """

    def __init__(self) -> None:
        self.every, self.kept = 8, dict[int, tuple[Array, tuple[int, ...]]]()
        self.begins: list[int] = []

    def take(self, number: int, scene: Background, begins: list[int]) -> None:
        if number % self.every and number not in begins[-1:]:
            return
        self.begins = begins
        U = scene.U
        narrow = np.abs(U).max() < np.finfo(np.float16).max  # no hot pixel
        U = U.astype(np.float16 if narrow else np.float32)
        self.kept[number] = U, scene.patterns
        if len(self.kept) > PLATES + len(begins):
            self.every *= 2
            firsts = {0, *begins}
            self.kept = {
                k: v for k, v in self.kept.items() if k % self.every == 0 or k in firsts
            }

    def near(self, number: int, place: Place) -> tuple[Array, Array]:
        """Return the best snapshot for a frame, and the frame's coefficients in it.

        Of the snapshots just before and just after the frame, in its scene, that is the
        one with more of the frame's patterns, or else the nearer. The coefficient of a
        pattern that the frame does not have is 0.
        """
        scene = bisect_right(self.begins, number)
        same = [k for k in self.kept if bisect_right(self.begins, k) == scene]
        after = bisect_right(same, number)
        coefficients = dict(zip(place.patterns, place.c, strict=True))

        def fitness(k: int) -> tuple[int, int]:
            return len(coefficients.keys() & set(self.kept[k][1])), -abs(k - number)

        U, patterns = self.kept[max(same[max(after - 1, 0) : after + 1], key=fitness)]
        c = [coefficients.get(pattern, 0.0) for pattern in patterns]
        return U.astype(np.float32), np.array(c, np.float32)


def _check_held(name: str, frames: int, shape: tuple[int, ...]) -> None:
    """Refuse a video of which too much would be kept: two bytes a pixel at the end."""
    needed = 2 * frames * shape[0] * shape[1]
    check_memory(Path(name), needed, "pass stream=True and take it frame by frame")


def _gathered(flow: Stream, progress: bool | Progress | None) -> Separation:
    """Run through a video and keep what a `Separation` needs."""
    from discrepant.video.model import background_kernels as kernels

    masks, beliefs, places = list[Array](), list[Array](), list[Place]()
    plates, most = _Plates(), 1
    shape = flow.levels.shape[:2]
    _check_held(flow.name, flow.count or 0, shape)
    with reporting(progress, "Separating") as watch:
        for number, _, place in flow.judged():
            if number % 64 == 0:  # for those that do not say how many they are
                _check_held(flow.name, number, shape)
            masks.append(np.packbits(flow.work.front.mask))
            beliefs.append(flow.work.front.said.copy())
            places.append(place._replace(away=np.empty(0)))
            plates.take(number, flow.work.scene, flow.work.begins)
            most = max(most, len(place.c))
            if not watch((number + 1) / max(flow.count or 0, number + 2), ""):
                break
    if not masks:
        raise StoppedError("stopped before the first frame")
    scene = flow.work.scene
    across, white = scene.light.across, scene.white

    def background(number: int) -> Array:
        place = places[number]
        U, c = plates.near(number, place)
        out = np.empty(U.shape[1:], np.float32)
        modes = across[: place.light.shape[1]]
        kernels.expect(U, c, place.light, modes, white, out, 0, len(out))
        return flow.levels.back(out, flow.unseen)

    def chance(number: int) -> Array:
        return np.asarray(CHANCES[beliefs[number]])

    bits = np.unpackbits(np.stack(masks), axis=1, count=shape[0] * shape[1])
    return Separation(
        background=Lazy(len(places), background),
        foreground=bits.reshape(-1, *shape).view(bool),
        probability=Lazy(len(places), chance),
        rank=most,
        noise=flow.noise,
        notes=tuple(flow.notes),
    )

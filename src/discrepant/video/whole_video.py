"""The result of `separate` for a whole video, gathered frame by frame."""

from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.memory import check_memory
from discrepant.core.progress import Progress, StoppedError, reporting
from discrepant.video.result import LazyFrames, Separation

if TYPE_CHECKING:
    from discrepant.video.model.background import Background, FrameFit
    from discrepant.video.separate import Stream

MAX_SNAPSHOTS = 64  # snapshots of the background that are kept
FIRST_INTERVAL = 8  # frames between snapshots at the start; doubled when there are many


def separate_whole(flow: "Stream", progress: bool | Progress | None) -> Separation:
    """Process all frames of a stream, and keep what a `Separation` needs.

    Masks are kept as bits and scores in 8 bits; the background of a frame is computed
    on request, from the frame's fit and a snapshot of the background.
    """
    from discrepant.video.model.background_kernels import predict
    from discrepant.video.model.registration import move
    from discrepant.video.model.separator import PROBABILITY

    masks, score_codes, fits = list[Array](), list[Array](), list["FrameFit"]()
    snapshots = BackgroundSnapshots()
    rank = 1
    shape = flow.scale.shape[:2]
    separator = flow.separator
    _check_result_size(flow.name, flow.count or 0, shape)
    with reporting(progress, "Separating") as watch:
        for number, image, fit in flow.process():
            if flow.options.on_frame is not None:
                flow.options.on_frame(flow.frame(number, image))
            if number % 64 == 0:  # sources that do not know their number of frames
                _check_result_size(flow.name, number, shape)
            masks.append(np.packbits(separator.mask))
            score_codes.append(separator.score_code.copy())
            fits.append(fit._replace(residuals=np.empty(0)))
            snapshots.add(number, separator.background, separator.scene_starts)
            rank = max(rank, len(fit.coefficients))
            if not watch((number + 1) / max(flow.count or 0, number + 2), ""):
                break
    if not masks:
        raise StoppedError("stopped before the first frame")
    column_modes = separator.background.illumination.column_modes
    white = separator.background.white

    def background(number: int) -> Array:
        gains = fits[number].row_gains
        image, patterns, c = snapshots.nearest(number, fits[number])
        out = np.empty(image.shape, np.float32)
        modes = column_modes[: gains.shape[1]]
        predict(image, patterns, c, gains, modes, white, out, 0, len(out))
        if fits[number].shift != (0, 0):
            out = move(out, *fits[number].shift, fill=out)
        return flow.scale.from_grey(out, flow.never_observed)

    def probability(number: int) -> Array:
        return np.asarray(PROBABILITY[score_codes[number]])

    bits = np.unpackbits(np.stack(masks), axis=1, count=shape[0] * shape[1])
    return Separation(
        background=LazyFrames(len(fits), background),
        foreground=bits.reshape(-1, *shape).view(bool),
        probability=LazyFrames(len(fits), probability),
        rank=rank,
        noise=flow.noise,
        notes=tuple(flow.notes),
        _separator=separator,
    )


def _check_result_size(name: str, frames: int, shape: tuple[int, ...]) -> None:
    """Refuse a video whose result, two bytes per pixel, does not fit into memory."""
    needed = 2 * frames * shape[0] * shape[1]
    check_memory(Path(name), needed, "pass stream=True and take it frame by frame")


class BackgroundSnapshots:
    """Snapshots of the background, at intervals that grow with the video.

    The first of each scene is always kept.
    """

    def __init__(self) -> None:
        self.interval = FIRST_INTERVAL
        # Frame number to background image, patterns and their numbers.
        self._snapshots = dict[int, tuple[Array, Array, tuple[int, ...]]]()
        self._scene_starts: list[int] = []

    def add(
        self, number: int, background: "Background", scene_starts: list[int]
    ) -> None:
        """Keep a snapshot if this frame is due for one."""
        if number % self.interval and number not in scene_starts[-1:]:
            return
        self._scene_starts = scene_starts
        image, patterns = background.state.image, background.state.patterns
        # A hot pixel may exceed the range of half precision.
        largest = max(np.abs(image).max(), np.abs(patterns).max(initial=0))
        dtype = np.float16 if largest < np.finfo(np.float16).max else np.float32
        self._snapshots[number] = (
            image.astype(dtype),
            patterns.astype(dtype),
            background.pattern_ids,
        )
        if len(self._snapshots) > MAX_SNAPSHOTS + len(scene_starts):
            self.interval *= 2
            first = {0, *scene_starts}
            self._snapshots = {
                k: snapshot
                for k, snapshot in self._snapshots.items()
                if k % self.interval == 0 or k in first
            }

    def nearest(self, number: int, fit: "FrameFit") -> tuple[Array, Array, Array]:
        """Return the best snapshot for a frame, and the frame's coefficients in it.

        Of the snapshots just before and just after the frame, in its scene, that is the
        one with more of the frame's patterns, or else the nearer. The coefficient of a
        pattern that the frame does not have is 0.
        """
        scene = bisect_right(self._scene_starts, number)
        same_scene = [
            k for k in self._snapshots if bisect_right(self._scene_starts, k) == scene
        ]
        after = bisect_right(same_scene, number)
        coefficients = dict(zip(fit.pattern_ids, fit.coefficients, strict=True))

        def fitness(k: int) -> tuple[int, int]:
            shared = coefficients.keys() & set(self._snapshots[k][2])
            return len(shared), -abs(k - number)

        best = max(same_scene[max(after - 1, 0) : after + 1], key=fitness)
        image, patterns, pattern_ids = self._snapshots[best]
        c = [coefficients.get(pattern, 0.0) for pattern in pattern_ids]
        return (
            image.astype(np.float32),
            patterns.astype(np.float32),
            np.array(c, np.float32),
        )

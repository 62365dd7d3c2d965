"""The stages that separate a frame; `Stream` calls them in their order.

Importing this module loads the compiler.
"""

import math
from collections import deque
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.video.model import mask_kernels as kernels
from discrepant.video.model.background import Background, FrameFit
from discrepant.video.model.background_kernels import MaskArrays
from discrepant.video.model.mask_kernels import FeedbackState, RunBuffers
from discrepant.video.model.registration import find_shift, move
from discrepant.video.model.row_bands import Band, RowBands
from discrepant.video.model.scene_changes import (
    RETURN_FRACTION,
    STILL_FRAMES,
    SceneChanges,
)
from discrepant.video.model.settings import (
    BORDER_CONTRAST,
    DETAIL_SIDE,
    MAX_BORDER_DEPTH,
    MAX_DETAIL,
    MAX_GHOST_SPEED,
    MAX_HOLE,
    MAX_HOLE_FRACTION,
    MEDIAN_RADIUS,
    MIN_AREA_FRACTION,
    MIN_COMPONENT,
    MIN_THICKNESS,
    OUTLINE_VOTE,
    PATTERN_WINDOW,
    FeedbackSettings,
    PixelSettings,
)


class Separator:
    """Separate the frames of a video into background and foreground, in their order.

    Parameters
    ----------
    first : ndarray of shape (frames, rows, columns, channels)
        The first frames, or a sample of later ones, in grey levels.
    age : float
        Number of frames that their median counts for.
    learning_time : float
        Number of frames after which an object that stays becomes background.
    roi : ndarray of bool, (rows, columns), optional
        Region of interest: pixels outside it are never foreground.

    Attributes
    ----------
    background : Background
        Of the present scene.
    predicted : ndarray of shape (rows, columns, channels)
        The background of the last frame, in grey levels and registered.
    shift : tuple of int
        How far the last frame lay below and right of the background, in pixels.
    mask : ndarray of bool, (rows, columns)
        The foreground of the last frame.
    learning : bool
        Whether frames update the background; False freezes it.
    scene_starts : list of int
        Frames at which the background started again.
    """

    def __init__(
        self,
        first: Array,
        age: float,
        learning_time: float,
        roi: Array | None = None,
    ) -> None:
        shape = first.shape[1:]
        self._bands = RowBands(shape)
        self.background = Background(first, age, self._bands)
        self.shift, self.learning = (0, 0), True
        self._outside = np.zeros(shape[:2], bool) if roi is None else ~roi
        self.predicted = np.empty(shape, np.float32)
        self.mask = self._aligned_mask = np.zeros(shape[:2], bool)
        self._pixel_settings = PixelSettings.of(shape[2])
        self._max_hole = max(MAX_HOLE, int(MAX_HOLE_FRACTION * self.mask.size))
        runs = shape[0] * (shape[1] // 2 + 1)
        self._runs, self._old_runs = _run_buffers(runs), _run_buffers(runs)
        side = math.sqrt(self.mask.size)
        self._detail = max(1, min(round(side / DETAIL_SIDE), MAX_DETAIL))
        self._feedback_settings = FeedbackSettings(margin=self._detail)
        radii = np.zeros(self.mask.shape, np.int32)
        self._median_buffers = radii, np.zeros(np.add(radii.shape, 1), np.int32)
        # Votes per frame of an object, so that it is absorbed after `learning_time`.
        max_age = self.background.settings.max_age
        self._object_speed = np.float32(max_age / max(learning_time, 1.0))
        self._recent: deque[tuple[Array, Array]] = deque(maxlen=PATTERN_WINDOW)
        self._count = 0
        self._previous_scene: Background | None = None
        self.scene_starts: list[int] = []
        self._start_scene()

    def _start_scene(self) -> None:
        """Forget what the classification has of earlier frames."""
        shape = self.mask.shape
        self._arrays = MaskArrays(
            score=np.zeros(shape, np.float32),
            score_code=np.zeros(shape, np.uint8),
            component_mask=np.zeros(shape, bool),
            held=np.zeros(shape, bool),
            absorption_speed=np.ones(shape, np.float32),
        )
        self._feedback = FeedbackState(
            factor=np.ones(shape, np.float32),
            component=np.full(shape, -1, np.int32),
            vanished=np.zeros(shape, bool),
        )
        self._runs.total[0] = self._old_runs.total[0] = 0
        self._scene_changes = SceneChanges()
        self._recent.clear()

    @property
    def score_code(self) -> Array:
        """Smoothed score of the last frame in 8 bits, see `PROBABILITY`."""
        return self.in_frame(self._arrays.score_code)

    def register(self, frame: Array) -> Array:
        """Return a frame in the position of the background; `shift` is its own."""
        background = self.background
        image = background.state.image
        self.shift = find_shift(
            frame, image, background.pixels, background.sampled_noise
        )
        if self.shift != (0, 0):
            down, right = self.shift
            fill = np.clip(np.rint(image), 0, 255) if frame.dtype == np.uint8 else image
            frame = move(frame, -down, -right, fill.astype(frame.dtype))
        return frame

    def in_frame(self, array: Array) -> Array:
        """Return an array of the background's position in that of the last frame."""
        if self.shift == (0, 0):
            return array
        return move(array, *self.shift, fill=array)

    def predict_background(self, frame: Array) -> FrameFit:
        """Fit light and patterns of the background to a frame; fill `predicted`."""
        background = self.background
        fit = background.fit_frame(frame)
        self._bands.each(lambda band: background.predict(fit, self.predicted, band))
        return fit

    def score_pixels(self, frame: Array) -> None:
        """Score each pixel by its residual, shadows and its neighbours."""
        arrays, settings = self._arrays, self._pixel_settings
        background = self.background

        def score(band: Band) -> None:
            kernels.score_pixels(
                frame, self.predicted, background.state, self._feedback.factor,
                background.settings.learning_rate, arrays.score, *band, settings,
            )  # fmt: skip

        self._bands.each(score)
        weight = settings.space_weight
        self._bands.each(lambda band: kernels.smooth_scores(arrays, weight, *band))
        arrays.component_mask[self._outside] = False
        arrays.score_code[self._outside] = 0

    def find_components(self, frame: Array) -> None:
        """Find connected components: objects, and ghosts to absorb sooner."""
        arrays, mask = self._arrays, self._arrays.component_mask
        kernels.clean_components(mask, MIN_COMPONENT, self._max_hole, self._runs)
        kernels.absorption_speed(
            frame, self.predicted, self.background.state.variance, mask, OUTLINE_VOTE,
            MAX_GHOST_SPEED, self._object_speed, self._runs, arrays.absorption_speed,
        )  # fmt: skip

    def scene_changed(self, frame: Array) -> bool:
        """Detect another scene and continue with its background.

        The previous scene is recognised at once, a new one after some frames.
        """
        if not self.learning:
            return False
        scene, previous = self.background, self._previous_scene
        values = frame.reshape(-1, frame.shape[-1])[scene.pixels].astype(np.float32)
        covered = self._arrays.component_mask.ravel()[scene.pixels]
        if self._scene_changes.add_frame(values, scene.sampled_noise, covered):
            recent = [old for old, _ in self._recent][1 - STILL_FRAMES :]
            first = np.stack([*recent, frame])
            self.background = Background(first, STILL_FRAMES, self._bands)
        elif (
            self._scene_changes.suspected
            and previous is not None
            and previous.matches(frame, RETURN_FRACTION)
        ):
            self.background = previous
        else:
            return False
        self._previous_scene = scene
        self._start_scene()
        self.scene_starts.append(self._count)
        return True

    def follow_components(self) -> None:
        """Follow components from frame to frame; raise the feedback where they vanish.

        The background is held under components, and beside objects that stay.
        """
        arrays, settings = self._arrays, self._feedback_settings
        if not self.learning:
            settings = settings._replace(growth=np.float32(1), decay=np.float32(1))
        kernels.update_feedback(self._runs, self._old_runs, self._feedback, settings)
        kernels.hold(arrays, self._runs, settings.lifetime, self._object_speed)

    def update_background(self, frame: Array, fit: FrameFit) -> None:
        """Update image, patterns and noise; search for patterns now and then."""
        if not self.learning:
            return
        background, arrays, predicted = self.background, self._arrays, self.predicted
        gains = background.pattern_gains(fit.coefficients)
        self._bands.each(
            lambda band: background.update(frame, predicted, arrays, fit, gains, band)
        )
        self._recent.append((frame, arrays.held.copy()))
        if (self._count + 1) % PATTERN_WINDOW == 0:
            background.drop_weak_patterns()
            background.find_patterns(list(self._recent))

    def finish_mask(self, frame: Array) -> None:
        """Fill the mask, with soft borders trimmed and outlines smoothed."""
        covered = self._arrays.component_mask
        depth = min(self._detail, MAX_BORDER_DEPTH)
        trimmed = kernels.trim_borders(
            frame, self.predicted, covered, self._runs, depth, BORDER_CONTRAST
        )
        kernels.smooth_mask(
            trimmed, covered, self._runs, MEDIAN_RADIUS, self._detail,
            MIN_AREA_FRACTION * trimmed.size, MIN_THICKNESS, self._median_buffers,
            self._aligned_mask,
        )  # fmt: skip
        self._runs, self._old_runs = self._old_runs, self._runs
        self.mask = self.in_frame(self._aligned_mask) & ~self._outside
        self._count += 1

    def save(self, path: str | Path) -> None:
        """Write the background and the feedback to a NumPy archive (.npz)."""
        arrays: dict[str, Any] = self.background.arrays()
        np.savez_compressed(path, **arrays, feedback=self._feedback.factor)

    def load(self, path: str | Path) -> None:
        """Continue with the background and the feedback that `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                saved = {name: archive[name] for name in archive.files}
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            reason = getattr(error, "strerror", None) or "it is not what `save` writes"
            raise InputError(f"{path} cannot be read as a model: {reason}.") from None
        self.background.restore(saved, str(path))
        self._feedback.factor[:] = saved["feedback"]

    def close(self) -> None:
        """Shut down the threads."""
        self._bands.close()


def _run_buffers(count: int) -> RunBuffers:
    starts, ends, rows, parent, age = np.empty((5, count), np.int32)
    total, sums = np.zeros(1, np.int32), np.empty((count, 3))
    return RunBuffers(starts, ends, rows, parent, sums, age, total)


def _probabilities() -> Array:
    """Return the probability of each 8-bit code of s = v/(1 + |v|), v the log-odds."""
    smoothed = np.arange(256) / 127.5 - 1
    log_odds = smoothed / np.maximum(1 - np.abs(smoothed), 1e-3)
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -30, 30))), np.float32)


PROBABILITY = _probabilities()

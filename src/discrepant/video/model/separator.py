"""Classification of one frame after the other: fit, predict, classify, update.

Importing this module loads the compiler.
"""

from collections import deque

import numpy as np

from discrepant.core.linalg import Array
from discrepant.video.model import mask_kernels as kernels
from discrepant.video.model.background import Background, FrameFit
from discrepant.video.model.mask_kernels import MaskArrays, RunBuffers
from discrepant.video.model.row_bands import Band, RowBands
from discrepant.video.model.scene_changes import (
    RETURN_FRACTION,
    STILL_FRAMES,
    SceneChanges,
)
from discrepant.video.model.settings import (
    BORDER_CONTRAST,
    MAX_GHOST_SPEED,
    OUTLINE_VOTE,
    PATTERN_WINDOW,
    ComponentSettings,
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

    Attributes
    ----------
    background : Background
        Of the present scene.
    predicted : ndarray of shape (rows, columns, channels)
        The background of the last frame, in grey levels.
    mask : ndarray of bool, (rows, columns)
        The foreground of the last frame.
    scene_starts : list of int
        Frames at which the background started again.
    """

    def __init__(self, first: Array, age: float) -> None:
        shape = first.shape[1:]
        self._bands = RowBands(shape)
        self.background = Background(first, age, self._bands)
        self.predicted = np.empty(shape, np.float32)
        self.mask = np.zeros(shape[:2], bool)
        self._pixel_settings = PixelSettings.of(shape[2])
        self._component_settings = ComponentSettings.of(self.mask.size)
        runs = shape[0] * (shape[1] // 2 + 1)
        starts, ends, rows, parent = np.empty((4, runs), np.int32)
        self._runs = RunBuffers(starts, ends, rows, parent, np.empty((runs, 3)))
        self._recent: deque[tuple[Array, Array]] = deque(maxlen=PATTERN_WINDOW)
        self._count = 0
        self._previous_scene: Background | None = None
        self.scene_starts: list[int] = []
        self._start_scene()

    def _start_scene(self) -> None:
        """Forget what the classification has of earlier frames."""
        shape = self.mask.shape
        self._arrays = MaskArrays(
            pixel_mask=np.zeros(shape, bool),
            score=np.zeros(shape, np.float32),
            score_code=np.zeros(shape, np.uint8),
            component_mask=np.zeros(shape, bool),
            absorption_speed=np.ones(shape, np.float32),
        )
        self._smoothed, self._previous = np.zeros((2, *shape), np.float32)
        self._scene_changes = SceneChanges()
        self._recent.clear()

    @property
    def score_code(self) -> Array:
        """Smoothed score of the last frame in 8 bits, see `PROBABILITY`."""
        return self._arrays.score_code

    @property
    def probability(self) -> Array:
        """Probability that each pixel of the last frame is foreground."""
        return np.asarray(PROBABILITY[self.score_code])

    def process(self, frame: Array) -> FrameFit:
        """Classify one frame, then update the background."""
        fit = self._classify(frame)
        if self._scene_changed(frame):
            fit = self._classify(frame)
        self._update(frame, fit)
        return fit

    def _classify(self, frame: Array) -> FrameFit:
        """Predict the background of a frame, and classify its pixels."""
        background, predicted, arrays = self.background, self.predicted, self._arrays
        fit = background.fit_frame(frame)
        self._bands.each(lambda band: background.predict(fit, predicted, band))
        # Shadows and smoothing of a band use the rows beside it: predict all first.
        self._bands.each(lambda band: self._classify_pixels(frame, band))
        kernels.clean_components(
            arrays.score, arrays.component_mask, self._component_settings, self._runs
        )
        kernels.ghost_speed(
            frame, predicted, background.state.variance, arrays.component_mask,
            OUTLINE_VOTE, MAX_GHOST_SPEED, self._runs, arrays.absorption_speed,
        )  # fmt: skip
        self._smoothed, self._previous = self._previous, self._smoothed
        return fit

    def _classify_pixels(self, frame: Array, band: Band) -> None:
        state = self.background.state
        kernels.classify(
            frame, self.predicted, state.variance, state.flip_rate, self._previous,
            self._smoothed, self._arrays, *band, self._pixel_settings,
        )  # fmt: skip

    def _scene_changed(self, frame: Array) -> bool:
        """Detect another scene and continue with its background.

        The previous scene is recognised at once, a new one after some frames.
        """
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

    def _update(self, frame: Array, fit: FrameFit) -> None:
        """Trim the mask's borders, and update the background where it is clear."""
        background, arrays = self.background, self._arrays
        covered = arrays.component_mask
        pattern_gains = background.pattern_gains(fit.coefficients)

        def update(band: Band) -> None:
            kernels.trim_borders(
                frame, self.predicted, covered, BORDER_CONTRAST, self.mask, *band
            )
            background.update(
                frame, self.predicted, covered, arrays.pixel_mask,
                arrays.absorption_speed, fit, pattern_gains, band,
            )  # fmt: skip

        self._bands.each(update)
        self._recent.append((frame, covered.copy()))
        self._count += 1
        if self._count % PATTERN_WINDOW == 0:
            background.drop_weak_patterns()
            background.find_patterns(list(self._recent))

    def close(self) -> None:
        """Shut down the threads."""
        self._bands.close()


def _probabilities() -> Array:
    """Return the probability of each 8-bit code of s = v/(1 + |v|), v the log-odds."""
    smoothed = np.arange(256) / 127.5 - 1
    log_odds = smoothed / np.maximum(1 - np.abs(smoothed), 1e-3)
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -30, 30))), np.float32)


PROBABILITY = _probabilities()

"""What is in front: each pixel's odds, heard together, cleaned to whole things."""

import numpy as np

from discrepant.core.linalg import Array
from discrepant.video.model.background import Background, Tuning
from discrepant.video.model.bands import Band


class Foreground:
    """Mask and belief of the frame at hand, and what the last one leaves for the next.

    ``covered`` is where the background is hidden, edges and all; ``mask``, where a
    thing covers more than half of a pixel.
    """

    def __init__(self, size: tuple[int, ...], tuning: Tuning) -> None:
        shape, channels = size[:2], size[2]
        self.belief, self._before = np.zeros((2, *shape), np.float32)
        self.odds = np.zeros(shape, np.float32)
        self.said = np.zeros(shape, np.uint8)  # the belief, in eight bits
        self.haste = np.ones(shape, np.float32)
        self.raw, self.covered, self.mask = np.zeros((3, *shape), bool)
        runs = shape[0] * (shape[1] // 2 + 1)
        self._runs = np.empty((4, runs), np.int32)
        self._sums = np.empty((runs, 3))
        t = self._tuning = tuning
        offset = t.offset + (t.hue_offset if channels > 1 else 0.0)
        spread = t.shade_spread if channels > 1 else t.shade_grey
        self._judging = np.array(
            [offset, t.cap, t.time_weight, t.space_weight, t.rounds,
             spread, t.shade_least, t.shade_most, t.shade_reach, t.calm,
             t.shade_noise],
            np.float32,
        )  # fmt: skip

    def judge(
        self, frame: Array, expected: Array, scene: Background, band: Band
    ) -> None:
        """Judge the pixels of a band."""
        from discrepant.video.model import mask_kernels as masks

        masks.judge(
            frame, expected, scene.variance, scene.restless, self._before, self.raw,
            self.odds, self.belief, self.said, self.covered, *band, self._judging,
        )  # fmt: skip

    def tidy(self, frame: Array, expected: Array, variance: Array) -> None:
        """Make whole things of what is believed, and keep the belief for the next."""
        from discrepant.video.model import mask_kernels as masks

        t = self._tuning
        hole = max(t.least_hole, t.hole * self.mask.size)
        limits = (t.least, t.evidence, t.thick, hole)
        masks.tidy(self.odds, self.covered, *limits, *self._runs, self._sums)
        masks.outlined(
            frame, expected, variance, self.covered, t.vote, t.soonest, *self._runs,
            self._sums, self.haste,
        )  # fmt: skip
        self.belief, self._before = self._before, self.belief

    def trim(self, frame: Array, expected: Array, band: Band) -> None:
        """Lay the borders of things in a band where their contrast falls off."""
        from discrepant.video.model import mask_kernels as masks

        half = self._tuning.half
        masks.trim(frame, expected, self.covered, half, self.mask, *band)

    def probability(self) -> Array:
        """Return the probability that each pixel of the last frame is foreground."""
        return np.asarray(CHANCES[self.said])


def _chances() -> Array:
    """Return probabilities from beliefs b = v/(1 + |v|), v the log odds, in 8 bits."""
    belief = np.arange(256) / 127.5 - 1
    value = belief / np.maximum(1 - np.abs(belief), 1e-3)
    return np.asarray(1 / (1 + np.exp(-np.clip(value, -30, 30))), np.float32)


CHANCES = _chances()

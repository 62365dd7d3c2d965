"""What is in front: each pixel's odds, heard together, cleaned to whole things."""

import numpy as np

from discrepant.linalg import Array
from discrepant.video.model import Background, Tuning

AROUND = 8  # rows beside a band that judging it looks at


class Foreground:
    """Mask and belief of the frame at hand, and what the last one leaves for the next.

    ``covered`` is where the background is hidden, edges and all; ``mask``, where a
    thing covers more than half of a pixel.
    """

    def __init__(self, size: tuple[int, ...], tuning: Tuning) -> None:
        shape, channels = size[:2], size[2]
        self.belief, self._before = np.zeros((2, *shape), np.float32)
        self.odds = np.zeros(shape, np.float32)
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
             t.shade_noise]
        )  # fmt: skip

    def around(self, band: tuple[int, int]) -> tuple[int, int]:
        """Return the rows that judging a band looks at."""
        return max(0, band[0] - AROUND), min(len(self.odds), band[1] + AROUND)

    def judge(
        self, frame: Array, expected: Array, scene: Background, band: tuple[int, int]
    ) -> None:
        """Judge the pixels of a band."""
        from discrepant.video import kernels

        kernels.judge(
            frame, expected, scene.variance, scene.restless, self._before, self.raw,
            self.odds, self.belief, *band, self._judging,
        )  # fmt: skip

    def tidy(self, frame: Array, expected: Array) -> None:
        """Make whole things of what is believed, and keep the belief for the next."""
        from discrepant.video import kernels

        t = self._tuning
        hole = max(t.least_hole, t.hole * self.mask.size)
        limits = (t.least, t.evidence, t.thick, hole)
        starts, ends, rows, parent = self._runs
        kernels.tidy(
            self.belief, self.odds, self.covered, *limits,
            starts, ends, rows, parent, self._sums,
        )  # fmt: skip
        kernels.trim(frame, expected, self.covered, t.half, self.mask)
        self.belief, self._before = self._before, self.belief

    def probability(self) -> Array:
        """Return the probability that each pixel of the last frame is foreground."""
        return probability(self._before)

    def belief_bytes(self) -> Array:
        """Return the last belief in eight bits, for keeping."""
        return np.asarray(np.rint((self._before + 1) * 127.5), np.uint8)


def probability(belief: Array) -> Array:
    """Return probabilities from beliefs b = v/(1 + |v|), v the log odds."""
    value = belief / np.maximum(1 - np.abs(belief), 1e-3)
    return np.asarray(1 / (1 + np.exp(-np.clip(value, -30, 30))), np.float32)

"""Whether the camera stands still: shifts of the whole picture between looks."""

import numpy as np

from discrepant.core.linalg import Array

EVERY = 5  # frames between two looks
SIDE = 96  # rows and columns of the small picture that is looked at, about
PART = 0.2  # share of looks with a shift from which on it is said
CLOSER = 0.7  # of the difference that may be left
BLOCKS = 6  # down and across, that each say whether they moved along
AGAINST = 0.2  # times as many may say no as say yes: a camera moves all there is
LOOKS = 6  # less say nothing


class Steadiness:
    """Compare small pictures by phase correlation, every few frames."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.step = max(1, min(shape[:2]) // SIDE)
        self.rows, self.columns = (side // self.step for side in shape[:2])
        window = np.hanning(self.rows)[:, None] * np.hanning(self.columns)
        self._window = window.astype(np.float32)
        self._before: tuple[Array, Array] | None = None
        self._seen = 0
        self.shifts: list[float] = []  # in pixels of the frame

    def look(self, frame: Array) -> None:
        """Take in a frame."""
        self._seen += 1
        if self._seen % EVERY != 1:
            return
        now = self._small(frame)
        if self._before is not None:
            self.shifts.append(self._shift(self._before, now) * self.step)
            self.shifts = self.shifts[-2000:]
        self._before = now

    def note(self) -> str | None:
        """Say so if the camera moves, and how it was noticed."""
        moved = [shift for shift in self.shifts if shift > 0]
        if len(self.shifts) < LOOKS or len(moved) < PART * len(self.shifts):
            return None
        return (
            f"The camera seems to move: in {len(moved)} of {len(self.shifts)} looks "
            f"the whole picture had shifted within {EVERY} frames, by "
            f"{np.median(moved):.0f} pixels as a rule. Background and foreground are "
            "told apart for a fixed camera only; stabilise the video first."
        )

    def _small(self, frame: Array) -> tuple[Array, Array]:
        """Return a small picture of a frame, and its spectrum."""
        from discrepant.video.model.background_kernels import shrunk

        small = np.empty((self.rows, self.columns), np.float32)
        shrunk(frame, self.step, small)
        return small, np.fft.rfft2((small - small.mean()) * self._window)

    def _shift(self, before: tuple[Array, Array], now: tuple[Array, Array]) -> float:
        """Return how far the second picture is from the first; zero if in doubt.

        A shift counts if undoing it brings most of the picture closer, and in most of
        its blocks: a large thing that passes leaves the others worse than they were.
        """
        (one, first), (two, second) = before, now
        cross = first * np.conj(second)
        size = np.abs(cross)
        if not size.max() > 0:
            return 0.0
        peaks = np.fft.irfft2(cross / (size + 1e-3 * size.max()), one.shape)
        place = np.unravel_index(np.argmax(peaks), peaks.shape)
        down, right = (
            int(p - n if p > n // 2 else p)
            for p, n in zip(place, peaks.shape, strict=True)
        )
        if (down, right) == (0, 0) or max(abs(down), abs(right)) > min(one.shape) // 3:
            return 0.0
        back = np.roll(two, (down, right), axis=(0, 1))
        inner = np.s_[abs(down) : -abs(down) or None, abs(right) : -abs(right) or None]
        still, undone = (np.abs(a - one)[inner] for a in (two, back))
        if np.median(undone) >= CLOSER * np.median(still):
            return 0.0
        left, gone = _blocks(still), _blocks(undone)
        along, against = np.sum(gone < CLOSER * left), np.sum(left < CLOSER * gone)
        return float(np.hypot(down, right)) if against <= AGAINST * along else 0.0


def _blocks(values: Array) -> Array:
    """Return the means of a picture's blocks."""
    edges = [np.linspace(0, n, BLOCKS + 1).astype(int)[:-1] for n in values.shape]
    sums = np.add.reduceat(np.add.reduceat(values, edges[0], 0), edges[1], 1)
    sizes = [
        np.diff([*e, n]).astype(float) for e, n in zip(edges, values.shape, strict=True)
    ]
    return np.asarray(sums / np.outer(*sizes))

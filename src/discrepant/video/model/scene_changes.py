"""Scene changes and camera motion.

A cut, a camera that was pushed, or a new exposure changes most of the frame at once and
for good; objects in front of a background do neither. A camera that moves shifts the
whole frame, again and again. Importing this module loads the compiler.
"""

from collections import deque

import numpy as np

from discrepant.core.linalg import Array
from discrepant.video.model.background_kernels import shrink
from discrepant.video.model.registration import blocks_agree

RISE_FRACTION = 0.35  # of the frame, covered at once: objects enter gradually
RISE_FRAMES = 3  # frames within which it must be covered
STILL_FRAMES = 5  # frames for which it must then be still: a flash is not
SLOW_FRACTION = 0.8  # of the frame that is another scene even if it came slowly
SLOW_FRAMES = 12  # frames for which that must be still
STILL_FRACTION = 0.8  # of the covered pixels that are unchanged
RETURN_FRACTION = 0.7  # of the samples that recognise the previous scene, up to noise
MIN_RELATIVE_SIMILARITY = 0.4  # of two frames of one scene, relative to the usual
MIN_SIMILARITY = 0.2  # usual similarity below which there are no scenes: all moves
EDGE_SIZE = 48  # rows or columns of the small images whose edges are compared, about

MOTION_INTERVAL = 5  # frames between two comparisons
MOTION_SIZE = 96  # rows or columns of the small images that are compared, about
MOTION_FRACTION = 0.2  # of the comparisons with a shift above which it is reported
MAX_REMAINING = 0.7  # difference that a shift may leave, relative to none
MOTION_BLOCKS = 6  # blocks down and across that each vote on the shift
MIN_COMPARISONS = 6  # fewer are not conclusive
MIN_SHIFT = 2  # pixels of the small images: registration leaves less
SLOW_INTERVALS = 10  # intervals of a second comparison: a slow pan needs time to show
MAX_SHIFTS = 2000  # shifts kept, about 7 minutes of video


class SceneChanges:
    """Detect that the whole frame has changed, from samples of its pixels."""

    def __init__(self) -> None:
        self._fractions: deque[float] = deque([1.0], maxlen=RISE_FRAMES)
        self._frames_since, self._at_once = 0, False
        self._samples: deque[Array] = deque(maxlen=STILL_FRAMES + 1)

    def add_frame(self, values: Array, noise: Array, covered: Array) -> bool:
        """Add samples of a frame; whether another scene began `STILL_FRAMES` ago.

        `values` and `noise` have one row per sample; `covered` is the mask there.
        """
        fraction = float(covered.mean())
        rose = fraction - min(self._fractions) > RISE_FRACTION
        self._fractions.append(fraction)
        self._samples.append(values)
        if fraction <= RISE_FRACTION:
            self._frames_since, self._at_once = 0, False
            return False
        change = np.abs(values[covered] - self._samples[0][covered]).mean(axis=-1)
        if rose:
            self._frames_since, self._at_once = 0, True
            return False
        self._frames_since += 1
        still = np.mean(change < 3 * noise[covered]) >= STILL_FRACTION
        if self._frames_since < STILL_FRAMES or not still:
            return False
        slow = fraction > SLOW_FRACTION and self._frames_since >= SLOW_FRAMES
        return self._at_once or slow

    @property
    def suspected(self) -> bool:
        """Whether the last frame is the first after a sudden change."""
        return self._at_once and self._frames_since == 0


def scene_length(frames: list[Array]) -> int:
    """Return how many frames, in their order, belong to the scene of the first.

    Frames of one scene have their edges in the same places, whatever the light.
    """
    if len(frames) < 3:
        return len(frames)
    edges = np.stack([_edge_vector(frame) for frame in frames])
    similarity = edges @ edges.T
    for cut in range(1, len(frames) - 1):
        before, after = similarity[:cut, :cut], similarity[cut, cut + 1]
        # A frame without edges is not even similar to itself: it has no scene.
        pairs = before[np.triu_indices(cut, 1)]
        usual = pairs.mean() if cut > 2 else min(after, before.min())
        across = max(similarity[:cut, cut].mean(), similarity[:cut, cut + 1].mean())
        if usual > MIN_SIMILARITY and across < MIN_RELATIVE_SIMILARITY * usual:
            return cut
    return len(frames)


def _edge_vector(frame: Array) -> Array:
    """Return the differences of neighbours in a small image, of length one."""
    step = max(1, min(frame.shape[:2]) // EDGE_SIZE)
    small = np.empty((frame.shape[0] // step, frame.shape[1] // step), np.float32)
    shrink(frame, step, small)
    both = np.concatenate([np.diff(small, axis=k).ravel() for k in (0, 1)])
    return np.asarray(both / (np.linalg.norm(both) or 1.0))


class CameraMotion:
    """Detect a camera that moves more than registration compensates.

    Small images of registered frames are compared by phase correlation, with the one
    before and with one long before: a slow pan shows only then.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.step = max(1, min(shape[:2]) // MOTION_SIZE)
        self._size = shape[0] // self.step, shape[1] // self.step
        self._window = np.outer(*map(np.hanning, self._size)).astype(np.float32)
        self._earlier: deque[tuple[Array, Array]] = deque(maxlen=SLOW_INTERVALS)
        self._count = 0
        # Of each comparison: frame number, shift in pixels of the frame, correlation.
        self._comparisons: deque[tuple[int, float, float]] = deque(maxlen=MAX_SHIFTS)

    def add_frame(self, frame: Array) -> None:
        """Compare a registered frame with earlier ones, every few frames."""
        self._count += 1
        if self._count % MOTION_INTERVAL != 1:
            return
        small = np.empty(self._size, np.float32)
        shrink(frame, self.step, small)
        now = small, np.fft.rfft2((small - small.mean()) * self._window)
        if self._earlier:
            shift, correlation = _shift(self._earlier[-1], now)
            if not shift and len(self._earlier) == SLOW_INTERVALS:
                shift, _ = _shift(self._earlier[0], now)
            compared = self._count - 1, shift * self.step, correlation
            self._comparisons.append(compared)
        self._earlier.append(now)

    def note(self) -> str | None:
        """Return a note if the camera moves, with the cuts of its video."""
        if len(self._comparisons) < MIN_COMPARISONS:
            return None
        numbers, shifts, correlations = np.array(self._comparisons).T
        moved = shifts > 0
        if moved.mean() < MOTION_FRACTION:
            return None
        # Frames before and after a cut agree among themselves, but not across it.
        differ = correlations < MIN_RELATIVE_SIMILARITY * np.median(correlations)
        cuts = numbers[1:-1][differ[1:-1] & ~differ[:-2] & ~differ[2:]].astype(int)
        listed = ", ".join(map(str, cuts[:3])) + (" and later" if len(cuts) > 3 else "")
        note = (
            f"The camera seems to move: in {np.sum(moved)} of {len(shifts)} "
            f"comparisons the whole frame had shifted within "
            f"{MOTION_INTERVAL * SLOW_INTERVALS} frames, "
            f"typically by {np.median(shifts[moved]):.0f} pixels. Background and "
            "foreground are separated for a camera that is fixed or trembles by a few "
            "pixels; stabilise the video first."
        )
        if not len(cuts):
            return note
        return f"{note} There is a cut before frame {listed}; split the video there."


def _shift(
    before: tuple[Array, Array], now: tuple[Array, Array]
) -> tuple[float, float]:
    """Return the distance between two images, zero if in doubt, and their correlation.

    Each is an image and its spectrum; the correlation is that of the phases, after the
    shift is undone. A shift counts if undoing it brings most of the image closer, and
    most of its blocks: a large object that passes leaves the other blocks worse.
    """
    (one, first), (two, second) = before, now
    cross = first * np.conj(second)
    size = np.abs(cross)
    if not size.max() > 0:
        return 0.0, 1.0
    peaks = np.fft.irfft2(cross / (size + 1e-3 * size.max()), one.shape)
    peak = np.unravel_index(np.argmax(peaks), peaks.shape)
    correlation = float(peaks[peak])
    down, right = (
        int(p - n if p > n // 2 else p) for p, n in zip(peak, peaks.shape, strict=True)
    )
    distance = max(abs(down), abs(right))
    if distance < MIN_SHIFT or distance > min(one.shape) // 3:
        return 0.0, correlation
    back = np.roll(two, (down, right), axis=(0, 1))
    inner = np.s_[abs(down) : -abs(down) or None, abs(right) : -abs(right) or None]
    still, undone = (np.abs(image - one)[inner] for image in (two, back))
    closer = np.median(undone) < MAX_REMAINING * np.median(still) and blocks_agree(
        _block_means(still), _block_means(undone), MAX_REMAINING
    )
    return float(np.hypot(down, right)) if closer else 0.0, correlation


def _block_means(values: Array) -> Array:
    """Return the means of an image's blocks."""
    height, width = (side // MOTION_BLOCKS for side in values.shape)
    inner = values[: height * MOTION_BLOCKS, : width * MOTION_BLOCKS]
    blocks = inner.reshape(MOTION_BLOCKS, height, MOTION_BLOCKS, width)
    return np.asarray(blocks.mean(axis=(1, 3)))

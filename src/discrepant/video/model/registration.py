"""Registration: the displacement of a frame from the background, in whole pixels.

A camera that trembles shifts the whole frame by a few pixels. The frame is compared
with the background at sampled pixels of strong gradient, for every shift within reach.
A shift counts only if most parts of the frame agree on it, so that objects that pass
and trees in the wind do not.
"""

import numpy as np

from discrepant.core.linalg import Array

MAX_SHIFT = 6  # pixels up, down, left or right
MIN_EDGES = 40  # samples of strong gradient without which no shift is estimated
EDGE_CONTRAST = 4.0  # difference of a sample's neighbours, in its noise, at least
MAX_DIFFERENCE = 3.0  # difference of a sample, in its noise, at most: objects pass
COST_RATIO = 0.6  # cost of a shift relative to that of none, at most
# Mean difference of the samples, in their noise, below which noise alone explains it:
# the mean of |N(0, 1)|. Then no shift is sought, which saves most of the time.
STILL_COST = 0.8
MAX_AGAINST = 0.2  # blocks against a shift per block for it: a camera moves everything
FRAME_NOISE = 4.0  # grey levels that two frames differ by before the noise is known
BLOCKS = 4  # blocks down and across, each with a vote


def find_shift(
    frame: Array, image: Array, pixels: Array, noise: Array
) -> tuple[int, int]:
    """Return how far a frame lies below and right of the background image, in pixels.

    Parameters
    ----------
    frame, image : ndarray of shape (rows, columns, channels)
        In grey levels.
    pixels : ndarray of int
        Flat positions of the samples.
    noise : ndarray of float
        Standard deviation at each sample.
    """
    side = 2 * MAX_SHIFT + 1
    height, width = frame.shape[:2]
    y, x = np.divmod(pixels, width)
    inside = (y > MAX_SHIFT) & (y < height - MAX_SHIFT - 1)
    inside &= (x > MAX_SHIFT) & (x < width - MAX_SHIFT - 1)
    if min(height, width) < 4 * side or not inside.any():
        return 0, 0
    y, x, noise = y[inside], x[inside], noise[inside]
    average = np.full(frame.shape[2], 1 / frame.shape[2], np.float32)  # over channels
    here, now = image[y, x] @ average, frame[y, x] @ average
    gain = np.median((now + 1) / (here + 1))
    across = (image[y, x + 1] - image[y, x - 1]) @ average
    down = (image[y + 1, x] - image[y - 1, x]) @ average
    gradient = gain * np.maximum(np.abs(across), np.abs(down))
    edge = gradient > EDGE_CONTRAST * noise
    y, x, noise, here = y[edge], x[edge], noise[edge], gain * here[edge]
    difference = np.minimum(np.abs(now[edge] - here) / noise, MAX_DIFFERENCE)
    if len(y) < MIN_EDGES or difference.mean() < STILL_COST:
        return 0, 0
    v, u = np.divmod(np.arange(side**2)[:, None], side) - np.array(MAX_SHIFT)
    there = frame[y + v, x + u] @ average
    difference = np.minimum(np.abs(there - here) / noise, MAX_DIFFERENCE)
    block = BLOCKS * (y * BLOCKS // height) + x * BLOCKS // width
    costs = difference @ np.eye(BLOCKS**2)[block]  # of each shift in each block
    best = int(np.argmin(costs.sum(axis=-1)))
    still, moved = costs[side**2 // 2], costs[best]
    if moved.sum() > COST_RATIO * still.sum() or not blocks_agree(
        still, moved, COST_RATIO
    ):
        return 0, 0
    return int(v[best, 0]), int(u[best, 0])


def blocks_agree(still: Array, moved: Array, ratio: float) -> bool:
    """Return whether the blocks of a frame agree that it has moved.

    `still` and `moved` are the costs of each block without and with the shift. A block
    votes if one of them is less than `ratio` times the other.
    """
    votes_for, votes_against = moved < ratio * still, still < ratio * moved
    return bool(np.sum(votes_against) <= MAX_AGAINST * np.sum(votes_for))


def move(array: Array, down: int, right: int, fill: Array) -> Array:
    """Return an array moved by some pixels; `fill` has the values that enter."""
    out = fill.copy()
    height, width = array.shape[:2]
    rows = slice(max(down, 0), height + min(down, 0))
    columns = slice(max(right, 0), width + min(right, 0))
    out[rows, columns] = array[
        rows.start - down : rows.stop - down,
        columns.start - right : columns.stop - right,
    ]
    return out


def align_frames(frames: Array, pixels: Array) -> Array:
    """Return frames registered to the first."""
    image = frames[0].astype(np.float32)
    noise = np.full(len(pixels), FRAME_NOISE, np.float32)
    shifts = [find_shift(frame, image, pixels, noise) for frame in frames]
    if not np.any(shifts):
        return frames
    moved = [
        move(frame, -down, -right, frames[0])
        for frame, (down, right) in zip(frames, shifts, strict=True)
    ]
    return np.stack(moved)

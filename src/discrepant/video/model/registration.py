"""Registration: the displacement of a frame from the background, in whole pixels.

A camera that trembles shifts the whole frame by a few pixels. The frame is compared
with the background at sampled pixels of strong gradient, for every shift within reach.
A shift counts only if most parts of the frame agree on it, so that objects that pass
and trees in the wind do not. Importing this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np

from discrepant.core.jit import njit
from discrepant.core.linalg import Array
from discrepant.video.model.background_kernels import EXACT

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
    if min(frame.shape[:2]) < 4 * side:
        return 0, 0
    costs = np.zeros((side, side, BLOCKS * BLOCKS))
    if _shift_costs(frame, image, pixels, noise, costs) < MIN_EDGES:
        return 0, 0
    best = np.unravel_index(int(np.argmin(costs.sum(axis=-1))), (side, side))
    still, moved = costs[MAX_SHIFT, MAX_SHIFT], costs[best]
    votes_for = np.sum(moved < COST_RATIO * still)
    votes_against = np.sum(still < COST_RATIO * moved)
    if moved.sum() > COST_RATIO * still.sum() or votes_against > MAX_AGAINST * max(
        votes_for, 1
    ):
        return 0, 0
    return int(best[0]) - MAX_SHIFT, int(best[1]) - MAX_SHIFT


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


@njit(**EXACT)
def _shift_costs(frame, image, pixels, noise, costs):
    """Fill the cost of each shift in each block; return the number of samples used.

    A sample's cost is its difference in brightness, in units of its noise and limited.
    If the frame fits without a shift, the costs are not computed, and 0 is returned.
    """
    height, width, channels = frame.shape
    reach = MAX_SHIFT
    count = 0
    ratios = np.empty(len(pixels))
    for i in range(len(pixels)):
        y, x = pixels[i] // width, pixels[i] % width
        frame_sum = image_sum = 1.0
        for k in range(channels):
            frame_sum += frame[y, x, k]
            image_sum += image[y, x, k]
        ratios[i] = frame_sum / max(image_sum, 1.0)
    gain = np.median(ratios)
    edges = np.empty(len(pixels), np.int64)
    values = np.empty(len(pixels))
    still = 0.0
    for i in range(len(pixels)):
        y, x = pixels[i] // width, pixels[i] % width
        if not (reach < y < height - reach - 1 and reach < x < width - reach - 1):
            continue
        here = there = across = down = 0.0
        for k in range(channels):
            here += gain * image[y, x, k]
            there += frame[y, x, k]
            across += gain * (image[y, x + 1, k] - image[y, x - 1, k])
            down += gain * (image[y + 1, x, k] - image[y - 1, x, k])
        sigma = noise[i] * channels
        if max(abs(across), abs(down)) < EDGE_CONTRAST * sigma:
            continue
        edges[count], values[count] = i, here
        still += min(abs(there - here) / sigma, MAX_DIFFERENCE)
        count += 1
    if still < STILL_COST * count:
        return 0
    for edge in range(count):
        i = edges[edge]
        y, x = pixels[i] // width, pixels[i] % width
        block = BLOCKS * (y * BLOCKS // height) + x * BLOCKS // width
        for v in range(-reach, reach + 1):
            for u in range(-reach, reach + 1):
                there = 0.0
                for k in range(channels):
                    there += frame[y + v, x + u, k]
                difference = abs(there - values[edge]) / (noise[i] * channels)
                costs[v + reach, u + reach, block] += min(difference, MAX_DIFFERENCE)
    return count

"""Motion between two frames: match blocks of one in the other."""

import numpy as np

from discrepant.core.linalg import Array

# `python benchmarks/images/stacks.py` measures the PSNR with these constants.

# Rows and columns of a block that moves as a whole.
BLOCK = 8
# Rows and columns of the window around a block that is compared: wide enough to average
# out noise with a standard deviation of 0.1.
WINDOW = 16
# Rows and columns within which a block is searched, around its own position and around
# the global shift.
REACH = 7
# Largest difference that counts: objects that appear and corrupted values have no more
# influence than this.
MAX_DIFFERENCE = 0.15
# Ratio of squared distances below which a block counts as moved, so that noise does not
# move it.
MAX_DISTANCE_RATIO = 0.8


def block_motion(here: Array, there: Array) -> Array:
    """Return the displacement of each block of a frame in another, (rows, columns).

    Parameters
    ----------
    here, there : ndarray of shape (rows, columns)
        Two frames on [0, 1], with known-bad values replaced.
    """
    from discrepant.image.restore.stack.motion_kernels import match_blocks

    here, there = (np.ascontiguousarray(a, np.float32) for a in (here, there))
    shape = (-(-here.shape[0] // BLOCK), -(-here.shape[1] // BLOCK), 2)
    moves = np.zeros(shape, np.int64)
    if np.array_equal(here, there):
        return moves
    match_blocks(
        *(here, there, global_shift(here, there)),
        *(BLOCK, WINDOW, REACH),
        *(MAX_DIFFERENCE**2, MAX_DISTANCE_RATIO),
        moves,
    )
    return moves


def global_shift(here: Array, there: Array) -> Array:
    """Return the displacement of a whole frame in another, by phase correlation."""
    spectra = []
    for frame in (here, there):
        taper = np.outer(*(np.hanning(n + 2)[1:-1] for n in frame.shape))
        spectra.append(np.fft.rfft2((frame - frame.mean()) * taper))
    cross = spectra[1] * np.conj(spectra[0])
    correlation = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-12), here.shape)
    peak = np.unravel_index(int(np.argmax(correlation)), correlation.shape)
    shift = [(k + n // 2) % n - n // 2 for k, n in zip(peak, here.shape, strict=True)]
    return np.array(shift, np.int64)


def warp_blocks(there: Array, weight: Array, moves: Array) -> tuple[Array, Array]:
    """Return the values and weights of another frame at the displaced blocks."""
    if not moves.any():
        return there, weight
    from discrepant.image.restore.stack.motion_kernels import warp_blocks_kernel

    values, weights = np.empty_like(there), np.empty_like(weight)
    warp_blocks_kernel(there, weight, moves, BLOCK, values, weights)
    return values, weights

"""What moved between two frames: blocks of one are looked for in the other."""

from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array


@dataclass(frozen=True)
class Tuning:
    """How blocks are compared; `python benchmarks/detectors.py` shows what it gives.

    Attributes
    ----------
    block : int
        Rows and columns that move together.
    window : int
        Rows and columns around them that are compared: noise of 0.1 is averaged out.
    reach : int
        How far a block is looked for, from where it was and from where the whole
        frame went.
    most : float
        A difference counts as this at most: what appears or is wrong has no more say.
    better : float
        Standing still is left for a squared distance below this share of its own, so
        that noise moves nothing.
    """

    block: int = 8
    window: int = 16
    reach: int = 7
    most: float = 0.15
    better: float = 0.8


TUNING = Tuning()


def motion(here: Array, there: Array) -> Array:
    """Return where each block of a frame is in another, as (down, across).

    Parameters
    ----------
    here, there : ndarray of shape (rows, columns)
        Two frames on [0, 1], without what was found to be wrong.
    """
    from discrepant.image.restore.stack.motion_kernels import match

    here, there = (np.ascontiguousarray(a, np.float32) for a in (here, there))
    shape = (-(-here.shape[0] // TUNING.block), -(-here.shape[1] // TUNING.block), 2)
    moves = np.zeros(shape, np.int64)
    if np.array_equal(here, there):
        return moves
    match(
        *(here, there, drift(here, there)),
        *(TUNING.block, TUNING.window, TUNING.reach),
        *(TUNING.most**2, TUNING.better),
        moves,
    )
    return moves


def drift(here: Array, there: Array) -> Array:
    """Return where a whole frame went, by the phases of its spectrum."""
    frames = []
    for frame in (here, there):
        fading = np.outer(*(np.hanning(n + 2)[1:-1] for n in frame.shape))
        frames.append(np.fft.rfft2((frame - frame.mean()) * fading))
    cross = frames[1] * np.conj(frames[0])
    peak = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-12), here.shape)
    place = np.unravel_index(int(np.argmax(peak)), peak.shape)
    shift = [(k + n // 2) % n - n // 2 for k, n in zip(place, peak.shape, strict=True)]
    return np.array(shift, np.int64)


def moved(there: Array, weight: Array, moves: Array) -> tuple[Array, Array]:
    """Return another frame's values and weights where blocks of this one went to."""
    if not moves.any():
        return there, weight
    from discrepant.image.restore.stack.motion_kernels import follow

    values, weights = np.empty_like(there), np.empty_like(weight)
    follow(there, weight, moves, TUNING.block, values, weights)
    return values, weights

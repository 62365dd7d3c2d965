"""Compiled kernels of block matching between frames, imported only with stacks."""

import numpy as np

from discrepant.core.jit import njit


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def match_blocks(
    here: np.ndarray,
    there: np.ndarray,
    centre: np.ndarray,
    block: int,
    window: int,
    reach: int,
    max_square: float,
    max_ratio: float,
    moves: np.ndarray,
) -> None:
    """Write the displacement (rows, columns) of each block of ``here`` in ``there``.

    A window around the block is compared with windows displaced by up to ``reach``
    pixels from zero and from ``centre``; squared differences are clipped at
    ``max_square``. A displacement is accepted if its distance is below ``max_ratio``
    times that of zero displacement.
    """
    rows, columns = here.shape
    margin = (window - block) // 2
    for b in range(moves.shape[0]):
        for c in range(moves.shape[1]):
            top, left = max(b * block - margin, 0), max(c * block - margin, 0)
            bottom = min(b * block + block + margin, rows)
            right = min(c * block + block + margin, columns)
            size = np.float32((bottom - top) * (right - left))
            best = np.float32(np.inf)
            down, across = 0, 0
            for around in range(2):
                di, dj = (0, 0) if around == 0 else (centre[0], centre[1])
                if around == 1 and di == 0 and dj == 0:
                    continue
                for u in range(-1, 2 * reach + 1):
                    for v in range(2 * reach + 1):
                        # Zero displacement comes first.
                        if u < 0:
                            if v > 0 or around == 1:
                                continue
                            i, j = 0, 0
                        else:
                            i, j = di + u - reach, dj + v - reach
                        if top + i < 0 or bottom + i > rows:
                            continue
                        if left + j < 0 or right + j > columns:
                            continue
                        total = np.float32(0)
                        for p in range(top, bottom):
                            for q in range(left, right):
                                d = here[p, q] - there[p + i, q + j]
                                total += min(d * d, np.float32(max_square))
                            if total >= best:
                                break
                        if total < best:
                            best = total
                            if u < 0:
                                best = total * np.float32(max_ratio) - size * 1e-9
                            down, across = i, j
            moves[b, c, 0], moves[b, c, 1] = down, across


@njit(cache=True, nogil=True, error_model="numpy")
def warp_blocks_kernel(
    there: np.ndarray,
    weight: np.ndarray,
    moves: np.ndarray,
    block: int,
    values: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Write another frame's values and weights at the displaced blocks."""
    rows, columns, channels = there.shape
    for p in range(rows):
        for q in range(columns):
            i = p + moves[p // block, q // block, 0]
            j = q + moves[p // block, q // block, 1]
            inside = 0 <= i < rows and 0 <= j < columns
            for c in range(channels):
                values[p, q, c] = there[i, j, c] if inside else np.float32(0)
                weights[p, q, c] = weight[i, j, c] if inside else np.float32(0)

"""Compiled inner loops of the motion between frames, imported only with stacks."""

import numpy as np

from discrepant.core.jit import njit


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def match(
    here: np.ndarray,
    there: np.ndarray,
    centre: np.ndarray,
    block: int,
    window: int,
    reach: int,
    most: float,
    better: float,
    moves: np.ndarray,
) -> None:
    """Write for each block of ``here`` where it is found ``there``, as (down, across).

    A window around the block is compared with those up to ``reach`` pixels around the
    ``centre`` and around standing still; squared differences count as ``most`` at most.
    A move must be ``better`` times closer than standing still.
    """
    rows, columns = here.shape
    margin = (window - block) // 2
    for b in range(moves.shape[0]):
        for c in range(moves.shape[1]):
            top, left = max(b * block - margin, 0), max(c * block - margin, 0)
            bottom = min(b * block + block + margin, rows)
            right = min(c * block + block + margin, columns)
            size = np.float32((bottom - top) * (right - left))
            limit = np.float32(np.inf)
            down, across = 0, 0
            for around in range(2):
                di, dj = (0, 0) if around == 0 else (centre[0], centre[1])
                if around == 1 and di == 0 and dj == 0:
                    continue
                for u in range(-1, 2 * reach + 1):
                    for v in range(2 * reach + 1):
                        # Standing still comes first.
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
                                total += min(d * d, np.float32(most))
                            if total >= limit:
                                break
                        if total < limit:
                            limit = total
                            if u < 0:
                                limit = total * np.float32(better) - size * 1e-9
                            down, across = i, j
            moves[b, c, 0], moves[b, c, 1] = down, across


@njit(cache=True, nogil=True, error_model="numpy")
def follow(
    there: np.ndarray,
    weight: np.ndarray,
    moves: np.ndarray,
    block: int,
    values: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Write the values that blocks have in another frame, and their weights."""
    rows, columns, channels = there.shape
    for p in range(rows):
        for q in range(columns):
            i = p + moves[p // block, q // block, 0]
            j = q + moves[p // block, q // block, 1]
            inside = 0 <= i < rows and 0 <= j < columns
            for c in range(channels):
                values[p, q, c] = there[i, j, c] if inside else np.float32(0)
                weights[p, q, c] = weight[i, j, c] if inside else np.float32(0)

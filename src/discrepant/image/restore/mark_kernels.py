"""Compiled loops over the marks of a picture."""

import numpy as np

from discrepant.compiled import njit
from discrepant.linalg import Array

compiled = njit(cache=True, nogil=True)

# A mark ends within these distances, in pixels, of its middle line.
REACHES = (3, 6)
# α of a component is counted in bins of this width, from 0 on.
BIN, BINS = 0.05, 30
# What `measure` sums up for each component, in this order.
SUMS = (
    "size",  # pixels
    "core",  # those covered by more than half
    "beyond",  # those whose value lies beyond the colour
    "misfit",  # squared distance from the line between ground and colour, in the core
    "contrast",  # between ground and colour
    "texture",  # of the picture around, over the contrast
    "alike",  # share of the picture around that has the colour
    "deep",  # pixels from which the mark reaches three pixels in all directions
    "rim",  # pixels beside it
    "shine",  # α of those
    "row",  # where its pixels lie, and the squares and products of that
    "column",
    "rows",
    "columns",
    "both",
    "sides",  # how far both sides are apart, over the contrast, in the core
)


@compiled
def ridges(
    y: Array, smooth: Array, least: float, score: Array, ground: Array, step: Array
) -> None:
    """Find what differs from both sides, in all channels and the same direction.

    ``score`` is the squared difference, 0 unless above ``least``; ``ground`` the mean
    of both sides where it differs most.
    """
    rows, columns, channels = y.shape
    for i in range(rows):
        for j in range(columns):
            best, apart = least, 0.0
            for reach in REACHES:
                slant = (5 * reach + 3) // 7
                for turn in range(4):
                    di, dj = 0, reach
                    if turn == 1:
                        di, dj = reach, 0
                    elif turn > 1:
                        di, dj = slant, slant if turn == 2 else -slant
                    i0, i1, j0, j1 = i - di, i + di, j - dj, j + dj
                    if (
                        i0 < 0
                        or i1 >= rows
                        or min(j0, j1) < 0
                        or max(j0, j1) >= columns
                    ):
                        continue
                    total = 0.0
                    for c in range(channels):
                        one = y[i, j, c] - smooth[i0, j0, c]
                        other = y[i, j, c] - smooth[i1, j1, c]
                        if one * other > 0:
                            total += min(abs(one), abs(other)) ** 2
                    if total > best:
                        best = total
                        apart = 0.0
                        for c in range(channels):
                            apart += (smooth[i0, j0, c] - smooth[i1, j1, c]) ** 2
                            ground[i, j, c] = (
                                smooth[i0, j0, c] + smooth[i1, j1, c]
                            ) / 2
            score[i, j] = best if best > least else 0
            step[i, j] = apart


@compiled
def mixtures(
    y: Array,
    ground: Array,
    colour: Array,
    where: Array,
    alpha: Array,
    contrast: Array,
    misfit: Array,
) -> None:
    """Take values for mixtures of ground and colour: how much, and how well it fits."""
    rows, columns, channels = y.shape
    for i in range(rows):
        for j in range(columns):
            if not where[i, j]:
                continue
            across, along, square = 0.0, 0.0, 0.0
            for c in range(channels):
                to, up = colour[c] - ground[i, j, c], y[i, j, c] - ground[i, j, c]
                across += to * to
                along += to * up
                square += up * up
            a = along / max(across, 4e-4 * channels)
            alpha[i, j] = a
            contrast[i, j] = (across / channels) ** 0.5
            if channels > 1:
                misfit[i, j] = max(square - a * a * across, 0) / (channels - 1)


@compiled
def dilate(mask: Array, out: Array) -> None:
    """Set a mask's pixels and their eight neighbours."""
    rows, columns = mask.shape
    for i in range(rows):
        for j in range(columns):
            if mask[i, j]:
                out[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2] = True


@compiled
def halve(y: Array, weight: Array, out: Array, total: Array) -> None:
    """Average 2×2 pixels by their weights."""
    rows, columns, channels = y.shape
    for i in range(rows):
        for j in range(columns):
            w = weight[i, j]
            if w > 0:
                total[i // 2, j // 2] += w
                for c in range(channels):
                    out[i // 2, j // 2, c] += w * y[i, j, c]
    for i in range(total.shape[0]):
        for j in range(total.shape[1]):
            if total[i, j] > 0:
                for c in range(channels):
                    out[i, j, c] /= total[i, j]
                total[i, j] = min(total[i, j], 1)


@compiled
def interpolate(coarse: Array, weight: Array, y: Array) -> None:
    """Fill what has no weight from an image of half the size."""
    rows, columns, channels = y.shape
    last_row, last_column = coarse.shape[0] - 1, coarse.shape[1] - 1
    for i in range(rows):
        for j in range(columns):
            if weight[i, j] > 0:
                continue
            up, left = i // 2, j // 2
            down = min(max(up + (1 if i % 2 else -1), 0), last_row)
            right = min(max(left + (1 if j % 2 else -1), 0), last_column)
            for c in range(channels):
                y[i, j, c] = (
                    9 * coarse[up, left, c]
                    + 3 * coarse[down, left, c]
                    + 3 * coarse[up, right, c]
                    + coarse[down, right, c]
                ) / 16


@compiled
def measure(
    labels: Array,
    alpha: Array,
    misfit: Array,
    contrast: Array,
    noise: float,
    deviation: Array,
    alike: Array,
    step: Array,
    block: int,
    sums: Array,
    counts: Array,
) -> None:
    """Sum up what is to be known of each component; see `SUMS`.

    ``deviation`` and ``alike`` are given for blocks of pixels.
    """
    rows, columns = labels.shape
    for i in range(rows):
        for j in range(columns):
            k = labels[i, j]
            a = alpha[i, j]
            if k == 0:
                for di, dj in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                    p, q = i + di, j + dj
                    if 0 <= p < rows and 0 <= q < columns and labels[p, q]:
                        sums[labels[p, q], 8] += 1
                        sums[labels[p, q], 9] += a
                continue
            s = sums[k]
            s[0] += 1
            if a > 0.5:
                s[1] += 1
                s[3] += misfit[i, j]
                s[15] += min(step[i, j] ** 0.5 / contrast[i, j], 2.0)
            far = contrast[i, j]
            if a > 1 + 3 * noise / far:
                s[2] += 1
            s[4] += far
            s[5] += deviation[i // block, j // block] / far
            s[6] += alike[i // block, j // block]
            deep = True
            for di, dj in ((0, 3), (3, 0), (0, -3), (-3, 0), (2, 2), (-2, 2)):
                p, q = i + di, j + dj
                if 0 <= p < rows and 0 <= q < columns and labels[p, q] != k:
                    deep = False
            s[7] += deep
            s[10] += i
            s[11] += j
            s[12] += i * i
            s[13] += j * j
            s[14] += i * j
            counts[k, min(max(int(a / BIN), 0), BINS - 1)] += 1


def filled(y: Array, hole: Array) -> Array:
    """Return an image with its holes filled from around them, coarser where wider."""
    out = y.copy()
    _fill(out, (~hole).astype(np.float32))
    return out


def _fill(y: Array, weight: Array) -> None:
    """Fill in place what has no weight."""
    rows, columns, channels = y.shape
    if weight.all() or max(rows, columns) == 1:
        return
    shape = (-(-rows // 2), -(-columns // 2))
    coarse = np.zeros((*shape, channels), np.float32)
    total = np.zeros(shape, np.float32)
    halve(y, weight, coarse, total)
    _fill(coarse, total)
    interpolate(coarse, weight, y)

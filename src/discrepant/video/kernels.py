"""What touches every pixel of every frame: judging, learning, cleaning of masks.

A frame is compared with what the background should look like now,

    L(x) = light(x) · U₀(x) + Σ_j c_j U_j(x),

U₀ the plate and U_j the patterns of its changes. Each kernel works on a band of rows,
so that threads share a frame. Importing this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import math

import numpy as np

from discrepant.compiled import njit

FAST = {"reassoc", "contract", "nsz", "arcp"}
WHITE = 255.0
HALO = 4  # rows beside a band that its own rows hear of: one a round, one for shadows


@njit(cache=True, nogil=True, fastmath=FAST)
def expected_row(y, U, c, light, across, row):
    """Fill what one row of the background should look like."""
    ranks, _, width, channels = U.shape
    modes = across.shape[0]
    for x in range(width):
        shine = light[y, 0]
        for b in range(1, modes):
            shine += light[y, b] * across[b, x]
        for k in range(channels):
            value = shine * U[0, y, x, k]
            for j in range(1, ranks):
                value += c[j] * U[j, y, x, k]
            row[x, k] = min(value, WHITE)


@njit(cache=True, nogil=True, fastmath=FAST)
def expect(U, c, light, across, out, top, bottom):
    """Fill rows of the expected background."""
    for y in range(top, bottom):
        expected_row(y, U, c, light, across, out[y])


@njit(cache=True, nogil=True, fastmath=FAST)
def shadowed(frame, expected, y, x, spread, least, most, reach):
    """Return whether one factor takes the background around a pixel to the frame."""
    height, width, channels = frame.shape
    y0, y1 = max(0, y - reach), min(height, y + reach + 1)
    x0, x1 = max(0, x - reach), min(width, x + reach + 1)
    cross = 0.0
    square = 1e-6
    for v in range(y0, y1):
        for u in range(x0, x1):
            for k in range(channels):
                a = expected[v, u, k]
                cross += frame[v, u, k] * a
                square += a * a
    ratio = cross / square
    if not least < ratio < most:
        return False
    missed = 0.0
    for v in range(y0, y1):
        for u in range(x0, x1):
            for k in range(channels):
                off = frame[v, u, k] - ratio * expected[v, u, k]
                missed += off * off
    return missed < spread * ((y1 - y0) * (x1 - x0) * channels - 1)


@njit(cache=True, nogil=True, fastmath=FAST)
def _apart(frame, expected, y, x):
    """Return by how much a pixel is brighter, and the square of its change of hue."""
    channels = frame.shape[2]
    bright = 0.0
    square = 0.0
    for k in range(channels):
        off = frame[y, x, k] - expected[y, x, k]
        bright += off
        square += off * off
    bright /= channels
    return bright, max(square - channels * bright * bright, 0.0)


@njit(cache=True, nogil=True, fastmath=FAST)
def judge(
    frame, expected, variance, restless, before, raw, odds, belief, top, bottom, tuning
):
    """Fill the log odds that pixels of a band are foreground, and what to believe.

    `odds` are each pixel's own; in `belief`, from −1 to 1, its neighbours in space and
    what was believed `before` are heard, in a few rounds.
    """
    height, width, channels = frame.shape
    offset, cap, time_weight, space_weight, rounds = tuning[:5]
    shade_spread, shade_least, shade_most, reach, calm, shade_noise = tuning[5:11]
    first, last = max(0, top - HALO), min(height, bottom + HALO)
    own = np.empty((last - first, width), np.float32)
    for y in range(first, last):
        inside = top <= y < bottom
        for x in range(width):
            bright, square = _apart(frame, expected, y, x)
            away = bright * bright / variance[y, x, 0]
            if channels > 1:
                away += square / variance[y, x, 1]
            value = 0.5 * (away - offset)
            mark = value > 0.0
            if mark:
                value = min(value, cap)
                value = min(value, -calm * math.log(restless[y, x] + 1e-3))
                if value > 0.0:
                    noise = variance[y, x, 0]
                    if channels > 1:
                        noise += variance[y, x, 1] * (channels - 1) / channels
                    if bright < 0.0 and shadowed(
                        frame, expected, y, x, shade_spread * min(noise, shade_noise),
                        shade_least, shade_most, int(reach),
                    ):  # fmt: skip
                        value = -1.0
            own[y - first, x] = value + time_weight * before[y, x]
            if inside:
                raw[y, x] = mark
                odds[y, x] = value
    _hear(own, belief, first, top, bottom, space_weight, int(rounds))


@njit(cache=True, nogil=True, fastmath=FAST)
def _hear(own, belief, first, top, bottom, weight, rounds):
    """Let neighbours inform each other: rounds of mean field on eight neighbours."""
    rows, width = own.shape
    now = np.empty((rows + 2, width + 2), np.float32)
    new = np.empty((rows + 2, width + 2), np.float32)
    for y in range(rows):
        for x in range(width):
            value = own[y, x]
            now[y + 1, x + 1] = value / (1.0 + abs(value))
    for _ in range(rounds):
        _edge(now)
        for y in range(1, rows + 1):
            for x in range(1, width + 1):
                beside = now[y, x - 1] + now[y, x + 1] + now[y - 1, x] + now[y + 1, x]
                across = (
                    now[y - 1, x - 1] + now[y - 1, x + 1]
                    + now[y + 1, x - 1] + now[y + 1, x + 1]
                )  # fmt: skip
                value = own[y - 1, x - 1] + weight * (beside + 0.7 * across)
                new[y, x] = value / (1.0 + abs(value))
        now, new = new, now
    for y in range(top, bottom):
        for x in range(width):
            belief[y, x] = now[y - first + 1, x + 1]


@njit(cache=True, nogil=True)
def _edge(now):
    now[0] = now[1]
    now[-1] = now[-2]
    now[:, 0] = now[:, 1]
    now[:, -1] = now[:, -2]


@njit(cache=True, nogil=True, fastmath=FAST)
def learn(
    frame, expected, mask, raw, was, U, c, gain, variance, restless, support,
    other, rival, top, bottom, turn, turns, tuning,
):  # fmt: skip
    """Let a band of the background follow a frame, where it is seen.

    Where it is not, the pixel's present value gathers support as a rival of the plate,
    by majority vote; it takes over when it was seen `stand` times as often. Of large
    frames, rows take turns.
    """
    width, channels = frame.shape[1:]
    ranks = U.shape[0]
    memory, blink, stand, most, floor, relative, hue_floor, unrest = tuning
    for y in range(top, bottom):
        if y % turns != turn:
            continue
        for x in range(width):
            restless[y, x] += blink * ((raw[y, x] != was[y, x]) - restless[y, x])
            was[y, x] = raw[y, x]
            noise = variance[y, x, 0]
            if channels > 1:
                noise += variance[y, x, 1] * (channels - 1) / channels
            limit = 3.0 * math.sqrt(noise)
            if not mask[y, x]:
                seen = support[y, x]
                step = max(1.0 / (seen + 1.0), memory)
                level = 0.0
                bright, hue = _apart(frame, expected, y, x)
                for k in range(channels):
                    off = frame[y, x, k] - expected[y, x, k]
                    level += expected[y, x, k]
                    off = min(max(off, -limit), limit)
                    U[0, y, x, k] += step * off / c[0]
                    for j in range(1, ranks):
                        U[j, y, x, k] += gain[j] * off
                level *= relative / channels
                fast = max(step, 0.02)
                now = variance[y, x, 0]
                now += fast * (min(bright * bright, 9.0 * now) - now)
                variance[y, x, 0] = max(now, floor + level * level)
                if channels > 1:
                    now = variance[y, x, 1]
                    now += fast * (min(hue / (channels - 1), 9.0 * now) - now)
                    variance[y, x, 1] = max(now, hue_floor)
                support[y, x] = min(seen + 1.0, most)
                rival[y, x] = max(rival[y, x] - 1.0, 0.0)
                continue
            if restless[y, x] > unrest:  # no thing comes and goes so often: it sways
                bright, hue = _apart(frame, expected, y, x)
                now = variance[y, x, 0]
                variance[y, x, 0] += 0.05 * (min(bright * bright, 25.0 * now) - now)
                if channels > 1:
                    now = variance[y, x, 1]
                    hue /= channels - 1
                    variance[y, x, 1] += 0.05 * (min(hue, 25.0 * now) - now)
            away = 0.0
            for k in range(channels):
                off = frame[y, x, k] - expected[y, x, k]
                off -= other[y, x, k] - U[0, y, x, k] * c[0]
                away += off * off
            if away < 9.0 * channels * noise:
                rival[y, x] += 1.0
                for k in range(channels):
                    value = frame[y, x, k] - expected[y, x, k] + U[0, y, x, k] * c[0]
                    other[y, x, k] += 0.1 * (value - other[y, x, k])
            else:
                rival[y, x] -= 1.0
                if rival[y, x] < 0.0:
                    rival[y, x] = 1.0
                    for k in range(channels):
                        other[y, x, k] = (
                            frame[y, x, k] - expected[y, x, k] + U[0, y, x, k] * c[0]
                        )
            if rival[y, x] > stand * support[y, x] + 3.0:
                for k in range(channels):
                    U[0, y, x, k] = other[y, x, k] / c[0]
                    for j in range(1, ranks):
                        U[j, y, x, k] = 0.0
                support[y, x] = 1.0
                rival[y, x] = 0.0


@njit(cache=True, nogil=True)
def _root(parent, i):
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(cache=True, nogil=True)
def label_runs(mask, value, diagonal, starts, ends, rows, parent):
    """Find the runs of a value in each row, and which hang together.

    Returns their number; each run's `parent` is then its piece's first run.
    """
    height, width = mask.shape
    count = 0
    above = 0  # the first run of the row above
    for y in range(height):
        here = count
        look = above
        x = 0
        while x < width:
            if mask[y, x] != value:
                x += 1
                continue
            start = x
            while x < width and mask[y, x] == value:
                x += 1
            starts[count], ends[count], rows[count] = start, x, y
            parent[count] = count
            while look < here and ends[look] + diagonal <= start:
                look += 1
            other = look
            while other < here and starts[other] < x + diagonal:
                one, two = _root(parent, other), _root(parent, count)
                if one < two:
                    parent[two] = one
                else:
                    parent[one] = two
                other += 1
            count += 1
        above = here
    for i in range(count):
        parent[i] = _root(parent, i)
    return count


@njit(cache=True, nogil=True)
def tidy(
    belief, odds, mask, least, evidence, thick, hole, starts, ends, rows, parent, sums
):
    """Fill a mask of what hangs together: lone pixels dropped, small holes closed."""
    height, width = belief.shape
    for y in range(height):
        for x in range(width):
            mask[y, x] = belief[y, x] > 0.0
    count = label_runs(mask, True, 1, starts, ends, rows, parent)
    sums[:count] = 0.0
    for i in range(count):
        piece = parent[i]
        y = rows[i]
        sums[piece, 0] += ends[i] - starts[i]
        border = 2
        for x in range(starts[i], ends[i]):
            sums[piece, 1] += max(odds[y, x], 0.0)
            border += (y > 0 and not mask[y - 1, x]) + (
                y < height - 1 and not mask[y + 1, x]
            )
        sums[piece, 2] += border
    for i in range(count):
        area, said, border = sums[parent[i]]
        if area < least or said < evidence or 2 * area < thick * border:
            mask[rows[i], starts[i] : ends[i]] = False
    count = label_runs(mask, False, 0, starts, ends, rows, parent)
    sums[:count] = 0.0
    for i in range(count):
        piece = parent[i]
        sums[piece, 0] += ends[i] - starts[i]
        if starts[i] == 0 or ends[i] == width or rows[i] in (0, height - 1):
            sums[piece, 0] += 1e9  # open to the border
    for i in range(count):
        if sums[parent[i], 0] < hole:
            mask[rows[i], starts[i] : ends[i]] = True


@njit(cache=True, nogil=True, fastmath=FAST)
def trim(frame, expected, mask, share, out):
    """Fill a mask whose borders lie where the contrast of what is inside halves.

    Lenses and compression spread an edge over pixels that are background for the most
    part.
    """
    height, width, channels = frame.shape
    out[:] = mask
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            if not mask[y, x] or (
                mask[y - 1, x] and mask[y + 1, x] and mask[y, x - 1] and mask[y, x + 1]
            ):
                continue
            own = 0.0
            for k in range(channels):
                off = frame[y, x, k] - expected[y, x, k]
                own += off * off
            most = 0.0
            for v in range(max(0, y - 2), min(height, y + 3)):
                for u in range(max(0, x - 2), min(width, x + 3)):
                    if not mask[v, u]:
                        continue
                    size = 0.0
                    along = 0.0
                    for k in range(channels):
                        off = frame[v, u, k] - expected[v, u, k]
                        size += off * off
                        along += off * (frame[y, x, k] - expected[y, x, k])
                    if along > 0.0:
                        most = max(most, size)
            if own < share * share * most:
                out[y, x] = False


@njit(cache=True, nogil=True, fastmath=FAST)
def coordinates(basis, values, scale, ridge, start):
    """Return the robust coordinates of values in a basis, one row a vector.

    Absolute errors first, which any start survives, then errors that count less the
    farther out they lie: what is in front does not move the background.
    """
    ranks, count = basis.shape
    c = start.copy()
    weighed = np.empty_like(basis)
    weight = np.empty(count)
    for turn in range(9):
        fit = np.dot(c, basis)
        for i in range(count):
            away = (values[i] - fit[i]) / scale[i]
            if turn < 5:
                weight[i] = 1.0 / max(abs(away), 1.0)
            else:
                near = 1.0 / (1.0 + away * away / 9.0)
                weight[i] = near * near
            weight[i] /= scale[i] * scale[i]
        for j in range(ranks):
            for i in range(count):
                weighed[j, i] = weight[i] * basis[j, i]
        G = np.dot(weighed, basis.T)
        g = np.dot(weighed, values)
        for j in range(ranks):
            G[j, j] += ridge[j] + 1e-9
            g[j] += ridge[j] * start[j]
        c = np.linalg.solve(G, g)
    return c

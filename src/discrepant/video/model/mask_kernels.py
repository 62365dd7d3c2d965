"""What touches every pixel of a mask: its odds, its neighbours, whole things of it.

As in `kernels`, bands of rows are shared by threads, and rows go through loops without
a branch; pixels that may be foreground are few, and are looked at one by one. Importing
this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import math

import numpy as np

from discrepant.core.jit import njit
from discrepant.video.model.background_kernels import (
    EXACT,
    FAST,
    ONE,
    ZERO,
    apart,
    rows_for,
)

STRIP = 32  # rows that are judged together: their work stays in the cache
REACH = 2  # pixels from a border to where its sides are compared: edges are soft
TWICE = 2.0  # as many votes must speak for a ghost: uneven ground misleads some
SPAN = 4  # and from there along the border, to either side
HALO = 4  # rows beside a band that its own rows hear of: one a round, one for shadows


@njit(**FAST)
def judge(
    frame, expected, variance, restless, before, raw, odds, belief, said, covered,
    top, bottom, tuning,
):  # fmt: skip
    """Fill the log odds that pixels of a band are foreground, and what to believe.

    `odds` are each pixel's own; in `belief`, from −1 to 1, its neighbours in space and
    what was believed `before` are heard, in a few rounds. `said` is it in eight bits.
    """
    height, width, channels = frame.shape
    time_weight, space_weight, rounds = tuning[2:5]
    own = np.empty((STRIP + 2 * HALO, width), np.float32)
    off, square, bright, hue = rows_for(width, channels)
    now = np.empty((STRIP + 2 * HALO + 2, width + 2), np.float32)
    new = np.empty_like(now)
    for start in range(top, bottom, STRIP):
        end = min(start + STRIP, bottom)
        first, last = max(0, start - HALO), min(height, end + HALO)
        for y in range(first, last):
            apart(frame[y], expected[y], off, square, bright, hue)
            row = own[y - first]
            _away(bright, hue, variance[0, y], variance[1, y], channels, tuning[0], row)
            if start <= y < end:
                for x in range(width):
                    raw[y, x] = row[x] > ZERO
            for x in range(width):
                if row[x] > ZERO:
                    row[x] = _doubted(
                        row[x], y, x, frame, expected, bright[x], variance, restless,
                        tuning,
                    )  # fmt: skip
            if start <= y < end:
                for x in range(width):
                    odds[y, x] = row[x]
            past = before[y]
            for x in range(width):
                row[x] += time_weight * past[x]
        heard = _hear(own, now, new, last - first, space_weight, int(rounds))
        for y in range(start, end):
            row = heard[y - first + 1, 1:-1]
            for x in range(width):
                belief[y, x] = row[x]
                covered[y, x] = row[x] > ZERO
            for x in range(width):
                said[y, x] = np.uint8(np.float32(127.5) * row[x] + np.float32(128))


@njit(**FAST)
def _away(bright, hue, of_bright, of_hue, channels, offset, out):
    """Fill a row's log odds, from how far it is off in units of its noise."""
    half = np.float32(0.5)
    heard = half if channels > 1 else ZERO  # grey has no hue
    for x in range(len(out)):
        value = half * (bright[x] * bright[x] / of_bright[x] - offset)
        out[x] = value + heard * hue[x] / of_hue[x]


@njit(**FAST, forceinline=True)
def _doubted(value, y, x, frame, expected, bright, variance, restless, tuning):
    """Return the log odds of a pixel that is off, with what speaks against it."""
    channels = frame.shape[2]
    cap = tuning[1]
    spread, least, most, reach, calm, loudest = tuning[5:11]
    value = min(value, cap, np.float32(-calm * math.log(restless[y, x] + 1e-3)))
    if value > ZERO and bright < ZERO:
        noise = variance[0, y, x] + variance[1, y, x] * (channels - 1) / channels
        left = spread * min(noise, loudest)
        if _shadowed(frame, expected, y, x, left, least, most, int(reach)):
            return -ONE
    return value


@njit(**FAST)
def _hear(own, now, new, rows, weight, rounds):
    """Let neighbours inform each other: rounds of mean field on eight neighbours.

    Returns what is then believed, with a pixel more on each side.
    """
    width = own.shape[1]
    sides = np.empty(width + 2, np.float32)
    corner = np.float32(0.7)
    for y in range(rows):
        inner, row = now[y + 1, 1:-1], own[y]
        for x in range(width):
            inner[x] = row[x] / (ONE + abs(row[x]))
    for _ in range(rounds):
        _edge(now, rows)
        for y in range(rows):
            above, here, below = now[y], now[y + 1], now[y + 2]
            for x in range(width + 2):
                sides[x] = above[x] + below[x]
            row, out = own[y], new[y + 1, 1:-1]
            left, right = here[:-2], here[2:]
            for x in range(width):
                beside = left[x] + right[x] + sides[x + 1]
                value = row[x] + weight * (beside + corner * (sides[x] + sides[x + 2]))
                out[x] = value / (ONE + abs(value))
        now, new = new, now
    return now


@njit(**EXACT)
def _edge(now, rows):
    for x in range(now.shape[1]):
        now[0, x] = now[1, x]
        now[rows + 1, x] = now[rows, x]
    for y in range(rows + 2):
        now[y, 0] = now[y, 1]
        now[y, -1] = now[y, -2]


@njit(**FAST, forceinline=True)
def _shadowed(frame, expected, y, x, spread, least, most, reach):
    """Return whether one factor takes the background around a pixel to the frame."""
    height, width, channels = frame.shape
    y0, y1 = max(0, y - reach), min(height, y + reach + 1)
    x0, x1 = max(0, x - reach), min(width, x + reach + 1)
    cross = 0.0
    square = 1e-6
    seen = 0.0
    for v in range(y0, y1):
        for u in range(x0, x1):
            for k in range(channels):
                f, a = np.float64(frame[v, u, k]), np.float64(expected[v, u, k])
                cross += f * a
                square += a * a
                seen += f * f
    ratio = cross / square
    if not least < ratio < most:
        return False
    missed = seen - ratio * cross  # the squares of f − ratio · a
    return missed < spread * ((y1 - y0) * (x1 - x0) * channels - 1)


@njit(**EXACT)
def _root(parent, i):
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(**EXACT)
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


@njit(**EXACT)
def tidy(odds, mask, least, evidence, thick, hole, starts, ends, rows, parent, sums):
    """Leave of a mask what hangs together: lone pixels dropped, small holes closed."""
    height, width = mask.shape
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


@njit(**FAST)
def outlined(
    frame, expected, variance, mask, vote, most, starts, ends, rows, parent, sums, out
):
    """Fill how much sooner what a mask shows may become background.

    Along the outline of a piece, its inside is compared with what lies around it: of a
    thing the background fits better there; of a ghost, the frame does. Each place has
    a vote, and `vote` is what one more is worth in log odds.
    """
    height = len(mask)
    count = label_runs(mask, True, 1, starts, ends, rows, parent)
    sums[:count] = 0.0
    for i in range(count):
        here, y = sums[parent[i]], rows[i]
        _vote(frame, expected, variance, mask, y, starts[i], 0, -1, here)
        _vote(frame, expected, variance, mask, y, ends[i] - 1, 0, 1, here)
        for x in range(starts[i], ends[i]):
            if y > 0 and not mask[y - 1, x]:
                _vote(frame, expected, variance, mask, y, x, -1, 0, here)
            if y < height - 1 and not mask[y + 1, x]:
                _vote(frame, expected, variance, mask, y, x, 1, 0, here)
    for i in range(count):
        thing, ghost = sums[parent[i]][:2]
        speed = min(np.exp(vote * max(ghost - TWICE * thing, 0.0)), most)
        out[rows[i], starts[i] : ends[i]] = speed


@njit(**FAST)
def _vote(frame, expected, variance, mask, y, x, down, right, votes):
    """Let a place of an outline say what fits its surroundings: background or frame.

    A place just inside is compared with those outside; the nearest value counts, since
    the ground may be uneven.
    """
    height, width, channels = frame.shape
    v, u = y + REACH * down, x + REACH * right  # outside
    y -= (REACH - 1) * down
    x -= (REACH - 1) * right
    if min(y, x) < 0 or y >= height or x >= width or not mask[y, x]:
        return
    of_frame = of_ground = far = np.float32(1e9)
    for step in range(2):
        for along in range(-SPAN, SPAN + 1):
            b, a = v + step * down + along * right, u + step * right + along * down
            if min(b, a) < 0 or b >= height or a >= width or mask[b, a]:
                continue
            one = two = ZERO
            for k in range(channels):
                ground = expected[b, a, k]
                one += (frame[y, x, k] - ground) ** 2
                two += (expected[y, x, k] - ground) ** 2
            of_frame, of_ground = min(of_frame, one), min(of_ground, two)
    least = np.float32(4) * channels * variance[0, y, x]  # less is noise
    if of_frame < far and of_ground > of_frame + least:
        votes[1] += 1.0
    elif of_frame < far and of_frame > of_ground + least:
        votes[0] += 1.0


@njit(**FAST)
def trim(frame, expected, mask, share, out, top, bottom):
    """Fill a mask whose borders lie where the contrast of what is inside halves.

    Lenses and compression spread an edge over pixels that are background for the most
    part.
    """
    height, width, channels = frame.shape
    for y in range(top, bottom):
        for x in range(width):
            out[y, x] = mask[y, x]
    for y in range(max(top, 1), min(bottom, height - 1)):
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

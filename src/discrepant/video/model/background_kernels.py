"""What touches every pixel of the background: how it should look, and how it learns.

A frame is compared with what the background should look like now,

    L(x) = light(x) · U₀(x) + Σ_j c_j U_j(x),

U₀ the plate and U_j the patterns of its changes. Each kernel works on a band of rows,
so that threads share a frame, and goes through a row in loops without a branch, which
compile to vector instructions. Importing this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

from typing import Any

import numpy as np

from discrepant.core.jit import njit

# A division that may raise would keep loops from becoming vector instructions.
EXACT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
FAST: dict[str, Any] = {**EXACT, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}
ZERO, ONE, WHITE = np.float32(0), np.float32(1), np.float32(255)


@njit(**FAST)
def expect(U, c, light, across, white, out, top, bottom):
    """Fill rows of the expected background, none of it brighter than white."""
    ranks, height, width, channels = U.shape
    count = width * channels
    plates, rows = U.reshape(ranks, height, count), out.reshape(height, count)
    for y in range(top, bottom):
        row = rows[y]
        row[:] = light[y, 0]
        for b in range(1, across.shape[0]):
            shine, wave = light[y, b], across[b]
            for n in range(count):
                row[n] += shine * wave[n]
        plate = plates[0, y]
        for n in range(count):
            row[n] *= plate[n]
        for j in range(1, ranks):
            part, change = c[j], plates[j, y]
            for n in range(count):
                row[n] += part * change[n]
        for n in range(count):
            row[n] = min(row[n], white)


@njit(**FAST)
def rounded(values, out):
    """Fill grey levels of eight bits."""
    for n in range(len(values)):
        out[n] = np.uint8(min(max(values[n], ZERO), WHITE) + np.float32(0.5))


@njit(**FAST)
def shrunk(frame, step, out):
    """Fill a small picture: means of blocks and channels."""
    channels = frame.shape[2]
    row = np.empty(frame.shape[1] * channels, np.float32)
    for y in range(out.shape[0]):
        row[:] = ZERO
        for v in range(y * step, (y + 1) * step):
            seen = frame[v].reshape(-1)
            for n in range(len(row)):
                row[n] += seen[n]
        count = step * channels
        for x in range(out.shape[1]):
            total = ZERO
            for n in range(x * count, (x + 1) * count):
                total += row[n]
            out[y, x] = total / np.float32(step * count)


@njit(**FAST)
def _summed(values, channels, out):
    """Fill the sums over the channels of a row."""
    if channels == 3:  # steps of a known length become vector instructions
        for x in range(len(out)):
            out[x] = values[3 * x] + values[3 * x + 1] + values[3 * x + 2]
        return
    out[:] = ZERO
    for k in range(channels):
        for x in range(len(out)):
            out[x] += values[x * channels + k]


@njit(**EXACT)
def rows_for(width, channels):
    """Return rows for `apart` to fill."""
    off = np.empty(width * channels, np.float32)
    bright = np.empty(width, np.float32)
    return off, np.empty_like(off), bright, np.empty_like(bright)


@njit(**FAST)
def apart(frame, expected, off, square, bright, hue):
    """Fill how far a row is off: by brightness, and by the square of the hue."""
    width, channels = frame.shape
    seen, ground = frame.reshape(-1), expected.reshape(-1)
    for n in range(width * channels):
        value = seen[n] - ground[n]
        off[n] = value
        square[n] = value * value
    _summed(off, channels, bright)
    _summed(square, channels, hue)
    share = np.float32(1 / channels)
    for x in range(width):
        total = bright[x]
        hue[x] = max(hue[x] - share * total * total, ZERO)
        bright[x] = share * total


@njit(**FAST)
def learn(
    frame, expected, mask, raw, haste, was, U, c, gain, variance, restless, support,
    other, rival, top, bottom, turn, turns, tuning,
):  # fmt: skip
    """Let a band of the background follow a frame, where it is seen.

    Where it is not, the pixel's present value gathers support as a rival of the plate,
    by majority vote; it takes over when it was seen `stand` times as often. Of large
    frames, rows take turns.
    """
    width, channels = frame.shape[1:]
    memory, blink, _, most, floor, relative, hue_floor, _ = tuning
    off, square, bright, hue = rows_for(width, channels)
    pull, limit, least = rows_for(width, 1)[:3]
    share = np.float32(1 / max(channels - 1, 1))
    relative /= np.float32(channels)
    for y in range(top + (turn - top) % turns, bottom, turns):
        apart(frame[y], expected[y], off, square, bright, hue)
        _flips(raw[y], was[y], restless[y], blink)
        for x in range(width):
            limit[x] = np.float32(3) * np.sqrt(_noise(variance, y, x, channels))
            bright[x] *= bright[x]
            hue[x] *= share
        _settle(mask[y], support[y], rival[y], pull, memory, most)
        _summed(expected[y].reshape(-1), channels, least)
        for x in range(width):
            least[x] = floor + (relative * least[x]) ** 2
        _spread(variance[0, y], bright, least, pull)
        least[:] = hue_floor
        _spread(variance[1, y], hue, least, pull)
        _follow(y, U, off, mask[y], pull, limit, c, gain)
        for x in range(width):
            if mask[y, x]:
                _hidden(
                    y, x, frame, expected, bright[x], hue[x], haste[y, x], U, c,
                    variance, restless, support, other, rival, tuning,
                )  # fmt: skip


@njit(**FAST)
def _noise(variance, y, x, channels):
    return variance[0, y, x] + variance[1, y, x] * np.float32((channels - 1) / channels)


@njit(**FAST)
def _flips(raw, was, restless, blink):
    """Follow how often pixels of a row flip between background and not."""
    for x in range(len(raw)):
        flip = ONE if raw[x] != was[x] else ZERO
        restless[x] += blink * (flip - restless[x])
        was[x] = raw[x]


@njit(**FAST)
def _settle(mask, support, rival, pull, memory, most):
    """Count how often a row was seen; fill how far its plate goes along, if at all."""
    for x in range(len(mask)):
        hidden, seen, other = mask[x], support[x], rival[x]
        pull[x] = ZERO if hidden else max(ONE / (seen + ONE), memory)
        support[x] = seen if hidden else min(seen + ONE, most)
        rival[x] = other if hidden else max(other - ONE, ZERO)


@njit(**FAST)
def _spread(variance, square, least, pull):
    """Follow the noise of a row where it is seen."""
    slow, nine = np.float32(0.02), np.float32(9)
    for x in range(len(pull)):
        now = variance[x]
        new = now + max(pull[x], slow) * (min(square[x], nine * now) - now)
        variance[x] = max(new, least[x]) if pull[x] > ZERO else now


@njit(**FAST)
def _follow(y, U, off, mask, pull, limit, c, gain):
    """Move plate and patterns of a row towards what is seen."""
    ranks, _, width, channels = U.shape
    plate = U[0, y].reshape(-1)
    scale = ONE / c[0]
    for k in range(channels):
        for x in range(width):
            n = x * channels + k
            most = ZERO if mask[x] else limit[x]
            part = min(max(off[n], -most), most)
            off[n] = part
            plate[n] += scale * pull[x] * part
    for j in range(1, ranks):
        part, pattern = gain[j], U[j, y].reshape(-1)
        for n in range(width * channels):
            pattern[n] += part * off[n]


@njit(**FAST)
def _hidden(
    y, x, frame, expected, bright, hue, haste, U, c, variance, restless, support, other,
    rival, tuning,
):  # fmt: skip
    """Let what hides the background at a pixel gather support.

    How far it is off is told by the squares of brightness and of hue.
    """
    channels = frame.shape[2]
    stand, unrest = tuning[2], tuning[7]
    noise = _noise(variance, y, x, channels)
    if restless[y, x] > unrest:  # no thing comes and goes so often: it sways
        now = variance[0, y, x]
        variance[0, y, x] += 0.05 * (min(bright, 25.0 * now) - now)
        now = variance[1, y, x]
        variance[1, y, x] += 0.05 * (min(hue, 25.0 * now) - now)
    away = 0.0
    for k in range(channels):
        off = frame[y, x, k] - expected[y, x, k]
        off -= other[y, x, k] - U[0, y, x, k] * c[0]
        away += off * off
    near = away < 9.0 * channels * noise
    rival[y, x] += haste if near else -1.0
    afresh = rival[y, x] < 0.0
    if afresh:
        rival[y, x] = 1.0
    if near or afresh:
        part = 1.0 if afresh else 0.1
        for k in range(channels):
            value = frame[y, x, k] - expected[y, x, k] + U[0, y, x, k] * c[0]
            other[y, x, k] += part * (value - other[y, x, k])
    if rival[y, x] > stand * support[y, x] + 3.0:
        for k in range(channels):
            U[0, y, x, k] = other[y, x, k] / c[0]
            for j in range(1, len(U)):
                U[j, y, x, k] = 0.0
        support[y, x] = 1.0
        rival[y, x] = 0.0


@njit(**FAST)
def gather(frame, expected, mask, variance, parts, new, weight, top, bottom):
    """Add a frame to patterns that are being learned: where it is seen, its part."""
    width, channels = frame.shape[1:]
    off, square, bright, hue = rows_for(width, channels)
    for y in range(top, bottom):
        apart(frame[y], expected[y], off, square, bright, hue)
        for k in range(channels):
            for x in range(width):
                n = x * channels + k
                most = np.float32(4) * np.sqrt(_noise(variance, y, x, channels))
                most = ZERO if mask[y, x] else most
                off[n] = min(max(off[n], -most), most)
        for j in range(len(parts)):
            part, pattern = parts[j], new[j, y].reshape(-1)
            for n in range(width * channels):
                pattern[n] += part * off[n]
            for x in range(width):
                weight[j, y, x] += ZERO if mask[y, x] else part * part


@njit(**FAST)
def first_look(frames, scale, plate, spread, top, bottom):
    """Fill medians over time: the plate, and how far pixels step from frame to frame.

    Frames are scaled to one light, value by value of a row. Steps are those of
    brightness, and of hue.
    """
    times, _, width, channels = frames.shape
    values = np.empty((times, width * channels), np.float32)
    steps = np.empty((times - 1, width * channels), np.float32)
    bright = np.empty((times - 1, width), np.float32)
    share = np.float32(1 / channels)
    for y in range(top, bottom):
        for t in range(times):
            row, seen, shine = values[t], frames[t, y].reshape(-1), scale[t]
            for n in range(width * channels):
                row[n] = seen[n] * shine[n]
        for t in range(times - 1):
            row, total = steps[t], bright[t]
            for n in range(width * channels):
                row[n] = values[t + 1, n] - values[t, n]
            _summed(row, channels, total)
            for k in range(channels):
                for x in range(width):
                    n = x * channels + k
                    row[n] = abs(row[n] - share * total[x])
            for x in range(width):
                total[x] = share * abs(total[x])
        plate[y] = _middle(values).reshape(width, channels)
        spread[0, y] = _middle(bright)
        if channels == 1:  # grey has no hue
            spread[1, y] = ZERO
            continue
        _summed(_middle(steps), channels, spread[1, y])
        for x in range(width):
            spread[1, y, x] *= share


@njit(**FAST)
def _middle(values):
    """Return the medians of columns, which are sorted.

    Batcher's network compares the same rows whatever they hold: whole rows at once.
    """
    count = len(values)
    top = 1
    while 2 * top < count:
        top *= 2
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while d > 0:
            for i in range(count - d):
                if i & p == r:
                    _order(values[i], values[i + d])
            q, r, d = q // 2, p, q - p
        p //= 2
    half = np.float32(0.5)
    return half * (values[(count - 1) // 2] + values[count // 2])


@njit(**FAST)
def _order(low, high):
    for n in range(len(low)):
        a, b = low[n], high[n]
        low[n], high[n] = np.minimum(a, b), np.maximum(a, b)

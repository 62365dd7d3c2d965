"""Compiled kernels of the background: prediction and update of every pixel.

The background predicts the frame

    L(x) = gain(x) · image(x) + Σ_j c_j pattern_j(x).

Each kernel processes a band of rows, so that threads share a frame, and goes through a
row in loops without a branch, which compile to vector instructions. A residual has two
parts: brightness, its mean over the channels, and chroma, the squares of what remains.
Importing this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

from typing import Any, NamedTuple

import numpy as np

from discrepant.core.jit import njit
from discrepant.core.linalg import Array

# A division that may raise would keep loops from becoming vector instructions.
EXACT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
FAST: dict[str, Any] = {**EXACT, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}
ZERO, ONE, WHITE = np.float32(0), np.float32(1), np.float32(255)


class BackgroundState(NamedTuple):
    """What the background holds for each pixel; kernels change the arrays in place."""

    image: Array  # (rows, columns, channels), intensity in even light of gain 1
    patterns: Array  # (patterns, rows, columns, channels), directions of change
    variance: Array  # (2, rows, columns), noise of brightness and of chroma
    age: Array  # (rows, columns), frames that the image's value rests on
    candidate: Array  # (rows, columns, channels), value that may replace the image's
    candidate_votes: Array  # (rows, columns), frames that showed the candidate


class MaskArrays(NamedTuple):
    """What the classification holds for each pixel of a frame, all (rows, columns)."""

    score: Array  # float32: log-odds of foreground, of the pixel alone
    score_code: Array  # uint8: smoothed score from −1 (0) to 1 (255)
    component_mask: Array  # bool: the background is covered, soft edges included
    held: Array  # bool: the background is not learned, see `hold`
    absorption_speed: Array  # float32: votes of one frame for a new background value


@njit(**FAST)
def predict(image, patterns, c, row_gains, column_modes, white, out, top, bottom):
    """Fill rows of the predicted frame, none of it brighter than white."""
    height, width, channels = image.shape
    count = width * channels
    changes = patterns.reshape(len(patterns), height, count)
    rows = out.reshape(height, count)
    for y in range(top, bottom):
        row = rows[y]
        row[:] = row_gains[y, 0]
        for b in range(1, column_modes.shape[0]):
            gain, mode = row_gains[y, b], column_modes[b]
            for n in range(count):
                row[n] += gain * mode[n]
        values = image[y].reshape(-1)
        for n in range(count):
            row[n] *= values[n]
        for j in range(len(patterns)):
            coefficient, change = c[j + 1], changes[j, y]
            for n in range(count):
                row[n] += coefficient * change[n]
        for n in range(count):
            row[n] = min(row[n], white)


@njit(**FAST)
def round_to_uint8(values, out):
    """Fill values rounded to grey levels of eight bits."""
    for n in range(len(values)):
        out[n] = np.uint8(min(max(values[n], ZERO), WHITE) + np.float32(0.5))


@njit(**FAST)
def shrink(frame, step, out):
    """Fill a small grey image: means over blocks and channels."""
    channels = frame.shape[2]
    row = np.empty(frame.shape[1] * channels, np.float32)
    for y in range(out.shape[0]):
        row[:] = ZERO
        for v in range(y * step, (y + 1) * step):
            values = frame[v].reshape(-1)
            for n in range(len(row)):
                row[n] += values[n]
        count = step * channels
        for x in range(out.shape[1]):
            total = ZERO
            for n in range(x * count, (x + 1) * count):
                total += row[n]
            out[y, x] = total / np.float32(step * count)


@njit(**FAST)
def _sum_channels(values, channels, out):
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
def row_buffers(width, channels):
    """Return rows for `residuals` to fill."""
    residual = np.empty(width * channels, np.float32)
    brightness = np.empty(width, np.float32)
    return residual, np.empty_like(residual), brightness, np.empty_like(brightness)


@njit(**FAST)
def residuals(frame, predicted, residual, square, brightness, chroma):
    """Fill the residuals of a row: all, squared, of brightness, squared of chroma."""
    width, channels = frame.shape
    values, expected = frame.reshape(-1), predicted.reshape(-1)
    for n in range(width * channels):
        value = values[n] - expected[n]
        residual[n] = value
        square[n] = value * value
    _sum_channels(residual, channels, brightness)
    _sum_channels(square, channels, chroma)
    per_channel = np.float32(1 / channels)
    for x in range(width):
        total = brightness[x]
        chroma[x] = max(chroma[x] - per_channel * total * total, ZERO)
        brightness[x] = per_channel * total


@njit(**FAST)
def update(
    frame, predicted, arrays, state, c, pattern_gains, top, bottom, turn, turns,
    settings,
):  # fmt: skip
    """Update a band of the background by a frame.

    Image, patterns and variances follow the frame, unless a pixel is held. Under a
    component, the frame's value gathers votes as a candidate that replaces the
    image's value when it has more votes than frames that showed the image's. Of large
    frames, one row in `turns` is updated.
    """
    width, channels = frame.shape[1:]
    floor = settings.floor
    residual, square, brightness, chroma = row_buffers(width, channels)
    rate, limit, least = row_buffers(width, 1)[:3]
    per_chroma = np.float32(1 / max(channels - 1, 1))
    relative = floor.relative / np.float32(channels)
    variance, mask, held = state.variance, arrays.component_mask, arrays.held
    for y in range(top + (turn - top) % turns, bottom, turns):
        residuals(frame[y], predicted[y], residual, square, brightness, chroma)
        for x in range(width):
            limit[x] = np.float32(3) * np.sqrt(noise_variance(variance, y, x, channels))
            brightness[x] *= brightness[x]
            chroma[x] *= per_chroma
        _update_age(
            held[y], state.age[y], state.candidate_votes[y], rate,
            settings.learning_rate, settings.max_age,
        )  # fmt: skip
        _sum_channels(predicted[y].reshape(-1), channels, least)
        for x in range(width):
            least[x] = floor.brightness + (relative * least[x]) ** 2
        _update_variance(variance[0, y], brightness, least, rate)
        least[:] = floor.chroma
        _update_variance(variance[1, y], chroma, least, rate)
        _update_image(y, state, residual, held[y], rate, limit, c, pattern_gains)
        for x in range(width):
            if mask[y, x]:
                speed = arrays.absorption_speed[y, x]
                _update_candidate(y, x, frame, predicted, speed, c, state)


@njit(**FAST)
def noise_variance(variance, y, x, channels):
    """Return the variance of a pixel's noise, per channel."""
    return variance[0, y, x] + variance[1, y, x] * np.float32((channels - 1) / channels)


@njit(**FAST)
def _update_age(held, age, votes, rate, learning_rate, max_age):
    """Count how often a row was visible; fill the learning rate of each pixel."""
    for x in range(len(held)):
        frames, candidate = age[x], votes[x]
        rate[x] = ZERO if held[x] else max(ONE / (frames + ONE), learning_rate)
        age[x] = frames if held[x] else min(frames + ONE, max_age)
        votes[x] = candidate if held[x] else max(candidate - ONE, ZERO)


@njit(**FAST)
def _update_variance(variance, square, least, rate):
    """Update the noise variance of a row where it is visible."""
    slow, nine = np.float32(0.02), np.float32(9)
    for x in range(len(rate)):
        now = variance[x]
        new = now + max(rate[x], slow) * (min(square[x], nine * now) - now)
        variance[x] = max(new, least[x]) if rate[x] > ZERO else now


@njit(**FAST)
def _update_image(y, state, residual, held, rate, limit, c, pattern_gains):
    """Move image and patterns of a row by the clipped residual, where visible."""
    patterns = state.patterns
    width, channels = state.image.shape[1:]
    image = state.image[y].reshape(-1)
    scale = ONE / c[0]
    for k in range(channels):
        for x in range(width):
            n = x * channels + k
            most = ZERO if held[x] else limit[x]
            clipped = min(max(residual[n], -most), most)
            residual[n] = clipped
            image[n] += scale * rate[x] * clipped
    for j in range(len(patterns)):
        gain, pattern = pattern_gains[j + 1], patterns[j, y].reshape(-1)
        for n in range(width * channels):
            pattern[n] += gain * residual[n]


@njit(**FAST)
def _update_candidate(y, x, frame, predicted, speed, c, state):
    """Let the value at a covered pixel gather votes to replace the background's."""
    channels = frame.shape[2]
    image, patterns = state.image, state.patterns
    candidate, votes = state.candidate, state.candidate_votes
    noise = noise_variance(state.variance, y, x, channels)
    distance = 0.0
    for k in range(channels):
        difference = frame[y, x, k] - predicted[y, x, k]
        difference -= candidate[y, x, k] - image[y, x, k] * c[0]
        distance += difference * difference
    near = distance < 9.0 * channels * noise
    votes[y, x] += speed if near else -1.0
    restart = votes[y, x] < 0.0
    if restart:
        votes[y, x] = 1.0
    if near or restart:
        weight = 1.0 if restart else 0.1
        for k in range(channels):
            value = frame[y, x, k] - predicted[y, x, k] + image[y, x, k] * c[0]
            candidate[y, x, k] += weight * (value - candidate[y, x, k])
    if votes[y, x] > state.age[y, x] + 3.0:
        for k in range(channels):
            image[y, x, k] = candidate[y, x, k] / c[0]
            for j in range(len(patterns)):
                patterns[j, y, x, k] = 0.0
        state.age[y, x] = 1.0
        votes[y, x] = 0.0


@njit(**FAST)
def accumulate_pattern(
    frame, predicted, mask, variance, coefficients, patterns, weight, top, bottom
):
    """Add the residual of a frame to new patterns, where the mask is clear."""
    width, channels = frame.shape[1:]
    residual, square, brightness, chroma = row_buffers(width, channels)
    for y in range(top, bottom):
        residuals(frame[y], predicted[y], residual, square, brightness, chroma)
        for k in range(channels):
            for x in range(width):
                n = x * channels + k
                most = np.float32(4) * np.sqrt(noise_variance(variance, y, x, channels))
                most = ZERO if mask[y, x] else most
                residual[n] = min(max(residual[n], -most), most)
        for j in range(len(coefficients)):
            coefficient, pattern = coefficients[j], patterns[j, y].reshape(-1)
            for n in range(width * channels):
                pattern[n] += coefficient * residual[n]
            for x in range(width):
                weight[j, y, x] += ZERO if mask[y, x] else coefficient * coefficient


@njit(**FAST)
def temporal_medians(frames, scale, image, spread, top, bottom):
    """Fill the median image over time, and median absolute steps between frames.

    `scale` multiplies the values of each frame to bring it to one brightness. The
    steps are of brightness, `spread[0]`, and of chroma, `spread[1]`.
    """
    times, _, width, channels = frames.shape
    values = np.empty((times, width * channels), np.float32)
    steps = np.empty((times - 1, width * channels), np.float32)
    brightness = np.empty((times - 1, width), np.float32)
    per_channel = np.float32(1 / channels)
    for y in range(top, bottom):
        for t in range(times):
            row, raw, factor = values[t], frames[t, y].reshape(-1), scale[t]
            for n in range(width * channels):
                row[n] = raw[n] * factor[n]
        for t in range(times - 1):
            row, total = steps[t], brightness[t]
            for n in range(width * channels):
                row[n] = values[t + 1, n] - values[t, n]
            _sum_channels(row, channels, total)
            for k in range(channels):
                for x in range(width):
                    n = x * channels + k
                    row[n] = abs(row[n] - per_channel * total[x])
            for x in range(width):
                total[x] = per_channel * abs(total[x])
        image[y] = _column_medians(values).reshape(width, channels)
        spread[0, y] = _column_medians(brightness)
        if channels == 1:  # grey has no chroma
            spread[1, y] = ZERO
            continue
        _sum_channels(_column_medians(steps), channels, spread[1, y])
        for x in range(width):
            spread[1, y, x] *= per_channel


@njit(**FAST)
def _column_medians(values):
    """Return the medians of the columns, which are sorted in place.

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
                    _compare_exchange(values[i], values[i + d])
            q, r, d = q // 2, p, q - p
        p //= 2
    half = np.float32(0.5)
    return half * (values[(count - 1) // 2] + values[count // 2])


@njit(**FAST)
def _compare_exchange(low, high):
    for n in range(len(low)):
        a, b = low[n], high[n]
        low[n], high[n] = np.minimum(a, b), np.maximum(a, b)

"""Compiled inner loops, imported only when an image is restored."""

from typing import Any

import numpy as np

from discrepant.core.jit import njit

f4 = np.float32


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _bend_all(x: np.ndarray, tension: Any, out: np.ndarray) -> None:
    """Write ``Q x`` to ``out``, difference by difference."""
    rows, columns, channels = x.shape
    width = columns * channels
    v, w = x.reshape(rows, width), out.reshape(rows, width)
    d = np.empty(width, x.dtype)
    w[:] = 0
    for i in range(rows):  # whole rows at a time: these loops are vectorised
        if 0 < i < rows - 1:
            for k in range(width):
                d[k] = v[i - 1, k] - 2 * v[i, k] + v[i + 1, k]
            for k in range(width):
                w[i - 1, k] += d[k]
            for k in range(width):
                w[i, k] -= 2 * d[k]
            for k in range(width):
                w[i + 1, k] += d[k]
        for k in range(channels, width - channels):
            d[k] = v[i, k - channels] - 2 * v[i, k] + v[i, k + channels]
        for k in range(channels, width - channels):
            w[i, k - channels] += d[k]
        for k in range(channels, width - channels):
            w[i, k] -= 2 * d[k]
        for k in range(channels, width - channels):
            w[i, k + channels] += d[k]
        for k in range(width - channels):
            d[k] = tension * (v[i, k] - v[i, k + channels])
        for k in range(width - channels):
            w[i, k] += d[k]
        for k in range(width - channels):
            w[i, k + channels] -= d[k]
        if i < rows - 1:
            for k in range(width - channels):
                d[k] = 2 * (v[i, k] - v[i + 1, k])
                d[k] -= 2 * (v[i, k + channels] - v[i + 1, k + channels])
            for k in range(width - channels):
                w[i, k] += d[k]
                w[i + 1, k] -= d[k]
            for k in range(width - channels):
                w[i, k + channels] -= d[k]
                w[i + 1, k + channels] += d[k]
            for k in range(width):
                d[k] = tension * (v[i, k] - v[i + 1, k])
            for k in range(width):
                w[i, k] += d[k]
                w[i + 1, k] -= d[k]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def bend(x: np.ndarray, tension: Any, out: np.ndarray) -> None:
    """Write ``Q x`` to ``out``, channel by channel.

    ``xᵀQx`` is the energy of a thin plate, ``x_ii² + 2 x_ij² + x_jj²``, plus
    ``tension`` times that of a membrane, ``x_i² + x_j²``, summed over the pixels where
    the differences exist: no condition is imposed at the border. Away from it, each
    value of ``Q x`` is the same sum over thirteen pixels.
    """
    rows, columns, channels = x.shape
    if rows < 5 or columns < 5:
        _bend_all(x, tension, out)
        return
    width, c = columns * channels, channels
    v, w = x.reshape(rows, width), out.reshape(rows, width)
    here, beside = f4(20) + 4 * tension, f4(8) + tension
    inner = width - 4 * c
    for i in range(2, rows - 2):
        # Slices for each shift: of an index like k − c it is not known to be positive,
        # and a loop that has to ask is not vectorised.
        m, to = v[i], w[i, 2 * c :]
        up, down = v[i - 2, 2 * c :], v[i + 2, 2 * c :]
        b, d = v[i - 1], v[i + 1]
        b0, b1, b2 = b[c:], b[2 * c :], b[3 * c :]
        d0, d1, d2 = d[c:], d[2 * c :], d[3 * c :]
        m1, m2, m3, m4 = m[c:], m[2 * c :], m[3 * c :], m[4 * c :]
        for k in range(inner):
            far = up[k] + down[k] + m[k] + m4[k]
            near = b1[k] + d1[k] + m1[k] + m3[k]
            corner = b0[k] + b2[k] + d0[k] + d2[k]
            to[k] = here * m2[k] - beside * near + 2 * corner + far
    # Two lines at each border depend on no more than five.
    strip = np.empty((5, columns, channels), x.dtype)
    for first, start in ((0, 0), (rows - 5, 3)):
        _bend_all(np.ascontiguousarray(x[first : first + 5]), tension, strip)
        out[first + start : first + start + 2] = strip[start : start + 2]
    strip = np.empty((rows, 5, channels), x.dtype)
    for first, start in ((0, 0), (columns - 5, 3)):
        _bend_all(np.ascontiguousarray(x[:, first : first + 5]), tension, strip)
        out[:, first + start : first + start + 2] = strip[:, start : start + 2]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def descend(
    x: np.ndarray,
    r: np.ndarray,
    p: np.ndarray,
    Ap: np.ndarray,
    diagonal: np.ndarray,
    step: Any,
) -> float:
    """Take a step of conjugate gradients; return ``⟨r, r / diagonal⟩``."""
    total = 0.0
    for i in range(len(x)):
        part = f4(0)
        for k in range(x.shape[1]):
            x[i, k] += step * p[i, k]
            t = r[i, k] - step * Ap[i, k]
            r[i, k] = t
            part += t * t / diagonal[i, k]
        total += float(part)
    return total


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def turn(r: np.ndarray, p: np.ndarray, diagonal: np.ndarray, keep: Any) -> None:
    """Turn the direction ``p`` to ``r / diagonal + keep p``."""
    for i in range(len(r)):
        for k in range(r.shape[1]):
            p[i, k] = r[i, k] / diagonal[i, k] + keep * p[i, k]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def pull(bent: np.ndarray, weight: np.ndarray, v: np.ndarray, stiffness: Any) -> float:
    """Turn ``Q v`` to ``A v = weight v + stiffness Q v``; return ``⟨v, A v⟩``."""
    total = 0.0
    for i in range(len(v)):
        part = f4(0)
        for k in range(v.shape[1]):
            t = stiffness * bent[i, k] + weight[i, k] * v[i, k]
            bent[i, k] = t
            part += v[i, k] * t
        total += float(part)
    return total


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def mix(x: np.ndarray, P: np.ndarray) -> None:
    """Replace ``x`` of shape (n, channels) by ``x P``."""
    channels = len(P)
    if channels == 3:  # without inner loops: the usual case
        p00, p01, p02 = P[0, 0], P[0, 1], P[0, 2]
        p10, p11, p12 = P[1, 0], P[1, 1], P[1, 2]
        p20, p21, p22 = P[2, 0], P[2, 1], P[2, 2]
        for i in range(len(x)):
            a, b, c = x[i, 0], x[i, 1], x[i, 2]
            x[i, 0] = a * p00 + b * p10 + c * p20
            x[i, 1] = a * p01 + b * p11 + c * p21
            x[i, 2] = a * p02 + b * p12 + c * p22
        return
    row = np.empty(channels, x.dtype)
    for i in range(len(x)):
        for k in range(channels):
            t = x[i, 0] * P[0, k]
            for e in range(1, channels):
                t += x[i, e] * P[e, k]
            row[k] = t
        for k in range(channels):
            x[i, k] = row[k]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def blur_rows(
    x: np.ndarray,
    channels: int,
    window: np.ndarray,
    first: int,
    last: int,
    out: np.ndarray,
) -> None:
    """Write rows first to last of x, (rows, columns · channels), under a window.

    ``window`` holds half of a symmetric one, from its middle on; beyond the border the
    image is mirrored, the outermost values twice.
    """
    rows, width = x.shape
    columns, reach = width // channels, len(window) - 1
    wide = np.empty(width + 2 * reach * channels, x.dtype)
    line = wide[reach * channels :]
    for i in range(first, last):
        row = x[i]
        for j in range(width):
            line[j] = window[0] * row[j]
        for n in range(1, reach + 1):
            above, below = x[_mirrored(i - n, rows)], x[_mirrored(i + n, rows)]
            share = window[n]
            for j in range(width):
                line[j] += share * (above[j] + below[j])
        for n in range(1, reach + 1):
            for c in range(channels):
                wide[(reach - n) * channels + c] = line[
                    _mirrored(-n, columns) * channels + c
                ]
                wide[(reach + columns + n - 1) * channels + c] = line[
                    _mirrored(columns + n - 1, columns) * channels + c
                ]
        to = out[i]
        for j in range(width):
            to[j] = window[0] * line[j]
        for n in range(1, reach + 1):
            before = wide[(reach - n) * channels :]
            after, share = wide[(reach + n) * channels :], window[n]
            for j in range(width):
                to[j] += share * (before[j] + after[j])


@njit(cache=True)
def _mirrored(i: int, n: int) -> int:
    """Return where index i lies in n values that are mirrored at both ends."""
    i %= 2 * n
    return i if i < n else 2 * n - 1 - i


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def ring_median(x: np.ndarray, out: np.ndarray) -> None:
    """Write the median of the eight neighbours of each value, the border mirrored."""
    rows, columns, channels = x.shape
    near = np.empty(8, x.dtype)
    for i in range(rows):
        above, below = abs(i - 1), rows - 1 - abs(rows - 2 - i)
        for j in range(columns):
            left, right = abs(j - 1), columns - 1 - abs(columns - 2 - j)
            for c in range(channels):
                near[0] = x[above, left, c]
                near[1] = x[above, j, c]
                near[2] = x[above, right, c]
                near[3] = x[i, left, c]
                near[4] = x[i, right, c]
                near[5] = x[below, left, c]
                near[6] = x[below, j, c]
                near[7] = x[below, right, c]
                for n in range(5):  # the five smallest, in order
                    for m in range(n + 1, 8):
                        low = min(near[n], near[m])
                        near[m] = max(near[n], near[m])
                        near[n] = low
                out[i, j, c] = (near[3] + near[4]) / 2


@njit(cache=True, nogil=True, error_model="numpy")
def median_of_nine(x: np.ndarray, out: np.ndarray) -> None:
    """Write the median of each value and its eight neighbours; x is wider by a border.

    Whole rows at a time, so that no comparison is a branch: each column is put in
    order, and of the lowest the highest, of the middle ones the middle, of the highest
    the lowest are left, the median of which is that of all nine.
    """
    rows, columns = out.shape
    low, middle, high = np.empty((3, columns + 2), x.dtype)
    for i in range(rows):
        a, b, c, to = x[i], x[i + 1], x[i + 2], out[i]
        for j in range(columns + 2):
            least, most = min(a[j], b[j]), max(a[j], b[j])
            low[j], high[j] = min(least, c[j]), max(most, c[j])
            middle[j] = max(least, min(most, c[j]))
        for j in range(columns):
            lows = max(max(low[j], low[j + 1]), low[j + 2])
            highs = min(min(high[j], high[j + 1]), high[j + 2])
            p, q, r = middle[j], middle[j + 1], middle[j + 2]
            middles = max(min(p, q), min(max(p, q), r))
            to[j] = max(min(lows, middles), min(max(lows, middles), highs))


@njit(cache=True, nogil=True)
def first_come(
    keys: np.ndarray, bits: int, many: float, number: np.ndarray
) -> np.ndarray:
    """Write the number of each key, as they come; return those that are different.

    There are 2 to the power of ``bits`` slots for them, and if more than the share
    ``many`` of all keys are different, the work ends.
    """
    slots = np.zeros(1 << bits, np.int32)  # number + 1 of the key that lies there
    seen = np.empty(1024, np.uint64)
    count = 0
    last = np.uint64((1 << bits) - 1)
    away = np.uint64(64 - bits)
    for i in range(len(keys)):
        key = keys[i]
        at = (key * np.uint64(0x9E3779B97F4A7C15)) >> away
        while slots[at] and seen[slots[at] - 1] != key:
            at = (at + np.uint64(1)) & last
        if not slots[at]:
            if count > many * len(keys):
                break
            if count == len(seen):
                more = np.empty(2 * count, np.uint64)
                more[:count] = seen
                seen = more
            seen[count] = key
            count += 1
            slots[at] = count
        number[i] = slots[at] - 1
    return seen[:count].copy()


@njit(cache=True, nogil=True, error_model="numpy")
def clean_posterior(
    likelihood: np.ndarray,
    bins: np.ndarray,
    odds: np.ndarray,
    state: np.ndarray,
    weight: np.ndarray,
    wrong: np.ndarray,
) -> None:
    """Write the probability of each value to be clean, and add up who is not.

    ``odds`` are clean to corrupt: those of each bin, and last those of a value that is
    sure. ``state`` is 0 where a value is corrupt, 1 where it is open, 2 where it is
    sure. ``wrong`` gathers, of each bin, how many of its open values are corrupt.
    """
    for i in range(len(likelihood)):
        at = bins[i]
        if state[i] == 0:
            weight[i] = 0
            continue
        w = likelihood[i] * (odds[at] if state[i] == 1 else odds[-1])
        w /= f4(1) + w
        weight[i] = w
        if state[i] == 1:
            wrong[at] += f4(1) - w

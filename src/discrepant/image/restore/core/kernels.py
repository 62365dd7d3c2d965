"""Compiled inner loops: thin-plate spline, Gaussian windows, medians, posterior."""

from typing import Any

import numpy as np

from discrepant.core.jit import njit

f4 = np.float32


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _apply_bending_energy_everywhere(
    x: np.ndarray, tension: Any, out: np.ndarray
) -> None:
    """Write ``Q x`` to ``out`` for an image of any size, difference by difference."""
    rows, columns, channels = x.shape
    width = columns * channels
    v, w = x.reshape(rows, width), out.reshape(rows, width)
    d = np.empty(width, x.dtype)
    w[:] = 0
    for i in range(rows):  # loops over whole rows are vectorised
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
def apply_bending_energy(x: np.ndarray, tension: Any, out: np.ndarray) -> None:
    """Write ``Q x`` to ``out``, channel by channel.

    ``xᵀQx`` is the energy of a thin plate, ``x_ii² + 2 x_ij² + x_jj²``, plus
    ``tension`` times that of a membrane, ``x_i² + x_j²``, summed over the pixels where
    the differences exist: no condition is imposed at the border. Away from the border,
    each value of ``Q x`` is the same weighted sum over thirteen pixels.
    """
    rows, columns, channels = x.shape
    if rows < 5 or columns < 5:
        _apply_bending_energy_everywhere(x, tension, out)
        return
    width, c = columns * channels, channels
    v, w = x.reshape(rows, width), out.reshape(rows, width)
    here, beside = f4(20) + 4 * tension, f4(8) + tension
    inner = width - 4 * c
    for i in range(2, rows - 2):
        # One slice for each shift: the compiler cannot know that an index like k − c is
        # positive, and does not vectorise a loop that has to test it.
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
    # The two lines at each border depend on the outer five lines only.
    strip = np.empty((5, columns, channels), x.dtype)
    for first, start in ((0, 0), (rows - 5, 3)):
        _apply_bending_energy_everywhere(
            np.ascontiguousarray(x[first : first + 5]), tension, strip
        )
        out[first + start : first + start + 2] = strip[start : start + 2]
    strip = np.empty((rows, 5, channels), x.dtype)
    for first, start in ((0, 0), (columns - 5, 3)):
        _apply_bending_energy_everywhere(
            np.ascontiguousarray(x[:, first : first + 5]), tension, strip
        )
        out[:, first + start : first + start + 2] = strip[:, start : start + 2]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def cg_update(
    x: np.ndarray,
    r: np.ndarray,
    p: np.ndarray,
    Ap: np.ndarray,
    diagonal: np.ndarray,
    step: Any,
) -> float:
    """Take a step of conjugate gradients; return the new ``⟨r, r / diagonal⟩``."""
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
def cg_direction(r: np.ndarray, p: np.ndarray, diagonal: np.ndarray, beta: Any) -> None:
    """Replace the direction ``p`` by ``r / diagonal + beta p``."""
    for i in range(len(r)):
        for k in range(r.shape[1]):
            p[i, k] = r[i, k] / diagonal[i, k] + beta * p[i, k]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def apply_system(
    Qv: np.ndarray, weight: np.ndarray, v: np.ndarray, stiffness: Any
) -> float:
    """Replace ``Q v`` by ``A v = weight v + stiffness Q v``; return ``⟨v, A v⟩``."""
    total = 0.0
    for i in range(len(v)):
        part = f4(0)
        for k in range(v.shape[1]):
            t = stiffness * Qv[i, k] + weight[i, k] * v[i, k]
            Qv[i, k] = t
            part += v[i, k] * t
        total += float(part)
    return total


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def mix_channels(x: np.ndarray, P: np.ndarray) -> None:
    """Replace ``x`` of shape (n, channels) by ``x P``."""
    channels = len(P)
    if channels == 3:  # the usual case, without inner loops
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
    """Convolve rows first to last of x, (rows, columns · channels), with a window.

    ``window`` holds one half of a symmetric, separable window, from its centre on. The
    image is mirrored at the border, and the outermost values are repeated.
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
            above, below = x[_mirror_index(i - n, rows)], x[_mirror_index(i + n, rows)]
            factor = window[n]
            for j in range(width):
                line[j] += factor * (above[j] + below[j])
        for n in range(1, reach + 1):
            for c in range(channels):
                wide[(reach - n) * channels + c] = line[
                    _mirror_index(-n, columns) * channels + c
                ]
                wide[(reach + columns + n - 1) * channels + c] = line[
                    _mirror_index(columns + n - 1, columns) * channels + c
                ]
        to = out[i]
        for j in range(width):
            to[j] = window[0] * line[j]
        for n in range(1, reach + 1):
            before = wide[(reach - n) * channels :]
            after, factor = wide[(reach + n) * channels :], window[n]
            for j in range(width):
                to[j] += factor * (before[j] + after[j])


@njit(cache=True)
def _mirror_index(i: int, n: int) -> int:
    """Return the index in 0 … n − 1 of index i, mirrored at both ends."""
    i %= 2 * n
    return i if i < n else 2 * n - 1 - i


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def ring_median(x: np.ndarray, out: np.ndarray) -> None:
    """Write the median of each value's eight neighbours, mirrored at the border."""
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
    """Write the 3×3 median of each value; x is padded by one pixel on each side.

    Whole rows are processed at a time, so that no comparison is a branch. Each column
    of three is sorted. The median of all nine is the median of three values: the
    largest of the minima, the median of the medians, the smallest of the maxima.
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


@njit(cache=True, nogil=True, error_model="numpy")
def clean_posterior(
    density: np.ndarray,
    bins: np.ndarray,
    odds: np.ndarray,
    state: np.ndarray,
    clean: np.ndarray,
    corrupt_counts: np.ndarray,
) -> None:
    """Write the probability that each value is clean, and count the corrupted ones.

    ``density`` is the density of each value if it is clean. ``odds`` are clean-to-
    corrupt odds: those of each bin, and last those of a value that is known to be
    clean. ``state`` is 0 where a value is known to be corrupted, 1 where it is
    uncertain, 2 where it is known to be clean. ``corrupt_counts`` sums, for each bin,
    the probabilities of its uncertain values to be corrupted.
    """
    for i in range(len(density)):
        at = bins[i]
        if state[i] == 0:
            clean[i] = 0
            continue
        w = density[i] * (odds[at] if state[i] == 1 else odds[-1])
        w /= f4(1) + w
        clean[i] = w
        if state[i] == 1:
            corrupt_counts[at] += f4(1) - w

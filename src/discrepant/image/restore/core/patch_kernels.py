"""Compiled inner loops of `similar_patches`: block matching, Gaussian elimination."""

import numpy as np

from discrepant.core.jit import njit

f4 = np.float32
# Floats that a vectorised loop processes at once. Arrays are padded to multiples of it,
# since the remainder of a loop is processed one by one: 21 values would all be.
LANES = 32
# Widths of the two most frequent systems: patches of one and of three channels. Loops
# whose length is known at compile time are unrolled.
NARROW, WIDE = 40, 64


def to_padded_planes(x: np.ndarray, reach: int) -> np.ndarray:
    """Return an image of shape (channels, rows, columns), padded for the search."""
    rows, columns, channels = x.shape
    planes = np.zeros((channels, rows, columns + _padded(2 * reach + 1)), f4)
    planes[..., :columns] = np.moveaxis(x, 2, 0)
    return planes


@njit(cache=True)
def _padded(n: int) -> int:
    return -(-n // LANES) * LANES


@njit(inline="always")
def _add_squares(here: np.ndarray, there: np.ndarray, line: np.ndarray) -> None:
    """Add to ``line`` the squared distances of a row of a patch to `LANES` others.

    The others start at successive columns of ``there``. Several values are processed at
    a time, since ``line`` is read and written each time. Slices are used because the
    compiler cannot know that an index like ``v + j`` is not negative.
    """
    size, v = len(here), 0
    while v + 3 < size:
        h0, h1, h2, h3 = here[v], here[v + 1], here[v + 2], here[v + 3]
        t = there[v:]
        for j in range(LANES):
            d0, d1, d2, d3 = h0 - t[j], h1 - t[j + 1], h2 - t[j + 2], h3 - t[j + 3]
            line[j] += d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
        v += 4
    while v + 1 < size:
        h0, h1 = here[v], here[v + 1]
        t = there[v:]
        for j in range(LANES):
            d0, d1 = h0 - t[j], h1 - t[j + 1]
            line[j] += d0 * d0 + d1 * d1
        v += 2
    if v < size:
        h0 = here[v]
        t = there[v:]
        for j in range(LANES):
            d0 = h0 - t[j]
            line[j] += d0 * d0


@njit(cache=True, nogil=True, error_model="numpy")
def _kth_smallest(bits: np.ndarray, n: int, k: int) -> np.int32:
    """Return the k-th smallest of the first n floats, given by their bits.

    None of the floats is negative, so that their bits have the same order as integers.
    Their range is bisected: each step compares all values, but without a branch that
    cannot be predicted.
    """
    low, high = np.int32(0), np.int32(0x7F800000)  # 0 and infinity
    for m in range(n, len(bits)):
        bits[m] = high
    while low < high:
        middle = low + (high - low) // np.int32(2)
        below = np.int32(0)
        for m in range(len(bits)):
            below += bits[m] <= middle
        if below >= k:
            high = middle
        else:
            low = middle + np.int32(1)
    return low


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _find_similar(
    planes: np.ndarray,
    top: int,
    left: int,
    size: int,
    reach: int,
    count: int,
    line: np.ndarray,
    distance: np.ndarray,
    nearest: np.ndarray,
) -> int:
    """Write to ``nearest`` the positions of the patches most similar to one.

    The patch starts at (top, left). ``planes`` has the channels in front, so that
    neighbours in a row are compared together, and is padded to the right. Positions
    are flat indices into a plane. The search covers ``reach`` rows and columns in each
    direction. Returns the number of patches, at most ``count``. ``line`` and
    ``distance`` are scratch arrays.
    """
    channels, rows, padded = planes.shape
    columns = padded - len(line)
    first, last = max(0, top - reach), min(rows - size, top + reach)
    start, stop = max(0, left - reach), min(columns - size, left + reach) + 1
    width = stop - start
    n = 0
    for i in range(first, last + 1):
        for b in range(0, len(line), LANES):
            part = line[b : b + LANES]
            for j in range(LANES):
                part[j] = 0
            for c in range(channels):
                for u in range(size):
                    here = planes[c, top + u, left : left + size]
                    _add_squares(here, planes[c, i + u, start + b :], part)
        for j in range(width):
            distance[n + j] = line[j]
        n += width
    k = min(count, n)
    bits = distance.view(np.int32)
    limit = _kth_smallest(bits, n, k)
    q = m = 0
    for i in range(first, last + 1):
        for j in range(width):  # without a branch, which could not be predicted
            nearest[q] = i * padded + start + j
            q += bits[m] < limit
            m += 1
    m = 0
    while q < k:  # of those at the limit, take the first
        if bits[m] == limit:
            nearest[q] = (first + m // width) * padded + start + m % width
            q += 1
        m += 1
    return q


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _gather(
    planes: np.ndarray, nearest: np.ndarray, k: int, size: int, group: np.ndarray
) -> None:
    """Copy k patches to ``group``, one per column."""
    channels, rows, columns = planes.shape
    values = planes.ravel()
    o = 0
    for u in range(size):
        for v in range(size):
            for c in range(channels):
                there = values[(c * rows + u) * columns + v :]
                for m in range(k):
                    group[o, m] = there[nearest[m]]
                o += 1


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _centre(group: np.ndarray, k: int, mean: np.ndarray) -> None:
    """Subtract from each row its mean over k columns; set the other columns to zero."""
    for m in range(len(mean)):
        row = group[m]
        for q in range(k, len(row)):
            row[q] = 0
        t = f4(0)
        for q in range(len(row)):
            t += row[q]
        t /= f4(k)
        mean[m] = t
        for q in range(len(row)):
            row[q] -= t
        for q in range(k, len(row)):
            row[q] = 0


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _covariance(group: np.ndarray, k: int, S: np.ndarray) -> None:
    """Write the covariance of the rows of ``group``, over k columns, in 2×2 blocks."""
    factor = f4(1) / f4(k)
    for m in range(0, len(group), 2):
        for r in range(0, m + 2, 2):
            s00, s01, s10, s11 = f4(0), f4(0), f4(0), f4(0)
            for q in range(group.shape[1]):  # zero beyond k
                a0, a1, b0, b1 = (
                    group[m, q],
                    group[m + 1, q],
                    group[r, q],
                    group[r + 1, q],
                )
                s00 += a0 * b0
                s01 += a0 * b1
                s10 += a1 * b0
                s11 += a1 * b1
            S[m, r] = S[r, m] = s00 * factor
            S[m, r + 1] = S[r + 1, m] = s01 * factor
            S[m + 1, r] = S[r, m + 1] = s10 * factor
            S[m + 1, r + 1] = S[r + 1, m + 1] = s11 * factor


@njit(inline="always")
def _subtract(
    row: np.ndarray, s: float, p: np.ndarray, t: float, q: np.ndarray
) -> None:
    """Subtract ``s p + t q`` from a row."""
    if len(row) == NARROW:
        for j in range(NARROW):
            row[j] -= s * p[j] + t * q[j]
    elif len(row) == WIDE:
        for j in range(WIDE):
            row[j] -= s * p[j] + t * q[j]
    else:
        for j in range(len(row)):
            row[j] -= s * p[j] + t * q[j]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _sweep(K: np.ndarray, k: int, m: int, p: np.ndarray, q: np.ndarray) -> None:
    """Sweep rows and columns k and m of the square part of ``K``, in place.

    After Gauss-Jordan sweeps of a set A, K holds K_AA⁻¹, K_AA⁻¹ K_AB and
    K_BB − K_BA K_AA⁻¹ K_AB. Sweeping two at a time reads and writes each row half as
    often. ``p`` and ``q`` are scratch arrays of a row's length.
    """
    row = K[k]
    inverse = 1 / max(row[k], f4(1e-12))
    for j in range(len(p)):
        p[j] = row[j] * inverse
    row = K[m]
    t = row[k]
    for j in range(len(p)):
        q[j] = row[j] - t * p[j]
    p[k], q[k] = inverse, -t * inverse
    inverse = 1 / max(q[m], f4(1e-12))
    for j in range(len(q)):
        q[j] *= inverse
    t, q[m] = p[m], inverse
    for j in range(len(p)):
        p[j] -= t * q[j]
    p[m] = -t * inverse
    # Single values are written after whole rows: in the other order, reading a row
    # would wait for them.
    pk, qk, pm, qm = p[k], q[k], p[m], q[m]
    for i in range(len(K)):
        row = K[i]
        s, t = row[k], row[m]
        _subtract(row, s, p, t, q)
        row[k], row[m] = -(s * pk + t * qk), -(s * pm + t * qm)
    for j in range(len(p)):
        K[k, j], K[m, j] = p[j], q[j]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def leave_one_out(
    planes: np.ndarray,
    y: np.ndarray,
    noise: np.ndarray,
    tops: np.ndarray,
    lefts: np.ndarray,
    first: int,
    size: int,
    reach: int,
    count: int,
    ridge: float,
    min_variance: float,
    total: np.ndarray,
    precision: np.ndarray,
    count_sum: np.ndarray,
) -> None:
    """Predict every value of patches from the other values of the same patch.

    For each patch, the most similar patches of ``planes`` (`to_padded_planes` of the
    current estimate) give a mean μ and a covariance Σ. Under that Gaussian, with ``y``
    observed with variance ``noise`` (negative where a value is excluded), the
    prediction of a value from all others of the patch and its variance are read off
    the inverse of ``K = Σ + diag(noise)``:
    ``y_i − (K⁻¹(y−μ))_i / (K⁻¹)_ii`` and ``1/(K⁻¹)_ii − noise_i``.

    ``tops`` and ``lefts`` are the corners of the patches, ``size`` their rows and
    columns, ``reach`` and ``count`` the extent of the search and the number of similar
    patches. ``min_variance`` plus ``ridge`` times the mean diagonal of Σ is added to
    every variance. ``total``, ``precision`` and ``count_sum`` collect
    prediction/variance, 1/variance and the number of patches, from image row ``first``
    on.
    """
    channels = len(planes)
    d = size * size * channels
    even = d + d % 2
    group = np.zeros((even, _padded(count)), f4)
    line = np.empty(_padded(2 * reach + 1), f4)
    distance = np.empty(_padded((2 * reach + 1) ** 2), f4)
    nearest = np.empty(count + 1, np.int64)
    mean = np.empty(d, f4)
    # Σ plus the noise of the observed values; one more value, independent of the
    # others, to make their number even; and in column d + 1 the differences y − μ.
    width = NARROW if d + 2 <= NARROW else _padded(d + 2)
    K = np.zeros((d + 1, width), f4)
    p, q = np.empty(K.shape[1], f4), np.empty(K.shape[1], f4)
    observed = np.empty(d + 1, np.int64)
    variance = np.empty(d, f4)
    for corner in range(len(tops)):
        top, left = tops[corner], lefts[corner]
        k = _find_similar(
            planes, top, left, size, reach, count, line, distance, nearest
        )
        _gather(planes, nearest, k, size, group)
        _centre(group, k, mean)
        _covariance(group, k, K)
        trace = f4(0)
        for m in range(d):
            trace += K[m, m]
        K[:, d], K[d], K[d, d] = 0, 0, 1
        jitter = f4(min_variance) + f4(ridge) * trace / f4(d)
        m = n = 0
        for u in range(size):
            for v in range(size):
                for c in range(channels):
                    z = noise[top + u, left + v, c]
                    variance[m] = z + jitter if z >= 0 else f4(-1)
                    K[m, d + 1] = f4(0)
                    if z >= 0:
                        K[m, m] += variance[m]
                        K[m, d + 1] = y[top + u, left + v, c] - mean[m]
                        observed[n] = m
                        n += 1
                    m += 1
        if n % 2:
            observed[n] = d
        for o in range(0, n, 2):
            _sweep(K, observed[o], observed[o + 1], p, q)
        # Observed values are predicted from the others, excluded ones from these.
        m = 0
        for u in range(size):
            for v in range(size):
                for c in range(channels):
                    prediction, own_variance = mean[m] - K[m, d + 1], K[m, m]
                    if variance[m] >= 0:
                        prediction = y[top + u, left + v, c] - K[m, d + 1] / K[m, m]
                        own_variance = 1 / K[m, m] - variance[m]
                    t = 1 / (max(own_variance, f4(0)) + jitter)
                    total[top + u - first, left + v, c] += prediction * t
                    precision[top + u - first, left + v, c] += t
                    count_sum[top + u - first, left + v, c] += 1
                    m += 1

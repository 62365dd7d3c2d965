"""Compiled inner loops of the patches, imported only when an image is restored."""

import numpy as np

from discrepant.compiled import njit

f4 = np.float32


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _similar(
    planes: np.ndarray,
    top: int,
    left: int,
    size: int,
    reach: int,
    count: int,
    distance: np.ndarray,
    nearest: np.ndarray,
    group: np.ndarray,
) -> int:
    """Copy to ``group``, one a column, the patches most like that at (top, left).

    ``planes`` has the channels in front, so that neighbours on a row are compared in
    one go. They are looked for up to ``reach`` rows and columns away; returns how many
    there are, at most ``count``. ``distance`` and ``nearest`` are scratch.
    """
    channels, rows, columns = planes.shape
    first, last = max(0, top - reach), min(rows - size, top + reach)
    start, stop = max(0, left - reach), min(columns - size, left + reach) + 1
    width = stop - start
    n = 0
    for i in range(first, last + 1):
        for j in range(width):
            distance[n + j] = 0
        for c in range(channels):
            for u in range(size):
                here = planes[c, top + u, left : left + size]
                there = planes[c, i + u, start : stop + size]
                v = 0
                while v + 3 < size:
                    h0, h1, h2, h3 = here[v], here[v + 1], here[v + 2], here[v + 3]
                    for j in range(width):
                        d0, d1 = h0 - there[v + j], h1 - there[v + 1 + j]
                        d2, d3 = h2 - there[v + 2 + j], h3 - there[v + 3 + j]
                        distance[n + j] += d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
                    v += 4
                while v < size:
                    h0 = here[v]
                    for j in range(width):
                        d0 = h0 - there[v + j]
                        distance[n + j] += d0 * d0
                    v += 1
        n += width
    k = min(count, n)
    limit = np.partition(distance[:n], k - 1)[k - 1]
    q = 0
    for below in (True, False):  # of those at the limit, the first
        for m in range(n):
            if q < k and (distance[m] < limit if below else distance[m] == limit):
                nearest[q, 0] = first + m // width
                nearest[q, 1] = start + m % width
                q += 1
    o = 0
    for u in range(size):
        for v in range(size):
            for c in range(channels):
                for m in range(q):
                    group[o, m] = planes[c, nearest[m, 0] + u, nearest[m, 1] + v]
                o += 1
    return q


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _covariance(group: np.ndarray, k: int, S: np.ndarray) -> None:
    """Write the products of the rows of ``group``, two by two, over k columns."""
    for m in range(0, len(group), 2):
        for r in range(0, m + 2, 2):
            s00, s01, s10, s11 = f4(0), f4(0), f4(0), f4(0)
            for q in range(k):
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
            S[m, r], S[m, r + 1] = s00 / k, s01 / k
            S[m + 1, r], S[m + 1, r + 1] = s10 / k, s11 / k


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def leave_one_out(
    x: np.ndarray,
    y: np.ndarray,
    noise: np.ndarray,
    tops: np.ndarray,
    lefts: np.ndarray,
    first: int,
    size: int,
    reach: int,
    count: int,
    ridge: float,
    least: float,
    total: np.ndarray,
    precision: np.ndarray,
    times: np.ndarray,
) -> None:
    """Predict every value of patches, given their corners, from the others of each.

    For each patch, the patches most like it in the estimate ``x`` give a mean μ and a
    covariance Σ. Under that Gaussian, with ``y`` observed with variance ``noise``
    (negative where there is nothing to trust), the prediction of a value from all
    others of the patch and its variance are read off the inverse of
    ``K = Σ + diag(noise)``:
    ``y_i − (K⁻¹(y−μ))_i / (K⁻¹)_ii`` and ``1/(K⁻¹)_ii − noise_i``.

    ``tops`` and ``lefts`` are where patches begin, ``size`` their rows and columns,
    ``reach`` and ``count`` where and how many look-alikes are taken. To every variance
    is added ``least`` plus ``ridge`` times the mean diagonal of Σ. ``total``,
    ``precision`` and ``times`` gather prediction/variance, 1/variance and the number of
    patches, from image row ``first`` on.
    """
    channels = x.shape[2]
    d = size * size * channels
    even = d + d % 2
    group = np.zeros((even, count), f4)
    distance = np.empty((2 * reach + 1) ** 2, f4)
    nearest = np.empty((count, 2), np.int64)
    planes = np.empty((channels, x.shape[0], x.shape[1]), f4)
    for c in range(channels):
        planes[c] = x[:, :, c]
    mean = np.empty(d, f4)
    S = np.empty((even, even), f4)
    L = np.zeros((d, d), f4)  # K = L Lᵀ
    R = np.zeros((d, d), f4)  # the inverse of L
    seen = np.empty(d, np.int32)  # which values of the patch are trusted
    misfit = np.empty(d, f4)
    variance = np.empty(d, f4)
    a = np.empty(d, f4)  # K⁻¹(y − μ)
    own = np.empty(d, f4)  # the diagonal of K⁻¹
    guess = np.empty(d, f4)
    spread = np.empty(d, f4)
    row = np.empty(d, f4)
    B = np.empty((d, d), f4)
    missing = np.empty(d, np.int32)
    for corner in range(len(tops)):
        top, left = tops[corner], lefts[corner]
        k = _similar(planes, top, left, size, reach, count, distance, nearest, group)
        # The mean μ and the covariance S = Σ of the look-alikes.
        for m in range(d):
            t = f4(0)
            for q in range(k):
                t += group[m, q]
            t /= k
            mean[m] = t
            for q in range(k):
                group[m, q] -= t
        _covariance(group, k, S)
        trace = f4(0)
        for m in range(d):
            for r in range(m):
                S[r, m] = S[m, r]
            trace += S[m, m]
        jitter = f4(least) + f4(ridge) * trace / f4(d)

        # The n trusted values, and their variances.
        n = 0
        m = 0
        for u in range(size):
            for v in range(size):
                for c in range(channels):
                    z = noise[top + u, left + v, c]
                    if z >= 0:
                        seen[n] = m
                        misfit[n] = y[top + u, left + v, c] - mean[m]
                        variance[n] = z + jitter
                        n += 1
                    m += 1
        # Cholesky's factor of K, its inverse, and K⁻¹(y − μ).
        for m in range(n):
            for r in range(m + 1):
                t = S[seen[m], seen[r]]
                if r == m:
                    t += variance[m]
                for q in range(r):
                    t -= L[m, q] * L[r, q]
                if r == m:
                    L[m, m] = np.sqrt(max(t, f4(1e-12)))
                else:
                    L[m, r] = t / L[r, r]
        for m in range(n):
            inverse = 1 / L[m, m]
            for r in range(m):
                R[m, r] = 0
            for q in range(m):
                t = L[m, q] * inverse
                for r in range(q + 1):
                    R[m, r] -= t * R[q, r]
            R[m, m] = inverse
        for m in range(n):
            a[m] = 0
            own[m] = 0
        for m in range(n):
            t = f4(0)
            for q in range(m + 1):
                t += R[m, q] * misfit[q]
            for q in range(m + 1):
                a[q] += R[m, q] * t
                own[q] += R[m, q] * R[m, q]

        # What is not seen, all at once: mean and variance given what is.
        hidden = 0
        o = 0
        for m in range(d):
            if o < n and seen[o] == m:
                o += 1
                continue
            missing[hidden] = m
            guess[m] = mean[m]
            spread[m] = S[m, m]
            hidden += 1
        for q in range(n):
            for h in range(hidden):
                B[q, h] = S[seen[q], missing[h]]
        for h in range(hidden):
            t = f4(0)
            for q in range(n):
                t += a[q] * B[q, h]
            guess[missing[h]] += t
        for r in range(n):
            for h in range(hidden):
                row[h] = 0
            for q in range(r + 1):
                t = R[r, q]
                for h in range(hidden):
                    row[h] += t * B[q, h]
            for h in range(hidden):
                spread[missing[h]] -= row[h] * row[h]
        for o in range(n):
            m = seen[o]
            guess[m] = misfit[o] + mean[m] - a[o] / own[o]
            spread[m] = 1 / own[o] - variance[o]

        m = 0
        for u in range(size):
            for v in range(size):
                for c in range(channels):
                    t = 1 / (max(spread[m], f4(0)) + jitter)
                    total[top + u - first, left + v, c] += guess[m] * t
                    precision[top + u - first, left + v, c] += t
                    times[top + u - first, left + v, c] += 1
                    m += 1

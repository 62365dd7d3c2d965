"""Compiled inner loops for images, imported only when an image is restored."""

import numba
import numpy as np

f4 = np.float32


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def bend(x: np.ndarray, tension: float, out: np.ndarray) -> None:
    """Write ``Q x`` to ``out``, channel by channel.

    ``xᵀQx`` is the energy of a thin plate, ``x_ii² + 2 x_ij² + x_jj²``, plus
    ``tension`` times that of a membrane, ``x_i² + x_j²``, summed over the pixels where
    the differences exist: no condition is imposed at the border.
    """
    rows, columns, channels = x.shape
    pull = f4(tension)
    out[:] = 0
    for i in range(rows):
        for j in range(columns):
            for c in range(channels):
                v = x[i, j, c]
                if 0 < i < rows - 1:
                    d = x[i - 1, j, c] - 2 * v + x[i + 1, j, c]
                    out[i - 1, j, c] += d
                    out[i + 1, j, c] += d
                    out[i, j, c] -= 2 * d
                if 0 < j < columns - 1:
                    d = x[i, j - 1, c] - 2 * v + x[i, j + 1, c]
                    out[i, j - 1, c] += d
                    out[i, j + 1, c] += d
                    out[i, j, c] -= 2 * d
                if i < rows - 1 and j < columns - 1:
                    d = v - x[i + 1, j, c] - x[i, j + 1, c] + x[i + 1, j + 1, c]
                    d *= 2
                    out[i, j, c] += d
                    out[i + 1, j + 1, c] += d
                    out[i + 1, j, c] -= d
                    out[i, j + 1, c] -= d
                if i < rows - 1:
                    d = pull * (v - x[i + 1, j, c])
                    out[i, j, c] += d
                    out[i + 1, j, c] -= d
                if j < columns - 1:
                    d = pull * (v - x[i, j + 1, c])
                    out[i, j, c] += d
                    out[i, j + 1, c] -= d


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _similar(
    x: np.ndarray,
    top: int,
    left: int,
    size: int,
    reach: int,
    count: int,
    distance: np.ndarray,
    where: np.ndarray,
    group: np.ndarray,
) -> int:
    """Copy to ``group`` the patches most like the one at (top, left).

    Looked for up to ``reach`` rows and columns away; returns how many there are, at
    most ``count``. ``distance`` and ``where`` are scratch.
    """
    rows, columns, channels = x.shape
    n = 0
    for i in range(max(0, top - reach), min(rows - size, top + reach) + 1):
        for j in range(max(0, left - reach), min(columns - size, left + reach) + 1):
            total = f4(0)
            for u in range(size):
                for v in range(size):
                    for c in range(channels):
                        d = x[top + u, left + v, c] - x[i + u, j + v, c]
                        total += d * d
            distance[n] = total
            where[n, 0] = i
            where[n, 1] = j
            n += 1
    k = min(count, n)
    nearest = np.argpartition(distance[:n], k - 1)[:k] if k < n else np.arange(n)
    for q in range(k):
        i = where[nearest[q], 0]
        j = where[nearest[q], 1]
        m = 0
        for u in range(size):
            for v in range(size):
                for c in range(channels):
                    group[q, m] = x[i + u, j + v, c]
                    m += 1
    return k


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
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
    """Predict every value of some patches from the others of its patch.

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
    group = np.empty((count, d), f4)
    distance = np.empty((2 * reach + 1) ** 2, f4)
    where = np.empty(((2 * reach + 1) ** 2, 2), np.int32)
    mean = np.empty(d, f4)
    S = np.empty((d, d), f4)
    L = np.zeros((d, d), f4)  # K = L Lᵀ
    R = np.zeros((d, d), f4)  # the inverse of L
    seen = np.empty(d, np.int32)  # which values of the patch are trusted
    misfit = np.empty(d, f4)
    variance = np.empty(d, f4)
    a = np.empty(d, f4)  # K⁻¹(y − μ)
    b = np.empty(d, f4)  # L⁻¹(y − μ)
    for top in tops:
        for left in lefts:
            k = _similar(x, top, left, size, reach, count, distance, where, group)
            # The mean μ and the covariance S = Σ of the look-alikes.
            mean[:] = 0
            for q in range(k):
                for m in range(d):
                    mean[m] += group[q, m]
            for m in range(d):
                mean[m] /= k
                for r in range(m + 1):
                    S[m, r] = 0
            for q in range(k):
                for m in range(d):
                    group[q, m] -= mean[m]
                for m in range(d):
                    g = group[q, m]
                    for r in range(m + 1):
                        S[m, r] += g * group[q, r]
            trace = f4(0)
            for m in range(d):
                for r in range(m + 1):
                    S[m, r] /= k
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
                R[m, m] = 1 / L[m, m]
                for r in range(m):
                    t = f4(0)
                    for q in range(r, m):
                        t -= L[m, q] * R[q, r]
                    R[m, r] = t / L[m, m]
            for m in range(n):
                t = f4(0)
                for q in range(m + 1):
                    t += R[m, q] * misfit[q]
                b[m] = t
            for m in range(n):
                t = f4(0)
                for q in range(m, n):
                    t += R[q, m] * b[q]
                a[m] = t

            # Each value from the others: a trusted one (number o of them) by leaving it
            # out of K, any other by the regression on the trusted ones.
            m = 0
            o = 0
            for u in range(size):
                for v in range(size):
                    for c in range(channels):
                        if o < n and seen[o] == m:
                            t = f4(0)
                            for q in range(o, n):
                                t += R[q, o] * R[q, o]
                            guess = y[top + u, left + v, c] - a[o] / t
                            doubt = 1 / t - variance[o]
                            o += 1
                        else:
                            guess = mean[m]
                            doubt = S[m, m]
                            for q in range(n):
                                guess += a[q] * S[m, seen[q]]
                            for r in range(n):
                                t = f4(0)
                                for q in range(r + 1):
                                    t += R[r, q] * S[m, seen[q]]
                                doubt -= t * t
                        doubt = max(doubt, f4(0)) + jitter
                        total[top + u - first, left + v, c] += guess / doubt
                        precision[top + u - first, left + v, c] += 1 / doubt
                        times[top + u - first, left + v, c] += 1
                        m += 1

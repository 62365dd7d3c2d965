"""Which cells of a row are wrong: ascent over sets of cells, one sweep a step.

With precision matrix K and the set M of cells left out of a row (missing or judged
wrong), sweeping K on M gives W with

    W_OO = precision of the kept cells,   so  x_j − E[x_j | rest] = (W x)_j / W_jj
    W_MM = −cov(x_M | x_O),               and E[x_M | x_O] = −W_MO x_O.

A sweep undoes itself, so that taking a cell out or back in costs p² either way.
Importing this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import math

import numpy as np

from discrepant.compiled import njit

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
FLIPS = 3  # times as many flips as cells: each gains, so that few rows need them
SWAPS = 6  # exchanges a row; beyond two or three none gains
FAST = {"reassoc", "contract", "nsz"}  # lets sums use vector units; NaN stays NaN
NEGLIGIBLE = 1e-300
TINY = 1e-12  # of columns that are sums of others, rounding leaves less than nothing
NARROWEST = 1e-3  # of the variance: the square of the narrowest width is 0.0025


@njit(cache=True, nogil=True, fastmath=FAST)
def sweep(W, k, back):
    """Take cell k out of a row's conditioning set, or back in."""
    p = W.shape[0]
    pivot = W[k, k]
    for i in range(p):
        if i == k:
            continue
        ratio = W[i, k] / pivot
        for j in range(p):
            if j != k:
                W[i, j] -= ratio * W[k, j]
    sign = -1.0 if back else 1.0
    for i in range(p):
        if i != k:
            value = sign * W[i, k] / pivot
            W[i, k] = value
            W[k, i] = value
    W[k, k] = -1.0 / pivot


@njit(cache=True, nogil=True, fastmath=FAST)
def residuals(W, x, out, away, variance, per_row):
    """Fill each cell's distance from what the kept others say, and its variance.

    The covariance was itself learnt from 1 / per_row rows, which adds to the variance
    the more the farther out the others lie: 1 + per_row (1 + d²), d their Mahalanobis
    distance. Returns d² of all kept cells.
    """
    p = W.shape[0]
    distance = 0.0
    for i in range(p):
        total = 0.0
        for j in range(p):
            if not out[j]:
                total += W[i, j] * x[j]
        if out[i]:
            away[i] = x[i] + total
            variance[i] = -W[i, i]
        else:
            away[i] = total / W[i, i]
            variance[i] = 1.0 / W[i, i]
            distance += total * x[i]
    for i in range(p):
        others = distance
        if not out[i]:
            others -= away[i] * away[i] / variance[i]
        variance[i] *= 1.0 + per_row * (1.0 + max(others, 0.0))
    return distance


@njit(cache=True, nogil=True, fastmath=FAST)
def one_odds(away, variance, prior, stretch, grain, weights):
    """Log odds that one cell is wrong: a broad density against three normals.

    What clean cells stray by is the square variance·stretch + grain. The widest
    normal's exponent is taken out, so that no distance underflows.
    """
    variance = max(variance, TINY)
    square = max(variance * stretch + grain, NARROWEST * variance * stretch)
    half = 0.5 * away * away / square
    total = weights[2] / 4
    total += weights[1] / 2 * math.exp(-half * (1 / 4 - 1 / 16))
    total += weights[0] * math.exp(-half * (1 - 1 / 16))
    return prior - math.log(total) + half / 16 + 0.5 * math.log(square) + HALF_LOG_2PI


@njit(cache=True, nogil=True, fastmath=FAST)
def log_odds(away, variance, prior, stretch, grain, weights, odds):
    """Fill the log odds of every cell."""
    for j in range(len(away)):
        odds[j] = one_odds(
            away[j], variance[j], prior[j], stretch[j], grain[j], weights[j]
        )


@njit(cache=True, nogil=True, fastmath=FAST)
def _swap(W, away, i, j, prior, stretch, grain, weights, distance, per_row):
    """Log odds of j wrong and i right against the reverse, by the other cells.

    With both kept, (W x)_k = away_k W_kk; the two cells' distances from what the rest
    says are A⁻¹ (W x), their covariance A⁻¹, with A the 2×2 block of W.
    """
    a, b, c = W[i, i], W[j, j], W[i, j]
    determinant = a * b - c * c
    u, v = away[i] * a, away[j] * b
    one, two = (b * u - c * v) / determinant, (a * v - c * u) / determinant
    others = max(distance - u * one - v * two, 0.0)
    wider = (1.0 + per_row * (1.0 + others)) / determinant
    first = one_odds(
        one, b * wider,
        prior[i], stretch[i], grain[i], weights[i],
    )  # fmt: skip
    second = one_odds(
        two, a * wider,
        prior[j], stretch[j], grain[j], weights[j],
    )  # fmt: skip
    return second - first


@njit(cache=True, nogil=True, fastmath=FAST)
def _ascend(W, x, missing, out, prior, stretch, grain, weights, per_row, work):
    """Flip the cell that gains most until none gains."""
    away, variance, odds = work[0], work[1], work[2]
    p = len(x)
    for _ in range(FLIPS * p):
        residuals(W, x, out, away, variance, per_row)
        log_odds(away, variance, prior, stretch, grain, weights, odds)
        best, gain = -1, 1e-9
        for j in range(p):
            if missing[j]:
                continue
            value = -odds[j] if out[j] else odds[j]
            if value > gain:
                best, gain = j, value
        if best < 0:
            break
        sweep(W, best, out[best])
        out[best] = not out[best]


@njit(cache=True, nogil=True, fastmath=FAST)
def _exchange(W, x, missing, out, prior, stretch, grain, weights, per_row, work):
    """Exchange a cell of the set for one outside it where that gains most."""
    p = len(x)
    best, first, second = 1e-6, -1, -1
    for i in range(p):
        if missing[i] or not out[i]:
            continue
        sweep(W, i, True)
        out[i] = False
        distance = residuals(W, x, out, work[0], work[1], per_row)
        for j in range(p):
            if j != i and not out[j]:
                gain = _swap(
                    W, work[0], i, j, prior, stretch, grain, weights, distance, per_row
                )
                if gain > best:
                    best, first, second = gain, i, j
        sweep(W, i, False)
        out[i] = True
    if first < 0:
        return False
    sweep(W, first, True)
    sweep(W, second, False)
    out[first], out[second] = False, True
    return True


@njit(cache=True, nogil=True, fastmath=FAST)
def _swaps(W, x, missing, out, prior, stretch, grain, weights, per_row, work, score):
    """Turn odds at the best set into odds over that set and its neighbours.

    For a cell i of the set the rivals are the set without i, and without i but with one
    other cell j: of two cells that contradict each other either may be wrong.
    """
    p = len(x)
    odds = work[2].copy()
    stay = np.zeros(p)
    leave = np.zeros(p)
    added = 0.0
    for j in range(p):
        if not missing[j] and not out[j]:
            added += math.exp(min(odds[j], 0.0))
    without = 0.0
    for i in range(p):
        if missing[i] or not out[i]:
            continue
        sweep(W, i, True)
        out[i] = False
        distance = residuals(W, x, out, work[0], work[1], per_row)
        weight = math.exp(-odds[i])
        total = 0.0
        for j in range(p):
            if j != i and not missing[j] and not out[j]:
                swap = _swap(
                    W, work[0], i, j, prior, stretch, grain, weights, distance, per_row
                )
                term = math.exp(min(swap, 30.0))
                stay[j] += term
                total += term
        leave[i] = weight + total
        without += weight
        sweep(W, i, False)
        out[i] = True
    for j in range(p):
        if missing[j]:
            continue
        if out[j]:
            if leave[j] > 0:
                score[j] = math.log1p(added) - math.log(leave[j])
            else:
                score[j] = odds[j]
        else:
            score[j] = math.log(math.exp(odds[j]) + stay[j] + NEGLIGIBLE)
            score[j] -= math.log1p(without)


@njit(cache=True, nogil=True, fastmath=FAST)
def search(X, missing, prior, K, stretch, grain, weights, start, fold, folds, per_row):
    """Judge every row; give sets, scores, residuals, variances, and moments.

    Parameters
    ----------
    X : array (n, p)
        Cells in standard units, less the centre; what is missing is not looked at.
    missing, start : bool arrays (n, p)
        Cells that are not there, and those that begin outside.
    prior : array (n, p)
        Log odds of a cell to be wrong, times the density of wrong cells at its value.
    K : array (p, p)
        Precision matrix.
    stretch, grain, weights : arrays (p,), (p,), (p, 3)
        How far clean cells stray; see `one_odds` and `tails`.
    fold : int array (n,)
        Which of the moments a row is counted in; none are taken where folds is 0.

    Returns
    -------
    out : bool array, cells judged wrong
    score : log odds that a cell is wrong
    away, variance : distance from, and variance of, what the kept others say
    moments : (folds, p, p), the sum over rows of E[x xᵀ | kept cells]
    sums : (folds, p), the sum over rows of E[x | kept cells]
    """
    n, p = X.shape
    outs = np.zeros((n, p), np.bool_)
    score = np.full((n, p), np.nan)
    aways = np.zeros((n, p))
    variances = np.zeros((n, p))
    moments = np.zeros((folds, p, p))
    sums = np.zeros((folds, p))
    work = np.zeros((3, p))
    W = np.empty((p, p))
    filled = np.empty(p)
    for i in range(n):
        W[:] = K
        out = missing[i].copy()
        for j in range(p):
            if start[i, j]:
                out[j] = True
            if out[j]:
                sweep(W, j, False)
        x, gone, chance = X[i], missing[i], prior[i]
        for _ in range(SWAPS):
            _ascend(W, x, gone, out, chance, stretch, grain, weights, per_row, work)
            if not _exchange(
                W, x, gone, out, chance, stretch, grain, weights, per_row, work
            ):
                break
        residuals(W, x, out, work[0], work[1], per_row)
        log_odds(work[0], work[1], chance, stretch, grain, weights, work[2])
        aways[i] = work[0]
        variances[i] = work[1]
        if folds > 0:
            at = fold[i]
            for j in range(p):
                filled[j] = x[j] - work[0][j] if out[j] else x[j]
            for j in range(p):
                sums[at, j] += filled[j]
                for k in range(p):
                    moments[at, j, k] += filled[j] * filled[k]
                if out[j]:
                    for k in range(p):
                        if out[k]:
                            moments[at, j, k] -= W[j, k]
        outs[i] = out & ~gone
        _swaps(
            W, x, gone, out, chance, stretch, grain, weights, per_row, work, score[i]
        )
    return outs, score, aways, variances, moments, sums

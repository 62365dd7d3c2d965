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

from discrepant.core.jit import njit

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
ROOT_2PI = math.sqrt(2 * math.pi)
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
def _ascend(W, x, missing, out, prior, stretch, grain, weights, per_row, work):
    """Flip the cell that gains most until none gains; give d² of the kept cells.

    Leaves the cells' distances, variances and log odds at the set found.
    """
    away, variance, odds = work[0], work[1], work[2]
    p = len(x)
    distance = 0.0
    for _ in range(FLIPS * p):
        distance = residuals(W, x, out, away, variance, per_row)
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
    return distance


@njit(cache=True, nogil=True, fastmath=FAST)
def _swaps(
    W, missing, out, prior, stretch, grain, weights, per_row, work, distance,
    stay, leave,
):  # fmt: skip
    """Compare the set with those that have one of its cells exchanged for another.

    Of two cells that contradict each other either may be wrong. With i back among the
    kept ones W is W′ = W − W_·i W_i· / W_ii; then (W′ x)_i = −away_i / W_ii and
    (W′ x)_j = (W x)_j − away_i W_ij / W_ii. The distances of i and j from what the rest
    says are A⁻¹ (W′ x), their covariance A⁻¹, with A the 2×2 block of W′.

    Fills the odds, against the set, of exchanges that bring in j (`stay`) and that
    take out i (`leave`); gives the best exchange, or −1 where none gains.
    """
    p = len(out)
    away = work[0]
    best, first, second = 1e-6, -1, -1
    stay[:] = 0.0
    leave[:] = 0.0
    for i in range(p):
        if missing[i] or not out[i]:
            continue
        pivot = W[i, i]
        a, u = -1.0 / pivot, -away[i] / pivot
        total = distance - away[i] * away[i] / pivot
        for j in range(p):
            if out[j]:
                continue
            ratio = W[i, j] / pivot
            b, c = W[j, j] - ratio * W[i, j], -ratio
            v = away[j] * W[j, j] - ratio * away[i]
            determinant = a * b - c * c
            one, two = (b * u - c * v) / determinant, (a * v - c * u) / determinant
            others = max(total - u * one - v * two, 0.0)
            wider = (1.0 + per_row * (1.0 + others)) / determinant
            gain = one_odds(
                two, a * wider, prior[j], stretch[j], grain[j], weights[j]
            ) - one_odds(one, b * wider, prior[i], stretch[i], grain[i], weights[i])
            if gain > best:
                best, first, second = gain, i, j
            term = math.exp(min(gain, 30.0))
            stay[j] += term
            leave[i] += term
    return first, second


@njit(cache=True, nogil=True, fastmath=FAST)
def _weigh(missing, out, odds, stay, leave, score):
    """Turn odds at the best set into odds over that set and its neighbours.

    For a cell i of the set the rivals are the set without i, and without i but with one
    other cell j.
    """
    added, without = 0.0, 0.0
    for j in range(len(out)):
        if missing[j]:
            continue
        if out[j]:
            without += math.exp(-odds[j])
        else:
            added += math.exp(min(odds[j], 0.0))
    for j in range(len(out)):
        if missing[j]:
            continue
        if out[j]:
            gone = math.exp(-odds[j]) + leave[j]
            score[j] = math.log1p(added) - math.log(gone) if gone > 0 else odds[j]
        else:
            score[j] = math.log(math.exp(odds[j]) + stay[j] + NEGLIGIBLE)
            score[j] -= math.log1p(without)


@njit(cache=True, nogil=True, fastmath=FAST)
def fit_width(square, rival, share, width, shape, steps, prior, narrowest):
    """Fit one column's width under one shape of its tails; give log likelihoods too.

    Expectation and maximisation: `square` are residuals squared, `rival` the density
    of wrong values times their share.
    """
    n = len(square)
    for step in range(steps + 1):
        first = (1 - share) * shape[0] / (width * ROOT_2PI)
        second = (1 - share) * shape[1] / (2 * width * ROOT_2PI)
        third = (1 - share) * shape[2] / (4 * width * ROOT_2PI)
        rate = -1 / (32 * width * width)
        scatter, count, gain = prior * width * width, prior, 0.0
        for i in range(n):
            wide = math.exp(square[i] * rate)
            middle = wide * wide
            middle *= middle  # exponents are in the ratio 1 : 4 : 16
            narrow = middle * middle
            narrow *= narrow
            narrow, middle, wide = first * narrow, second * middle, third * wide
            total = narrow + middle + wide + rival[i]
            if step == steps:
                gain += math.log(total)
            else:
                count += (narrow + middle + wide) / total
                scatter += (narrow + middle / 4 + wide / 16) / total * square[i]
        if step == steps:
            return width, gain
        width = min(max(math.sqrt(scatter / count), narrowest), 1 / narrowest)
    return width, 0.0


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
    filled, stay, leave = np.empty(p), np.empty(p), np.empty(p)
    for i in range(n):
        W[:] = K
        out = missing[i].copy()
        for j in range(p):
            if start[i, j]:
                out[j] = True
            if out[j]:
                sweep(W, j, False)
        x, gone, chance = X[i], missing[i], prior[i]
        for step in range(SWAPS + 1):
            # Where the two ways of ascent contradict each other, exchange has the last
            # word: it compares whole sets.
            if step < SWAPS:
                distance = _ascend(
                    W, x, gone, out, chance, stretch, grain, weights, per_row, work
                )
            else:
                distance = residuals(W, x, out, work[0], work[1], per_row)
                log_odds(work[0], work[1], chance, stretch, grain, weights, work[2])
            first, second = _swaps(
                *(W, gone, out, chance, stretch, grain, weights, per_row, work),
                *(distance, stay, leave),
            )
            if first < 0 or step == SWAPS:
                break
            sweep(W, first, True)
            sweep(W, second, False)
            out[first], out[second] = False, True
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
        _weigh(gone, out, work[2], stay, leave, score[i])
    return outs, score, aways, variances, moments, sums

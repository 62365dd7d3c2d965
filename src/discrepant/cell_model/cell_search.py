"""Search for the corrupted cells of each row, compiled with Numba.

With precision matrix K and the set M of cells excluded from a row (missing or
corrupted), sweeping K on M gives W with

    W_OO = precision of the kept cells,   so  x_j − E[x_j | rest] = (W x)_j / W_jj
    W_MM = −cov(x_M | x_O),               and E[x_M | x_O] = −W_MO x_O.

A sweep is its own inverse, so that excluding or including a cell costs p² operations.
The set with the highest posterior is searched by greedy flips of single cells and by
exchanges of two. Importing this module imports Numba.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import math

import numpy as np

from discrepant.core.jit import njit

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
ROOT_2PI = math.sqrt(2 * math.pi)
# Limit of flips per cell of a row. Each flip raises the posterior; few rows need many.
MAX_FLIPS_PER_CELL = 3
# Limit of exchanges per row; beyond two or three none raises the posterior.
MAX_EXCHANGES = 6
# LLVM flags that let sums be vectorised, while NaN stays NaN.
FAST = {"reassoc", "contract", "nsz"}
# Added to sums of odds before their logarithm.
NEGLIGIBLE = 1e-300
# Smallest conditional variance: in columns that are sums of others, rounding leaves a
# negative one.
MIN_VARIANCE = 1e-12
# Smallest squared residual scale, relative to the scaled variance (0.05² = 0.0025).
MIN_SCALE_RATIO = 1e-3


@njit(cache=True, nogil=True, fastmath=FAST)
def sweep(W, k, back):
    """Exclude cell k from a row's conditioning set, or include it again (`back`)."""
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
def residuals(W, x, excluded, residual, variance, per_row):
    """Fill each cell's residual given the kept others, and its conditional variance.

    The covariance is estimated from 1 / per_row rows. Its error multiplies the variance
    by 1 + per_row (1 + d²), with d the Mahalanobis distance of the other kept cells.
    Returns d² of all kept cells.
    """
    p = W.shape[0]
    distance = 0.0
    for i in range(p):
        total = 0.0
        for j in range(p):
            if not excluded[j]:
                total += W[i, j] * x[j]
        if excluded[i]:
            residual[i] = x[i] + total
            variance[i] = -W[i, i]
        else:
            residual[i] = total / W[i, i]
            variance[i] = 1.0 / W[i, i]
            distance += total * x[i]
    for i in range(p):
        others = distance
        if not excluded[i]:
            others -= residual[i] * residual[i] / variance[i]
        variance[i] *= 1.0 + per_row * (1.0 + max(others, 0.0))
    return distance


@njit(cache=True, nogil=True, fastmath=FAST)
def cell_log_odds(residual, variance, prior, scale_factor, scale_offset, tail_weights):
    """Return the posterior log-odds that one cell is corrupted.

        clean:    residual ~ Σ w_i N(0, (r_i s)²),  r = 1, 2, 4
        corrupt:  value ~ ½ N(0, 2²) + ½ Cauchy(0, 5)      (standard units; in `prior`)

    The squared scale is s² = variance · scale_factor + scale_offset. The exponent of
    the widest normal is factored out, so that no residual underflows.
    """
    variance = max(variance, MIN_VARIANCE)
    square = max(
        variance * scale_factor + scale_offset,
        MIN_SCALE_RATIO * variance * scale_factor,
    )
    half = 0.5 * residual * residual / square
    total = tail_weights[2] / 4
    total += tail_weights[1] / 2 * math.exp(-half * (1 / 4 - 1 / 16))
    total += tail_weights[0] * math.exp(-half * (1 - 1 / 16))
    return prior - math.log(total) + half / 16 + 0.5 * math.log(square) + HALF_LOG_2PI


@njit(cache=True, nogil=True, fastmath=FAST)
def table_log_odds(residual, variance, prior, scale_factor, scale_offset, tail_weights):
    """Return `cell_log_odds` of all cells of a table; arrays (n, p), by column (p,)."""
    log_odds = np.empty(residual.shape)
    for i in range(residual.shape[0]):
        for j in range(residual.shape[1]):
            log_odds[i, j] = cell_log_odds(
                *(residual[i, j], variance[i, j], prior[i, j]),
                *(scale_factor[j], scale_offset[j], tail_weights[j]),
            )
    return log_odds


@njit(cache=True, nogil=True, fastmath=FAST)
def _conditional_odds(W, x, excluded, prior, noise, work):
    """Fill residuals, variances and log-odds at a set; return d² of the kept cells."""
    scale_factor, scale_offset, tail_weights, per_row = noise
    residual, variance, odds = work[0], work[1], work[2]
    distance = residuals(W, x, excluded, residual, variance, per_row)
    for j in range(len(x)):
        odds[j] = cell_log_odds(
            *(residual[j], variance[j], prior[j]),
            *(scale_factor[j], scale_offset[j], tail_weights[j]),
        )
    return distance


@njit(cache=True, nogil=True, fastmath=FAST)
def _greedy_flips(W, x, missing, excluded, prior, noise, work):
    """Flip the cell with the largest gain until none gains; return d² of kept cells.

    `work` holds the residuals, variances and log-odds at the final set.
    """
    odds = work[2]
    p = len(x)
    distance = 0.0
    for _ in range(MAX_FLIPS_PER_CELL * p):
        distance = _conditional_odds(W, x, excluded, prior, noise, work)
        best, gain = -1, 1e-9
        for j in range(p):
            if missing[j]:
                continue
            value = -odds[j] if excluded[j] else odds[j]
            if value > gain:
                best, gain = j, value
        if best < 0:
            break
        sweep(W, best, excluded[best])
        excluded[best] = not excluded[best]
    return distance


@njit(cache=True, nogil=True, fastmath=FAST)
def _best_exchange(
    W, missing, excluded, prior, noise, work, distance, enter_odds, exit_odds
):
    """Compare the excluded set with those in which one cell is exchanged for another.

    Of two cells that contradict each other either may be corrupted. With i included
    again W becomes W′ = W − W_·i W_i· / W_ii; then (W′ x)_i = −residual_i / W_ii and
    (W′ x)_j = (W x)_j − residual_i W_ij / W_ii. The residuals of i and j given the rest
    are A⁻¹ (W′ x), their covariance A⁻¹, with A the 2×2 block of W′.

    Fills the odds, against the present set, of exchanges that exclude j (`enter_odds`)
    and that include i (`exit_odds`). Returns the best exchange, or −1 if none gains.
    """
    scale_factor, scale_offset, tail_weights, per_row = noise
    p = len(excluded)
    residual = work[0]
    best, first, second = 1e-6, -1, -1
    enter_odds[:] = 0.0
    exit_odds[:] = 0.0
    for i in range(p):
        if missing[i] or not excluded[i]:
            continue
        pivot = W[i, i]
        a, u = -1.0 / pivot, -residual[i] / pivot
        total = distance - residual[i] * residual[i] / pivot
        for j in range(p):
            if excluded[j]:
                continue
            ratio = W[i, j] / pivot
            b, c = W[j, j] - ratio * W[i, j], -ratio
            v = residual[j] * W[j, j] - ratio * residual[i]
            determinant = a * b - c * c
            one, two = (b * u - c * v) / determinant, (a * v - c * u) / determinant
            others = max(total - u * one - v * two, 0.0)
            wider = (1.0 + per_row * (1.0 + others)) / determinant
            gain = cell_log_odds(
                *(two, a * wider, prior[j]),
                *(scale_factor[j], scale_offset[j], tail_weights[j]),
            ) - cell_log_odds(
                *(one, b * wider, prior[i]),
                *(scale_factor[i], scale_offset[i], tail_weights[i]),
            )
            if gain > best:
                best, first, second = gain, i, j
            term = math.exp(min(gain, 30.0))
            enter_odds[j] += term
            exit_odds[i] += term
    return first, second


@njit(cache=True, nogil=True, fastmath=FAST)
def _search_set(W, x, missing, excluded, prior, noise, work, enter_odds, exit_odds):
    """Alternate flips and exchanges, from a given set, until none gains."""
    for step in range(MAX_EXCHANGES + 1):
        # Flips and exchanges may undo each other. The last step is an exchange, which
        # compares whole sets.
        if step < MAX_EXCHANGES:
            distance = _greedy_flips(W, x, missing, excluded, prior, noise, work)
        else:
            distance = _conditional_odds(W, x, excluded, prior, noise, work)
        first, second = _best_exchange(
            *(W, missing, excluded, prior, noise, work),
            *(distance, enter_odds, exit_odds),
        )
        if first < 0 or step == MAX_EXCHANGES:
            break
        sweep(W, first, True)
        sweep(W, second, False)
        excluded[first], excluded[second] = False, True


@njit(cache=True, nogil=True, fastmath=FAST)
def _average_neighbouring_sets(missing, excluded, odds, enter_odds, exit_odds, scores):
    """Turn log-odds at the best set into log-odds over that set and its neighbours.

    For a cell i of the set the alternatives are the set without i, and the set with i
    exchanged for another cell j.
    """
    added, without = 0.0, 0.0
    for j in range(len(excluded)):
        if missing[j]:
            continue
        if excluded[j]:
            without += math.exp(-odds[j])
        else:
            added += math.exp(min(odds[j], 0.0))
    for j in range(len(excluded)):
        if missing[j]:
            continue
        if excluded[j]:
            others = math.exp(-odds[j]) + exit_odds[j]
            scores[j] = math.log1p(added) - math.log(others) if others > 0 else odds[j]
        else:
            scores[j] = math.log(math.exp(odds[j]) + enter_odds[j] + NEGLIGIBLE)
            scores[j] -= math.log1p(without)


@njit(cache=True, nogil=True, fastmath=FAST)
def fit_residual_scale(
    square, corrupt, corrupt_rate, scale, shape, steps, prior, min_scale
):
    """Fit one column's residual scale for one tail shape; return its log-likelihood.

    Expectation–maximisation: `square` are squared residuals, `corrupt` the density of
    corrupted values times their rate.
    """
    n = len(square)
    for step in range(steps + 1):
        first = (1 - corrupt_rate) * shape[0] / (scale * ROOT_2PI)
        second = (1 - corrupt_rate) * shape[1] / (2 * scale * ROOT_2PI)
        third = (1 - corrupt_rate) * shape[2] / (4 * scale * ROOT_2PI)
        rate = -1 / (32 * scale * scale)
        scatter, count, gain = prior * scale * scale, prior, 0.0
        for i in range(n):
            wide = math.exp(square[i] * rate)
            middle = wide * wide
            middle *= middle  # exponents are in the ratio 1 : 4 : 16
            narrow = middle * middle
            narrow *= narrow
            narrow, middle, wide = first * narrow, second * middle, third * wide
            total = narrow + middle + wide + corrupt[i]
            if step == steps:
                gain += math.log(total)
            else:
                count += (narrow + middle + wide) / total
                scatter += (narrow + middle / 4 + wide / 16) / total * square[i]
        if step == steps:
            return scale, gain
        scale = min(max(math.sqrt(scatter / count), min_scale), 1 / min_scale)
    return scale, 0.0


@njit(cache=True, nogil=True, fastmath=FAST)
def _sweep_set(W, K, excluded):
    """Set W to the precision matrix K, swept on a set of cells."""
    W[:] = K
    for j in range(len(excluded)):
        if excluded[j]:
            sweep(W, j, False)


@njit(cache=True, nogil=True, fastmath=FAST)
def score_rows(X, missing, prior, K, noise, start, fold, folds):
    """Score every row: excluded cells, log-odds, residuals, variances and moments.

    Parameters
    ----------
    X : array (n, p)
        Cells in standard units, less the mean; missing cells are ignored.
    missing, start : bool arrays (n, p)
        Missing cells, and cells that are excluded at the start.
    prior : array (n, p)
        Prior log-odds of a cell plus the log density of corrupted cells at its value.
    K : array (p, p)
        Precision matrix.
    noise : tuple of scale_factor (p,), scale_offset (p,), tail_weights (p, 3), per_row
        The distribution of clean residuals; see `cell_log_odds` and `residuals`.
    fold : int array (n,)
        The moments that a row is added to; none are computed if `folds` is 0.

    Returns
    -------
    excluded : bool array, the cells that the search excludes
    log_odds : posterior log-odds that a cell is corrupted
    residual, variance : residual and variance given the kept other cells
    moments : (folds, p, p), the sum over rows of E[x xᵀ | kept cells]
    sums : (folds, p), the sum over rows of E[x | kept cells]
    """
    n, p = X.shape
    excluded_rows = np.zeros((n, p), np.bool_)
    scores = np.full((n, p), np.nan)
    residual_rows = np.zeros((n, p))
    variance_rows = np.zeros((n, p))
    moments = np.zeros((folds, p, p))
    sums = np.zeros((folds, p))
    work = np.zeros((3, p))
    W = np.empty((p, p))
    filled, enter_odds, exit_odds = np.empty(p), np.empty(p), np.empty(p)
    for i in range(n):
        x, absent, row_prior = X[i], missing[i], prior[i]
        excluded = absent | start[i]
        _sweep_set(W, K, excluded)
        _search_set(
            *(W, x, absent, excluded, row_prior, noise, work, enter_odds, exit_odds)
        )
        residual_rows[i] = work[0]
        variance_rows[i] = work[1]
        if folds > 0:
            at = fold[i]
            for j in range(p):
                filled[j] = x[j] - work[0][j] if excluded[j] else x[j]
            for j in range(p):
                sums[at, j] += filled[j]
                for k in range(p):
                    moments[at, j, k] += filled[j] * filled[k]
                if excluded[j]:
                    for k in range(p):
                        if excluded[k]:
                            moments[at, j, k] -= W[j, k]
        excluded_rows[i] = excluded & ~absent
        _average_neighbouring_sets(
            absent, excluded, work[2], enter_odds, exit_odds, scores[i]
        )
    return excluded_rows, scores, residual_rows, variance_rows, moments, sums

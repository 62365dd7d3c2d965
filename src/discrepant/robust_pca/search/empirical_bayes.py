"""Annealed empirical Bayes: a low-rank estimate that keeps all directions uncertain.

Columns x_j ~ N(0, Ψ) are observed as y_j = x_j + N(0, diag(g_j) + λI): every entry has
an error variance g_ij of its own, and λ is a noise that falls from step to step.
Expectation maximisation estimates Ψ and g. Entries that other entries contradict obtain
a large variance, and lose their influence; directions of Ψ that nothing supports fade.
The posterior variance of X enters the update of g, so that an entry is not called
clean because X, still uncertain there, happens to be near it.

Rows have such a prior too, and X is the mean of both estimates; each prior is updated
from it. Of a symmetric X both estimates are one, transposed, and X ⪰ 0 is imposed.

A pursuit has to choose directions one by one, and fails if the first is wrong. Here all
of them compete at once. The result is a proposal: `exact_search` derives an exact fit
from it and counts the entries that confirm it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.utils import gen_batches

from discrepant.core.jit import njit
from discrepant.core.linalg import Array, shrink_eigen, sym
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.tangent_space import degrees_of_freedom
from discrepant.operators.entrywise import Entries

# Error variance of an entry that is not observed, in units of the data's variance.
UNOBSERVED = 1e8
# Rows and columns up to which columns and rows both have a prior; a wide sample gains
# nothing from it.
BOTH_SIDES_UP_TO = 64
# Noise variance λ at which annealing ends, in units of the data's variance.
LAST_LAMBDA = 1e-6
# Noise variance λ from which on annealing ends if no exact fit can come of it.
DECIDED_BELOW = 5e-3
# Variance of a direction, in units of λ, from which on it counts as a component.
MIN_COMPONENT = 0.5
# Error variance of an entry, in units of λ, up to which the entry counts as clean.
MAX_CLEAN = 3.0
# Noise variance λ at which the regression of single lines turns to exact weights.
LAST_LINE_LAMBDA = 1e-5
# Residual, in units of the data's size, up to which an entry is taken for clean while
# the fit is still inexact.
NEARLY_EXACT = 1e-6
# Cutoff of the last weights of single lines, in units of the data's size.
LAST_LINE_CUTOFF = 1e-9
# Lines that are regressed together, to bound the memory.
LINES_AT_ONCE = 64


@dataclass(frozen=True)
class Annealing:
    """Where annealing starts and how fast λ falls, in units of the data's variance."""

    error_variance: float  # g of every entry at the start
    noise: float  # λ at the start
    decay: float = 0.94  # factor of λ per step
    steps: int = 160


# Annealing of single lines.
LINE_ANNEALING = Annealing(1.0, 0.3, 0.9)


@dataclass(frozen=True)
class Tables:
    """One or two tables of observations of the same matrix X, in units of its size.

    A symmetric X is observed twice: by rows of Y and by rows of Yᵀ.
    """

    values: tuple[Array, ...]  # (k, n) each; zero where not observed
    observed: tuple[Array, ...]  # masks
    # Columns that are the sampled rows of a symmetric X, (k,); None if X is general.
    own_columns: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of X."""
        k, n = self.values[0].shape
        return k, n

    @cached_property
    def measurements(self) -> Measurements:
        """The observed entries as measurements of X."""
        rows, columns = np.hstack([np.nonzero(seen) for seen in self.observed])
        values = [y[seen] for y, seen in zip(self.values, self.observed, strict=True)]
        A = Entries(rows, columns, self.shape)
        return Measurements(A, np.concatenate(values), real=True)

    def agreeing(self) -> Array:
        """Return the entries whose two observations agree to the last digit.

        They are clean: two errors do not agree by chance. If all observations agree,
        errors are symmetric too, and agreement says nothing.
        """
        if self.own_columns is None:
            return np.zeros(self.shape, bool)
        (first, second), (seen, seen_too) = self.values, self.observed
        both = seen & seen_too
        agree = both & (first == second)
        return agree if agree.sum() < both.sum() else np.zeros_like(agree)

    def count(self, mask: Array) -> int:
        """Count the entries of a mask; a pair of a symmetric X counts once."""
        if self.own_columns is None:
            return int(mask.sum())
        square = mask[:, self.own_columns]
        return int(mask.sum() - square.sum() + np.triu(square | square.T).sum())

    def freedom(self, rank: int) -> int:
        """Return the degrees of freedom of X with a rank."""
        k, n = self.shape
        if self.own_columns is None:
            return degrees_of_freedom((k, n), rank, "general", True)
        return degrees_of_freedom((n, n), rank, "psd", True)


def anneal(tables: Tables, annealing: Annealing) -> tuple[Array, list[Array]] | None:
    """Return the posterior mean of X, and the error variances of each table.

    None if fewer entries are clean than X has degrees of freedom: what has not become
    so by `DECIDED_BELOW` seldom does.
    """
    k, n = tables.shape
    own = tables.own_columns
    sides = 2 if own is None and max(k, n) <= BOTH_SIDES_UP_TO else 1
    priors = [np.eye(k), np.eye(n)][:sides]
    clean, noise = tables.agreeing(), annealing.noise
    variances = [
        np.where(seen, annealing.error_variance, UNOBSERVED) for seen in tables.observed
    ]
    X = tables.values[0]
    for _ in range(annealing.steps):
        noise = max(noise * annealing.decay, LAST_LAMBDA)
        weights = [1 / (np.where(clean, 0, g) + noise) for g in variances]
        precision = np.sum(weights, axis=0)
        y = np.sum(np.multiply(weights, tables.values), axis=0) / precision
        try:
            estimates = [posterior(y, 1 / precision, priors[0])]
            if sides == 2:
                other, variance, within = posterior(y.T, 1 / precision.T, priors[1])
                estimates.append((other.T, variance.T, within))
        except np.linalg.LinAlgError:
            break
        X = np.mean([mean for mean, _, _ in estimates], axis=0)
        variance = np.mean([variance for _, variance, _ in estimates], axis=0)
        if own is not None:
            X[:, own] = shrink_eigen(X[:, own], 0.0)[0]
            variance[:, own] = sym(variance[:, own])
        for side, (_, _, within) in enumerate(estimates):
            M = X.T if side else X
            priors[side] = sym(M @ M.T) / M.shape[1] + within
        for t, (y, seen) in enumerate(zip(tables.values, tables.observed, strict=True)):
            gain = variances[t] / (variances[t] + noise)
            update = gain**2 * ((y - X) ** 2 + variance) + gain * noise
            variances[t] = np.where(seen, update, UNOBSERVED)
        if noise < DECIDED_BELOW:
            rank = int(np.sum(np.linalg.eigvalsh(priors[0]) > MIN_COMPONENT * noise))
            nearly_clean = np.minimum.reduce(variances) < MAX_CLEAN * noise
            if tables.count(nearly_clean) < tables.freedom(rank):
                return None
    return X, [np.where(clean, 0, g) for g in variances]


def posterior(y: Array, noise: Array, prior: Array) -> tuple[Array, Array, Array]:
    """Return the posterior of columns x_j ~ N(0, Ψ) with y_j = x_j + N(0, diag D_j).

    Returns means (k, n), variances (k, n), and the mean covariance of a column's
    posterior (k, k). Together with the covariance of the means it is the next Ψ.
    """
    k, n = y.shape
    total, inverse_y, diagonal = np.zeros((k, k)), np.empty((k, n)), np.empty((k, n))
    y, noise = np.ascontiguousarray(y), np.ascontiguousarray(noise)
    if not _invert_covariances(y, noise, prior, total, inverse_y, diagonal):
        raise np.linalg.LinAlgError("A covariance is not positive definite.")
    total += np.tril(total, -1).T
    X = prior @ inverse_y
    variance = np.maximum(noise - noise**2 * diagonal, 0)
    return X, variance, sym(prior - prior @ (total / n) @ prior)


@njit(fastmath=True, error_model="numpy", nogil=True)
def _invert_covariances(
    y: Array,
    noise: Array,
    prior: Array,
    total: Array,
    inverse_y: Array,
    diagonal: Array,
) -> bool:
    """Invert S_j = Ψ + diag D_j for each column j, by sweeping its lower triangle.

    Adds the lower triangles of S_j⁻¹ to `total`, and stores S_j⁻¹y_j and the diagonal
    of S_j⁻¹ as columns. Returns False if a matrix is not positive definite.
    """
    k, n = y.shape
    A, pivots = np.empty((k, k)), np.empty(k)
    for column in range(n):
        for i in range(k):
            A[i, : i + 1] = prior[i, : i + 1]
            A[i, i] += noise[i, column]
        for p in range(k):  # A becomes −S⁻¹
            if not A[p, p] > 0:
                return False
            scale = 1 / A[p, p]
            pivots[:p] = A[p, :p]
            pivots[p] = 0.0
            pivots[p + 1 :] = A[p + 1 :, p]
            for i in range(k):
                factor, row = pivots[i] * scale, A[i]
                for j in range(i + 1):
                    row[j] -= factor * pivots[j]
            A[p, :p] = pivots[:p] * scale
            A[p + 1 :, p] = pivots[p + 1 :] * scale
            A[p, p] = -scale
        product = pivots
        product[:] = 0.0
        for i in range(k):
            value = y[i, column]
            for j in range(i):
                total[i, j] -= A[i, j]
                product[i] -= A[i, j] * y[j, column]
                product[j] -= A[i, j] * value
            total[i, i] -= A[i, i]
            diagonal[i, column] = -A[i, i]
            product[i] -= A[i, i] * value
        inverse_y[:, column] = product
    return True


def regress_by_annealing(
    lines: Array, observed: Array, basis: Array, prior: Array
) -> Array:
    """Return coordinates of lines in a basis, robust to more than half of errors.

    Coordinates c ~ N(0, prior) are observed as y = B c + errors, each with a variance
    of its own, annealed as in `anneal`; then weights redescend to an exact fit.

    Parameters
    ----------
    lines, observed : ndarray of shape (k, n)
        The lines, and which of their entries count.
    basis : ndarray of shape (n, r)
        The basis B.
    prior : ndarray of shape (r, r)
        Covariance of the coordinates.
    """
    n, r = basis.shape
    pairs = (basis[:, :, None] * basis[:, None, :]).reshape(n, r * r)
    ridge = 1e-9 * np.trace(prior) / r * np.eye(r)
    precision = np.linalg.inv(prior + ridge)
    coordinates = np.zeros((len(lines), r))
    for part in gen_batches(len(lines), LINES_AT_ONCE):
        y, seen = lines[part], observed[part]
        coordinates[part] = _regress(y, seen, basis, pairs, precision)
    return coordinates


def _regress(
    y: Array, seen: Array, basis: Array, pairs: Array, precision: Array
) -> Array:
    """Return coordinates of a few lines (see `regress_by_annealing`)."""
    k, r = len(y), basis.shape[1]
    noise, g = LINE_ANNEALING.noise, np.full(y.shape, LINE_ANNEALING.error_variance)
    while noise > LAST_LINE_LAMBDA:
        noise *= LINE_ANNEALING.decay
        w = seen / (g + noise)
        gram = (w @ pairs).reshape(k, r, r) + precision
        inverse = np.linalg.inv(gram)
        c = np.matmul(inverse, ((w * y) @ basis)[:, :, None])[:, :, 0]
        variance = inverse.reshape(k, r * r) @ pairs.T
        gain = g / (g + noise)
        g = gain**2 * ((y - c @ basis.T) ** 2 + variance) + gain * noise
    e = y - c @ basis.T
    sizes = np.where(seen, np.abs(e), np.nan)
    sizes[~seen.any(axis=1)] = 0.0
    usual = np.nanmedian(sizes, axis=1) + NEARLY_EXACT
    ridge = 1e-12 * np.eye(r)
    for fraction in np.linspace(0, 1, 20):
        cutoff = usual * (LAST_LINE_CUTOFF / usual) ** fraction
        w = seen / (1 + (e / cutoff[:, None]) ** 2)
        gram = (w @ pairs).reshape(k, r, r) + ridge
        c = np.linalg.solve(gram, ((w * y) @ basis)[:, :, None])[:, :, 0]
        e = y - c @ basis.T
    return np.asarray(c)

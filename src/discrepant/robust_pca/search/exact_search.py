"""Search for an exact fit of low rank that proves itself, beyond the convex program.

For entries in general position, no wrong X of rank r fits more of them to rounding than
it has degrees of freedom. So anything may propose an X, and the number of entries that
fit it decides (`proof`). Proposals come from annealed empirical Bayes on a random
sample of rows and all columns, which is cheaper than the whole and, if the rank is low,
enough: gaps in the spectrum of its posterior mean give ranks, Gauss–Newton steps with
redescending weights give an exact fit of the sample, and robust regression on the
sample's row space gives the other rows. Rows and columns with few exact entries are
regressed anew, and components are dropped while the surplus of equations grows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array, svd
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.tangent_space import (
    FixedRankMatrix,
    Symmetry,
    fit_least_squares,
)
from discrepant.operators.entrywise import Identity
from discrepant.robust_pca.search.empirical_bayes import (
    Annealing,
    Tables,
    anneal,
    regress_by_annealing,
)

# Residual, in units of the data's size, up to which an entry fits exactly.
EXACT = 1e-8
# Residual, in units of the data's size, up to which an entry is taken for clean while
# the fit is still inexact.
NEARLY_EXACT = 1e-6
# Size of the data over that of a row or column from which on residuals are compared
# with its own size.
SMALL_LINE = 1e4
# Entries that must fit per degree of freedom before an exact fit is proven.
ENTRIES_PER_FREEDOM = 1.05
# Leverage of an entry above which no other entry confirms its value.
MAX_LEVERAGE = 1 - 1e-6
# Sizes of the samples of rows; each is used if it is below SMALL_SAMPLE of all rows.
SAMPLE_ROWS = (48, 96, 192)
# Columns of a sample per row: more of them add time and little else.
COLUMNS_PER_ROW = 4
# Columns of a sample at the least.
MIN_COLUMNS = 256
# Fraction of the rows below which a sample is much cheaper than the whole.
SMALL_SAMPLE = 0.6
# Fraction of the rows in the last sample, if the matrix is larger than WHOLE_UP_TO.
LAST_SAMPLE = 0.75
# Rows up to which the last sample is the whole matrix.
WHOLE_UP_TO = 64
# Rows up to which the last sample, whose cost grows as their cube, is tried at all.
LAST_SAMPLE_UP_TO = 256
# Annealing of samples: much corruption needs a large variance at the start.
FAST_ANNEALING = Annealing(1.0, 0.3, decay=0.9, steps=100)
# Annealings of the last sample; the slower ones reach a higher rank.
ANNEALINGS = (
    Annealing(1.0, 0.3, decay=0.94, steps=160),
    Annealing(1.0, 0.3, decay=0.97, steps=320),
)
# Ranks tried for each posterior mean, at the largest gaps of its spectrum.
MAX_RANKS = 3
# Error variance, in units of the data's variance, at which an entry has half its weight
# in the first steps.
CLEAN_VARIANCE = 1e-3
# Steps of conjugate gradients per Gauss–Newton step.
GRADIENT_STEPS = 8
# Cutoffs of the last Gauss–Newton steps, in units of the data's size.
LAST_CUTOFFS = (1e-5, 1e-6, 1e-7, 1e-8, 1e-8)
# Smallest components that are dropped at once from an exact fit, at the most.
MAX_DROPPED = 2
# Fourth moment of a direction's entries, in squared variances, from which on it may be
# sparse; that of normal entries is three.
SPARSE_KURTOSIS = 6.0
# Fraction of the rows that a sparse direction may involve.
MAX_SPARSE_SUPPORT = 1 / 3


@dataclass(frozen=True)
class Proof:
    """How many equations an exact fit satisfies, and how many it needs."""

    exact: Array  # mask of the entries that fit to rounding
    equations: int  # their number; a pair (i, j), (j, i) of a symmetric X counts once
    freedom: int  # degrees of freedom of X

    @property
    def holds(self) -> bool:
        """Whether more entries fit than any wrong X of this rank could fit."""
        needed = ENTRIES_PER_FREEDOM * self.freedom + 2
        return self.freedom > 0 and self.equations > needed

    @property
    def surplus(self) -> float:
        """Equations beyond those that a proof needs."""
        return self.equations - ENTRIES_PER_FREEDOM * self.freedom


class ExactSearch:
    """Search for an exact fit of one matrix.

    Parameters
    ----------
    Y : ndarray of shape (m, n)
        The data in units of their size; NaN is missing.
    psd : bool
        Whether X is positive semidefinite.
    exact : float
        Residual up to which an entry fits exactly.
    rng : numpy.random.Generator
        Draws the samples of rows.
    proceed : callable
        Receives what comes next before each stage; returns whether to continue.
    """

    def __init__(
        self,
        Y: Array,
        psd: bool,
        exact: float,
        rng: np.random.Generator,
        proceed: Callable[[str], bool],
    ) -> None:
        self.kind: Symmetry = "psd" if psd else "general"
        self.observed = ~np.isnan(Y)
        self.y = np.where(self.observed, Y, 0.0)
        self.exact, self.rng, self.proceed = exact, rng, proceed
        self.tolerance = exact * self._line_sizes()  # of each entry
        self.whole = self._tables(*(np.arange(size) for size in Y.shape))

    def _line_sizes(self) -> Array:
        """Return the size of each entry's row or column, the smaller one, at most one.

        In lines far below the size of the data every residual is small. Those of zeros
        have size zero, and none of their entries counts as exact.
        """
        sizes = [
            np.nanmedian(np.where(self.observed, np.abs(self.y), np.nan), axis=axis)
            if self.observed.any(axis=axis).all()
            else np.ones(self.y.shape[1 - axis])
            for axis in (1, 0)
        ]
        smaller = np.minimum(sizes[0][:, None], sizes[1])
        return np.asarray(np.minimum(1.0, SMALL_LINE * smaller))

    # -- samples of rows ---------------------------------------------------------------

    def proposals(self) -> Iterator[FixedRankMatrix]:
        """Yield matrices that fit many entries exactly, from ever larger samples."""
        m = len(self.y)
        last = m if m <= WHOLE_UP_TO else round(LAST_SAMPLE * m)
        sizes = [k for k in SAMPLE_ROWS if k < SMALL_SAMPLE * m]
        for k in sizes:
            yield from self._from_sample(k, FAST_ANNEALING)
        if m <= LAST_SAMPLE_UP_TO:
            for annealing in ANNEALINGS:
                yield from self._from_sample(last, annealing)

    def _from_sample(self, k: int, annealing: Annealing) -> Iterator[FixedRankMatrix]:
        """Yield the exact fits of the whole that a sample of k rows leads to."""
        m, n = self.y.shape
        width = n if self.kind == "psd" else max(MIN_COLUMNS, COLUMNS_PER_ROW * k)
        rows, columns = self._draw(m, k), self._draw(n, width)
        tables = self._tables(rows, columns)
        whole = tables.shape == (m, n)
        if not self.proceed(f"empirical Bayes, {k}×{len(columns)}"):
            return
        annealed = anneal(tables, annealing)
        if annealed is None:
            return
        X, variances = annealed
        weights = [
            np.where(seen, CLEAN_VARIANCE / (g + CLEAN_VARIANCE), 0.0)
            for g, seen in zip(variances, tables.observed, strict=True)
        ]
        kind = self.kind if whole else "general"
        for rank in ranks_at_gaps(X, tables):
            start = FixedRankMatrix.of(X, kind, rank)
            if start.rank < rank or not self.proceed(f"rank {rank}"):
                continue
            at = descend(tables, start, weights)
            if not self.proof(at, tables).holds:
                continue
            if whole:
                yield at
                continue
            extended = self._extend(at, rows, columns)
            if extended is not None:
                yield self._repair_lines(extended)

    def _draw(self, size: int, count: int) -> Array:
        """Return random indices below a size, sorted; all of them if they are few."""
        if count >= size:
            return np.arange(size)
        return np.sort(self.rng.permutation(size)[:count])

    def _tables(self, rows: Array, columns: Array) -> Tables:
        """Return a block of the data; of a symmetric X its transpose too."""
        block = np.ix_(rows, columns)
        if self.kind == "general":
            return Tables((self.y[block],), (self.observed[block],))
        twice = self.observed[:, rows].T.copy()
        twice[np.arange(len(rows)), rows] = False  # the diagonal is observed once
        values = self.y[rows], np.where(twice, self.y[:, rows].T, 0.0)
        return Tables(values, (self.observed[rows], twice), rows)

    def _extend(
        self, at: FixedRankMatrix, rows: Array, columns: Array
    ) -> FixedRankMatrix | None:
        """Extend an exact fit of a block to all columns, then to all rows."""
        r = at.rank
        if self.kind == "psd":
            exact = self.proof(at, self._tables(rows, columns)).exact
            held = enough_exact(exact.sum(axis=0), r)[rows]
            held &= exact.sum(axis=1) > r + 1
            if held.sum() < r:
                return None
            core = np.linalg.lstsq(at.V[rows[held]], (at.U * at.d)[held], rcond=None)[0]
            return FixedRankMatrix.of(at.V @ core @ at.V.T, "psd", r)
        y, observed = self.y[rows], self.observed[rows]
        C = _extend_coordinates(y.T, observed.T, at.U, at.V * at.d, columns)
        wide = FixedRankMatrix.of(at.U @ C.T, "general", r)
        if wide.rank < r:
            return None
        exact = observed & (np.abs(y - wide.value()) <= NEARLY_EXACT)
        usual = self.observed & enough_exact(exact.sum(axis=0), r)
        A = _extend_coordinates(self.y, usual, wide.V, wide.U * wide.d, rows)
        return FixedRankMatrix.of(A @ wide.V.T, "general", r)

    # -- the whole matrix --------------------------------------------------------------

    def proven(self, at: FixedRankMatrix) -> FixedRankMatrix | None:
        """Return the exact fit that a proposal leads to, if it is proven."""
        if not self.proof(at).holds:
            return None
        return self._repair_lines(self._without_spurious_components(at))

    def descend_from(self, start: FixedRankMatrix) -> FixedRankMatrix:
        """Return an exact fit near a matrix that fits more than half of the entries."""
        cutoff = 2 * _median_residual(self.whole, start)
        weights = redescending(self.whole, start, cutoff)
        return descend(self.whole, start, weights, steps=30)

    def proof(self, at: FixedRankMatrix, tables: Tables | None = None) -> Proof:
        """Count the entries that fit a matrix, of the whole or of a sample.

        Entries of one value count once: they are not in general position. A matrix of
        rank one fits every entry that was overwritten by the same value.
        """
        tolerance: Array | float = self.exact
        if tables is None:
            tables, tolerance = self.whole, self.tolerance
        X = at.value()
        fitted = np.full(X.shape, np.nan)
        for y, seen in zip(tables.values, tables.observed, strict=True):
            fits = seen & (np.abs(y - X) < tolerance)
            fitted[fits] = y[fits]
        exact = ~np.isnan(fitted)
        counted = np.triu(exact) if at.kind == "psd" else exact
        equations = len(np.unique(fitted[counted]))
        return Proof(exact, equations, at.degrees_of_freedom)

    def undetermined(self, at: FixedRankMatrix) -> tuple[int, int]:
        """Count the rows and the columns that the exact entries do not determine."""
        exact = self.proof(at).exact
        if at.kind == "psd":
            exact |= exact.T
        rows = sum(not confirms(at.V[line]) for line in exact)
        columns = sum(not confirms(at.U[line]) for line in exact.T)
        return rows, columns

    def _repair_lines(self, at: FixedRankMatrix) -> FixedRankMatrix:
        """Regress rows and columns with few exact entries on what the others span."""
        symmetric = self.kind == "psd"
        repair = self._repair_symmetric if symmetric else self._repair_axis
        for axis in (0, 0, 0) if symmetric else (0, 1, 0):
            X, before = repair(at, axis), at
            if X is not None:
                at = self._polish(FixedRankMatrix.of(X, self.kind, at.rank), at)
            if at is before and (symmetric or axis):
                break
        return at

    def _repair_axis(self, at: FixedRankMatrix, axis: int) -> Array | None:
        """Return X with rows or columns (axis 0, 1) regressed; None if all fit."""
        X, y, observed = at.value(), self.y, self.observed
        if axis:
            X, y, observed = X.T, y.T, observed.T
        r = at.rank
        exact = observed & (np.abs(y - X) < NEARLY_EXACT)
        count = exact.sum(axis=1)
        held, usual = enough_exact(count, r), enough_exact(exact.sum(axis=0), r)
        if held.all() or held.sum() <= r or usual.sum() <= r:
            return None
        basis = svd(X[held])[2][:r].T
        coordinates = X[held] @ basis
        prior = coordinates.T @ coordinates / held.sum()
        few = np.flatnonzero(~held)
        lines = (
            regress_by_annealing(y[few], observed[few] & usual, basis, prior) @ basis.T
        )
        fits = observed[few] & (np.abs(lines - y[few]) < NEARLY_EXACT)
        better = fits.sum(axis=1) > count[few]
        if not better.any():
            return None
        X = X.copy()
        X[few[better]] = lines[better]
        return X.T if axis else X

    def _repair_symmetric(self, at: FixedRankMatrix, axis: int) -> Array | None:
        """Return X with rows, and the same columns, regressed; None if all fit."""
        X, r = at.value(), at.rank
        exact = self.observed & (np.abs(self.y - X) < NEARLY_EXACT)
        exact |= exact.T
        held = enough_exact(exact.sum(axis=0), r)
        if held.all() or held.sum() <= r:
            return None
        values, vectors = np.linalg.eigh(X[np.ix_(held, held)])
        factor = np.zeros((len(X), r))
        factor[held] = vectors[:, -r:] * np.sqrt(np.maximum(values[-r:], 0))
        prior = factor.T @ factor / held.sum()
        few = ~held
        lines = np.hstack([self.y[few], self.y[:, few].T])
        seen = np.hstack([self.observed[few] & held, self.observed[:, few].T & held])
        factor[few] = regress_by_annealing(
            lines, seen, np.vstack([factor, factor]), prior
        )
        return factor @ factor.T

    def _polish(self, at: FixedRankMatrix, old: FixedRankMatrix) -> FixedRankMatrix:
        """Fit what fits by Gauss–Newton; of all points on the way return the best."""
        points = [old, at]
        for cutoff in LAST_CUTOFFS:
            try:
                at = _step(
                    self.whole, at, redescending(self.whole, at, cutoff), 40, 1e-9
                )
            except np.linalg.LinAlgError:
                break
            if not np.isfinite(at.d).all():
                break
            points.append(at)
        return max(points, key=lambda point: self.proof(point).equations)

    def _without_spurious_components(self, at: FixedRankMatrix) -> FixedRankMatrix:
        """Return X with fewer components as long as its surplus does not fall."""
        proof, improves = self.proof(at), True
        while improves:
            improves = False
            for candidate in self._with_fewer_components(at, proof):
                of_candidate = self.proof(candidate)
                if of_candidate.holds and of_candidate.surplus >= proof.surplus:
                    at, proof, improves = candidate, of_candidate, True
                    break
        return at

    def _with_fewer_components(
        self, at: FixedRankMatrix, proof: Proof
    ) -> Iterator[FixedRankMatrix]:
        """Yield exact fits of lower rank.

        First X without components that the errors of some rows or columns explain:
        the other rows have a lower rank, and these are regressed on their span. Then X
        without its smallest components.
        """
        for axis in (0,) if at.kind == "psd" else (0, 1):
            X, exact, left = at.value(), proof.exact, at.U
            if axis:
                X, exact, left = X.T, exact.T, at.V
            for rest in _candidate_rows(left, exact.sum(axis=1)):
                both = np.ix_(rest, rest) if at.kind == "psd" else rest
                s = svd(X[both])[1]
                rank = int(np.sum(s > NEARLY_EXACT * s.max(initial=0.0)))
                if 0 < rank < at.rank:
                    kept = np.zeros_like(X)
                    kept[both] = X[both]
                    kept = kept.T if axis else kept
                    yield self._repair_lines(FixedRankMatrix.of(kept, at.kind, rank))
        weights = [
            np.where(seen, np.where(proof.exact, 1.0, 1e-3), 0.0)
            for seen in self.whole.observed
        ]
        for rank in range(at.rank - 1, max(at.rank - MAX_DROPPED - 1, 0), -1):
            largest = at.select(np.argsort(-np.abs(at.d))[:rank])
            needed = proof.surplus + ENTRIES_PER_FREEDOM * largest.degrees_of_freedom
            yield descend(self.whole, largest, weights, 30, needed / 2)


def _extend_coordinates(
    lines: Array, observed: Array, basis: Array, coordinates: Array, known: Array
) -> Array:
    """Return the coordinates of all lines, of which those of some are known."""
    result = np.zeros((len(lines), basis.shape[1]))
    result[known] = coordinates
    other = np.setdiff1d(np.arange(len(lines)), known)
    prior = coordinates.T @ coordinates / len(known)
    if len(other):
        result[other] = regress_by_annealing(
            lines[other], observed[other], basis, prior
        )
    return result


def ranks_at_gaps(X: Array, tables: Tables) -> list[int]:
    """Return ranks at the largest gaps of the spectrum that leave a surplus."""
    s = svd(X)[1]
    s = s[s > 1e-7 * s[0]]
    count = tables.count(np.logical_or.reduce(tables.observed))
    possible = [
        k
        for k in range(1, len(s))
        if ENTRIES_PER_FREEDOM * tables.freedom(k) + 2 < count
    ]
    best = sorted(possible, key=lambda k: -s[k - 1] / s[k])[:MAX_RANKS]
    lowest = min(best, default=0)
    return best + [k for k in (lowest - 1, lowest - 2) if k > 0]


def descend(
    tables: Tables,
    at: FixedRankMatrix,
    weights: list[Array],
    steps: int = 60,
    needed: float = 0.0,
) -> FixedRankMatrix:
    """Return an exact fit near a matrix, by Gauss–Newton with redescending weights.

    Parameters
    ----------
    tables : Tables
        The observations.
    at : FixedRankMatrix
        The matrix to start from.
    weights : list of ndarray
        Weights of the first steps, for each table.
    steps : int
        Steps with redescending weights.
    needed : float
        Total weight below which the steps end: the fit would be of no use. It is at
        least the number of degrees of freedom.
    """
    needed = max(needed, at.degrees_of_freedom)
    try:
        for _ in range(3):
            at = _step(tables, at, weights)
        first = 2 * _median_residual(tables, at)
        for fraction in np.linspace(0, 1, steps):
            cutoff = first * (EXACT / first) ** fraction
            weights = redescending(tables, at, cutoff)
            if fraction > 0.2 and _total_weight(at, weights) <= needed:
                break
            new = _step(tables, at, weights)
            if not np.isfinite(new.d).all():
                return at
            at = new
            if _median_residual(tables, at) < EXACT / 100:
                break
    except np.linalg.LinAlgError:
        pass
    return at


def redescending(tables: Tables, at: FixedRankMatrix, cutoff: float) -> list[Array]:
    """Return the weights 1/(1 + (e/cutoff)²) of the residuals e."""
    X = at.value()
    return [
        np.where(seen, 1 / (1 + ((y - X) / cutoff) ** 2), 0.0)
        for y, seen in zip(tables.values, tables.observed, strict=True)
    ]


def confirms(basis: Array) -> bool:
    """Whether coordinates in a basis are determined by all entries but any one.

    The rows of the basis are those of the entries that fit. If one of them has leverage
    one, no other entry confirms the coordinate that it determines.
    """
    n, r = basis.shape
    if n <= r:
        return False
    Q, R = np.linalg.qr(basis)
    pivots = np.abs(np.diag(R))
    leverage = np.sum(Q**2, axis=1)
    return bool(pivots.min() > EXACT * pivots.max() and leverage.max() < MAX_LEVERAGE)


def enough_exact(count: Array, rank: int) -> Array:
    """Return which rows have about the usual number of exact entries, or more."""
    usual = float(np.median(count))
    return np.asarray(count >= max(usual - 4 * np.sqrt(usual), rank + 2))


def _step(
    tables: Tables,
    at: FixedRankMatrix,
    weights: list[Array],
    steps: int = GRADIENT_STEPS,
    tol: float = 1e-6,
) -> FixedRankMatrix:
    """Return the matrix after one weighted Gauss–Newton step."""
    X = at.value()
    total = np.sum(weights, axis=0)
    e = np.sum([w * (y - X) for w, y in zip(weights, tables.values, strict=True)], 0)
    e = e / np.where(total > 0, total, 1.0)
    A = Measurements(Identity(X.shape), X, real=True)
    return fit_least_squares(A, at, total.reshape(-1), e.reshape(-1), steps, tol)


def _candidate_rows(left: Array, n_exact: Array) -> Iterator[Array]:
    """Yield rows that may determine X alone: masks over the rows of its factor U.

    They are those that a sparse direction of U does not involve, and those above the
    largest gap in the numbers of exact entries.
    """
    for direction in sparse_directions(left):
        yield direction == 0
    order = np.sort(n_exact)
    gap = int(np.argmax(np.diff(order)))
    yield n_exact > order[gap]


def sparse_directions(U: Array) -> Iterator[Array]:
    """Yield vectors in the range of U that few rows determine, other rows set to zero.

    A rotation of U with the largest fourth moments separates them; least absolute
    values then make each one sparse.

    Parameters
    ----------
    U : ndarray of shape (m, r)
        Orthonormal columns.
    """
    m, r = U.shape
    rotation = np.eye(r)
    for _ in range(30):
        left, _, right = svd(U.T @ (U @ rotation) ** 3)
        rotation = left @ right
    kurtosis = m * np.sum((U @ rotation) ** 4, axis=0)
    for q in rotation.T[kurtosis > SPARSE_KURTOSIS]:
        for floor in np.geomspace(0.1, 1e-6, 20):
            size = np.abs(U @ q)
            weighted = U / (size + floor * size.max())[:, None]
            q = np.linalg.solve(weighted.T @ U, q)
            q /= np.linalg.norm(q)
        direction = U @ q
        direction[np.abs(direction) < 1e-3 * np.abs(direction).max()] = 0
        if np.count_nonzero(direction) <= MAX_SPARSE_SUPPORT * m:
            yield direction


def _total_weight(at: FixedRankMatrix, weights: list[Array]) -> float:
    """Return the weight of all entries; a pair of a symmetric X counts once."""
    fitted = np.maximum.reduce(weights)
    if at.kind == "psd":
        fitted = np.triu(np.maximum(fitted, fitted.T))
    return float(fitted.sum())


def _median_residual(tables: Tables, at: FixedRankMatrix) -> float:
    X = at.value()
    residuals = [
        np.abs(y - X)[seen]
        for y, seen in zip(tables.values, tables.observed, strict=True)
    ]
    return float(np.median(np.concatenate(residuals))) + 1e-12

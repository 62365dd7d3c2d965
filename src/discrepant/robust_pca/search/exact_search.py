"""Search for an exact fit of low rank that proves itself, beyond the convex program.

For entries in general position, no wrong X of rank r fits more of them to rounding than
it has degrees of freedom. So anything may propose an X, and the number of entries that
fit it decides (`proof`). Proposals come from annealed empirical Bayes on a random
sample of rows and all columns, which is cheaper than the whole and, if the rank is low,
enough: gaps in the spectrum of its posterior mean give ranks, Gauss–Newton steps with
redescending weights give an exact fit of the sample, and robust regression on the
sample's row space gives the other rows. Rows and columns with few exact entries are
regressed anew, and components that their errors explain are dropped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array, svd
from discrepant.fixed_rank.measurements import EXACT, Measurements
from discrepant.fixed_rank.pursuit import Fit
from discrepant.fixed_rank.tangent_space import FixedRankMatrix, Symmetry
from discrepant.robust_pca.search.empirical_bayes import (
    NEARLY_EXACT,
    Annealing,
    Tables,
    anneal,
    regress_by_annealing,
)

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
# Annealings of the last sample; the slower one reaches a higher rank.
ANNEALINGS = (
    Annealing(1.0, 0.3, decay=0.94, steps=160),
    Annealing(1.0, 0.3, decay=0.97, steps=320),
)
# Error variance, in units of the data's variance, at which an entry has half its weight
# in the first steps.
CLEAN_VARIANCE = 1e-3
# Ranks tried for each posterior mean, at the largest gaps of its spectrum.
MAX_RANKS = 3
# Gauss–Newton steps with the weights of empirical Bayes.
FIRST_STEPS = 3
# Weight of entries that do not fit in the first steps without the smallest component.
MISFIT_WEIGHT = 1e-3
# Steps of conjugate gradients per Gauss–Newton step, and relative accuracy at which
# they stop earlier.
GRADIENT_STEPS, GRADIENT_TOL = 8, 1e-6
# The same for the step after rows or columns have been regressed.
REPAIR_GRADIENT_STEPS, REPAIR_TOL = 40, 1e-9
# First cutoff of redescending weights, in robust deviations of the residuals.
FIRST_CUTOFF = 1.5


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
        weights = np.concatenate(
            [
                CLEAN_VARIANCE / (g[seen] + CLEAN_VARIANCE)
                for g, seen in zip(variances, tables.observed, strict=True)
            ]
        )
        for rank in _ranks_at_gaps(X, tables):
            if not self.proceed(f"rank {rank}"):
                return
            start = FixedRankMatrix.of(X, self.kind if whole else "general", rank)
            at = descend(tables.measurements, start, weights, tables.freedom(rank))
            if not self.proof(at, tables).holds:
                continue
            embedded = at if whole else self._embed(at, rows, columns)
            if embedded is not None:
                yield self._repair_lines(embedded)

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

    def _embed(
        self, at: FixedRankMatrix, rows: Array, columns: Array
    ) -> FixedRankMatrix | None:
        """Return a matrix of the whole shape that agrees with one of a block.

        A positive semidefinite X follows from some of its rows. Otherwise the other
        rows and columns are zero, and `_repair_lines` regresses them.
        """
        r = at.rank
        if self.kind == "general":
            X = np.zeros(self.y.shape)
            X[np.ix_(rows, columns)] = at.value()
            return FixedRankMatrix.of(X, "general", r)
        exact = self.proof(at, self._tables(rows, columns)).exact
        held = enough_exact(exact.sum(axis=0), r)[rows]
        held &= exact.sum(axis=1) > r + 1
        if held.sum() < r:
            return None
        core = np.linalg.lstsq(at.V[rows[held]], (at.U * at.d)[held], rcond=None)[0]
        return FixedRankMatrix.of(at.V @ core @ at.V.T, "psd", r)

    # -- the whole matrix --------------------------------------------------------------

    def proven(self, at: FixedRankMatrix) -> FixedRankMatrix | None:
        """Return the exact fit that a proposal leads to, if it is proven."""
        if not self.proof(at).holds:
            return None
        return self._repair_lines(self._without_spurious_components(at))

    def descend_from(self, start: FixedRankMatrix) -> FixedRankMatrix:
        """Return an exact fit near a matrix that fits more than half of the entries."""
        return descend(self.whole.measurements, start, steps=30)

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

    def determined(self, at: FixedRankMatrix) -> tuple[Array, Array]:
        """Return masks of the rows and columns that the exact entries determine."""
        exact = self.proof(at).exact
        if at.kind == "psd":
            exact |= exact.T
        rows = np.array([confirms(at.V[line]) for line in exact])
        columns = np.array([confirms(at.U[line]) for line in exact.T])
        return rows, columns

    def undetermined(self, at: FixedRankMatrix) -> tuple[int, int]:
        """Count the rows and the columns that the exact entries do not determine."""
        rows, columns = self.determined(at)
        return int(np.sum(~rows)), int(np.sum(~columns))

    def _repair_lines(self, at: FixedRankMatrix) -> FixedRankMatrix:
        """Regress rows and columns with few exact entries on what the others span."""
        symmetric = self.kind == "psd"
        for axis in (0, 0, 0) if symmetric else (0, 1):
            X = self._repair_symmetric(at) if symmetric else self._repair_axis(at, axis)
            if X is not None:
                repaired = FixedRankMatrix.of(X, self.kind, at.rank)
                fit = Fit(self.whole.measurements, repaired, redescending=True)
                clean = np.abs(fit.e) < NEARLY_EXACT
                fit.refit(clean.astype(float), REPAIR_GRADIENT_STEPS, REPAIR_TOL)
                if self.proof(fit.at).equations > self.proof(at).equations:
                    at = fit.at
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

    def _repair_symmetric(self, at: FixedRankMatrix) -> Array | None:
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

        First X without components that the errors of some rows or columns explain: the
        rows that exact entries determine, those above the largest gap in the numbers of
        exact entries, or the half with the most, have a lower rank, and the others are
        regressed on their span. Then X without its smallest component.
        """
        symmetric, determined = at.kind == "psd", self.determined(at)
        for axis in (0,) if symmetric else (0, 1):
            n_exact = proof.exact.sum(axis=1 - axis)
            order = np.sort(n_exact)
            below_gap = order[np.argmax(np.diff(order))]
            better_half = n_exact >= np.median(n_exact)
            for rest in (determined[axis], n_exact > below_gap, better_half):
                block = np.ones(self.y.shape, bool)
                for k in (0, 1) if symmetric else (axis,):
                    block &= np.expand_dims(rest, 1 - k)
                kept = np.where(block, at.value(), 0.0)
                s = svd(kept)[1]
                rank = int(np.sum(s > NEARLY_EXACT * s.max(initial=0.0)))
                if 0 < rank < at.rank:
                    lower = FixedRankMatrix.of(kept, at.kind, rank)
                    yield self._repair_lines(lower)
        if at.rank > 1:
            A = self.whole.measurements
            largest = at.select(np.argsort(-np.abs(at.d))[:-1])
            fits = np.abs(A.residual(*at.factors)) < self.exact
            weights = np.where(fits, 1.0, MISFIT_WEIGHT)
            yield descend(A, largest, weights, proof.equations / 2, steps=30)


def _ranks_at_gaps(X: Array, tables: Tables) -> list[int]:
    """Return the ranks at the largest gaps of the spectrum that leave a surplus."""
    s = svd(X)[1]
    s = s[s > 1e-7 * s[0]]
    count = tables.count(np.logical_or.reduce(tables.observed))
    possible = [
        k
        for k in range(1, len(s))
        if ENTRIES_PER_FREEDOM * tables.freedom(k) + 2 < count
    ]
    return sorted(possible, key=lambda k: -s[k - 1] / s[k])[:MAX_RANKS]


def descend(
    A: Measurements,
    at: FixedRankMatrix,
    first_weights: Array | None = None,
    needed: float = 0.0,
    steps: int = 60,
) -> FixedRankMatrix:
    """Return an exact fit near a matrix, by Gauss–Newton with redescending weights.

    Parameters
    ----------
    A : Measurements
        The observed entries.
    at : FixedRankMatrix
        The matrix to start from.
    first_weights : ndarray, optional
        Weights of the entries in the first steps.
    needed : float
        Total weight below which the steps end: too few entries fit.
    steps : int
        Steps with redescending weights.
    """
    fit = Fit(A, at, redescending=True)
    try:
        if first_weights is not None:
            for _ in range(FIRST_STEPS):
                fit.refit(first_weights, GRADIENT_STEPS, GRADIENT_TOL)
        for cutoff in np.geomspace(FIRST_CUTOFF * fit.scale, EXACT, steps):
            at = fit.at
            weights = 1 / (1 + (np.abs(fit.e) / cutoff) ** 2)
            if weights.sum() <= needed:
                break
            fit.refit(weights, GRADIENT_STEPS, GRADIENT_TOL)
            if not np.isfinite(fit.scale):
                return at
            if fit.scale < EXACT / 100:
                break
    except np.linalg.LinAlgError:
        pass
    return fit.at


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

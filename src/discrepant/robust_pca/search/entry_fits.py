"""Exact fits that prove themselves, and the choice between fits with noise.

`EntryFits` holds the observed entries of one matrix in memory. It asks a pursuit
(`discrepant.fixed_rank`) and annealed empirical Bayes (`exact_search`) for exact fits,
and returns one only if more entries confirm it than it has degrees of freedom. If no
exact fit exists, it compares fits with noise by their description lengths, and says
what speaks against one.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from discrepant.core.linalg import Array, norm
from discrepant.core.recorder import Recorder
from discrepant.core.results import Outcome, Status
from discrepant.core.robust_statistics import MAD
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.noise import (
    MIN_NOISE,
    FitWithNoise,
    description_length,
    fit_with_noise,
)
from discrepant.fixed_rank.pursuit import Fit, Pursuit, Round
from discrepant.fixed_rank.tangent_space import FixedRankMatrix, Symmetry
from discrepant.operators.entrywise import Entries, Identity
from discrepant.operators.operator import Operator
from discrepant.robust_pca.doubts import (
    MAX_NOISE_EFFECT,
    Doubt,
    FitWarning,
    doubts_of_noise,
)
from discrepant.robust_pca.exact.result import ExactResult, exact_result
from discrepant.robust_pca.fit_warnings import MIN_CLEAN_FRACTION
from discrepant.robust_pca.noisy.model import NoisyStart
from discrepant.robust_pca.noisy.result import NoisyResult
from discrepant.robust_pca.result import Step
from discrepant.robust_pca.search.exact_search import ExactSearch

# Rows and columns up to which a matrix is small enough for the pursuit.
MAX_PURSUIT_SIDE = 200
# Entries up to which a matrix is small enough for empirical Bayes.
MAX_ENTRIES = 1 << 20
# Fraction of rows or columns that an exact fit may leave undetermined, such as dead
# sensors, before other methods look for a fit that determines more of them.
MAX_UNDETERMINED = 0.1
# Clean entries that a fit with noise needs per degree of freedom.
NOISY_ENTRIES_PER_FREEDOM = 1.2
# Fraction of clean entries above which data without any component are noise alone.
MIN_CLEAN_IN_NOISE = 0.95
# Ratio of the noise of columns (90% to 10% quantile) above which it is not uniform.
UNEVEN_NOISE = 4.0
# Fraction of clean entries below which corruption of many entries may pass for noise
# that differs between columns.
MIN_CLEAN_IF_UNEVEN = 0.75
# Noise of a column, in that of the median column, below which it has vanished.
VANISHED_NOISE = 1e-3
# Difference of two description lengths, in nats per entry, below which two fits are
# equally good.
EQUAL_LENGTH = 0.02
# Relative distance between two equally good fits that is reported.
AMBIGUOUS_DISTANCE = 0.1
# Size of held-out residuals, relative to that expected, that is reported.
MAX_HELD_OUT_RATIO = 1.6
# Gauss-Newton steps by which an exact fit is polished to rounding, steps of conjugate
# gradients in each, and relative accuracy at which these stop earlier.
POLISH_STEPS, POLISH_GRADIENT_STEPS, POLISH_TOL = 2, 60, 1e-12
# Fraction of the progress bar at which the search by empirical Bayes stands.
SEARCH_PROGRESS = 0.5

MatrixFit = ExactResult | NoisyResult


class EntryFits:
    """Fits of the observed entries of a matrix, in units of the size of the data.

    Parameters
    ----------
    exact_attempt : ExactResult
        A failed attempt at an exact decomposition; it gives the problem and its state.
    fdr : float
        False discovery rate of the flags.
    rng : numpy.random.Generator
        Draws the random signs of the pursuit and the samples of rows.
    log : Recorder
        Records the rounds.
    """

    def __init__(
        self,
        exact_attempt: ExactResult,
        fdr: float,
        rng: np.random.Generator,
        log: Recorder,
    ) -> None:
        self.exact_attempt, self.program = exact_attempt, exact_attempt.program
        self.fdr, self.rng, self.log = fdr, rng, log
        rows = self.program.rows
        with rows:
            Z = rows.take(np.arange(rows.m), 0) * self.program.unit
        self.transposed = rows.m > rows.n  # Y has at least as many columns as rows
        Z = np.clip(Z.T if self.transposed else Z, -1, 1)
        # Robust standard deviation of the data, in the unit of the problem.
        self.size = float(np.nanmedian(np.abs(Z)) / MAD) or 1.0
        self.Y = Z / self.size
        self.observed = ~np.isnan(Z)
        self.kind: Symmetry = "psd" if self.program.psd else "general"
        operator: Operator = Identity(Z.shape)
        if not self.observed.all():
            i, j = np.nonzero(self.observed)
            operator = Entries(i, j, Z.shape)
        y = self.Y[self.observed].astype(rows.dtype).reshape(operator.data_shape)
        self.A = Measurements(operator, y, real=True)
        exact = self.A.exact_residual
        self.search = ExactSearch(self.Y, self.program.psd, exact, rng, self._proceed)
        self.pursuit_with_noise: FitWithNoise | None = None  # if it was not exact
        self.undetermined = 0.0  # fraction of rows or columns, of the last exact fit

    @property
    def caller_is_transposed(self) -> bool:
        """Whether the caller's matrix is the transpose of Y here."""
        return self.program.rows.transposed != self.transposed

    # -- exact fits --------------------------------------------------------------------

    def by_pursuit(self) -> ExactResult | None:
        """Return the exact fit that the pursuit reaches, if it is proven."""
        if max(self.A.shape) > MAX_PURSUIT_SIDE:
            return None
        try:
            with self.A.threads():
                return self._finish(self._pursue(), "the pursuit")
        except np.linalg.LinAlgError:  # columns of very different units: no proposal
            return None

    def near(self, U: Array, C: Array) -> ExactResult | None:
        """Return an exact fit near U Cᵀ, a fit whose noise vanishes, if it is proven.

        The factors are in the unit of the problem and the orientation of the rows.
        """
        X = (C @ U.T if self.transposed else U @ C.T) / self.size
        start = FixedRankMatrix.of(X, self.kind, U.shape[1])
        with self.A.threads():
            return self._finish(self.search.descend_from(start), "a fit with noise")

    def by_empirical_bayes(self) -> ExactResult | None:
        """Return the exact fit that empirical Bayes proposes, if it is proven."""
        undetermined = None
        with self.A.threads():
            for proposal in self.search.proposals():
                result = self._finish(proposal, "empirical Bayes")
                if result is None:
                    continue
                if self.undetermined <= MAX_UNDETERMINED or undetermined is not None:
                    return result
                undetermined = result  # another proposal may determine all rows
        return undetermined

    def _pursue(self) -> FixedRankMatrix:
        """Return the matrix at which the pursuit ends."""
        pursuit = Pursuit(self.A, self.kind, self.rng, self._note, self.fdr)
        fit = pursuit.fit()
        if fit.exact:
            return fit.at
        self.pursuit_with_noise = fit_with_noise(pursuit, fit)
        return self.pursuit_with_noise.at

    def _note(self, outcome: Round) -> bool:
        """Record a round of the pursuit as a step of a matrix fit."""
        phase, residual, rank, support, _ = outcome
        return self.log.note(Step(phase, residual, np.nan, rank, np.nan, support))

    def _finish(self, at: FixedRankMatrix, method: str) -> ExactResult | None:
        """Return the exact fit near a matrix, polished to rounding, if it is proven."""
        proven = None if self.log.stopped else self.search.proven(at)
        # Above half of the rows, a component for a single row has fewer degrees of
        # freedom than the row has entries, and everything would be proven.
        if proven is None or proven.rank > min(self.A.shape) / 2:
            return None
        fit = Fit(self.A, proven, redescending=True)
        for _ in range(POLISH_STEPS):
            fit.refit(fit.clean.astype(float), POLISH_GRADIENT_STEPS, POLISH_TOL)
        U, C = self._factors(fit.at)
        program, C = self.program, C * self.size
        with program.rows:
            if program.wrongly_clipped((U, C)):
                return None
        e = fit.e[fit.clean]
        rounding = 100 * float(np.finfo(program.rows.dtype).eps)
        zeta = self.size * max(2 * float(np.abs(e).max()), rounding)
        residual = norm(e) / norm(self.A.y)
        support = 1 - float(np.mean(fit.clean))
        self.log.note(Step("exact", residual, np.nan, fit.at.rank, np.nan, support))
        state = self.exact_attempt.state
        state = replace(state, U=U, C=C, zeta=zeta, residual=residual)
        status = Status(Outcome.EXACT, f"converged: exact to rounding, by {method}")
        result = exact_result(program, state, status, self.log.history())
        result = replace(result, proven=True)
        few = self.search.undetermined(proven)
        self.undetermined = float(np.max(np.divide(few, self.A.shape)))
        if not any(few):
            return result
        rows, columns = few[::-1] if self.caller_is_transposed else few
        where = f" in {rows} rows and {columns} columns"
        guess = Doubt.UNDETERMINED.warning(where=where)
        return replace(result, doubts=(guess,))

    def _factors(self, at: FixedRankMatrix) -> tuple[Array, Array]:
        """Return factors of X in the orientation of the rows."""
        U, V = (at.V, at.U) if self.transposed else (at.U, at.V)
        return U, V * at.d

    def _proceed(self, stage: str) -> bool:
        """Report a stage of the search; return whether to continue."""
        self.log.stopped |= not self.log.report(SEARCH_PROGRESS, stage)
        return not self.log.stopped

    # -- fits with noise ---------------------------------------------------------------

    def confirms(self, noisy: NoisyResult) -> bool:
        """Whether a fit with noise needs no check by other methods.

        Its flags settled, its noise hides no large component, and a pursuit ended near
        it. A pursuit assumes uniform noise, so it says nothing if the noise of columns
        differs much; the fit must then describe the data in fewer digits than zero
        does. A column whose noise vanishes has a component of its own, which confirms
        nothing.
        """
        if not noisy.rank:  # noise alone; with much corruption, it may hide anything
            return noisy.mixture.clean > MIN_CLEAN_IN_NOISE
        settled = noisy.status.converged and not noisy.doubts
        if not settled or noisy.mixture.clean < MIN_CLEAN_FRACTION:
            return False
        fit, rival = self._with_noise(noisy), self.pursuit_with_noise
        if fit.detection_limit > MAX_NOISE_EFFECT:
            return False
        low, usual, high = np.quantile(noisy.noise, (0.1, 0.5, 0.9))
        if noisy.noise.min() < VANISHED_NOISE * usual:
            return False
        if high > UNEVEN_NOISE * low:
            mostly_clean = noisy.mixture.clean > MIN_CLEAN_IF_UNEVEN
            return mostly_clean and self._length(fit) < self._length_of_zero()
        if rival is None:
            return max(self.A.shape) > MAX_PURSUIT_SIDE
        return self._distance(fit, rival) <= max(AMBIGUOUS_DISTANCE, fit.expected_error)

    def start_of_pursuit(self, noisy: NoisyResult) -> NoisyStart | None:
        """Return where the pursuit ended, as a start of a fit with noise."""
        rival = self.pursuit_with_noise
        if rival is None or not rival.at.rank:
            return None
        noise = max(rival.sigma, MIN_NOISE)
        U, C = self._factors(rival.at)
        of_columns = np.full(noisy.noise.shape, noise * self.size)
        return NoisyStart(U, C / noise, of_columns, noisy.mixture)

    def shorter(self, one: NoisyResult, other: NoisyResult) -> NoisyResult:
        """Return the fit that describes the data in fewer digits."""
        lengths = [self._length(self._with_noise(fit)) for fit in (one, other)]
        return other if lengths[1] < lengths[0] else one

    def doubts(self, noisy: NoisyResult) -> Iterator[FitWarning]:
        """Yield what speaks against a fit with noise."""
        if not noisy.rank:
            return
        fit, rival = self._with_noise(noisy), self.pursuit_with_noise
        length = self._length(fit)
        if length >= self._length_of_zero():
            yield Doubt.NO_SHORTER.warning()
        yield from doubts_of_noise(fit, of_entries=True)
        if rival is not None:
            distance = self._distance(fit, rival)
            as_good = self._length(rival) <= length + EQUAL_LENGTH * self.A.n_numbers
            if as_good and distance > max(AMBIGUOUS_DISTANCE, fit.expected_error):
                yield Doubt.AMBIGUOUS.warning(distance=distance)
        ratio = fit.held_out_scale(self.rng) / fit.expected_held_out_scale
        if ratio > MAX_HELD_OUT_RATIO:
            yield Doubt.NOT_PREDICTED.warning(ratio=ratio)

    def _with_noise(self, noisy: NoisyResult) -> FitWithNoise:
        """Return a result as a fit of the observed entries.

        Its noise is that of the median column. The detection limit is the edge of the
        noise's spectrum.
        """
        U, V, flags = noisy.U, noisy.components.T, noisy.outliers
        if self.caller_is_transposed:
            U, V, flags = V, U, flags.T
        U, V = U.astype(np.float64), V.astype(np.float64)
        d = noisy.singular_values.astype(np.float64) * self.program.unit / self.size
        at = FixedRankMatrix(U, d, V, self.kind)
        sigma = float(np.median(noisy.noise)) * self.program.unit / self.size
        limit, (m, n) = 0.0, self.A.shape
        if noisy.noise.all():
            scaled = noisy.singular_values[:, None] * noisy.components / noisy.noise
            limit = float((np.sqrt(m) + np.sqrt(n)) / np.linalg.norm(scaled, 2))
        e, is_outlier = self.A.residual(*at.factors), np.asarray(flags[self.observed])
        settled = noisy.status.converged
        return FitWithNoise(self.A, at, e, sigma, is_outlier, settled, limit)

    def _distance(self, fit: FitWithNoise, rival: FitWithNoise) -> float:
        """Return the distance of another fit, relative to the size of the first."""
        return norm(fit.e - rival.e) / norm(self.A.y - fit.e)

    def _length(self, fit: FitWithNoise) -> float:
        """Return the description length of a fit; infinite with few clean entries."""
        e, n_clean = fit.e, int(np.sum(~fit.is_outlier))
        if self.program.psd:  # the smaller residual of each symmetric pair
            E, F = np.full(self.observed.shape, np.inf), np.zeros_like(self.observed)
            E[self.observed], F[self.observed] = np.abs(e), ~fit.is_outlier
            n_clean = int(np.triu(F | F.T).sum())
            e = np.minimum(E, E.T)[np.triu_indices(len(E))]
            e = e[np.isfinite(e)]
        if n_clean < NOISY_ENTRIES_PER_FREEDOM * fit.at.degrees_of_freedom:
            return np.inf
        return description_length(e, fit.at.degrees_of_freedom)

    def _length_of_zero(self) -> float:
        """Return the description length of X = 0."""
        zero = FixedRankMatrix.zero(self.A.shape, self.kind, self.A.dtype)
        clean = np.zeros(self.A.y.shape, bool)
        return self._length(
            FitWithNoise(self.A, zero, self.A.y, 0.0, clean, True, np.inf)
        )

"""Exact fits of small matrices that prove themselves, beyond the convex program.

For entries in general position, no wrong X of rank r fits more of them to rounding than
it has degrees of freedom. So the pursuit (`discrepant.fixed_rank`) may propose any fit:
the number of entries that fit decides. If no exact fit exists, the fit of shortest
description is chosen, and warnings say what speaks against it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from discrepant.core.linalg import Array, rank_at_gap
from discrepant.core.results import Outcome, Status
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.noise import FitWithNoise, fit_with_noise, refit_outliers
from discrepant.fixed_rank.pursuit import (
    Fit,
    initial_fit,
    outliers_explained_by_signal,
    pursue,
    refit_with_shrinking_cutoff,
    residual_scale,
)
from discrepant.fixed_rank.tangent_space import (
    FixedRankMatrix,
    Symmetry,
    degrees_of_freedom,
    fit_least_squares,
)
from discrepant.operators.entrywise import Entries
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.exact.polish import polish
from discrepant.robust_pca.exact.result import ExactResult, exact_result
from discrepant.robust_pca.noisy.histogram import MAD
from discrepant.robust_pca.noisy.lines import regress_lines
from discrepant.robust_pca.noisy.model import NoisyStart
from discrepant.robust_pca.noisy.result import NoisyResult
from discrepant.robust_pca.recorder import Recorder, Step

# Rows and columns up to which a matrix is small enough for the pursuit.
MAX_SIDE = 200
# Entries that must fit per degree of freedom before an exact fit is proven.
EXACT_ENTRIES_PER_FREEDOM = 1.05
# Clean entries that a fit with noise needs per degree of freedom.
NOISY_ENTRIES_PER_FREEDOM = 1.2
# Components that are dropped from an exact fit in total, at the most.
MAX_DROPPED = 6
# Components dropped in a row without a gain after which dropping ends.
MAX_DROPPED_IN_VAIN = 2
# Iterations of least absolute deviations for rows and columns with few clean entries.
LAD_ITERATIONS = 60
# Components that are tried although no test suggests them.
EXTRA_COMPONENTS = 2
# Noise above this fraction of the size of the data is reported.
LARGE_NOISE = 0.25
# The fit is checked by other methods if its noise could hide a component of this size,
# as a fraction of the largest component.
MAX_HIDDEN_COMPONENT = 0.25
# Ratio of the noise of columns (90% to 10% quantile) above which it is not uniform.
UNEVEN_NOISE = 4.0
# Difference of two description lengths, in nats per entry, below which two fits are
# equally good.
EQUAL_LENGTH = 0.02
# Relative distance between two equally good fits that is reported.
AMBIGUOUS_DISTANCE = 0.1
# Noise below this fraction of the size of the data does not shorten a description.
MIN_NOISE = 1e-9
# Cutoffs of the last refits of an exact fit, as fractions of the scale of the data.
REFIT_CUTOFFS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)

MatrixFit = ExactResult | NoisyResult


class EntryPursuit:
    """The pursuit on the observed entries of a small matrix, in the problem's unit.

    Parameters
    ----------
    exact_attempt : ExactResult
        A failed attempt at an exact decomposition; it gives the problem and its state.
    fdr : float
        False discovery rate of the flags.
    rng : numpy.random.Generator
        Draws the random signs of the pursuit.
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
        self.observed = ~np.isnan(Z)
        y = np.clip(Z[self.observed], -1, 1)
        i, j = np.nonzero(self.observed)
        self.A = Measurements(
            Entries(i, j, (rows.m, rows.n)), y.astype(rows.dtype), real=True
        )
        self.kind: Symmetry = "psd" if self.program.psd else "general"
        self.noisy_fits: list[
            FitWithNoise
        ] = []  # of pursuits that ended without an exact fit

    @property
    def size(self) -> float:
        """Robust standard deviation of the data, in the unit of the problem."""
        return float(np.median(np.abs(self.A.y)) / MAD) or 1.0

    # -- exact fits --------------------------------------------------------------------

    def exact_fit(
        self, at: FixedRankMatrix | None = None, extra_components: int = 0
    ) -> ExactResult | None:
        """Return the exact fit that the pursuit reaches, if it is proven.

        Parameters
        ----------
        at : FixedRankMatrix, optional
            Initial X; zero by default.
        extra_components : int
            Components to try although no test suggests them.
        """
        try:
            return self._pursue(at, extra_components)
        except np.linalg.LinAlgError:  # columns of very different units: no proposal
            return None

    def _pursue(
        self, at: FixedRankMatrix | None, extra_components: int
    ) -> ExactResult | None:
        A, rng, rounds = self.A, self.rng, _Rounds(self.log)
        with A.threads():
            fit = pursue(
                A, initial_fit(A, at, self.kind), rng, rounds, None, extra_components
            )
            if not fit.exact:
                fit = refit_outliers(A, fit, self.fdr, rng, rounds)
            if not fit.exact:
                noisy = fit_with_noise(A, fit, None, self.fdr, rng, rounds)
                self.noisy_fits.append(noisy)
                scale = residual_scale(
                    noisy.e, noisy.at.degrees_of_freedom / A.n_numbers
                )
                fit = replace(fit, at=noisy.at, e=noisy.e, scale=scale)
            elif outliers_explained_by_signal(A, fit.at, fit.e, ~fit.clean, rng):
                cutoff = float(np.max(np.abs(fit.e)))
                refit = refit_with_shrinking_cutoff(A, fit, cutoff, rng, rounds)
                if refit.exact and refit.clean.sum() >= fit.clean.sum():
                    fit = refit
            if not self._fits_suffice(fit.clean, fit.at.rank) or self.log.stopped:
                return None
            fit = self._refit_sparse_lines(self._drop_components(fit))
        return self._finish(fit)

    def exact_fit_from(self, convex: ExactResult) -> ExactResult | None:
        """Return a proven fit, with extra components or from the convex optimum."""
        last = self.noisy_fits[-1].at if self.noisy_fits else None
        exact = self.exact_fit(last, EXTRA_COMPONENTS)
        state = convex.state
        s = np.linalg.norm(state.C, axis=0)
        rank = rank_at_gap(np.sort(s)[::-1]) if len(s) else 0
        if exact is not None or not 0 < rank <= min(self.A.shape) // 2:
            return exact
        largest = np.argsort(-s)[:rank]
        X = state.U[:, largest] @ state.C[:, largest].T
        return self.exact_fit(FixedRankMatrix.of(X, self.kind, rank))

    def if_proven(self, result: ExactResult) -> ExactResult | None:
        """Return a decomposition if more entries fit than it has degrees of freedom."""
        e = self.residual(result)
        fits = np.abs(e) <= max(result.state.zeta, self.A.rounding * self.size)
        # Above half of the rows, a component for a single row has fewer degrees of
        # freedom than the row has entries, and everything would be proven.
        high_rank = result.rank > min(self.A.shape) / 2
        if high_rank or not self._fits_suffice(fits, result.rank):
            return None
        F = self._as_matrix(fits)
        if self.program.psd:
            F |= F.T
        few = [int(np.sum(F.sum(axis=axis) <= result.rank)) for axis in (1, 0)]
        if not any(few):
            return result
        return replace(
            result,
            doubts=(
                f"In {few[0]} rows and {few[1]} columns no more entries fit than the "
                f"rank, {result.rank}: their low-rank part is a guess.",
            ),
        )

    def residual(self, result: MatrixFit) -> Array:
        """Return Y − X of the observed entries, in the unit of the problem."""
        U, C = result.block_factors
        X = (U @ (C.T * self.program.unit))[self.observed]
        return np.asarray(self.A.y - X)

    def _drop_components(self, fit: Fit) -> Fit:
        """Drop components of an exact fit as long as its surplus of equations grows.

        A component may have been fitted to the errors of a few rows or columns.
        """
        best = fit
        for rank in range(fit.at.rank - 1, max(fit.at.rank - MAX_DROPPED, 0), -1):
            if best.at.rank - rank > MAX_DROPPED_IN_VAIN:
                break
            at = best.at
            # Drop the smallest components, or those concentrated on few lines.
            concentration = [(X**2).max(axis=0) for X in (at.U, at.V)]
            for order in (-np.abs(at.d), np.maximum(*concentration)):
                refit = self._refit(best, at.select(np.argsort(order)[:rank]))
                if self._surplus(refit) > self._surplus(best):
                    best = refit
                    break
        return best

    def _refit(self, fit: Fit, at: FixedRankMatrix) -> Fit:
        """Return an exact fit of lower rank, starting from the clean entries."""
        e, weights = self.A.y - self.A.forward(*at.factors), fit.clean + 1e-3
        for _ in range(3):
            at, e = self._step(at, weights, e)
        for cutoff in np.geomspace(fit.data_scale, 1e-8 * fit.data_scale, 30):
            at, e = self._step(at, 1 / (1 + (e / cutoff) ** 2), e)
        return replace(
            fit,
            at=at,
            e=e,
            scale=residual_scale(e, at.degrees_of_freedom / self.A.n_numbers),
        )

    def _refit_sparse_lines(self, fit: Fit) -> Fit:
        """Regress rows and columns with few clean entries on the others' space."""
        at, X = fit.at, fit.at.value()
        Y, F = np.full(self.observed.shape, np.nan), self._as_matrix(fit.clean)
        Y[self.observed] = self.A.y
        for axis, basis in ((1, at.V), (0, at.U)):
            count = F.sum(axis=axis)
            usual = float(np.median(count))
            few = count < max(usual - 4 * np.sqrt(usual), at.rank + 1)
            if not few.any():
                continue
            data = Y[few] if axis == 1 else Y[:, few].T
            lines = regress_lines(data, basis, LAD_ITERATIONS)[0] @ basis.T
            if axis == 1:
                X[few] = lines
            if axis == 0 or self.program.psd:
                X[:, few] = lines.T
        if np.array_equal(X, fit.at.value()):
            return fit
        at = FixedRankMatrix.of(X, self.kind, at.rank)
        e = self.A.y - self.A.forward(*at.factors)
        for cutoff in REFIT_CUTOFFS:
            at, e = self._step(
                at, 1 / (1 + (e / (cutoff * fit.data_scale)) ** 2), e, 30
            )
        scale = residual_scale(e, at.degrees_of_freedom / self.A.n_numbers)
        refit = replace(fit, at=at, e=e, scale=scale)
        return refit if self._surplus(refit) > self._surplus(fit) else fit

    def _step(
        self, at: FixedRankMatrix, weights: Array, e: Array, steps: int = 8
    ) -> tuple[FixedRankMatrix, Array]:
        """Return X and its residual after a weighted least-squares step."""
        at = fit_least_squares(self.A, at, weights, e, steps, 1e-6)
        return at, self.A.y - self.A.forward(*at.factors)

    def _surplus(self, fit: Fit) -> int:
        """Return the number of clean entries beyond the degrees of freedom."""
        return self._count(fit.clean) - fit.at.degrees_of_freedom

    def _fits_suffice(self, fits: Array, rank: int) -> bool:
        """Whether more entries fit exactly than X of this rank has freedom."""
        freedom = degrees_of_freedom(self.A.shape, rank, self.kind, True)
        return rank > 0 and self._count(fits) > EXACT_ENTRIES_PER_FREEDOM * freedom + 2

    def _count(self, fits: Array) -> int:
        """Return the number of equations that hold; X ⪰ 0 counts a pair once."""
        if not self.program.psd:
            return int(fits.sum())
        F = self._as_matrix(fits)
        return int(np.triu(F | F.T).sum())

    def _as_matrix(self, of_observed: Array) -> Array:
        """Return a mask over the observed entries as a matrix; False where missing."""
        F = np.zeros(self.observed.shape, bool)
        F[self.observed] = of_observed
        return F

    def _finish(self, fit: Fit) -> ExactResult | None:
        """Polish an exact fit to rounding, and return it if it is proven."""
        at, program = fit.at, self.program
        U, C = at.U, at.V * at.d
        zeta = float(np.max(np.abs(fit.e[fit.clean])))
        norm = float(np.linalg.norm(self.A.y))
        with program.rows:
            polished = polish(
                program,
                U,
                C,
                n_corrupt=float(np.sum(~fit.clean)),
                norm_Y=norm,
                residual=float(np.linalg.norm(fit.e[fit.clean])) / norm,
                log=self.log,
            )
            if polished.exact:
                U, V, s = svd_of_product(polished.A, polished.B)
                C, zeta = V * s, polished.zeta
            if program.wrongly_clipped((U, C)):
                return None
        state = replace(
            self.exact_attempt.state, U=U, C=C, zeta=zeta, residual=self.log.residual
        )
        status = Status(Outcome.EXACT, "converged: exact to rounding, by the pursuit")
        result = exact_result(program, state, status, self.log.history())
        return self.if_proven(result)

    # -- fits with noise ---------------------------------------------------------------

    def confirms(self, noisy: NoisyResult) -> bool:
        """Whether a fit with noise needs no check by other methods.

        Its noise hides no large component, and a pursuit ended near it. A pursuit
        assumes uniform noise, so it says nothing if the noise of columns differs much.
        """
        if not noisy.settled or self._hidden_component(noisy) > MAX_HIDDEN_COMPONENT:
            return False
        low, high = np.quantile(noisy.noise, (0.1, 0.9))
        if high > UNEVEN_NOISE * low:
            return True
        if not self.noisy_fits:
            return False
        e = self.residual(noisy)
        size = float(np.linalg.norm(self.A.y - e))
        freedom = degrees_of_freedom(self.A.shape, noisy.rank, self.kind, True)
        expected = self._noise_level(noisy) * float(np.sqrt(freedom))
        distance = float(np.linalg.norm(self.noisy_fits[0].e - e))
        return distance <= max(AMBIGUOUS_DISTANCE * size, expected)

    def noisy_start(self, noisy: NoisyResult) -> NoisyStart:
        """Return the first pursuit's result as the start of a fit with noise."""
        fit = self.noisy_fits[0]
        at, sigma = fit.at, max(fit.sigma, MIN_NOISE * self.size)
        of_columns = np.full(noisy.noise.shape, sigma)
        return NoisyStart(at.U, at.V * at.d / sigma, of_columns, noisy.mixture)

    def best_of(self, results: Sequence[MatrixFit]) -> MatrixFit:
        """Return the result of shortest description, with warnings about it."""
        lengths = [self._length(result) for result in results]
        best = results[int(np.argmin(lengths))]
        doubts, noise = [], self._noise_level(best) / self.size
        if best.rank and noise > LARGE_NOISE:
            doubts.append(
                f"The estimated noise is {noise:.0%} of the size of the data: it may "
                "consist of corruption that was not separated, and may hide components "
                "of the low-rank part."
            )
        residuals = [self.residual(result) for result in results]
        residuals += [fit.e for fit in self.noisy_fits]
        lengths += [
            self._length_of(fit.e, ~fit.is_outlier, fit.at.rank)
            for fit in self.noisy_fits
        ]
        limit = min(lengths) + EQUAL_LENGTH * self.A.n_numbers
        equally_good = [
            e for e, length in zip(residuals, lengths, strict=True) if length <= limit
        ]
        own = self.residual(best)
        norm = float(np.linalg.norm(self.A.y - own))
        distance = max(
            (float(np.linalg.norm(own - e)) for e in equally_good), default=0.0
        )
        if distance > AMBIGUOUS_DISTANCE * norm:
            ratio = f"by {distance / norm:.0%}" if norm else "completely"
            doubts.append(
                f"Another low-rank part that fits about as well differs {ratio}: "
                "the data do not decide between them."
            )
        return replace(best, doubts=tuple(doubts))

    def _noise_level(self, result: MatrixFit) -> float:
        """Return the noise of the median column, in the unit of the problem."""
        return float(np.median(result.noise)) * self.program.unit

    def _hidden_component(self, result: MatrixFit) -> float:
        """Return the size of a component that noise hides, relative to the largest."""
        m, n = self.A.shape
        if not result.rank or not result.noise.all():
            return 0.0
        scaled = result.singular_values[:, None] * result.components / result.noise
        return float((np.sqrt(m) + np.sqrt(n)) / np.linalg.norm(scaled, 2))

    def _length(self, result: MatrixFit) -> float:
        """Return the description length of a result."""
        transposed = self.program.rows.transposed
        outliers = result.outliers.T if transposed else result.outliers
        clean = ~outliers[self.observed]
        return self._length_of(self.residual(result), clean, result.rank)

    def _length_of(self, e: Array, clean: Array, rank: int) -> float:
        """Return the description length of a fit; infinite with few clean entries."""
        freedom = degrees_of_freedom(self.A.shape, rank, self.kind, True)
        if self._count(clean) < NOISY_ENTRIES_PER_FREEDOM * freedom:
            return np.inf
        e = e / self.size
        if self.program.psd:  # the smaller residual of each symmetric pair
            E = np.full(self.observed.shape, np.inf)
            E[self.observed] = np.abs(e)
            e = np.minimum(E, E.T)[np.triu_indices(len(E))]
            e = e[np.isfinite(e)]
        return description_length(e, freedom)


def description_length(e: Array, freedom: int) -> float:
    """Return the description length of a fit, in nats, from its residuals.

    It is −log likelihood of the residuals plus the digits of X. The residuals are noise
    or errors, both normal, with variances fitted by EM. Each parameter of X takes the
    digits above the noise, and those by which its estimate is more precise.

    Parameters
    ----------
    e : ndarray
        Residuals, in units of the size of the data.
    freedom : int
        Degrees of freedom of X.
    """
    squares, best = e * e, np.inf
    # χ² with one degree of freedom: its median is 0.455, its lower quartile 0.1.
    variances = (np.median(squares) / 0.455, np.quantile(squares, 0.25) / 0.1)
    for initial in (*variances, MIN_NOISE**2):
        noise_variance = max(float(initial), MIN_NOISE**2)
        error_variance = max(float(squares.mean()), 9 * noise_variance)
        error_fraction = 0.1
        for _ in range(40):
            odds = np.log(error_fraction / (1 - error_fraction)) + 0.5 * (
                np.log(noise_variance / error_variance)
                + squares * (1 / noise_variance - 1 / error_variance)
            )
            p = 1 / (1 + np.exp(-np.clip(odds, -60, 60)))
            error_fraction = float(np.clip(p.mean(), 0.5 / e.size, 1 - 0.5 / e.size))
            n_clean = float((1 - p).sum())
            left = max(n_clean - freedom, 0.05 * n_clean, 1.0)
            noise_variance = max(float((1 - p) @ squares) / left, MIN_NOISE**2)
            error_variance = max(
                float(p @ squares) / max(float(p.sum()), 1e-9), 4 * noise_variance
            )
        noise = np.log(1 - error_fraction) - 0.5 * (
            np.log(noise_variance) + squares / noise_variance
        )
        error = np.log(error_fraction) - 0.5 * (
            np.log(error_variance) + squares / error_variance
        )
        digits = max(-0.5 * np.log(noise_variance), 0.0)
        digits += 0.5 * np.log(max(n_clean / max(freedom, 1), 1) + 1)
        best = min(best, float(freedom * digits - np.logaddexp(noise, error).sum()))
    return best


class _Rounds:
    """Records the rounds of a pursuit in the history of a matrix fit."""

    def __init__(self, log: Recorder) -> None:
        self.log = log

    def note(self, phase: str, at: FixedRankMatrix, e: Array, A: Measurements) -> bool:
        """Record a round; return whether to continue."""
        size = np.abs(e)
        small = size <= 5 * np.median(size) / MAD
        norm = float(np.linalg.norm(A.y)) or 1.0
        residual = float(np.linalg.norm(e[small])) / norm
        support = 1 - float(small.mean())
        self.log.note(Step(phase, residual, np.nan, at.rank, np.nan, support))
        return not self.log.stopped

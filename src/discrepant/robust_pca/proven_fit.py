"""Small matrices: exact fits that prove themselves, beyond the convex program.

Where entries are in general position no wrong X of rank r fits more of them to rounding
than it has degrees of freedom. So the pursuit of `discrepant.recover` may propose, and
only the count decides. Where nothing is exact, the fit of shorter description is kept,
and what speaks against it is said.
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

SMALL = 200  # rows and columns up to which an exact fit is looked for in all ways
SURPLUS = 1.05  # entries that fit for each degree of freedom, of an exact fit
NEEDED = 1.2  # the same of a fit that is not exact
FEWER, DROPPED = 6, 2  # components that are dropped in all, and in vain
LAD = 60  # rounds of least absolute deviations, for lines in which few entries fit
MORE = 2  # components that are tried though nothing says that they are there
LOUD = 0.25  # of the size of the data: noise beyond it is reported
HIDDEN = 0.25  # of the first component: noise that may hide more is reported
UNEVEN = 4.0  # times: noise of columns that is said to differ
CLOSE = 0.02  # nats an entry by which two fits are about as good
APART = 0.1  # relative distance of two fits that is reported
FLOOR = 1e-9  # of the size of the data: noise below it does not shorten a description


class Pursuit:
    """The pursuit on the entries of a small matrix, in the unit of a program."""

    def __init__(
        self, first: ExactResult, fdr: float, rng: np.random.Generator, log: Recorder
    ) -> None:
        self.first, self.program, self.rng, self.log = first, first.program, rng, log
        self.fdr = fdr
        rows = self.program.rows
        with rows:
            Z = rows.take(np.arange(rows.m), 0) * self.program.unit
        self.seen = ~np.isnan(Z)
        y = np.clip(Z[self.seen], -1, 1)
        i, j = np.nonzero(self.seen)
        self.A = Measurements(
            Entries(i, j, (rows.m, rows.n)), y.astype(rows.dtype), real=True
        )
        self.kind: Symmetry = "psd" if self.program.psd else "general"
        self.rests: list[FitWithNoise] = []  # where pursuits came to rest

    @property
    def size(self) -> float:
        """The usual size of the data, in the unit of the program."""
        return float(np.median(np.abs(self.A.y)) / MAD) or 1.0

    def exact(
        self, at: FixedRankMatrix | None = None, more: int = 0
    ) -> ExactResult | None:
        """Return the exact fit that is reached from a point, if that is proven."""
        try:
            return self._pursued(at, more)
        except np.linalg.LinAlgError:  # columns of very different units: no proposal
            return None

    def _pursued(self, at: FixedRankMatrix | None, more: int) -> ExactResult | None:
        A, rng, rounds = self.A, self.rng, _Rounds(self.log)
        with A.threads():
            fit = pursue(A, initial_fit(A, at, self.kind), rng, rounds, None, more)
            if not fit.exact:
                fit = refit_outliers(A, fit, self.fdr, rng, rounds)
            if not fit.exact:
                rest = fit_with_noise(A, fit, None, self.fdr, rng, rounds)
                self.rests.append(rest)
                scale = residual_scale(rest.e, rest.at.degrees_of_freedom / A.n_numbers)
                fit = replace(fit, at=rest.at, e=rest.e, scale=scale)
            elif outliers_explained_by_signal(A, fit.at, fit.e, ~fit.clean, rng):
                reach = float(np.max(np.abs(fit.e)))
                again = refit_with_shrinking_cutoff(A, fit, reach, rng, rounds)
                if again.exact and again.clean.sum() >= fit.clean.sum():
                    fit = again
            if not self._enough(fit.clean, fit.at.rank) or self.log.stopped:
                return None
            fit = self._lines_anew(self._leaner(fit))
        return self._split(fit)

    def more(self, convex: ExactResult) -> ExactResult | None:
        """Try further components, and from what the convex program has found."""
        found = self.exact(self.rests[-1].at if self.rests else None, MORE)
        state = convex.state
        s = np.linalg.norm(state.C, axis=0)
        rank = rank_at_gap(np.sort(s)[::-1]) if len(s) else 0
        if found is not None or not 0 < rank <= min(self.A.shape) // 2:
            return found
        keep = np.argsort(-s)[:rank]
        X = state.U[:, keep] @ state.C[:, keep].T
        return self.exact(FixedRankMatrix.of(X, self.kind, rank))

    def proven(self, split: ExactResult) -> ExactResult | None:
        """Return a splitting if more entries fit exactly than it has freedom."""
        e = self.residual(split)
        fits = np.abs(e) <= max(split.state.zeta, self.A.rounding * self.size)
        # Beyond half of the lines a component for a single line costs less freedom than
        # the line has entries, and anything would be proven.
        high = split.rank > min(self.A.shape) / 2
        if high or not self._enough(fits, split.rank):
            return None
        F = np.zeros(self.seen.shape, bool)
        F[self.seen] = fits
        if self.program.psd:
            F |= F.T
        few = [int(np.sum(F.sum(axis=axis) <= split.rank)) for axis in (1, 0)]
        if not any(few):
            return split
        return replace(
            split,
            doubts=(
                f"{few[0]} rows and {few[1]} columns have no more entries that fit "
                f"than the rank, {split.rank}: what the low-rank part says of them is "
                "a guess.",
            ),
        )

    def residual(self, split: ExactResult | NoisyResult) -> Array:
        """Return Y − X of the observed entries, in the unit of the program."""
        U, C = split.factors
        X = (U @ (C.T * self.program.unit))[self.seen]
        return np.asarray(self.A.y - X)

    def _leaner(self, fit: Fit) -> Fit:
        """Drop components of an exact fit as long as its surplus of equations grows.

        A component may have been spent on the errors of a few lines.
        """
        best = fit
        for rank in range(fit.at.rank - 1, max(fit.at.rank - FEWER, 0), -1):
            if best.at.rank - rank > DROPPED:
                break
            at = best.at
            # The smallest ones, or those that are of few lines.
            local = [(X**2).max(axis=0) for X in (at.U, at.V)]
            for order in (-np.abs(at.d), np.maximum(*local)):
                again = self._refitted(best, at.select(np.argsort(order)[:rank]))
                if self._surplus(again) > self._surplus(best):
                    best = again
                    break
        return best

    def _refitted(self, fit: Fit, at: FixedRankMatrix) -> Fit:
        """Return an exact fit of lower rank, from what fits so far."""
        e, weights = self.A.y - self.A.forward(*at.factors), fit.clean + 1e-3
        for _ in range(3):
            at, e = self._moved(at, weights, e)
        for d in np.geomspace(fit.data_scale, 1e-8 * fit.data_scale, 30):
            at, e = self._moved(at, 1 / (1 + (e / d) ** 2), e)
        return replace(
            fit,
            at=at,
            e=e,
            scale=residual_scale(e, at.degrees_of_freedom / self.A.n_numbers),
        )

    def _lines_anew(self, fit: Fit) -> Fit:
        """Regress lines in which few entries fit on the space of the others."""
        at, X = fit.at, fit.at.value()
        Y, F = np.full(self.seen.shape, np.nan), np.zeros(self.seen.shape, bool)
        Y[self.seen], F[self.seen] = self.A.y, fit.clean
        for axis, basis in ((1, at.V), (0, at.U)):
            count = F.sum(axis=axis)
            usual = float(np.median(count))
            few = count < max(usual - 4 * np.sqrt(usual), at.rank + 1)
            if not few.any():
                continue
            data = Y[few] if axis == 1 else Y[:, few].T
            lines = regress_lines(data, basis, LAD)[0] @ basis.T
            if axis == 1:
                X[few] = lines
            if axis == 0 or self.program.psd:
                X[:, few] = lines.T
        if np.array_equal(X, fit.at.value()):
            return fit
        at = FixedRankMatrix.of(X, self.kind, at.rank)
        e = self.A.y - self.A.forward(*at.factors)
        for d in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
            at, e = self._moved(at, 1 / (1 + (e / (d * fit.data_scale)) ** 2), e, 30)
        scale = residual_scale(e, at.degrees_of_freedom / self.A.n_numbers)
        again = replace(fit, at=at, e=e, scale=scale)
        return again if self._surplus(again) > self._surplus(fit) else fit

    def _moved(
        self, at: FixedRankMatrix, weights: Array, e: Array, steps: int = 8
    ) -> tuple[FixedRankMatrix, Array]:
        at = fit_least_squares(self.A, at, weights, e, steps, 1e-6)
        return at, self.A.y - self.A.forward(*at.factors)

    def _surplus(self, fit: Fit) -> int:
        return self._count(fit.clean) - fit.at.degrees_of_freedom

    def _enough(self, fits: Array, rank: int) -> bool:
        """Whether more entries fit exactly than X of this rank has freedom."""
        free = degrees_of_freedom(self.A.shape, rank, self.kind, True)
        return rank > 0 and self._count(fits) > SURPLUS * free + 2

    def _count(self, fits: Array) -> int:
        """Return how many equations hold: under X ⪰ 0 one for both of a pair."""
        if not self.program.psd:
            return int(fits.sum())
        F = np.zeros(self.seen.shape, bool)
        F[self.seen] = fits
        return int(np.triu(F | F.T).sum())

    def _split(self, fit: Fit) -> ExactResult | None:
        """Hand back an exact fit, polished to rounding, if it is proven."""
        at, program = fit.at, self.program
        U, C = at.U, at.V * at.d
        zeta = float(np.max(np.abs(fit.e[fit.clean])))
        norm = float(np.linalg.norm(self.A.y))
        with program.rows:
            better = polish(
                program,
                U,
                C,
                n_corrupt=float(np.sum(~fit.clean)),
                norm_Y=norm,
                residual=float(np.linalg.norm(fit.e[fit.clean])) / norm,
                log=self.log,
            )
            if better.exact:
                U, V, s = svd_of_product(better.A, better.B)
                C, zeta = V * s, better.zeta
            if program.wrongly_clipped((U, C)):
                return None
        residual = self.log.residual
        state = replace(self.first.state, U=U, C=C, zeta=zeta, residual=residual)
        status = Status(Outcome.EXACT, "converged: exact to rounding, by the pursuit")
        return self.proven(exact_result(program, state, status, self.log.history()))

    # -- where nothing is exact ------------------------------------------------------

    def agrees(self, noisy: NoisyResult) -> bool:
        """Whether a fit needs no second opinion: a pursuit came to rest near it.

        And its noise hides no component of note. A pursuit knows one noise only, and
        has no say where that of the columns differs by much.
        """
        if not noisy.settled or self._hidden(noisy) > HIDDEN:
            return False
        low, high = np.quantile(noisy.noise, (0.1, 0.9))
        if high > UNEVEN * low:
            return True
        if not self.rests:
            return False
        e = self.residual(noisy)
        size = float(np.linalg.norm(self.A.y - e))
        free = degrees_of_freedom(self.A.shape, noisy.rank, self.kind, True)
        expected = self._sigma(noisy) * float(np.sqrt(free))
        apart = float(np.linalg.norm(self.rests[0].e - e))
        return apart <= max(APART * size, expected)

    def start(self, noisy: NoisyResult) -> NoisyStart:
        """Return where a fit with noise may start: at the first pursuit's rest."""
        at, sigma = self.rests[0].at, max(self.rests[0].sigma, FLOOR * self.size)
        every = np.full(noisy.noise.shape, sigma)
        return NoisyStart(at.U, at.V * at.d / sigma, every, noisy.mixture)

    def best(
        self, fits: Sequence[ExactResult | NoisyResult]
    ) -> ExactResult | NoisyResult:
        """Return the fit of shortest description, with what speaks against it."""
        lengths = [self._length(fit) for fit in fits]
        best = fits[int(np.argmin(lengths))]
        doubts, sigma = [], self._sigma(best) / self.size
        if best.rank and sigma > LOUD:
            doubts.append(
                f"The noise that was found is {sigma:.0%} of the size of the data: it "
                "may be errors that were not told apart, and may hide components of "
                "the low-rank part."
            )
        # of these, all that fit about as well
        others = [self.residual(fit) for fit in fits]
        others += [rest.e for rest in self.rests]
        lengths += [
            self._length_of(rest.e, ~rest.is_outlier, rest.at.rank)
            for rest in self.rests
        ]
        limit = min(lengths) + CLOSE * self.A.n_numbers
        rivals = [
            e for e, length in zip(others, lengths, strict=True) if length <= limit
        ]
        e = self.residual(best)
        norm = float(np.linalg.norm(self.A.y - e))
        apart = max((float(np.linalg.norm(e - f)) for f in rivals), default=0.0)
        if apart > APART * norm:
            ratio = f"{apart / norm:.0%}" if norm else "all of it"
            doubts.append(
                f"Another low-rank part that fits about as well differs by {ratio}: "
                "the data do not decide between them."
            )
        return replace(best, doubts=tuple(doubts))

    def _sigma(self, fit: ExactResult | NoisyResult) -> float:
        """Return the noise of the usual column, in the unit of the program."""
        return float(np.median(fit.noise)) * self.program.unit

    def _hidden(self, fit: ExactResult | NoisyResult) -> float:
        """Return the share of the first component below which noise hides others."""
        m, n = self.A.shape
        if not fit.rank or not fit.noise.all():
            return 0.0
        scaled = fit.singular_values[:, None] * fit.components / fit.noise
        return float((np.sqrt(m) + np.sqrt(n)) / np.linalg.norm(scaled, 2))

    def _length(self, fit: ExactResult | NoisyResult) -> float:
        wrong = fit.outliers.T if self.program.rows.transposed else fit.outliers
        return self._length_of(self.residual(fit), ~wrong[self.seen], fit.rank)

    def _length_of(self, e: Array, right: Array, rank: int) -> float:
        """Return the description length of a fit; infinite if entries are too few."""
        free = degrees_of_freedom(self.A.shape, rank, self.kind, True)
        if self._count(right) < NEEDED * free:
            return np.inf
        e = e / self.size
        if self.program.psd:  # of a pair the better one
            E = np.full(self.seen.shape, np.inf)
            E[self.seen] = np.abs(e)
            e = np.minimum(E, E.T)[np.triu_indices(len(E))]
            e = e[np.isfinite(e)]
        return description_length(e, free)


def description_length(e: Array, free: int) -> float:
    """Return −log likelihood of residuals, and what the freedom of X takes.

    Residuals are noise or errors, both normal, of sizes that are fitted; each parameter
    takes as many digits as the noise leaves it, and those that its estimate has.
    """
    q, best = e * e, np.inf
    for start_at in (np.median(q) / 0.455, np.quantile(q, 0.25) / 0.1, FLOOR**2):
        small = max(float(start_at), FLOOR**2)
        large, wrong = max(float(q.mean()), 9 * small), 0.1
        for _ in range(40):
            odds = np.log(wrong / (1 - wrong)) + 0.5 * (
                np.log(small / large) + q * (1 / small - 1 / large)
            )
            p = 1 / (1 + np.exp(-np.clip(odds, -60, 60)))
            wrong = float(np.clip(p.mean(), 0.5 / e.size, 1 - 0.5 / e.size))
            right = float((1 - p).sum())
            left = max(right - free, 0.05 * right, 1.0)
            small = max(float((1 - p) @ q) / left, FLOOR**2)
            large = max(float(p @ q) / max(float(p.sum()), 1e-9), 4 * small)
        noise = np.log(1 - wrong) - 0.5 * (np.log(small) + q / small)
        error = np.log(wrong) - 0.5 * (np.log(large) + q / large)
        digits = max(-0.5 * np.log(small), 0.0)
        digits += 0.5 * np.log(max(right / max(free, 1), 1) + 1)
        best = min(best, float(free * digits - np.logaddexp(noise, error).sum()))
    return best


class _Rounds:
    """The rounds of a pursuit, written down in the log of a matrix fit."""

    def __init__(self, log: Recorder) -> None:
        self.log = log

    @property
    def stopped(self) -> bool:
        return self.log.stopped

    def note(self, phase: str, at: FixedRankMatrix, e: Array, A: Measurements) -> bool:
        """Write a round down; returns whether to go on."""
        size = np.abs(e)
        small = size <= 5 * np.median(size) / MAD
        norm = float(np.linalg.norm(A.y)) or 1.0
        residual = float(np.linalg.norm(e[small])) / norm
        support = 1 - float(small.mean())
        self.log.note(Step(phase, residual, np.nan, at.rank, np.nan, support))
        return not self.log.stopped

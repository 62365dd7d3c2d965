"""Fit low rank + errors + noise by robust passes over the data.

In units of the noise σ (one, or one per column), with L = U Cᵀ,

    e = Y/σ − L        z = |e| / √((1−hᵢ)(1−hⱼ))        T = L + ω·w(z)·e
    P = T V,  B = TᵀP  →  SVD of T  →  L ← components above the edge of the noise

where h is the leverage of an entry. A pass is a proximal-gradient step on ``Σρ(Y − L)``
plus a penalty on the rank, and at the same time a step of the subspace iteration for
it. Nothing of the size of the data is kept.

*Clipped* passes come first: w(z) = min(1, 1.5/z) are Huber's weights, which tolerate a
bad start, and σ follows the median of the residuals. *Weighed* passes follow: w(z) is
the probability that an entry is clean (`mixture`). Once the fit is stable, the columns
are tested for noise of different size; if it differs, each gets its own σ and the
passes continue. Rows and columns that lag behind the fit are refitted (`lines`).
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.recorder import Recorder
from discrepant.robust_pca.exact.factored_svd import factor_distance, svd_from_products
from discrepant.robust_pca.noisy.histogram import (
    BIN_CENTRES,
    MAD,
    quantile,
    rescaled_histogram,
    to_table,
)
from discrepant.robust_pca.noisy.mixture import (
    DEGREES,
    Mixture,
    column_scales,
    fit_mixture,
)
from discrepant.robust_pca.noisy.model import Model, NoisyStart, column_norms
from discrepant.robust_pca.noisy.spectrum_edge import noise_edge, participation_ratio
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.result import Step
from discrepant.robust_pca.rows import passes

# Constants of the fit; `benchmarks/noise.py` measures what it reaches with them.

# z at which Huber's weights clip. With 30% errors of one sign, the bias of the clipped
# mean must stay below the signal; 2 is too large.
CLIP = 1.5
# Entries in the histogram of a pass: they give σ to a fifth of a per cent.
HISTOGRAM_ENTRIES = 300_000
# Largest over-relaxation ω: a fully observed row overshoots at 2.
MAX_OMEGA = 1.9
# Fraction of the rows (columns) that a component must cover, and at least two of them;
# else it cannot be distinguished from errors in these rows.
MIN_COVERAGE = 0.02
# The same while L moves (normal vectors cover a third of the rows).
MIN_COVERAGE_WHILE_MOVING = 0.1
# A component is weak below this many times the edge of the noise.
WEAK = 1.6
# Columns needed to distinguish the noise of one column from its own signal.
MIN_COLUMNS = 16
# Noise, relative to the typical entry, below which there may be no noise at all.
VANISHING = 1e-3
# Fraction of the start's clean entries and of its noise that the data must have.
MIN_AGREEMENT = 0.8
# Move of L, relative to its statistical error, at which the Huber phase ends.
CLOSE_CLIPPED = 0.5
# Move of L, relative to its statistical error, at which the posterior phase ends.
CLOSE_WEIGHTED = 0.1

HUBER = np.minimum(1.0, CLIP / np.maximum(BIN_CENTRES, 1e-9))


@dataclass(frozen=True)
class Pass:
    """Statistics of one pass."""

    histogram: Array
    column_histograms: Array  # coarse, one row per column of the caller
    outlier_counts: tuple[Array, Array]  # by row and by column
    edge: float
    tau: float  # new σ over the σ that was used
    mixture: Mixture | None
    move: float  # ‖ΔL‖ over the statistical error of L
    same_rank: bool
    saturated: bool  # whether every column of V was above the edge


@dataclass
class Phase:
    """Which weights the passes use, and for how long the fit has been stable."""

    name: str = "clipped"  # by Huber's weights; then "weighed", by the posterior
    passes: int = 0
    quiet_passes: int = 0  # last passes that hardly moved L
    settled_passes: int = 0  # last passes from which L has hardly far to go

    @property
    def is_weighed(self) -> bool:
        """Whether entries are weighted by the posterior."""
        return self.name == "weighed"

    @property
    def close(self) -> float:
        """Move of L, relative to its statistical error, at which the phase ends."""
        return CLOSE_WEIGHTED if self.is_weighed else CLOSE_CLIPPED


class NoisyFit:
    """One fit, in the unit of the problem and the orientation of the rows.

    `sigma` is the noise of each of the caller's columns if it is given, and `by_column`
    whether each has its own; None tests it. `start` is the final state of a fit of part
    of the data, or of similar data.
    """

    def __init__(
        self,
        program: ConvexProblem,
        sigma: Array | None,
        by_column: bool | None,
        rng: np.random.Generator,
        log: Recorder,
        start: NoisyStart | None = None,
    ) -> None:
        self.model = Model(program, sigma, rng, start)
        self.log = log
        self.noise_is_given, self.by_column = sigma is not None, by_column
        self.table, self.omega = to_table(HUBER), 1.0
        self.phase = Phase()
        self.mixture: Mixture | None = None
        # whether each column has its own σ by now
        self.noise_per_column = self.noise_is_given or self.model.columns_have_units
        self.column_noise_tested = self.components_tested = False
        self.last_move = np.inf  # of the pass before, if comparable
        self.still_moving = True  # whether the last pass moved L visibly
        self.start = start
        if start is not None:
            self.begin(start)

    def begin(self, start: NoisyStart) -> None:
        """Continue in the weighed phase from the final state of another fit."""
        self.mixture, self.table = start.mixture, to_table(start.mixture.weight)
        self.omega = float(np.clip(1 / self.model.usable_fraction, 1.0, MAX_OMEGA))
        self.phase = Phase("weighed", passes=2)
        self.column_noise_tested = self.components_tested = True  # there
        self.resize_search_basis(False)

    def run(self, until_vanishing: bool = False) -> tuple[Pass, bool]:
        """Make passes until the fit is stable; return the last pass, and True if so."""
        while True:
            current = self.one_pass()
            done = self.advance(current)
            if done or self.log.ended:
                return current, done
            if self.differs_from_start(current) or (
                until_vanishing and self.noise_vanishes(current)
            ):
                return current, False
            self.reweigh(current)

    def differs_from_start(self, current: Pass) -> bool:
        """Whether clean fraction or noise differ from those of the start."""
        if self.start is None or current.mixture is None:
            return False
        fewer = current.mixture.clean < MIN_AGREEMENT * self.start.mixture.clean
        return fewer or not MIN_AGREEMENT < current.tau < 1 / MIN_AGREEMENT

    def noise_vanishes(self, current: Pass) -> bool:
        """Whether the noise keeps falling, so that there may be none."""
        falling = current.tau < 0.75 and self.model.rank > 0
        return falling and self.noise_may_vanish(current)

    def noise_may_vanish(self, current: Pass) -> bool:
        """Whether the noise is so small that there may be none at all."""
        return self.noise_level(current) < VANISHING * self.model.typical_entry

    def one_pass(self) -> Pass:
        """Make one robust pass: a new L, its change, the edge and the histograms."""
        model, rows = self.model, self.model.rows
        m, n, column_axis = rows.m, rows.n, model.column_axis
        model.update_enlarged_lines()
        weighed = self.phase.is_weighed
        stride = max(1, rows.size // HISTOGRAM_ENTRIES)
        if weighed and column_axis == 0:  # all entries of each of the caller's columns
            stride = 1
        before = model.U, model.C
        step = passes.robust_step(
            rows,
            before,
            unit=model.program.unit,
            omega=self.omega,
            stride=stride,
            line_values=model.enlarged_line_values(),
            weights=self.table,
            right=model.V,
            histogram_axis=column_axis if weighed else None,
        )
        U, V, s = svd_from_products(step.right, step.left)
        r = model.rank
        inflation = sqrt(m * n / max((m - r) * (n - r), 1))  # of the residuals
        edge = self.omega * inflation * noise_edge(*step.squares)
        above = s > edge
        saturated = bool(above.all()) and len(s) < n
        above &= ~self.localised_components(U, V, s, edge)
        model.U, model.C, model.V = U[:, above], V[:, above] * s[above], V
        tau, mixture = self.scale(step.histogram)
        change = factor_distance(before, (model.U, model.C))
        # Statistical error of L.
        freedom = max(model.rank, 1) * (m + n - model.rank)
        error = sqrt(freedom / model.usable_fraction) * tau
        move = change / error
        self.record(step.squares[column_axis], move, mixture)
        return Pass(
            histogram=step.histogram,
            column_histograms=step.line_histograms.T,
            outlier_counts=step.n_outliers,
            edge=edge,
            tau=tau,
            mixture=mixture,
            move=move,
            same_rank=model.rank == r,
            saturated=saturated,
        )

    def scale(self, histogram: Array) -> tuple[float, Mixture | None]:
        """Return the new σ over the old one, and in the weighed phase the mixture."""
        if self.phase.is_weighed:
            mixture = fit_mixture(
                histogram, 1.0, self.degrees(), scale_is_given=self.noise_is_given
            )
            return mixture.tau, mixture
        if self.noise_is_given:
            return 1.0, None
        # σ may only fall, or errors of one sign would count as noise.
        return min(float(quantile(histogram, 0.5)[0]) / MAD, 1.0), None

    def localised_components(self, U: Array, V: Array, s: Array, edge: float) -> Array:
        """Return which new components cover so few rows that they may be errors.

        While the fit moves, rows that lag look like such a component: wait for them.
        """
        W = self.model.C / column_norms(self.model.C)
        new = ((W.T @ V) ** 2).sum(axis=0) < 0.5
        waiting = self.still_moving and self.phase.passes < 8
        localised = (s < 1.1 * edge) if waiting else np.zeros(len(s), bool)
        coverage = MIN_COVERAGE_WHILE_MOVING if waiting else MIN_COVERAGE
        for X in (U, V):
            localised |= participation_ratio(X) < max(2.0, coverage * len(X))
        return np.asarray(new & localised)

    def record(self, squares: Array, move: float, mixture: Mixture | None) -> None:
        """Record the pass; entries count in the residual by their weights."""
        residual = float(np.sqrt(np.sum(squares * self.model.sigma**2)))
        relative = residual / float(np.hypot(residual, self.model.size) or 1.0)
        support = 0.0 if mixture is None else 1 - mixture.clean
        fraction = 0.5 * self.phase.is_weighed + 0.4 * min(1, 0.1 / max(move, 1e-9))
        step = Step(self.phase.name, relative, np.nan, self.model.rank, np.nan, support)
        self.log.note(step, fraction)

    def degrees(self) -> tuple[float, ...]:
        """Return the ν to try.

        If L takes many degrees of freedom, heavy tails would make it interpolate.
        """
        model, r = self.model, self.model.rank
        n_clean = max(model.clean_fraction * model.observed, 1)
        taken = r * (model.m + model.n - r) / n_clean
        return DEGREES[: 1 if taken > 0.2 else 4 if taken > 0.12 else len(DEGREES)]

    def advance(self, current: Pass) -> bool:
        """Move the schedule on by one pass; return whether the fit is finished."""
        phase = self.phase
        steady = current.same_rank and not current.saturated
        steady = steady and 0.8 < current.tau < 1.25
        quiet = steady and current.move < phase.close
        phase.quiet_passes = phase.quiet_passes + 1 if quiet else 0
        settled = self.remaining_move(current) < phase.close or phase.quiet_passes > 5
        phase.settled_passes = phase.settled_passes + 1 if steady and settled else 0
        phase.passes += 1
        self.still_moving = current.move > 0.7
        if current.same_rank and self.rounding(current):
            return True
        if not phase.is_weighed:
            if phase.settled_passes and phase.passes >= 4:
                self.refit_lagging_lines(current)
                self.phase = Phase("weighed")
            elif current.same_rank and current.tau > 0.5 and current.move < 1.5:
                self.refit_lagging_lines(current)
            return False
        if phase.settled_passes >= 2 and phase.passes >= 4:
            widened = any((line.scale_ratio > 1).any() for line in self.model.lines)
            if widened or self.refit_lagging_lines(current):
                return False
            if self.retest_doubtful_components(current):
                return False
        elif steady and current.move < 0.5 and not self.column_noise_tested:
            self.refit_lagging_lines(current)
            self.column_noise_tested = True
        else:
            return False
        if self.column_noise_differs(current):
            self.noise_per_column, self.phase = True, Phase("weighed", passes=1)
            return False
        return phase.settled_passes >= 2 and phase.passes >= 4

    def remaining_move(self, current: Pass) -> float:
        """Estimate how far L still is from its limit, from the last two moves.

        Moves are comparable only while rank and noise are stable.
        """
        last, move = self.last_move, current.move
        stable = current.same_rank and 0.9 < current.tau < 1.1
        self.last_move = move if stable else np.inf
        comparable = stable and 0 < last < np.inf
        rate = min(move / last, 0.97) if comparable else 0.5
        return move * max(rate / (1 - rate), 1.0)

    def rounding(self, current: Pass) -> bool:
        """Whether only rounding errors are left."""
        eps = float(np.finfo(self.model.rows.dtype).eps)
        return self.noise_level(current) < 50 * eps * self.model.typical_entry

    def noise_level(self, current: Pass) -> float:
        """Return the median noise of the columns, in the unit of the problem."""
        return current.tau * float(np.median(self.model.sigma))

    def column_noise_differs(self, current: Pass) -> bool:
        """Test whether columns have noise of different size, if that is not known."""
        if self.noise_per_column or self.by_column is False or current.mixture is None:
            return False
        if not self.by_column and len(self.model.sigma) < MIN_COLUMNS:
            return False
        scales = column_scales(current.column_histograms, current.mixture)
        return float(np.ptp(scales)) > 0

    def reweigh(self, current: Pass) -> None:
        """Set weights, ω, σ and the search basis for the next pass."""
        tau, values = current.tau, HUBER
        ratio = np.full(len(self.model.sigma), tau)
        if self.phase.is_weighed:
            mixture = current.mixture
            if mixture is None:
                mixture = fit_mixture(
                    current.histogram,
                    current.tau,
                    self.degrees(),
                    scale_is_given=self.noise_is_given,
                )
            self.mixture, self.model.clean_fraction = mixture, max(mixture.clean, 0.3)
            values, tau = mixture.weight, mixture.tau
            ratio[:] = tau
            own_noise = self.noise_per_column and not self.noise_is_given
            if own_noise and current.mixture is not None:
                ratio = column_scales(current.column_histograms, mixture)
        self.table = to_table(values)
        # The mean of ψ' over all entries, zero for missing ones, is the curvature of
        # the loss, and ω its inverse.
        counts = rescaled_histogram(current.histogram, tau)
        slope = np.gradient(values * BIN_CENTRES, BIN_CENTRES)
        slope[-1] = 0
        curvature = float((counts * slope).sum() / max(counts.sum(), 1))
        curvature *= self.model.observed / self.model.rows.size
        self.omega = float(np.clip(1 / max(curvature, 1e-3), 1.0, MAX_OMEGA))
        if not self.noise_is_given:
            self.model.rescale(self.bounded_ratio(ratio))
        self.resize_search_basis(current.saturated)

    def bounded_ratio(self, ratio: Array) -> Array:
        """Return the factor on σ, bounded so that σ stays above rounding.

        Otherwise the noise of a column that is fitted exactly would fall forever. In
        units of the noise, all columns share the rounding error of the least noisy one,
        which must stay below the noise of the others.
        """
        sigma, sizes = self.model.sigma, self.model.column_sizes
        eps = float(np.finfo(self.model.rows.dtype).eps)
        after = np.clip(sigma * ratio, eps**2 * self.model.typical_entry, 1.0)
        least = sqrt(eps) * float(np.max(after / sizes)) * sizes
        return np.asarray(np.maximum(after, least) / sigma)

    def resize_search_basis(self, saturated: bool) -> None:
        """Search with a few more columns than the rank."""
        r = self.model.rank
        k = 2 * max(r, 8) if saturated else max(r + max(6, r // 5), 12)
        self.model.set_search_basis(k)

    def refit_lagging_lines(self, current: Pass) -> bool:
        """Refit rows and columns that lag; return whether any improved."""
        model, n_improved = self.model, 0
        for axis in (0, 1):
            if model.rank:
                which = model.lines[axis].lagging(current.outlier_counts[axis])
                if len(which):
                    self.last_move = np.inf
                    n_improved += model.refit_lines(
                        which, axis, current.edge, current.tau
                    )
        if n_improved:
            self.phase.settled_passes = 0
            self.phase.passes = min(self.phase.passes, 2)
        return n_improved > 0

    def retest_doubtful_components(self, current: Pass) -> bool:
        """Remove weak and localised components once; real ones return by themselves.

        Flagged entries do not constrain L, so a spurious component could otherwise
        persist on them.
        """
        model = self.model
        if self.components_tested or not model.rank:
            return False
        self.components_tested = True
        if any((line.passes_left > 0).any() for line in model.lines):
            return False
        U, W = model.U, model.C / column_norms(model.C)
        local = np.zeros(model.rank, bool)
        for X in (U, W):
            local |= participation_ratio(X) < MIN_COVERAGE_WHILE_MOVING * len(X)
        if not local.any():
            weak = column_norms(model.C) < WEAK * current.edge
            model.U, model.C = U[:, ~weak], model.C[:, ~weak]
            self.phase, self.last_move = Phase("weighed"), np.inf
            return bool(weak.any())
        model.U, model.C = U[:, ~local], model.C[:, ~local]
        for axis, X in enumerate((U, W)):
            concentrated = (X[:, local] ** 2).max(axis=1) * len(X) > 20
            which = np.flatnonzero(concentrated)
            if model.rank and 0 < len(which) <= 50:
                model.refit_lines(which, axis, current.edge, current.tau)
        self.phase, self.last_move, self.still_moving = Phase(), np.inf, True
        return True

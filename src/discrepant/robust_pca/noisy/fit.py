"""Fit low rank + errors + noise by robust passes over the data.

In units of the noise σ (one, or one per column), with L = U Cᵀ,

    e = Y/σ − L        z = |e| / √((1−hᵢ)(1−hⱼ))        T = L + ω·w(z)·e
    P = T V,  B = TᵀP  →  SVD of T  →  L ← components above the edge of the noise

where h is the leverage of an entry. A pass is a proximal-gradient step on ``Σρ(Y − L)``
plus a penalty on the rank, and at the same time a step of the subspace iteration for
it. Nothing of the size of the data is kept.

*Clipped* passes come first: w(z) = min(1, 1.5/z) are Huber's weights, which tolerate a
bad start, and σ follows the median of the residuals. *Weighed* passes follow: w(z) is
the probability that an entry is clean (`mixture`). Rows and columns that lag behind the
fit are refitted. Once L is stable, weak components are removed, as real ones return,
and the passes continue. Each column has its own σ if they differ.

Where no low rank leaves independent noise of one size, the noise that is estimated
would fall until half of the entries are interpolated and the others count as errors.
Therefore the fit with the shortest description is kept, and returned if the passes
that follow do not shorten it.
"""

from dataclasses import dataclass, replace
from enum import Enum
from math import sqrt

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.recorder import Recorder
from discrepant.core.robust_statistics import MAD
from discrepant.robust_pca.exact.factored_svd import factor_distance, svd_from_products
from discrepant.robust_pca.noisy.histogram import (
    BIN_CENTRES,
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
from discrepant.robust_pca.noisy.phase import (
    CLOSE_CLIPPED,
    Phase,
    Shortest,
    description_length,
)
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
# The same of components that are not doubtful (normal vectors cover a third).
SAFE_COVERAGE = 0.05
# Move of L, relative to its statistical error, above which it counts as moving.
MOVING = 0.7
# A component is weak below this many times the edge of the noise.
WEAK = 1.6
# Columns needed to distinguish the noise of one column from its own signal.
MIN_COLUMNS = 16
# Noise, relative to the typical entry, below which there may be no noise at all.
VANISHING = 1e-3
# Noise, relative to that of the pass before, below which it falls.
FALLING_NOISE = 0.95
# Fraction of the start's clean entries and of its noise that the data must have.
MIN_AGREEMENT = 0.8
# Move of L, relative to its statistical error, below which rows and columns that lag
# can be told from those that still move.
REFIT_MOVE = 1.5

HUBER = np.minimum(1.0, CLIP / np.maximum(BIN_CENTRES, 1e-9))


@dataclass(frozen=True)
class Fit:
    """A fit, and what the pass that begins with it shows of it."""

    factors: tuple[Array, Array]
    sigma: Array
    weights: Array  # at the edges of the bins
    mixture: Mixture
    description: float  # length of the description of the data, in nats per entry


@dataclass(frozen=True)
class Pass:
    """Statistics of one pass."""

    fit: Fit | None  # the fit before the pass; None in the clipped phase
    histogram: Array
    column_histograms: Array  # coarse, one row per column of the caller
    outlier_counts: tuple[Array, Array]  # by row and by column
    edge: float
    tau: float  # new σ over the σ that was used
    move: float  # ‖ΔL‖ over the statistical error of L
    same_rank: bool

    @property
    def is_steady(self) -> bool:
        """Whether rank and noise have hardly changed."""
        return self.same_rank and 0.8 < self.tau < 1.25


class Ending(Enum):
    """Why the passes end; the value is the sentence of the status."""

    STABLE = "converged: fitted at the level of the noise"
    ROUNDING = "converged: only rounding errors are left"
    SHORTEST = "converged: further passes do not shorten the description of the data"
    VANISHING = "the noise vanishes"
    DIFFERENT = "the data differ from those of the start"
    LIMIT = "no further pass is allowed"


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
        self.log, self.start = log, start
        self.noise_is_given = sigma is not None
        self.weights, self.omega = to_table(HUBER), 1.0
        self.phase = Phase(is_weighed=start is not None)
        self.shortest = Shortest[Fit]()
        self.last_move = np.inf
        # The median noise of the columns by the last two passes.
        self.previous_noise = self.noise_level = np.inf
        self.components_tested = start is not None
        # Whether columns may have noise of different size, and whether by now it does.
        self.noise_may_differ = not self.noise_is_given and by_column is not False
        if by_column is None and len(self.model.sigma) < MIN_COLUMNS:
            self.noise_may_differ &= self.model.columns_have_units
        self.noise_differs = self.noise_may_differ and self.model.columns_have_units
        if start is not None:
            self.weights = to_table(start.mixture.weight)
            self.omega = float(np.clip(1 / self.model.usable_fraction, 1.0, MAX_OMEGA))
            self.resize_search_basis()

    def run(self, until_vanishing: bool = False) -> Ending:
        """Make passes until the fit is stable, or until its noise vanishes."""
        while True:
            current = self.one_pass()
            ending = self.advance(current)
            if ending in (None, Ending.DIFFERENT) and self.log.ended:
                ending = Ending.LIMIT
            if ending is None and until_vanishing and self.noise_vanishes:
                ending = Ending.VANISHING
            if ending is not None:
                return ending
            self.reweigh(current)

    def advance(self, current: Pass) -> Ending | None:
        """Move the schedule on by one pass; return how the fit ends, if it does."""
        phase, fit = self.phase, current.fit
        phase.count(current.is_steady, current.move)
        if current.same_rank and self.only_rounding_is_left:
            return Ending.ROUNDING
        nearly_steady = current.same_rank and current.tau > 0.5
        refitted = False
        if nearly_steady and current.move < REFIT_MOVE:
            refitted = self.refit_lagging_lines(current)
        if fit is None:
            if phase.is_settled:
                self.begin_weighed_phase()
            return None
        if self.differs_from_start(fit.mixture):
            return Ending.DIFFERENT
        # As long as L moves, a column that lags would seem to have more noise.
        if current.is_steady and current.move < CLOSE_CLIPPED:
            self.noise_differs = self.noise_may_differ
        is_stable = phase.is_settled and not refitted
        if is_stable and self.remove_doubtful_components(current):
            return None
        shortest = self.shortest
        if not is_stable and not shortest.is_final:
            return None
        if shortest.state is None or not shortest.is_shorter_than(fit.description):
            return Ending.STABLE
        self.return_to(shortest.state)
        return Ending.SHORTEST

    def begin_weighed_phase(self) -> None:
        """Weight entries by the posterior from the next pass on."""
        self.phase, self.shortest.passes_since = Phase(is_weighed=True), 0
        for n_refits in self.model.n_refits:
            n_refits[:] = 0

    def one_pass(self) -> Pass:
        """Make one robust pass: a new L, its change, the edge and the histograms."""
        model, rows = self.model, self.model.rows
        m, n, column_axis = rows.m, rows.n, model.column_axis
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
            line_values=model.line_values(),
            weights=self.weights,
            right=model.V,
            histogram_axis=column_axis if weighed else None,
        )
        fit = None
        if weighed:
            mixture = self.fit_mixture(step.histogram)
            description = description_length(
                mixture,
                model.log_ratio,
                column_norms(model.C) / sqrt(m * n),
                model.freedom,
                model.observed,
            )
            fit = Fit(before, model.sigma, self.weights, mixture, description)
            self.shortest.compare(fit, description)
        U, V, s = svd_from_products(step.right, step.left)
        r = model.rank
        inflation = sqrt(m * n / max((m - r) * (n - r), 1))  # of the residuals
        edge = self.omega * inflation * noise_edge(*step.squares)
        above = (s > edge) & ~self.localised_components(U, V)
        model.U, model.C, model.V = U[:, above], V[:, above] * s[above], V
        change = factor_distance(before, (model.U, model.C))
        tau = self.clipped_scale(step.histogram) if fit is None else fit.mixture.tau
        # Statistical error of L.
        error = sqrt(max(model.freedom, m + n - 1) / model.usable_fraction) * tau
        self.last = Pass(
            fit=fit,
            histogram=step.histogram,
            column_histograms=step.line_histograms.T,
            outlier_counts=step.n_outliers,
            edge=edge,
            tau=tau,
            move=change / error,
            same_rank=model.rank == r,
        )
        self.previous_noise = self.noise_level
        self.noise_level = tau * float(np.median(model.sigma))
        self.last_move = self.last.move
        self.record(step.squares[column_axis])
        return self.last

    def clipped_scale(self, histogram: Array) -> float:
        """Return the new σ over the old one, from the median of the residuals."""
        if self.noise_is_given:
            return 1.0
        # σ may only fall, or errors of one sign would count as noise.
        return min(float(quantile(histogram, 0.5)[0]) / MAD, 1.0)

    def fit_mixture(self, histogram: Array, tau: float = 1.0) -> Mixture:
        """Fit the mixture to the residuals.

        If L takes many degrees of freedom, heavy tails would make it interpolate.
        """
        model = self.model
        taken = model.freedom / max(model.clean_fraction * model.observed, 1)
        degrees = DEGREES[: 1 if taken > 0.2 else 4 if taken > 0.12 else len(DEGREES)]
        return fit_mixture(histogram, tau, degrees, scale_is_given=self.noise_is_given)

    def localised_components(self, U: Array, V: Array) -> Array:
        """Return which new components cover so few rows that they may be errors.

        While L moves, rows that lag look like such a component: wait for them.
        """
        W = self.model.C / column_norms(self.model.C)
        is_new = ((W.T @ V) ** 2).sum(axis=0) < 0.5
        coverage = SAFE_COVERAGE if self.last_move > MOVING else MIN_COVERAGE
        covers = _covers(U, coverage) & _covers(V, coverage)
        return np.asarray(is_new & ~covers)

    def record(self, squares: Array) -> None:
        """Record the last pass; entries count in the residual by their weights."""
        residual = float(np.sqrt(np.sum(squares * self.model.sigma**2)))
        relative = residual / float(np.hypot(residual, self.model.size) or 1.0)
        fit, phase, rank = self.last.fit, self.phase, self.model.rank
        support = 0.0 if fit is None else 1 - fit.mixture.clean
        fraction = 0.5 * phase.is_weighed + 0.4 * min(1, 0.1 / max(self.last.move, 0.1))
        self.log.note(
            Step(phase.name, relative, np.nan, rank, np.nan, support), fraction
        )

    @property
    def only_rounding_is_left(self) -> bool:
        """Whether the noise is at the level of rounding errors."""
        eps = float(np.finfo(self.model.rows.dtype).eps)
        return self.noise_level < 50 * eps * self.model.typical_entry

    @property
    def noise_may_vanish(self) -> bool:
        """Whether the noise is so small that there may be none at all."""
        return self.noise_level < VANISHING * self.model.typical_entry

    @property
    def noise_vanishes(self) -> bool:
        """Whether the noise keeps falling, so that there may be none."""
        falls = self.noise_level < FALLING_NOISE * self.previous_noise
        return falls and self.model.rank > 0 and self.noise_may_vanish

    def differs_from_start(self, mixture: Mixture) -> bool:
        """Whether clean fraction or noise differ from those of the start."""
        if self.start is None:
            return False
        fewer = mixture.clean < MIN_AGREEMENT * self.start.mixture.clean
        return fewer or not MIN_AGREEMENT < mixture.tau < 1 / MIN_AGREEMENT

    def return_to(self, fit: Fit) -> None:
        """Restore the fit that an earlier pass began with."""
        (self.model.U, self.model.C), self.model.sigma = fit.factors, fit.sigma
        self.model.set_clean_fraction(fit.mixture)
        self.weights = fit.weights
        self.last = replace(self.last, fit=fit, tau=fit.mixture.tau)

    def reweigh(self, current: Pass) -> None:
        """Set weights, ω, σ and the search basis for the next pass."""
        model, values = self.model, HUBER
        tau, sigma = current.tau, model.sigma * current.tau
        if self.phase.is_weighed:
            if current.fit is None:  # the first such pass is the next one
                mixture = self.fit_mixture(current.histogram, tau)
                sigma = model.sigma * mixture.tau
            else:
                mixture = current.fit.mixture
                sigma = self.noise_of_columns(mixture, current.column_histograms)
            values, tau = mixture.weight, mixture.tau
            model.set_clean_fraction(mixture)
        self.weights = to_table(values)
        # The mean of ψ' over all entries, zero for missing ones, is the curvature of
        # the loss, and ω its inverse.
        counts = rescaled_histogram(current.histogram, tau)
        slope = np.gradient(values * BIN_CENTRES, BIN_CENTRES)
        slope[-1] = 0
        curvature = float((counts * slope).sum() / max(counts.sum(), 1))
        curvature *= model.observed / model.rows.size
        self.omega = float(np.clip(1 / max(curvature, 1e-3), 1.0, MAX_OMEGA))
        if not self.noise_is_given:
            model.set_noise(sigma)
        self.resize_search_basis()

    def noise_of_columns(self, mixture: Mixture, histograms: Array) -> Array:
        """Return σ of each column, from the residuals in units of the present σ."""
        model = self.model
        if not self.noise_differs:
            return np.asarray(model.sigma * mixture.tau)
        present = model.sigma / model.usual_sigma
        scales = column_scales(histograms, mixture, present)
        return np.asarray(model.usual_sigma * scales)

    def resize_search_basis(self) -> None:
        """Search with a few more columns than the rank."""
        r = self.model.rank
        self.model.set_search_basis(max(r + max(6, r // 5), 12))

    def refit_lagging_lines(self, current: Pass) -> bool:
        """Refit rows and columns that lag; return whether any improved."""
        improved = False
        for axis, n_outliers in enumerate(current.outlier_counts):
            which = self.model.lagging_lines(n_outliers, axis)
            if len(which) and self.model.rank:
                improved |= self.model.refit_lines(which, axis, current.edge)
        if improved:
            self.phase.restart()
        return improved

    def remove_doubtful_components(self, current: Pass) -> bool:
        """Remove weak and localised components; real ones return by themselves.

        Flagged entries do not constrain L, so a spurious component could otherwise
        persist on them. Returns whether there are any.
        """
        model = self.model
        if self.components_tested:
            return False
        self.components_tested = True
        W = model.C / column_norms(model.C)
        safe = _covers(model.U, SAFE_COVERAGE) & _covers(W, SAFE_COVERAGE)
        safe &= column_norms(model.C) > WEAK * current.edge
        if safe.all():
            return False
        model.U, model.C = model.U[:, safe], model.C[:, safe]
        self.begin_weighed_phase()
        self.last_move = np.inf
        return True


def _covers(X: Array, fraction: float) -> Array:
    """Return which columns cover a fraction of the rows, and at least two of them."""
    return np.asarray(participation_ratio(X) >= max(2.0, fraction * len(X)))

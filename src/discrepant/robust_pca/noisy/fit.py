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
# While L moves, a new component must cover one in this many rows (normal vectors: 3).
LOCAL_WHILE_MOVING = 10.0
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
# Ratio of successive moves above which momentum pays for its product.
SLOW = 0.6

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


class Momentum:
    """Momentum β and the remaining distance, from the moves so far."""

    def __init__(self) -> None:
        self.beta = 0.0  # momentum
        self.last_move = self.remaining = np.inf  # last move and remaining distance

    def reset(self) -> None:
        """Forget the moves so far."""
        self.beta, self.last_move = 0.0, np.inf

    def update(self, step: Pass) -> None:
        """Estimate the remaining distance and β from the last two moves.

        Moves are comparable only while rank and noise are stable. β follows from the
        root t of the plain iteration, as for heavy-ball momentum.
        """
        move, stable = step.move, step.same_rank and 0.9 < step.tau < 1.1
        comparable = stable and 0 < self.last_move < np.inf
        rate = min(move / self.last_move, 0.97) if comparable else 0.5
        self.remaining = move * max(rate / (1 - rate), 1.0)
        b = self.beta
        root = rate**2 / ((1 + b) * rate - b) if (1 + b) * rate > b else 0.97
        root = min(max(root, 0.0), 0.9)
        if not stable or (b and move > 1.02 * self.last_move):
            self.beta = 0.0
        elif self.last_move < np.inf and rate > SLOW:
            q = sqrt(1 - root)
            self.beta = max(b, (1 - q) / (1 + q))
        self.last_move = move if stable else np.inf


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
        self.phase = "clipped"
        self.mixture: Mixture | None = None
        # whether each column has its own σ by now
        self.noise_per_column = self.noise_is_given or self.model.columns_have_units
        self.still_moving = True
        self.column_noise_tested = self.components_tested = False
        self.momentum = Momentum()
        self.quiet_passes = self.settled_passes = self.passes_in_phase = 0
        self.start = start
        if start is not None:
            self.begin(start)

    def begin(self, start: NoisyStart) -> None:
        """Continue in the weighed phase from the final state of another fit."""
        self.mixture, self.table = start.mixture, to_table(start.mixture.weight)
        self.omega = float(np.clip(1 / self.model.usable_fraction, 1.0, MAX_OMEGA))
        self.phase, self.passes_in_phase = "weighed", 2
        self.column_noise_tested = self.components_tested = True  # tested there
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
        weighed = self.phase == "weighed"
        stride = max(1, rows.size // HISTOGRAM_ENTRIES)
        if weighed and column_axis == 0:  # all entries of each of the caller's columns
            stride = 1
        U, C = before = model.U, model.C
        beta = self.momentum.beta
        if beta:
            U = np.hstack([U, model.last[0]])
            C = np.hstack([(1 + beta) * C, -beta * model.last[1]])
        step = passes.robust_step(
            rows,
            (U, C),
            unit=model.program.unit,
            omega=self.omega,
            stride=stride,
            line_values=model.line_values(model.leverages()),
            weights=self.table,
            right=model.V,
            histogram_axis=column_axis if weighed else None,
        )
        model.last = before
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
        model.change = change / tau
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
        if self.phase == "weighed":
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
        waiting = self.still_moving and self.passes_in_phase < 8
        localised = (s < 1.1 * edge) if waiting else np.zeros(len(s), bool)
        for X in (U, V):
            least = max(2.0, MIN_COVERAGE * len(X))
            localised |= participation_ratio(X) < (
                len(X) / LOCAL_WHILE_MOVING if waiting else least
            )
        return np.asarray(new & localised)

    def record(self, squares: Array, move: float, mixture: Mixture | None) -> None:
        """Record the pass; entries count in the residual by their weights."""
        residual = float(np.sqrt(np.sum(squares * self.model.sigma**2)))
        relative = residual / float(np.hypot(residual, self.model.size) or 1.0)
        support = 0.0 if mixture is None else 1 - mixture.clean
        fraction = 0.5 * (self.phase == "weighed") + 0.4 * min(1, 0.1 / max(move, 1e-9))
        step = Step(self.phase, relative, np.nan, self.model.rank, np.nan, support)
        self.log.note(step, fraction)

    def degrees(self) -> tuple[float, ...]:
        """Return the ν to try: all at first, then the neighbours of the last one.

        If L takes many degrees of freedom, heavy tails would make it interpolate.
        """
        model, r = self.model, self.model.rank
        n_clean = max(model.clean_fraction * model.observed, 1)
        taken = r * (model.m + model.n - r) / n_clean
        limit = 1 if taken > 0.2 else 4 if taken > 0.12 else len(DEGREES)
        candidates = DEGREES[:limit]
        first = self.mixture is None or self.passes_in_phase < 2
        if first or self.mixture is None or self.mixture.nu not in candidates:
            return candidates
        i = candidates.index(self.mixture.nu)
        return candidates[max(i - 1, 0) : i + 2]

    def advance(self, current: Pass) -> bool:
        """Move the schedule on by one pass; return whether the fit is finished."""
        self.momentum.update(current)
        weighed = self.phase == "weighed"
        steady = current.same_rank and not current.saturated
        steady = steady and 0.8 < current.tau < 1.25
        close = CLOSE_WEIGHTED if weighed else CLOSE_CLIPPED
        quiet = steady and current.move < close
        self.quiet_passes = self.quiet_passes + 1 if quiet else 0
        settled = self.momentum.remaining < close or self.quiet_passes > 5
        self.settled_passes = self.settled_passes + 1 if steady and settled else 0
        self.passes_in_phase += 1
        self.still_moving = current.move > 0.7
        if current.same_rank and self.rounding(current):
            return True
        test_columns = done = False
        if not weighed:
            if self.settled_passes and self.passes_in_phase >= 4:
                self.refit_lagging_lines(current)
                self.restart("weighed")
            elif current.same_rank and current.tau > 0.5 and current.move < 1.5:
                self.refit_lagging_lines(current)
        elif self.settled_passes >= 2 and self.passes_in_phase >= 4:
            widened = any((line.scale_ratio > 1).any() for line in self.model.lines)
            done = not (
                widened
                or self.refit_lagging_lines(current)
                or self.retest_doubtful_components(current)
            )
            test_columns = done
        elif (
            not self.column_noise_tested
            and steady
            and (current.move < 0.5 and self.passes_in_phase >= 2)
        ):
            self.refit_lagging_lines(current)
            test_columns = self.column_noise_tested = True
        if test_columns and self.column_noise_differs(current):
            self.noise_per_column, done = True, False
            self.restart("weighed", passes=1)
        return done

    def restart(self, phase: str, passes: int = 0) -> None:
        """Begin a phase, or begin it anew as if after some passes."""
        self.phase, self.settled_passes, self.passes_in_phase = phase, 0, passes
        self.momentum.reset()

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
        if self.phase == "weighed":
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
        # the loss, and ω its inverse. With momentum β, a fully observed row is stable
        # only if (ω − 1)(1 + 2β) < 1.
        counts = rescaled_histogram(current.histogram, tau)
        slope = np.gradient(values * BIN_CENTRES, BIN_CENTRES)
        slope[-1] = 0
        curvature = float((counts * slope).sum() / max(counts.sum(), 1))
        curvature *= self.model.observed / self.model.rows.size
        limit = min(MAX_OMEGA, 1 + 0.9 / (1 + 2 * self.momentum.beta))
        self.omega = float(np.clip(1 / max(curvature, 1e-3), 1.0, limit))
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
                    self.momentum.reset()
                    n_improved += model.refit_lines(
                        which, axis, current.edge, current.tau
                    )
        if n_improved:
            self.settled_passes, self.passes_in_phase = 0, min(self.passes_in_phase, 2)
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
        U, W = model.U, model.C / column_norms(model.C)
        local = participation_ratio(U) < model.m / LOCAL_WHILE_MOVING
        local |= participation_ratio(W) < model.n / LOCAL_WHILE_MOVING
        weak = column_norms(model.C) < WEAK * current.edge
        if any((line.passes_left > 0).any() for line in model.lines):
            return False
        if not local.any():
            model.U, model.C = U[:, ~weak], model.C[:, ~weak]
            self.restart(self.phase)
            return bool(weak.any())
        model.U, model.C = U[:, ~local], model.C[:, ~local]
        for axis, X in enumerate((U, W)):
            concentrated = (X[:, local] ** 2).max(axis=1) * len(X) > 20
            which = np.flatnonzero(concentrated)
            if model.rank and 0 < len(which) <= 50:
                model.refit_lines(which, axis, current.edge, current.tau)
        self.restart("clipped")
        self.still_moving = True
        return True

"""The three-part fit: a few robust passes, each a pure function of narrow factors.

In units of the noise σ (one, or one a column), with L = U Cᵀ,

    e = Y/σ − L        z = |e| / √((1−hᵢ)(1−hⱼ))        T = L + ω·w(z)·e
    P = T V,  B = TᵀP  →  leading triplets of T  →  L ← those above the noise's edge

where h is the leverage, the share of a cell that the fit has taken from it.  A pass is
a proximal-gradient step on ``Σρ(Y − L)`` plus a price for each rank, and a step of the
subspace iteration for it at once.  Nothing of the size of the data is kept.

*Clipped* passes come first: w(z) = min(1, 1.5/z) is Huber's, which forgives a bad
start, and σ follows the median of the residuals down.  *Weighed* passes follow: w(z) is
the probability that a cell is clean (`mixture`).  When the fit stands, the columns are
asked whether their noise differs by more than chance; if so each gets its own, and the
passes go on.  Rows and columns that were left behind are fitted anew (`lines`).
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.exact.factored_svd import factor_distance, svd_from_products
from discrepant.robust_pca.noisy.histogram import (
    MAD,
    MIDDLE,
    at_edges,
    quantile,
    stretched,
)
from discrepant.robust_pca.noisy.mixture import (
    DEGREES,
    Mixture,
    fit_mixture,
    own_scales,
)
from discrepant.robust_pca.noisy.model import Model, Start, norms
from discrepant.robust_pca.noisy.momentum import Pace, Pass
from discrepant.robust_pca.noisy.spectrum_edge import noise_edge, reach_of
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.recorder import Recorder, Step
from discrepant.robust_pca.rows import passes


@dataclass(frozen=True)
class Tuning:
    """Constants of the fit; `benchmarks/noise.py` shows what it reaches with them."""

    # z at which the clipped passes clip: with 30% errors of one sign the bias of the
    # clipped mean must stay below the signal; 2 is too much.
    clip: float = 1.5
    # Cells in the histogram of a pass: σ̂ to a fifth of a per cent.
    sample: int = 300_000
    # ω, at the most: a row observed in full overshoots at 2.
    relaxed: float = 1.9
    # A component must sit on so large a share of the lines, and on two at least, or it
    # cannot be told from errors there.
    few_lines: float = 0.02
    # While L moves a new one must sit on one of so many lines (normal vectors: 3).
    local: float = 10.0
    # Times the noise's edge below which a component is doubtful.
    weak: float = 1.6
    # Fewer columns: the noise of one cannot be told from its own signal.
    few_columns: int = 16
    # σ, over the size of entries, below which it may be that there is no noise at all.
    vanishing: float = 1e-3
    # Share of the clean cells of a start, and of its noise, that the data must have.
    alike: float = 0.8
    # Moves, over the statistical error of L, at which a phase is done.
    close_clipped: float = 0.5
    close_weighed: float = 0.1


TUNING = Tuning()
HUBER = np.minimum(1.0, TUNING.clip / np.maximum(MIDDLE, 1e-9))


class NoisyFit:
    """One fit, in the unit of the program and the orientation of the blocks.

    Parameters
    ----------
    program : Program
        The data.
    sigma : ndarray or None
        The noise of each of the caller's columns where it is told.
    by_column : bool or None
        Whether each column has its own noise; None finds out.
    rng : numpy.random.Generator
        Draws the columns that look for new directions.
    log : Log
        Where passes are written down.
    start : Start, optional
        Where a fit of a part of the data, or of data like them, ended.
    """

    def __init__(
        self,
        program: ConvexProblem,
        sigma: Array | None,
        by_column: bool | None,
        rng: np.random.Generator,
        log: Recorder,
        start: Start | None = None,
    ) -> None:
        self.model = Model(program, sigma, rng, start)
        self.log = log
        self.told, self.by_column = sigma is not None, by_column
        self.table, self.omega = at_edges(HUBER), 1.0
        self.phase = "clipped"
        self.mixture: Mixture | None = None
        # whether columns have a noise of their own by now
        self.each = self.told or self.model.units
        self.hasty, self.looked, self.tested = True, False, False
        self.pace = Pace()
        self.quiet = self.still = self.age = 0
        self.start = start
        if start is not None:
            self.begin(start)

    def begin(self, start: Start) -> None:
        """Go on in the weighed phase from where another fit ended."""
        self.mixture, self.table = start.mixture, at_edges(start.mixture.weight)
        self.omega = float(np.clip(1 / self.model.share, 1.0, TUNING.relaxed))
        self.phase, self.age = "weighed", 2
        self.looked = self.tested = True  # as was done there
        self.look_on(False)

    # -- the story -----------------------------------------------------------------

    def run(self, until_vanishing: bool = False) -> tuple[Pass, bool]:
        """Pass until all stands; returns the last pass and whether it is done."""
        while True:
            found = self.one_pass()
            done = self.judge(found)
            if done or self.log.ended:
                return found, done
            if self.astray(found) or (until_vanishing and self.vanishing(found)):
                return found, False
            self.reweigh(found)

    def astray(self, found: Pass) -> bool:
        """Whether the data are not like those that the start comes from."""
        if self.start is None or found.mixture is None:
            return False
        fewer = found.mixture.clean < TUNING.alike * self.start.mixture.clean
        return fewer or not TUNING.alike < found.tau < 1 / TUNING.alike

    def vanishing(self, found: Pass) -> bool:
        """Whether the noise falls on and on: perhaps there is none."""
        return self.small(found) and found.tau < 0.75 and self.model.rank > 0

    def small(self, found: Pass) -> bool:
        """Whether there is so little noise that there may be none at all."""
        return self.noise_level(found) < TUNING.vanishing * self.model.top

    def one_pass(self) -> Pass:
        """Make one robust pass: a new L, its change, the edge and the histograms."""
        model, rows = self.model, self.model.rows
        m, n, own = rows.m, rows.n, model.own
        model.follow_wide_lines()
        weighed = self.phase == "weighed"
        stride = max(1, rows.size // TUNING.sample)
        if weighed and own == 0:  # all cells of each of the caller's columns
            stride = 1
        U, C = before = model.U, model.C
        beta = self.pace.beta
        if beta:
            U = np.hstack([U, model.last[0]])
            C = np.hstack([(1 + beta) * C, -beta * model.last[1]])
        step = passes.robust_step(
            rows,
            (U, C),
            unit=model.program.unit,
            omega=self.omega,
            stride=stride,
            line_values=model.sides(model.leverages()),
            weights=self.table,
            right=model.V,
            histogram_axis=own if weighed else None,
        )
        model.last = before
        U, V, s = svd_from_products(step.right, step.left)
        r = model.rank
        freedom = m * n / max((m - r) * (n - r), 1)
        edge = self.omega * sqrt(freedom) * noise_edge(*step.squares)
        above = s > edge
        saturated = bool(above.all()) and len(s) < n
        above &= ~self.untold(U, V, s, edge)
        model.U, model.C, model.V = U[:, above], V[:, above] * s[above], V
        tau, mixture = self.scale(step.histogram)
        change = factor_distance(before, (model.U, model.C))
        # of L, by the noise alone
        error = sqrt(max(model.rank, 1) * (m + n - model.rank) / model.share) * tau
        model.change = change / tau
        move = change / error
        self.write_down(step.squares[own], move, mixture)
        return Pass(
            histogram=step.histogram,
            own=step.line_histograms.T,
            outside=step.n_outliers,
            edge=edge,
            tau=tau,
            mixture=mixture,
            move=move,
            same_rank=model.rank == r,
            saturated=saturated,
        )

    def scale(self, histogram: Array) -> tuple[float, Mixture | None]:
        """Return σ over what it was thought to be, and the two groups if weighed."""
        if self.phase == "weighed":
            mixture = fit_mixture(histogram, 1.0, self.degrees(), told=self.told)
            return mixture.tau, mixture
        if self.told:
            return 1.0, None
        # It may only fall, or errors of one sign pass for noise.
        return min(float(quantile(histogram, 0.5)[0]) / MAD, 1.0), None

    def untold(self, U: Array, V: Array, s: Array, edge: float) -> Array:
        """Return which new components cannot be told from errors on a few lines.

        While the fit still moves, lines that lag look like one too: let them catch up.
        """
        W = self.model.C / norms(self.model.C)
        new = ((W.T @ V) ** 2).sum(axis=0) < 0.5
        waiting = self.hasty and self.age < 8
        alone = (s < 1.1 * edge) if waiting else np.zeros(len(s), bool)
        for X in (U, V):
            least = max(2.0, TUNING.few_lines * len(X))
            alone |= reach_of(X) < (len(X) / TUNING.local if waiting else least)
        return np.asarray(new & alone)

    def write_down(self, squares: Array, move: float, mixture: Mixture | None) -> None:
        """Note the pass: the residual is that of cells as far as they are believed."""
        residual = float(np.sqrt(np.sum(squares * self.model.sigma**2)))
        relative = residual / float(np.hypot(residual, self.model.size) or 1.0)
        support = 0.0 if mixture is None else 1 - mixture.clean
        share = 0.5 * (self.phase == "weighed") + 0.4 * min(1.0, 0.1 / max(move, 1e-9))
        rank = self.model.rank
        self.log.note(Step(self.phase, relative, np.nan, rank, np.nan, support), share)

    def degrees(self) -> tuple[float, ...]:
        """Return the ν to try: all at first, then the neighbours of the last one.

        Where L takes much of the freedom, heavy tails would have it interpolate cells.
        """
        model, r = self.model, self.model.rank
        taken = r * (model.m + model.n - r) / max(model.trust * model.observed, 1)
        some = DEGREES[:1] if taken > 0.2 else DEGREES[:4] if taken > 0.12 else DEGREES
        if self.mixture is None or self.age < 2 or self.mixture.nu not in some:
            return some
        i = some.index(self.mixture.nu)
        return some[max(i - 1, 0) : i + 2]

    # -- how it goes on --------------------------------------------------------------

    def judge(self, found: Pass) -> bool:
        """Decide on the phase and look after lines that lag; true if done."""
        self.pace.follow(found)
        weighed = self.phase == "weighed"
        steady = found.same_rank and not found.saturated and 0.8 < found.tau < 1.25
        close = TUNING.close_weighed if weighed else TUNING.close_clipped
        self.quiet = self.quiet + 1 if steady and found.move < close else 0
        settled = self.pace.left < close or self.quiet > 5
        self.still = self.still + 1 if steady and settled else 0
        self.age += 1
        self.hasty = found.move > 0.7
        if found.same_rank and self.rounding(found):
            return True
        look = done = False
        if not weighed:
            if self.still and self.age >= 4:
                self.rescue(found)
                self.phase, self.still, self.age = "weighed", 0, 0
                self.pace.forget()
            elif found.same_rank and found.tau > 0.5 and found.move < 1.5:
                self.rescue(found)
        elif self.still >= 2 and self.age >= 4:
            widened = any((line.wide > 1).any() for line in self.model.lines)
            done = not (widened or self.rescue(found) or self.test_doubtful(found))
            look = done
        elif not self.looked and found.move < 0.5 and self.age >= 2 and steady:
            self.rescue(found)
            look = self.looked = True
        if look and self.may_differ() and found.mixture is not None:
            if np.ptp(own_scales(found.own, found.mixture)) > 0:
                self.each, self.still, self.age, done = True, 0, 1, False
                self.pace.forget()
        return done

    def rounding(self, found: Pass) -> bool:
        """Whether nothing but rounding is left."""
        floor = 50 * float(np.finfo(self.model.rows.dtype).eps) * self.model.top
        return self.noise_level(found) < floor

    def noise_level(self, found: Pass) -> float:
        """Return the usual noise of a column, as found."""
        return found.tau * float(np.median(self.model.sigma))

    def may_differ(self) -> bool:
        """Whether the columns are to be asked for their own noise."""
        if self.each or self.by_column is False:
            return False
        return bool(self.by_column) or len(self.model.sigma) >= TUNING.few_columns

    def reweigh(self, found: Pass) -> None:
        """Set weights, ω and σ for the next pass, and the columns to look through."""
        ratio, tau, values = np.full(len(self.model.sigma), found.tau), found.tau, HUBER
        if self.phase == "weighed":
            mixture = found.mixture
            if mixture is None:
                mixture = fit_mixture(
                    found.histogram, found.tau, self.degrees(), told=self.told
                )
            self.mixture, self.model.trust = mixture, max(mixture.clean, 0.3)
            values, tau = mixture.weight, mixture.tau
            ratio[:] = tau
            if self.each and found.mixture is not None and not self.told:
                ratio = own_scales(found.own, mixture)
        self.table = at_edges(values)
        # The mean of ψ' over all cells, with zero for missing ones, is the curvature of
        # the loss, which ω inverts. With momentum β a row observed in full is stable
        # only if (ω − 1)(1 + 2β) < 1.
        counts = stretched(found.histogram, tau)
        slope = np.gradient(values * MIDDLE, MIDDLE)
        slope[-1] = 0
        curvature = float((counts * slope).sum() / max(counts.sum(), 1))
        curvature *= self.model.observed / self.model.rows.size
        most = min(TUNING.relaxed, 1 + 0.9 / (1 + 2 * self.pace.beta))
        self.omega = float(np.clip(1 / max(curvature, 1e-3), 1.0, most))
        if not self.told:
            self.model.rescale(self.within_reason(ratio))
        self.look_on(found.saturated)

    def within_reason(self, ratio: Array) -> Array:
        """Return the change of σ that leaves none far below rounding or above the data.

        The noise of a column that is fitted to its last digit would fall for ever. The
        data lie within ±1; a column's unit may be far below the usual one. In units of
        the noise all columns share one rounding error, that of the least noisy one: it
        has to stay below the noise of the others.
        """
        sigma, sizes = self.model.sigma, self.model.sizes
        eps = float(np.finfo(self.model.rows.dtype).eps)
        after = np.clip(sigma * ratio, eps**2 * self.model.top, 1.0)
        least = sqrt(eps) * float(np.max(after / sizes)) * sizes
        return np.asarray(np.maximum(after, least) / sigma)

    def look_on(self, saturated: bool) -> None:
        """Choose how many columns to look through: a few more than the rank."""
        r = self.model.rank
        k = 2 * max(r, 8) if saturated else max(r + max(6, r // 5), 12)
        self.model.look_through(k)

    # -- lines that lag --------------------------------------------------------------

    def rescue(self, found: Pass) -> bool:
        """Fit lines that lag anew; true if any came right."""
        model, fine = self.model, 0
        for axis in (0, 1):
            if model.rank:
                which = model.lines[axis].lagging(found.outside[axis])
                if len(which):
                    self.pace.forget()
                    fine += model.anew(which, axis, found.edge, found.tau)
        if fine:
            self.still, self.age = 0, min(self.age, 2)
        return fine > 0

    def test_doubtful(self, found: Pass) -> bool:
        """Take out components that are weak or sit on few lines: they must come back.

        Cells that are flagged do not hold L, and a component that was wrong at first
        may live on what it has in them. Once is enough.
        """
        model = self.model
        if self.tested or not model.rank:
            return False
        self.tested = True
        U, W = model.U, model.C / norms(model.C)
        local = reach_of(U) < model.m / TUNING.local
        local |= reach_of(W) < model.n / TUNING.local
        weak = norms(model.C) < TUNING.weak * found.edge
        if any((line.life > 0).any() for line in model.lines):
            return False
        if not local.any():
            model.U, model.C = U[:, ~weak], model.C[:, ~weak]
            self.still = self.age = 0
            self.pace.forget()
            return bool(weak.any())
        model.U, model.C = U[:, ~local], model.C[:, ~local]
        self.pace.forget()
        for axis, X in enumerate((U, W)):
            much = (X[:, local] ** 2).max(axis=1) * len(X) > 20
            which = np.flatnonzero(much)
            if model.rank and 0 < len(which) <= 50:
                model.anew(which, axis, found.edge, found.tau)
        self.phase, self.still, self.age, self.hasty = "clipped", 0, 0, True
        return True

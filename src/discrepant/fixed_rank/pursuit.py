"""Robust low-rank fit to linear measurements, built up component by component.

A round weights each measurement by its residual, solves the weighted least squares on
the tangent space, and computes the residuals again. When the scale of the residuals
stops falling, the pursuit adds the components that exceed those of the same residuals
with random signs: those show how large a component noise and errors of this size
produce through this operator. The weights are Huber's at first, which tolerate a bad
start. Then they redescend, so that corrupt measurements lose all influence and the
residual of an exact fit falls to rounding.

A wrong row or column of X gives its measurements large residuals, which then have no
weight to correct it. So the outliers of a fit are tested: if a change of X explains
some of them, the fit is repeated with weights that include them.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import erfc

from discrepant.core.linalg import Array, Symmetry, dual_norm, norm
from discrepant.fixed_rank.measurements import (
    Measurements,
    clipped,
    product,
    residual_scale,
)
from discrepant.fixed_rank.tangent_space import (
    MAX_COMPONENTS,
    FixedRankMatrix,
    components,
    degrees_of_freedom,
    fit_least_squares,
)

# Residual, in scales, up to which a Huber weight is one: 95% efficient if normal.
HUBER_CUTOFF = 1.345
# Residual, in scales, at which a redescending weight has fallen to a quarter.
REDESCENDING_CUTOFF = 4.0
# Residual, in units of data_scale^(1/3)·scale^(2/3), at which a redescending weight has
# fallen to a quarter; the larger of both cutoffs counts (see `Pursuit._weights`).
LATE_CUTOFF = 3.0
# Steps of conjugate gradients per round: few, because the weights change after them.
GRADIENT_STEPS = 4
# Relative accuracy at which conjugate gradients stop earlier.
GRADIENT_TOL = 1e-3
# A round is slow if more than this fraction of the scale is left after it.
SLOW = 0.8
# Draws of random signs at the first search for components: they calibrate the edge.
FIRST_SIGN_DRAWS = 4
# Draws of random signs at each later search; earlier draws count too.
LATER_SIGN_DRAWS = 2
# Draws of random signs for the test whether X explains outliers.
TEST_SIGN_DRAWS = 2
# Margin above the mean edge, in units of n^(−2/3) of it. The largest singular value of
# a random n×n matrix varies by 0.65 n^(−2/3) of itself (Tracy and Widom), and a
# component has to exceed the mean by three times that.
EDGE_MARGIN = 2.0
# Fraction of the scale of the data below which weights redescend at once: by then large
# errors are far above the other residuals.
REDESCEND_BELOW = 0.02
# Number of stalled rounds after which the pursuit ends.
MAX_STALLED = 8
# A slow round that leaves more than this fraction of the scale counts as several.
NO_PROGRESS = 0.98
# Stalled rounds for which a round without progress counts: three of them end a pursuit.
NO_PROGRESS_ROUNDS = 4
# Largest number of rounds of one pursuit.
MAX_ROUNDS = 80
# Largest fraction of the measured numbers that the degrees of freedom of X may reach.
MAX_FREEDOM = 0.9
# Scale, in units of the scale that rounding leaves, at which the pursuit ends: nothing
# is left to improve.
MIN_SCALE_ROUNDINGS = 1e-3
# A search is repeated only if the scale has fallen below this fraction of its last one.
SEARCH_AGAIN_BELOW = 0.9
# Standard deviations above the mean of random signs that count as significant.
SIGNIFICANT = 4.0
# Quantiles of the moduli of outliers from which the cutoff of a refit starts: all of
# them first, then the smaller ones only, because a huge error in a row or column pulls
# the fit away from the other measurements of it.
REFIT_QUANTILES = (1.0, 0.5, 0.1)
# Factor by which the cutoff shrinks in each round of a refit.
CUTOFF_FACTOR = 0.4
# Fraction of the scale of the data that a refit adds to the cutoff of redescending
# weights, for the smallest cutoff of its rounds.
MIN_CUTOFF = 0.01
# Measured numbers that must fit exactly, per degree of freedom, in an exact fit.
NUMBERS_PER_FREEDOM = 1.05


class Round(NamedTuple):
    """Outcome of one round, as a history keeps it."""

    phase: str  # "pursuit", "reconsidered", "noise", "flow"
    residual: float  # ‖y − A(X)‖ / ‖y‖, of the measurements that are not gross
    rank: int
    support: float  # fraction of gross residuals, above five robust deviations
    applications: int  # of the operator and its adjoint so far

    @classmethod
    def of(cls, phase: str, A: Measurements, at: FixedRankMatrix, e: Array) -> "Round":
        """Return the outcome of a round that ended at X = `at` with residuals e."""
        small = np.abs(e) <= 5 * residual_scale(e)
        residual = norm(e[small]) / (norm(A.y) or 1.0)
        support = 1 - float(small.mean())
        return cls(phase, residual, at.rank, support, A.n_applications)


@dataclass
class Fit:
    """State of a pursuit: the matrix, its residuals and their scale."""

    A: Measurements
    at: FixedRankMatrix  # X
    redescending: bool  # whether the weights redescend, or are Huber's
    e: Array = field(init=False)  # y − A(X)
    scale: float = field(init=False)  # robust standard deviation of the residuals
    # Dual norms of A*(residuals with random signs), relative to ‖residuals‖.
    edges: list[float] = field(default_factory=list)
    # Scale at the last search for components, if it added none.
    scale_at_last_search: float = np.inf

    def __post_init__(self) -> None:
        self.move(self.at)

    def move(self, at: FixedRankMatrix) -> None:
        """Replace X, with residuals and scale."""
        self.at, self.e = at, self.A.residual(*at.factors)
        self.scale = residual_scale(self.e, at.degrees_of_freedom / self.A.n_numbers)

    def refit(self, weights: Array, steps: int, tol: float) -> None:
        """Replace X by its weighted least-squares fit: one Gauss-Newton step."""
        at = fit_least_squares(self.A, self.at, weights, self.e, steps, tol)
        self.move(at)

    @property
    def clean(self) -> Array:
        """Mask of the measurements that fit to rounding."""
        return np.asarray(np.abs(self.e) <= self.A.exact_residual)

    @property
    def exact(self) -> bool:
        """Whether more measurements fit to rounding than X has degrees of freedom.

        If the measurements are in general position, no other X of this rank does that.
        """
        A = self.A
        n_clean = int(self.clean.sum()) * A.n_numbers / A.y.size
        return (
            0 < self.at.rank
            and self.scale <= A.rounding * A.scale
            and n_clean > NUMBERS_PER_FREEDOM * self.at.degrees_of_freedom + 2
        )

    def outliers(self, fdr: float) -> Array:
        """Return the mask of measurements that do not fit, exactly or up to noise."""
        return ~self.clean if self.exact else flag_outliers(self.e, self.scale, fdr)


@dataclass(frozen=True)
class Pursuit:
    """Fits of matrices of low rank to the same measurements.

    Parameters
    ----------
    A : Measurements
        The operator and the data.
    kind : {"general", "symmetric", "psd"}
        Set of matrices in which X lies.
    rng : numpy.random.Generator
        Draws the random signs.
    note : callable
        Receives a `Round` after each; returns whether to continue.
    fdr : float
        False discovery rate of the outliers.
    sigma : float, optional
        Standard deviation of the noise; by default it is estimated.
    """

    A: Measurements
    kind: Symmetry
    rng: np.random.Generator
    note: Callable[[Round], bool]
    fdr: float = 0.01
    sigma: float | None = None

    def record(self, phase: str, at: FixedRankMatrix, e: Array) -> bool:
        """Record a round; return whether to continue."""
        return self.note(Round.of(phase, self.A, at, e))

    def fit(self, start: FixedRankMatrix | None = None) -> Fit:
        """Return the fit of a pursuit, repeated if X could explain outliers of it."""
        return self.refit_outliers(self.run(start))

    def run(
        self, start: FixedRankMatrix | None = None, extra_components: int = 0
    ) -> Fit:
        """Return the fit of a pursuit from a matrix, or from zero.

        `extra_components` are added, one at a time, when the fit has stopped improving,
        although they are not significant. If the fit becomes exact, that proves them.
        """
        from_zero = start is None or not start.rank
        if start is None:
            start = FixedRankMatrix.zero(self.A.shape, self.kind, self.A.dtype)
        fit = Fit(self.A, start, redescending=not from_zero)
        return self._improve(fit, extra_components)

    def _improve(self, fit: Fit, extra_components: int = 0) -> Fit:
        """Improve a fit, in place, until it is exact or stops improving."""
        A = self.A
        last_scale, stalled = np.inf, 0
        for turn in range(MAX_ROUNDS):
            if fit.exact or fit.scale <= MIN_SCALE_ROUNDINGS * A.rounding * A.scale:
                break
            slow = fit.scale > SLOW * last_scale
            weights = self._weights(fit)
            if turn == 0 or slow:
                if self.add_components(fit, weights):
                    slow, stalled = False, 0
                elif slow and not fit.redescending:
                    fit.redescending = True
                    weights = self._weights(fit)
                elif slow:
                    progress = fit.scale < NO_PROGRESS * last_scale
                    stalled += 1 if progress else NO_PROGRESS_ROUNDS
            if stalled > MAX_STALLED:
                if not (extra_components and self.add_components(fit, weights, 1)):
                    break
                extra_components, stalled = extra_components - 1, 0
                fit.redescending = False
                weights = self._weights(fit)
            last_scale = fit.scale
            going_on = self._round("pursuit", fit, weights)
            fit.redescending |= fit.scale < REDESCEND_BELOW * A.scale
            if not going_on:
                break
        return fit

    def _round(self, phase: str, fit: Fit, weights: Array) -> bool:
        """Replace X by its weighted least-squares fit; return whether to continue."""
        fit.refit(weights, GRADIENT_STEPS, GRADIENT_TOL)
        return self.record(phase, fit.at, fit.e)

    def _weights(self, fit: Fit) -> Array:
        """Return the regression weight of each measurement, from its residual.

        If the operator measures rows or columns one by one, some of them converge late,
        and their large residuals are not errors. Therefore the cutoff of the
        redescending weights falls only as the scale to the power 2/3, and includes ever
        larger multiples of the scale. The few errors within it matter less and less.
        If the noise is given, weights assume no smaller scale.
        """
        size, scale = np.abs(fit.e), max(fit.scale, self.sigma or 0.0)
        if fit.redescending:
            late_scale = self.A.scale ** (1 / 3) * scale ** (2 / 3)
            cutoff = max(REDESCENDING_CUTOFF * scale, LATE_CUTOFF * late_scale)
            return _redescending_weights(size, cutoff)
        cutoff = HUBER_CUTOFF * scale
        return np.asarray(np.minimum(1.0, cutoff / np.maximum(size, cutoff)))

    # -- components --------------------------------------------------------------------

    def add_components(self, fit: Fit, weights: Array, at_least: int = 0) -> bool:
        """Add the significant components of the weighted residuals to a fit, in place.

        Their values are zero until the next round. At rank zero one component is added
        in any case, and `at_least` sets another minimum. Returns whether any was added.
        """
        A, at, weighted_residual = self.A, fit.at, weights * fit.e
        searched = fit.scale > SEARCH_AGAIN_BELOW * fit.scale_at_last_search
        if at.rank and not at_least and searched:
            return False
        normal_part = at.project_normal(A.adjoint(weighted_residual))
        U, d, V = components(normal_part, at.kind, MAX_COMPONENTS)
        count = int(np.sum(np.abs(d) > self._noise_edge(fit, weighted_residual)))
        count = max(count, min(at_least or int(not at.rank), len(d)))
        while count and (
            at.rank + count > min(A.shape)
            or degrees_of_freedom(A.shape, at.rank + count, at.kind, at.real)
            > MAX_FREEDOM * A.n_numbers
        ):
            count -= 1
        if count:
            fit.at = at.with_directions(U[:, :count], V[:, :count])
        fit.scale_at_last_search = np.inf if count else fit.scale
        return count > 0

    def _noise_edge(self, fit: Fit, weighted_residual: Array) -> float:
        """Return the largest value of a component that noise alone can produce.

        Estimated by random signs of the weighted residuals; `fit.edges` keeps them.
        """
        A, size = self.A, norm(weighted_residual)
        for _ in range(LATER_SIGN_DRAWS if fit.edges else FIRST_SIGN_DRAWS):
            back = A.adjoint(weighted_residual * A.signs(self.rng))
            fit.edges.append(dual_norm(back, fit.at.kind) / (size or 1.0))
        mean = float(np.mean(fit.edges))
        margin = 1 + EDGE_MARGIN * min(A.shape) ** (-2 / 3)
        return float(size * max(margin * mean, max(fit.edges)))

    def without_noise_components(self, fit: Fit, weights: Array) -> FixedRankMatrix:
        """Return X without the components that noise alone can produce."""
        at, edge = fit.at, self._noise_edge(fit, weights * fit.e)
        keep = np.ones(at.rank, bool)
        for k in np.argsort(np.abs(at.d)):
            if self._gain(at, k, weights) * abs(at.d[k]) > edge:
                break
            keep[k] = False
        return at.select(keep)

    def detection_limit(self, fit: Fit, weights: Array) -> float:
        """Return the smallest component that noise cannot hide, over the largest."""
        at = fit.at
        if not at.rank:
            return 1.0
        largest = int(np.argmax(np.abs(at.d)))
        edge = self._noise_edge(fit, weights * fit.e)
        return edge / (self._gain(at, largest, weights) * abs(at.d[largest]) or 1.0)

    def _gain(self, at: FixedRankMatrix, k: int, weights: Array) -> float:
        """Return ⟨A(u vᴴ), w∘A(u vᴴ)⟩ of component k."""
        measured = self.A.forward(at.U[:, [k]], at.V[:, [k]])
        return product(measured, weights * measured)

    # -- outliers that X explains ------------------------------------------------------

    def refit_outliers(self, fit: Fit) -> Fit:
        """Return a fit with fewer outliers, if a change of X explains some of them."""
        explained = self._explained_by_signal(fit, fit.outliers(self.fdr))
        return self.include_outliers(fit) if explained else fit

    def include_outliers(self, fit: Fit) -> Fit:
        """Return a fit with fewer outliers, by rounds that include them; or the same.

        An exact fit is only replaced by another one.
        """
        is_outlier = fit.outliers(self.fdr)
        for quantile in REFIT_QUANTILES:
            if not is_outlier.any():
                break
            cutoff = float(np.quantile(np.abs(fit.e[is_outlier]), quantile))
            refit = self._with_shrinking_cutoff(fit, cutoff)
            refit_outliers = refit.outliers(self.fdr)
            fewer = refit_outliers.sum() <= is_outlier.sum()
            if fewer and (refit.exact or not fit.exact):
                fit, is_outlier = refit, refit_outliers
            if fit.exact:
                break
        return fit

    def _explained_by_signal(self, fit: Fit, is_outlier: Array) -> bool:
        """Test whether a change of X would explain some of the outliers.

        A wrong row or column of X gives its measurements large residuals. Unlike errors
        they project on the tangent space, more than with random signs.
        """
        A, at, e = self.A, fit.at, fit.e
        if not is_outlier.any() or not at.rank:
            return False
        outliers = clipped(e, float(np.median(np.abs(e[is_outlier])))) * is_outlier
        explained = norm(at.project(A.adjoint(outliers)))
        random = [outliers * A.signs(self.rng) for _ in range(TEST_SIGN_DRAWS)]
        by_chance = np.mean([norm(at.project(A.adjoint(z))) for z in random])
        margin = SIGNIFICANT / np.sqrt(2 * at.degrees_of_freedom)
        return bool(explained > (1 + margin) * by_chance)

    def _with_shrinking_cutoff(self, fit: Fit, cutoff: float) -> Fit:
        """Return a fit after rounds whose weights include residuals up to a cutoff.

        The cutoff shrinks from round to round. `fit` itself is unchanged.
        """
        refit = copy(fit)
        refit.redescending, refit.scale_at_last_search = True, np.inf
        min_cutoff = REDESCENDING_CUTOFF * fit.scale + MIN_CUTOFF * self.A.scale
        while cutoff > min_cutoff:
            weights = _redescending_weights(np.abs(refit.e), cutoff)
            cutoff *= CUTOFF_FACTOR
            if not self._round("reconsidered", refit, weights):
                return fit
        return self._improve(refit)


def _redescending_weights(size: Array, cutoff: float) -> Array:
    """Return 1/(1 + (size/cutoff)²)², a quarter at the cutoff."""
    return np.asarray(1 / (1 + (size / cutoff) ** 2) ** 2)


def flag_outliers(e: Array, sigma: float, fdr: float) -> Array:
    """Return the mask of residuals too large for the noise, at a false discovery rate.

    By the procedure of Benjamini and Hochberg.
    """
    z = np.abs(e) / (sigma or 1.0)
    p_value = np.exp(-(z**2) / 2) if np.iscomplexobj(e) else erfc(z / np.sqrt(2))
    ordered = np.sort(p_value)
    passed = np.flatnonzero(ordered <= fdr * np.arange(1, z.size + 1) / z.size)
    limit = ordered[passed[-1]] if passed.size else -1.0
    return np.asarray(p_value <= limit)

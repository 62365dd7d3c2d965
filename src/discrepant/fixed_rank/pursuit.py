"""Robust low-rank fit to linear measurements, built up component by component.

A round weights each measurement by its residual, solves the weighted least squares on
the tangent space, and computes the residuals again. When the scale of the residuals
stops falling, the pursuit adds the components that exceed those of the same residuals
with random signs: those show how large a component noise and errors of this size
produce through this operator. The weights are Huber's at first, which tolerate a bad
start. Then they redescend, so that corrupt measurements lose all influence and the
residual of an exact fit falls to rounding.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from discrepant.core.linalg import Array, Symmetry, dual_norm, norm
from discrepant.fixed_rank.measurements import Measurements, clipped, product
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
# fallen to a quarter; the larger of both cutoffs counts (see `_weights`).
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
# Fraction of the scale of the data up to which a residual fits exactly.
EXACT = 1e-8
# Residual, in units of the scale that rounding leaves, up to which it fits exactly; the
# larger of both bounds counts.
EXACT_ROUNDINGS = 10
# Scale, in units of the scale that rounding leaves, at which the pursuit ends: nothing
# is left to improve.
MIN_SCALE_ROUNDINGS = 1e-3
# A search is repeated only if the scale has fallen below this fraction of its last one.
SEARCH_AGAIN_BELOW = 0.9
# Standard deviations above the mean of random signs that count as significant.
SIGNIFICANT = 4.0
# Factor by which the cutoff shrinks in each round of `refit_with_shrinking_cutoff`.
CUTOFF_FACTOR = 0.4
# Fraction of the scale of the data that `refit_with_shrinking_cutoff` adds to the
# cutoff of redescending weights, for the smallest cutoff of its rounds.
MIN_CUTOFF = 0.01
# Measured numbers that must fit exactly, per degree of freedom, in an exact fit.
NUMBERS_PER_FREEDOM = 1.05
# Smallest fraction of the measured numbers that X is taken to leave to the noise.
MIN_FREE_FRACTION = 0.1


class RoundLog(Protocol):
    """Recorder of the rounds of a pursuit."""

    def note(self, phase: str, at: FixedRankMatrix, e: Array, A: Measurements) -> bool:
        """Record a round; return whether to continue."""
        ...


@dataclass
class Fit:
    """State of a pursuit: the matrix, its residuals and their scale."""

    at: FixedRankMatrix  # X
    e: Array  # y − A(X)
    scale: float  # robust standard deviation of the residuals
    data_scale: float  # the same of the data y
    rounding: float  # the scale, relative to `data_scale`, that rounding leaves
    redescending: bool = False  # whether the weights redescend, or are Huber's
    # Dual norms of A*(residuals with random signs), relative to ‖residuals‖.
    edges: list[float] = field(default_factory=list)
    # Scale at the last search for components, if it added none.
    scale_at_last_search: float = np.inf

    @property
    def clean(self) -> Array:
        """Mask of the measurements that fit to rounding."""
        bound = max(EXACT, EXACT_ROUNDINGS * self.rounding) * self.data_scale
        return np.asarray(np.abs(self.e) <= bound)

    @property
    def exact(self) -> bool:
        """Whether more measurements fit to rounding than X has degrees of freedom.

        If the measurements are in general position, no other X of this rank does that.
        """
        numbers = 2 if np.iscomplexobj(self.e) else 1
        n_clean = numbers * int(self.clean.sum())
        return (
            0 < self.at.rank
            and self.scale <= self.rounding * self.data_scale
            and n_clean > NUMBERS_PER_FREEDOM * self.at.degrees_of_freedom + 2
        )


def residual_scale(e: Array, freedom_fraction: float = 0.0) -> float:
    """Return the standard deviation of residuals, estimated by their median modulus.

    `freedom_fraction` is the ratio of the degrees of freedom of X to the number of
    measured numbers: a fit makes residuals smaller than the noise by that.
    """
    # The median modulus of normal residuals of standard deviation one in each part.
    median = 1.17741 if np.iscomplexobj(e) else 0.67449
    free = max(1 - freedom_fraction, MIN_FREE_FRACTION)
    return float(np.median(np.abs(e)) / median / np.sqrt(free))


def initial_fit(A: Measurements, at: FixedRankMatrix | None, kind: Symmetry) -> Fit:
    """Return the state of a pursuit that starts from a matrix, or from zero."""
    data_scale = residual_scale(A.y)
    if at is None or not at.rank:
        zero = FixedRankMatrix.zero(A.shape, kind, A.dtype)
        return Fit(zero, A.y, data_scale, data_scale, A.rounding)
    e = A.y - A.forward(*at.factors)
    scale = residual_scale(e, at.degrees_of_freedom / A.n_numbers)
    return Fit(at, e, scale, data_scale, A.rounding, redescending=True)


def pursue(
    A: Measurements,
    fit: Fit,
    rng: np.random.Generator,
    log: RoundLog,
    sigma: float | None = None,
    extra_components: int = 0,
) -> Fit:
    """Improve a fit, in place, round by round until it is exact or stops improving.

    If the noise `sigma` is known, weights assume no smaller scale. `extra_components`
    are added, one at a time, when the fit has stopped improving, although they are not
    significant. If the fit becomes exact, that proves them.
    """
    min_scale = MIN_SCALE_ROUNDINGS * fit.rounding * fit.data_scale
    last_scale, stalled = np.inf, 0
    for turn in range(MAX_ROUNDS):
        if fit.exact or fit.scale <= min_scale:
            break
        slow = fit.scale > SLOW * last_scale
        weights = _weights(fit, sigma)
        if turn == 0 or slow:
            if add_components(A, fit, weights, rng):
                slow, stalled = False, 0
            elif slow and not fit.redescending:
                fit.redescending, weights = True, _weights(fit, sigma, True)
            elif slow:
                progress = fit.scale < NO_PROGRESS * last_scale
                stalled += 1 if progress else NO_PROGRESS_ROUNDS
        if stalled > MAX_STALLED:
            if not (extra_components and add_components(A, fit, weights, rng, 1)):
                break
            extra_components, stalled = extra_components - 1, 0
            fit.redescending, weights = False, _weights(fit, sigma)
        last_scale = fit.scale
        _refit(A, fit, weights)
        fit.redescending |= fit.scale < REDESCEND_BELOW * fit.data_scale
        if not log.note("pursuit", fit.at, fit.e, A):
            break
    return fit


def _refit(A: Measurements, fit: Fit, weights: Array) -> None:
    """Replace X by its weighted least-squares fit, with residuals and scale."""
    fit.at = fit_least_squares(A, fit.at, weights, fit.e, GRADIENT_STEPS, GRADIENT_TOL)
    fit.e = A.y - A.forward(*fit.at.factors)
    fit.scale = residual_scale(fit.e, fit.at.degrees_of_freedom / A.n_numbers)


def _weights(fit: Fit, sigma: float | None, redescending: bool = False) -> Array:
    """Return the regression weight of each measurement, from its residual.

    If the operator measures rows or columns one by one, some of them converge late, and
    their large residuals are not errors. Therefore the cutoff of the redescending
    weights falls only as the scale to the power 2/3, and includes ever larger multiples
    of the scale. The few errors within it matter less and less.
    """
    size, scale = np.abs(fit.e), max(fit.scale, sigma or 0.0)
    if redescending or fit.redescending:
        late_scale = fit.data_scale ** (1 / 3) * scale ** (2 / 3)
        cutoff = max(REDESCENDING_CUTOFF * scale, LATE_CUTOFF * late_scale)
        return _redescending_weights(size, cutoff)
    cutoff = HUBER_CUTOFF * scale
    return np.asarray(np.minimum(1.0, cutoff / np.maximum(size, cutoff)))


def _redescending_weights(size: Array, cutoff: float) -> Array:
    """Return 1/(1 + (size/cutoff)²)², a quarter at the cutoff."""
    return np.asarray(1 / (1 + (size / cutoff) ** 2) ** 2)


def outliers_explained_by_signal(
    A: Measurements,
    at: FixedRankMatrix,
    e: Array,
    is_outlier: Array,
    rng: np.random.Generator,
) -> bool:
    """Test whether a change of X would explain some of the flagged measurements.

    A wrong row or column of X gives its measurements large residuals. Unlike errors
    they project on the tangent space, more than with random signs.
    """
    if not is_outlier.any() or not at.rank:
        return False
    outliers = clipped(e, float(np.median(np.abs(e[is_outlier])))) * is_outlier
    explained = norm(at.project(A.adjoint(outliers)))
    random = [outliers * A.signs(rng) for _ in range(TEST_SIGN_DRAWS)]
    by_chance = np.mean([norm(at.project(A.adjoint(z))) for z in random])
    margin = SIGNIFICANT / np.sqrt(2 * at.degrees_of_freedom)
    return bool(explained > (1 + margin) * by_chance)


def refit_with_shrinking_cutoff(
    A: Measurements, fit: Fit, cutoff: float, rng: np.random.Generator, log: RoundLog
) -> Fit:
    """Return a new pursuit after rounds whose weights include residuals up to a cutoff.

    The cutoff shrinks from round to round. `fit` itself is unchanged.
    """
    refit = replace(fit, redescending=True, scale_at_last_search=np.inf)
    min_cutoff = REDESCENDING_CUTOFF * fit.scale + MIN_CUTOFF * fit.data_scale
    while cutoff > min_cutoff:
        _refit(A, refit, _redescending_weights(np.abs(refit.e), cutoff))
        cutoff *= CUTOFF_FACTOR
        if not log.note("reconsidered", refit.at, refit.e, A):
            return fit
    return pursue(A, refit, rng, log)


def add_components(
    A: Measurements,
    fit: Fit,
    weights: Array,
    rng: np.random.Generator,
    at_least: int = 0,
) -> bool:
    """Add the significant components of the weighted residuals to a fit, in place.

    Their values are zero until the next refit. At rank zero one component is added in
    any case, and `at_least` sets another minimum. Returns whether any was added.
    """
    at, weighted_residual = fit.at, weights * fit.e
    if (
        at.rank
        and not at_least
        and fit.scale > SEARCH_AGAIN_BELOW * fit.scale_at_last_search
    ):
        return False
    normal_part = at.project_normal(A.adjoint(weighted_residual))
    U, d, V = components(normal_part, at.kind, MAX_COMPONENTS)
    count = int(np.sum(np.abs(d) > noise_edge(A, fit, weighted_residual, rng)))
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


def noise_edge(
    A: Measurements, fit: Fit, weighted_residual: Array, rng: np.random.Generator
) -> float:
    """Return the largest value of a component that noise alone can produce.

    Estimated by random signs of the weighted residuals; draws are kept in `fit.edges`.
    """
    size = norm(weighted_residual)
    for _ in range(LATER_SIGN_DRAWS if fit.edges else FIRST_SIGN_DRAWS):
        back = A.adjoint(weighted_residual * A.signs(rng))
        fit.edges.append(dual_norm(back, fit.at.kind) / (size or 1.0))
    mean = float(np.mean(fit.edges))
    margin = 1 + EDGE_MARGIN * min(A.shape) ** (-2 / 3)
    return float(size * max(margin * mean, max(fit.edges)))


def without_noise_components(
    A: Measurements, fit: Fit, weights: Array, rng: np.random.Generator
) -> FixedRankMatrix:
    """Return X without the components that noise alone can produce."""
    at = fit.at
    edge = noise_edge(A, fit, weights * fit.e, rng)
    keep = np.ones(at.rank, bool)
    for k in np.argsort(np.abs(at.d)):
        if _gain(A, at, k, weights) * abs(at.d[k]) > edge:
            break
        keep[k] = False
    return at.select(keep)


def detection_limit(
    A: Measurements, fit: Fit, weights: Array, rng: np.random.Generator
) -> float:
    """Return the smallest component that noise cannot hide, relative to the largest."""
    at = fit.at
    if not at.rank:
        return 1.0
    largest = int(np.argmax(np.abs(at.d)))
    gain = _gain(A, at, largest, weights)
    edge = noise_edge(A, fit, weights * fit.e, rng)
    return edge / (gain * abs(at.d[largest]) or 1.0)


def _gain(A: Measurements, at: FixedRankMatrix, k: int, weights: Array) -> float:
    """Return ⟨A(u vᴴ), w∘A(u vᴴ)⟩ of component k."""
    measured = A.forward(at.U[:, [k]], at.V[:, [k]])
    return product(measured, weights * measured)

"""Low rank, found component by component in residuals that large errors cannot pull.

A round weighs each measurement by its residual, solves the weighted least squares on
the tangent space, and looks again. Where the scale of the residuals no longer falls, a
component is added if it stands out of what the same residuals give with random signs:
that is what noise and errors of this size look like through this operator, whatever the
operator. First weights are Huber's, which forgive a bad start; then they redescend, so
that wrong measurements lose all influence and an exact fit falls to rounding.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from discrepant.core.linalg import Array, norm
from discrepant.fixed_rank.least_squares import fit
from discrepant.fixed_rank.measurements import Measurements, clipped, product
from discrepant.fixed_rank.tangent_space import (
    AT_ONCE,
    FixedRankMatrix,
    Symmetry,
    components,
    degrees_of_freedom,
    dual_norm,
)


@dataclass(frozen=True)
class Tuning:
    """Constants of the pursuit."""

    huber: float = 1.345  # scales up to which a residual counts in full: 95% efficient
    reach: float = 4.0  # scales at which a redescending weight has fallen to a quarter
    late: float = 3.0  # the same where the fit is exact, see `_weights`
    gradients: int = 4  # steps of conjugate gradients a round; then weights change
    slow: float = 0.8  # a scale that falls by less than this in a round has stalled
    # Random signs that are tried at first, and later, each time a component is looked
    # for; all that were seen count.
    flips: tuple[int, int] = (4, 2)
    # The largest value of a random n×n matrix varies by 0.65 n^(−2/3) of itself (Tracy
    # and Widom); a component has to stand three times that above the usual one.
    stands_out: float = 2.0
    near: float = 0.02  # of the first scale: below it large errors show by themselves
    patience: int = 8  # rounds that stall before the fit is said to be at rest
    rest: float = 0.98  # and two are enough if the scale falls by less than this
    most: int = 80  # rounds in all
    room: float = 0.9  # of the measurements may be taken by the freedom of X
    clean: float = 1e-8  # of the first scale: residuals below it fit exactly
    chance: float = 4.0  # standard deviations that chance alone does not reach
    # When measurements are reconsidered they are believed less by this each time, down
    # to this part of the first scale.
    narrower: float = 0.4
    least: float = 0.01
    surplus: float = 1.05  # clean measurements for each degree of freedom, at the least


TUNING = Tuning()


class Rounds(Protocol):
    """Where the rounds of a pursuit are written down."""

    def note(self, phase: str, at: FixedRankMatrix, e: Array, A: Measurements) -> bool:
        """Write a round down; returns whether to go on."""
        ...


@dataclass
class Fit:
    """Where a pursuit stands."""

    at: FixedRankMatrix
    e: Array  # y − A(X)
    scale: float  # of the residuals that are not gross
    first: float  # the scale of the data
    rounding: float  # the scale, relative to the first, that rounding leaves
    redescending: bool = False
    # The largest value that random signs gave, relative to the size of the residuals.
    edges: list[float] = field(default_factory=list)
    looked_at: float = np.inf  # the scale at which no component was found

    @property
    def clean(self) -> Array:
        """Which measurements fit exactly, if the fit is exact at all."""
        bound = max(TUNING.clean, 10 * self.rounding) * self.first
        return np.asarray(np.abs(self.e) <= bound)

    @property
    def exact(self) -> bool:
        """Whether more measurements fit exactly than X has freedom.

        Where measurements are in general position no wrong X of this rank does that.
        """
        numbers = 2 if np.iscomplexobj(self.e) else 1
        clean = numbers * int(self.clean.sum())
        return (
            0 < self.at.rank
            and self.scale <= self.rounding * self.first
            and clean > TUNING.surplus * self.at.freedom + 2
        )


def scale_of(e: Array, free: float = 0.0) -> float:
    """Return the spread of residuals, by their median, allowing for what X has taken.

    `free` is the share of the measurements that the freedom of X amounts to.
    """
    # The median modulus of normal residuals of spread one: real, and complex.
    usual = 1.17741 if np.iscomplexobj(e) else 0.67449
    return float(np.median(np.abs(e)) / usual / np.sqrt(max(1 - free, 0.1)))


def start(A: Measurements, at: FixedRankMatrix | None, kind: Symmetry) -> Fit:
    """Return a fit that stands at a point, or at zero."""
    first = scale_of(A.y)
    if at is None or not at.rank:
        return Fit(
            FixedRankMatrix.zero(A.shape, kind, A.dtype), A.y, first, first, A.rounding
        )
    e = A.y - A.forward(*at.factors)
    scale = scale_of(e, at.freedom / A.count)
    return Fit(at, e, scale, first, A.rounding, redescending=True)


def pursue(
    A: Measurements,
    found: Fit,
    rng: np.random.Generator,
    log: Rounds,
    sigma: float | None = None,
    bold: int = 0,
) -> Fit:
    """Follow the residuals down until they are exact or at rest.

    Parameters
    ----------
    A : Measurements
        The operator and its data.
    found : Fit
        Where to start; it is changed in place and handed back.
    rng : Generator
        Draws the random signs.
    log : Rounds
        Told of each round.
    sigma : float, optional
        The scale of the noise where it is known: residuals are not followed below it.
    bold : int
        Components to try, at rest, though nothing says that they are there: if the fit
        is exact in the end, it proves them right.
    """
    before, stalled = np.inf, 0
    for turn in range(TUNING.most):
        if found.exact or found.scale <= 1e-3 * found.rounding * found.first:
            break
        slow = found.scale > TUNING.slow * before
        weights = _weights(found, sigma)
        if turn == 0 or slow:
            if grow(A, found, weights, rng):
                slow, stalled = False, 0
            elif slow and not found.redescending:
                found.redescending, weights = True, _weights(found, sigma, True)
            elif slow:
                stalled += 1 if found.scale < TUNING.rest * before else 4
        if stalled > TUNING.patience:
            if not bold or not grow(A, found, weights, rng, at_least=1):
                break
            bold, stalled = bold - 1, 0
            found.redescending, weights = False, _weights(found, sigma)
        found.at = fit(A, found.at, weights, found.e, TUNING.gradients, 1e-3)
        found.e = A.y - A.forward(*found.at.factors)
        before = found.scale
        found.scale = scale_of(found.e, found.at.freedom / A.count)
        found.redescending |= found.scale < TUNING.near * found.first
        if not log.note("pursuit", found.at, found.e, A):
            break
    return found


def _weights(found: Fit, sigma: float | None, redescending: bool = False) -> Array:
    """Return how far each residual is believed.

    Through an operator that sees X line by line some lines converge late, and their
    residuals are not errors. So the reach of the redescending weights falls as the
    scale to the power 2/3 only, which leaves them ever more room; the few errors within
    it matter ever less.
    """
    size, scale = np.abs(found.e), max(found.scale, sigma or 0.0)
    if redescending or found.redescending:
        late = found.first ** (1 / 3) * scale ** (2 / 3)
        reach = max(TUNING.reach * scale, TUNING.late * late)
        return _redescending(size, reach)
    most = TUNING.huber * scale
    return np.asarray(np.minimum(1.0, most / np.maximum(size, most)))


def _redescending(size: Array, reach: float) -> Array:
    return np.asarray(1 / (1 + (size / reach) ** 2) ** 2)


def left_behind(
    A: Measurements,
    at: FixedRankMatrix,
    e: Array,
    wrong: Array,
    rng: np.random.Generator,
) -> bool:
    """Whether X could explain some of the measurements that are taken for wrong.

    A line of X that came out wrong makes its measurements look like errors, but like
    errors that a change of X accounts for, more than under random signs.
    """
    if not wrong.any() or not at.rank:
        return False
    pull = clipped(e, float(np.median(np.abs(e[wrong])))) * wrong
    explained = norm(at.project(A.adjoint(pull)))
    by_chance = np.mean(
        [norm(at.project(A.adjoint(pull * A.signs(rng)))) for _ in range(2)]
    )
    return bool(explained > (1 + TUNING.chance / np.sqrt(2 * at.freedom)) * by_chance)


def reconsidered(
    A: Measurements, found: Fit, reach: float, rng: np.random.Generator, log: Rounds
) -> Fit:
    """Return a fit after believing residuals so far once more, and less and less."""
    again = replace(found, redescending=True, looked_at=np.inf)
    least = TUNING.reach * found.scale + TUNING.least * found.first
    while reach > least:
        weights = _redescending(np.abs(again.e), reach)
        again.at = fit(A, again.at, weights, again.e, TUNING.gradients, 1e-3)
        again.e = A.y - A.forward(*again.at.factors)
        again.scale = scale_of(again.e, again.at.freedom / A.count)
        reach *= TUNING.narrower
        if not log.note("reconsidered", again.at, again.e, A):
            return found
    return pursue(A, again, rng, log)


def grow(
    A: Measurements,
    found: Fit,
    weights: Array,
    rng: np.random.Generator,
    at_least: int = 0,
) -> bool:
    """Make room for components that stand out; at the very start for one anyway."""
    at, pull = found.at, weights * found.e
    if at.rank and not at_least and found.scale > 0.9 * found.looked_at:
        return False  # these residuals were looked at before
    U, d, V = components(at.beside(A.adjoint(pull)), at.kind, AT_ONCE)
    count = int(np.sum(np.abs(d) > edge_of(A, found, pull, rng)))
    count = max(count, min(at_least or int(not at.rank), len(d)))
    while count and (
        at.rank + count > min(A.shape)
        or degrees_of_freedom(A.shape, at.rank + count, at.kind, at.real)
        > TUNING.room * A.count
    ):
        count -= 1
    if count:
        found.at = at.grown(U[:, :count], V[:, :count])
    found.looked_at = np.inf if count else found.scale
    return count > 0


def edge_of(
    A: Measurements, found: Fit, pull: Array, rng: np.random.Generator
) -> float:
    """Return the largest value that a component of noise can have, under such pulls."""
    size = norm(pull)
    for _ in range(TUNING.flips[bool(found.edges)]):
        back = A.adjoint(pull * A.signs(rng))
        found.edges.append(dual_norm(back, found.at.kind) / (size or 1.0))
    usual = float(np.mean(found.edges))
    above = 1 + TUNING.stands_out * min(A.shape) ** (-2 / 3)
    return float(size * max(above * usual, max(found.edges)))


def pruned(
    A: Measurements, found: Fit, weights: Array, rng: np.random.Generator
) -> FixedRankMatrix:
    """Return a fit without components that noise alone could have given."""
    at = found.at
    edge = edge_of(A, found, weights * found.e, rng)
    keep = np.ones(at.rank, bool)
    for k in np.argsort(np.abs(at.d)):
        one = A.forward(at.U[:, [k]], at.V[:, [k]])
        gain = product(one, weights * one)
        if gain * abs(at.d[k]) > edge:
            break
        keep[k] = False
    return at.kept(keep)


def unseen(
    A: Measurements, found: Fit, weights: Array, rng: np.random.Generator
) -> float:
    """Return how large a component can be, relative to the first, and not be seen."""
    at = found.at
    if not at.rank:
        return 1.0
    k = int(np.argmax(np.abs(at.d)))
    one = A.forward(at.U[:, [k]], at.V[:, [k]])
    edge = edge_of(A, found, weights * found.e, rng)
    return edge / (product(one, weights * one) * abs(at.d[k]) or 1.0)

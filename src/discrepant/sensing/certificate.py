"""From a solution to its certificate: the dual by least squares, then by the flow."""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.results import Certificate
from discrepant.fixed_rank.measurements import Measurements, clipped, direction
from discrepant.fixed_rank.tangent_space import FixedRankMatrix
from discrepant.sensing.dual import bound_from, certificate_of, dual_of_exact, primal_of
from discrepant.sensing.primal_dual import flow

GOOD_ENOUGH = 5e-5  # gap at which a dual is not improved further
ROUNDS, STEPS = 60, 5  # of improvement by the flow; a round ends in a look at the gap


@dataclass(frozen=True)
class Proof:
    """What a certificate is computed from, besides X itself."""

    e: Array  # y − A(X), flat
    wrong: Array  # where s ≠ 0
    lam: float
    kappa: float = np.inf  # weight of the noise
    nu: Array | None = None  # the dual, where the solve had one


def certificate_and_dual(
    A: Measurements, at: FixedRankMatrix, proof: Proof, bound: float = np.inf
) -> tuple[Certificate, Array]:
    """Return the certificate of a solution and the dual that it rests on.

    Data beyond the bound count as if they were at it: a single gross error would
    otherwise hide the gap of everything else.
    """
    lam, kappa = proof.lam, proof.kappa
    y = clipped(A.y, bound)
    e = proof.e + (y - A.y)
    if np.isfinite(kappa):
        nu = clipped(kappa * proof.e, lam)
        return _improved(A, at, y, e, nu, lam, kappa, follow=True)
    if proof.nu is not None:
        nu = proof.nu
    elif at.rank:
        nu = dual_of_exact(A, at, proof.e, proof.wrong, lam)
    else:
        nu = lam * direction(proof.e)
    return _improved(A, at, y, e, nu, lam, kappa, follow=False)


def _improved(
    A: Measurements,
    at: FixedRankMatrix,
    y: Array,
    e: Array,
    nu: Array,
    lam: float,
    kappa: float,
    follow: bool,
) -> tuple[Certificate, Array]:
    """Improve a dual by the flow from the solution, while that helps.

    With `follow` X moves too: it is then the solution of a program next to this one.
    """
    best = bound_from(A, y, nu, lam, kappa, at.kind), nu
    primal = primal_of(at, e, lam, kappa)
    if primal - best[0] > GOOD_ENOUGH * primal:
        rng = np.random.default_rng(0)
        moving = flow(A, at.kind, lam, kappa, rng, (at, nu), y)
        for _ in range(ROUNDS):
            *_, now = islice(moving, STEPS)
            value = bound_from(A, y, now.nu, lam, kappa, at.kind)
            if follow:
                at, e, primal = now.at, now.e, primal_of(now.at, now.e, lam, kappa)
            if value > best[0]:
                best = value, now.nu
            if primal - best[0] <= GOOD_ENOUGH * primal:
                break
    return certificate_of(A, at, y, e, best[1], lam, kappa), best[1]

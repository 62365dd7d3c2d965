"""Weighted least squares on a tangent space, by conjugate gradients."""

from typing import NamedTuple

import numpy as np

from discrepant.core.linalg import Array
from discrepant.fixed_rank.measurements import Measurements, product
from discrepant.fixed_rank.tangent_space import FixedRankMatrix


class Solved(NamedTuple):
    """What conjugate gradients found."""

    x: Array  # coordinates of the tangent ξ
    seen: Array  # A(ξ)
    left: float  # what is left of the gradient, relative to where it began


def normal(
    A: Measurements,
    at: FixedRankMatrix,
    weights: Array,
    g: Array,
    steps: int,
    tol: float,
    judged: bool = True,
) -> Solved:
    """Solve P A*(w∘A(ξ)) = g over the tangent space at a point.

    With g = P A*(w∘e) this is the least squares of e. A step takes two applications;
    the second of the last one only serves to judge it.
    """
    x, seen = np.zeros_like(g), np.zeros_like(A.y)
    p, size = g, product(g, g)
    first = size
    for step in range(1, steps + 1):
        if size <= tol**2 * first:
            break
        q = A.forward(*at.expand(p))
        curvature = product(q, weights * q)
        if not curvature > 0:  # a direction that the weights do not see
            break
        along = size / curvature
        x, seen = x + along * p, seen + along * q
        if step == steps and not judged:
            break
        g = g - along * at.project(A.adjoint(weights * q))
        before, size = size, product(g, g)
        p = g + (size / before) * p
    return Solved(x, seen, float(np.sqrt(size / first)) if first > 0 else 0.0)


def fit(
    A: Measurements,
    at: FixedRankMatrix,
    weights: Array,
    e: Array,
    steps: int,
    tol: float,
) -> FixedRankMatrix:
    """Return the point moved to fit the residual e by weighted least squares."""
    if not at.rank:
        return at
    g = at.project(A.adjoint(weights * e))
    return at.moved(normal(A, at, weights, g, steps, tol, judged=False).x)

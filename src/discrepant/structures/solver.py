"""Solve min Σ λᵢ γᵢ(Xᵢ) subject to Σ Aᵢ(Xᵢ) = y: implicit steps, then a polish.

The limit flow of the paper with one learning rate per part, Ṁ = y − Σ Aᵢ(Xᵢ) with
Aᵢ*M ∈ λᵢ ∂γᵢ(Xᵢ), is integrated by implicit Euler steps of size μ. One step is a
linearised Gauss–Seidel sweep over the parts and an update of the dual M. If progress
stalls, all parts move from one residual with k times shorter steps (Jacobi), which
converges for any number of parts. Gauss–Newton steps on the ranks of the solution then
remove the remaining residual.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array, norm
from discrepant.structures.blocks import Structure

GROWING, GROWTH = 40, 1.2  # first passes, and the factor of μ in each of them
BALANCE = 3.0  # primal over dual residual that μ is steered to
EVERY = 3  # passes between two changes of μ
FIXED = 1000  # pass after which μ stays: convergence is then proven for two parts
STALLED = 300  # passes in which the residuals must fall by a fifth, else Jacobi
POWER_STEPS = 30  # power iterations for the norm of an operator
ABOVE = 1.05  # factor on their estimate, which is a lower bound
GAUSS_NEWTON, CONJUGATE = 6, 150  # polishing steps, and conjugate gradients in each
ROUNDING = 1e-13  # relative residual at which a polish ends


@dataclass(frozen=True)
class Part:
    """A structure with its weight λ and its operator A, restricted to observed data."""

    structure: Structure
    shape: tuple[int, ...]
    lam: float
    forward: Callable[[Array], Array]
    adjoint: Callable[[Array], Array]

    def squared_norm(self, y: Array) -> float:
        """Return a bound of ‖A‖²: 1 without an operator, else from power iterations."""
        if self.structure.through is None:
            return 1.0
        z = np.random.default_rng(0).standard_normal(y.shape)
        size = 1.0
        for _ in range(POWER_STEPS):
            z = self.forward(self.adjoint(z / size))
            size = norm(z) or 1.0
        return ABOVE * size


@dataclass
class State:
    """Parts, dual and residuals of the solver after a number of passes."""

    X: list[Array]
    M: Array  # dual variable
    R: Array  # y − Σ Aᵢ(Xᵢ)
    mu: float  # step size
    primal: float = np.inf  # ‖R‖ / ‖y‖
    dual: float = np.inf  # μ (Σ Lᵢ‖ΔXᵢ‖²)^½ / ‖M‖
    jacobi: bool = False
    history: list[tuple[float, float]] = field(default_factory=list)

    @property
    def error(self) -> float:
        """The larger of both relative residuals."""
        return max(self.primal, self.dual)


def residual(y: Array, parts: Sequence[Part], X: Sequence[Array]) -> Array:
    """Return y − Σ Aᵢ(Xᵢ)."""
    for part, part_X in zip(parts, X, strict=True):
        y = y - part.forward(part_X)
    return y


def start(y: Array, parts: Sequence[Part]) -> State:
    """Return zero parts, and the step size at which the first part becomes nonzero."""
    largest = max(p.structure.dual_norm(p.adjoint(y)) / p.lam for p in parts)
    if largest == 0:
        raise InputError(
            "The structures cannot represent any of the data: all their operators map "
            "the data to zero (A*(y) = 0)."
        )
    X = [np.zeros(part.shape) for part in parts]
    return State(X, np.zeros_like(y), y.copy(), 1.25 / largest)


def integrate(
    y: Array,
    parts: Sequence[Part],
    tol: float,
    max_iter: int,
    proceed: Callable[[int, State], bool],
) -> State:
    """Take implicit steps until both relative residuals are below `tol`."""
    state, size = start(y, parts), norm(y)
    squares = [part.squared_norm(y) for part in parts]
    best = np.inf
    for k in range(1, max_iter + 1):
        sweep(state, parts, squares)
        state.M = state.M + state.mu * state.R
        state.primal = norm(state.R) / size
        state.dual = state.mu * state.dual / max(norm(state.M), np.finfo(float).tiny)
        state.history.append((state.primal, state.dual))
        if not proceed(k, state) or state.error < tol:
            break
        if k % STALLED == 0:
            state.jacobi |= len(parts) > 2 and state.error > 0.8 * best
            best = state.error
        steer(state, k)
    return state


def sweep(state: State, parts: Sequence[Part], squares: Sequence[float]) -> None:
    """Move every part once; `state.dual` becomes the size of the move."""
    moved, shared = 0.0, state.R
    for i, part in enumerate(parts):
        L = squares[i] * (len(parts) if state.jacobi else 1)
        R = shared if state.jacobi else state.R
        towards = state.X[i] + part.adjoint(R + state.M / state.mu) / L
        Z = part.structure.prox(towards, part.lam / (state.mu * L))
        change, state.X[i] = state.X[i] - Z, Z
        state.R = state.R + part.forward(change)
        moved += L * float(np.vdot(change, change))
    state.dual = float(np.sqrt(moved))


def steer(state: State, k: int) -> None:
    """Choose μ for pass k + 1: growing at first, then balancing both residuals."""
    if k <= GROWING:
        state.mu *= GROWTH
    elif k % EVERY == 0:
        limit = 1 + max(0.985 ** (k - GROWING), 0.03 if k < FIXED else 0.0)
        ratio = BALANCE * state.primal / max(state.dual, np.finfo(float).tiny)
        state.mu *= float(np.clip(np.sqrt(ratio), 1 / limit, limit))


def polish(
    y: Array, parts: Sequence[Part], X: list[Array]
) -> tuple[list[Array], float]:
    """Fit Σ Aᵢ(Xᵢ) = y by Gauss–Newton on the ranks of X.

    Returns the parts and their relative residual. Each step is a least-squares problem
    on the tangent spaces, solved by conjugate gradients.
    """
    size, error = norm(y), np.inf
    for _ in range(GAUSS_NEWTON):
        R = residual(y, parts, X)
        last, error = error, norm(R) / size
        if error < ROUNDING or error > 0.5 * last:
            break
        maps = [p.structure.tangent(x) for p, x in zip(parts, X, strict=True)]
        moves = _least_squares(R, parts, [project for project, _ in maps], size)
        X = [retract(x + d) for (_, retract), x, d in zip(maps, X, moves, strict=True)]
    return X, norm(residual(y, parts, X)) / size


def _least_squares(
    R: Array,
    parts: Sequence[Part],
    projections: Sequence[Callable[[Array], Array]],
    size: float,
) -> list[Array]:
    """Return the tangent vectors Dᵢ that minimise ‖R − Σ Aᵢ(Dᵢ)‖ (CGLS)."""

    def gradient(z: Array) -> list[Array]:
        return [
            project(part.adjoint(z))
            for part, project in zip(parts, projections, strict=True)
        ]

    def square(arrays: list[Array]) -> float:
        return sum(float(np.vdot(a, a)) for a in arrays)

    G = gradient(R)
    D, P = [np.zeros_like(g) for g in G], G
    first = now = square(G)
    for _ in range(CONJUGATE):
        if now <= max(1e-12 * first, 1e-30 * size**2):
            break
        Q = sum((p.forward(d) for p, d in zip(parts, P, strict=True)), np.zeros_like(R))
        step = now / float(np.vdot(Q, Q))
        D = [d + step * p for d, p in zip(D, P, strict=True)]
        R = R - step * Q
        G = gradient(R)
        now, before = square(G), now
        P = [g + now / before * p for g, p in zip(G, P, strict=True)]
    return D

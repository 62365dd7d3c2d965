"""Solve min Σ λᵢ γᵢ(Xᵢ) subject to Σ Aᵢ(Xᵢ) = y: implicit steps, then a polish.

The limit flow of the paper with one learning rate per part, Ṁ = y − Σ Aᵢ(Xᵢ) with
Aᵢ*M ∈ λᵢ ∂γᵢ(Xᵢ), is integrated by implicit Euler steps of size μ. One step is a
linearised Gauss–Seidel sweep over the parts and an update of the dual M. A solve that
takes long is extrapolated from its last passes (Anderson acceleration). If progress
stalls, all parts move from one residual with k times shorter steps (Jacobi), which
converges for any number of parts. Gauss–Newton steps on the ranks of the solution then
remove the remaining residual.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array, norm
from discrepant.structures.blocks import Structure

GROWING, GROWTH = 40, 1.2  # first passes, and the factor of μ in each of them
BALANCE = 3.0  # primal over dual residual that μ is steered to
EVERY = 3  # passes between two changes of μ
PLAIN = 150  # passes before extrapolation: most exact recoveries need fewer
LARGEST = 3_000_000  # numbers in X and M up to which 22 copies (0.5 GB) are kept
MEMORY = 10  # passes that an extrapolation combines
REGULAR = 1e-10  # ridge of its least squares, relative to the trace of their matrix
GREATER = 2.0  # factor by which a pass may change more than the last, else it is undone
STALLED = 300  # passes without a new least error after which Jacobi steps are taken
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
    if largest == 0 and y.any():
        raise InputError(
            "The structures cannot represent any of the data: all their operators map "
            "the data to zero (A*(y) = 0)."
        )
    zeros = [np.zeros(part.shape) for part in parts]
    return State(zeros, np.zeros_like(y), y.copy(), 1.25 / (largest or 1.0))


def integrate(
    y: Array,
    parts: Sequence[Part],
    tol: float,
    max_iter: int,
    proceed: Callable[[State], bool],
) -> State:
    """Take implicit steps until both relative residuals are below `tol`."""
    state, size = start(y, parts), norm(y)
    if size == 0:
        return replace(state, primal=0.0, dual=0.0)
    squares = [part.squared_norm(y) for part in parts]
    anderson, best, reached = Anderson(y, parts, squares), np.inf, 0
    small = y.size + sum(X.size for X in state.X) <= LARGEST
    for k in range(1, max_iter + 1):
        before = copy(state)
        sweep(state, parts, squares)
        state.M = state.M + state.mu * state.R
        state.primal = norm(state.R) / size
        state.dual = state.mu * state.dual / max(norm(state.M), np.finfo(float).tiny)
        if k > PLAIN and small:
            state = anderson.checked(before, state)
        if not proceed(state) or state.error < tol:
            break
        if state.error < best:
            best, reached = state.error, k
        if len(parts) > 2 and not state.jacobi and k - reached >= STALLED:
            state.jacobi = True
            anderson.forget()  # another map
        steer(state, k)
        if k < max_iter:
            state = anderson.extrapolated(state)
    return state


class Anderson:
    """Extrapolation of passes: their combination that would change the state least.

    A pass maps z = (X, M) to T(z). The combination of the last values T(z) is taken
    whose changes f = T(z) − z add up to the smallest one. If the next pass changes z by
    much more than the last did, it is undone and earlier passes are forgotten.
    """

    def __init__(
        self, y: Array, parts: Sequence[Part], squares: Sequence[float]
    ) -> None:
        self.y, self.parts, self.roots = y, parts, np.sqrt(squares)
        self.forget()

    def forget(self) -> None:
        """Drop all passes."""
        self.steps: list[tuple[Array, Array]] = []  # differences of T(z) and of f
        self.G = np.zeros((0, 0))  # inner products of the differences of f
        self.last: tuple[State, Array, Array] | None = None  # accepted pass, T(z), f

    def checked(self, before: State, state: State) -> State:
        """Record a pass and return its state, or undo it if it leads away."""
        Tz = self._packed(state)
        f = Tz - self._packed(before)
        if self.last:
            accepted, last_Tz, last_f = self.last
            if norm(f) > GREATER * norm(last_f):
                self.forget()
                return accepted
            self.steps = [*self.steps[1 - MEMORY :], (Tz - last_Tz, f - last_f)]
            products = [np.vdot(df, f - last_f) for _, df in self.steps]
            self.G = np.pad(self.G[1 - MEMORY :, 1 - MEMORY :], (0, 1))
            self.G[-1] = self.G[:, -1] = products
        self.last = copy(state), Tz, f
        return state

    def extrapolated(self, state: State) -> State:
        """Return the extrapolated state; without two passes, the state itself."""
        if not (self.last and self.steps):
            return state
        _, Tz, f = self.last
        ridge = REGULAR * np.trace(self.G) * np.eye(len(self.G))
        right = [np.vdot(df, f) for _, df in self.steps]
        factors = np.linalg.solve(self.G + ridge, right)
        for factor, (dT, _) in zip(factors, self.steps, strict=True):
            Tz = Tz - factor * dT
        *arrays, M = np.split(Tz, np.cumsum([np.prod(p.shape) for p in self.parts]))
        scale = np.sqrt(state.mu)
        X = [
            array.reshape(part.shape) / (scale * root)
            for array, part, root in zip(arrays, self.parts, self.roots, strict=True)
        ]
        M = M.reshape(self.y.shape) * scale
        return replace(state, X=X, M=M, R=residual(self.y, self.parts, X))

    def _packed(self, state: State) -> Array:
        """Return z in the metric in which passes contract."""
        scale = np.sqrt(state.mu)
        arrays = [
            scale * root * X.ravel()
            for root, X in zip(self.roots, state.X, strict=True)
        ]
        return np.concatenate([*arrays, state.M.ravel() / scale])


def sweep(state: State, parts: Sequence[Part], squares: Sequence[float]) -> None:
    """Move every part once; `state.dual` becomes the size of the move."""
    moved, shared = 0.0, state.R
    for i, part in enumerate(parts):
        L = squares[i] * (len(parts) if state.jacobi else 1)
        R = shared if state.jacobi else state.R
        towards = state.X[i] + part.adjoint(R + state.M / state.mu) / L
        Z = part.structure.prox(towards, part.lam / (state.mu * L))
        change = state.X[i] - Z
        state.X = [*state.X[:i], Z, *state.X[i + 1 :]]
        state.R = state.R + part.forward(change)
        moved += L * float(np.vdot(change, change))
    state.dual = float(np.sqrt(moved))


def steer(state: State, k: int) -> None:
    """Choose μ for pass k + 1: growing at first, then balancing both residuals.

    It stays from pass `PLAIN`: convergence is then proven for two parts.
    """
    ratio = BALANCE * state.primal / max(state.dual, np.finfo(float).tiny)
    if k <= GROWING:
        state.mu *= GROWTH
    elif k <= PLAIN and k % EVERY == 0:
        limit = 1 + max(0.985 ** (k - GROWING), 0.03)
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

"""Matrices of fixed rank: tangent space, retraction and least squares on it.

X = U diag(d) Vᴴ with orthonormal U and V. The tangent space at X is {P Vᴴ + U Qᴴ}.
With P orthogonal to U the coordinates (P, Q) are orthonormal, so least squares in them
is as well conditioned as A is on matrices of low rank, however unequal the entries of
d are. For a Hermitian X (V = U, signs in d) it is {(P Uᴴ + U Pᴴ)/√2 + U Q Uᴴ}.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import eigsh, svds

from discrepant.core.linalg import Array, svd
from discrepant.core.linalg import Symmetry as Symmetry
from discrepant.fixed_rank.measurements import Measurements, product

# Number of rows and columns above which a matrix is decomposed iteratively, for its
# leading components only; smaller matrices are decomposed in full.
FULL_DECOMPOSITION_UP_TO = 400
# Largest number of components that one search computes.
MAX_COMPONENTS = 20


@dataclass(frozen=True)
class FixedRankMatrix:
    """A matrix X = U diag(d) Vᴴ of rank r, with its tangent space."""

    U: Array  # (n1, r), orthonormal
    d: Array  # (r,), decreasing in modulus; negative only if symmetric
    V: Array  # (n2, r), orthonormal; U itself unless the kind is general
    kind: Symmetry  # set of matrices in which X stays

    @classmethod
    def zero(
        cls, shape: tuple[int, int], kind: Symmetry, dtype: np.dtype
    ) -> "FixedRankMatrix":
        """Return the zero matrix, of rank zero."""
        U, V = (np.zeros((size, 0), dtype) for size in shape)
        return cls(U, np.zeros(0), V, kind)

    @classmethod
    def of(cls, X: Array, kind: Symmetry, rank: int | None = None) -> "FixedRankMatrix":
        """Return the nearest matrix of at most this rank; of any rank by default."""
        U, d, V = components(X, kind, rank)
        keep = d != 0
        return cls(U[:, keep], d[keep], V[:, keep], kind)

    @property
    def rank(self) -> int:
        """The rank r."""
        return len(self.d)

    @property
    def factors(self) -> tuple[Array, Array]:
        """L and R with X = L Rᴴ."""
        return self.U * self.d, self.V

    def value(self) -> Array:
        """Return X as an array."""
        return np.asarray((self.U * self.d) @ self.V.conj().T)

    @property
    def degrees_of_freedom(self) -> int:
        """Number of real parameters of the matrices of this shape, rank and kind."""
        return degrees_of_freedom(
            (len(self.U), len(self.V)), self.rank, self.kind, self.real
        )

    @property
    def real(self) -> bool:
        """Whether X is real, not complex."""
        return not np.iscomplexobj(self.U)

    def signs(self) -> Array:
        """Return the coordinates of U sign(d) Vᴴ, the derivative of ‖X‖_*."""
        P = np.zeros_like(self.U)
        Q = self.V if self.kind == "general" else np.diag(np.sign(self.d))
        return np.concatenate([P.reshape(-1), Q.reshape(-1)]).astype(self.U.dtype)

    def project(self, G: Array) -> Array:
        """Return the tangent coordinates of a matrix, by orthogonal projection."""
        U, V = self.U, self.V
        if self.kind == "general":
            GV, Q = G @ V, G.conj().T @ U
            P = GV - U @ (U.conj().T @ GV)
        else:
            GU = (G @ U + G.conj().T @ U) / 2
            Q = U.conj().T @ GU
            P = np.sqrt(2) * (GU - U @ Q)
            Q = (Q + Q.conj().T) / 2
        return np.concatenate([P.reshape(-1), Q.reshape(-1)])

    def expand(self, x: Array) -> tuple[Array, Array]:
        """Return L and R such that L Rᴴ is the tangent with coordinates x."""
        P, Q = self._split(x)
        if self.kind == "general":
            return np.hstack([P, self.U]), np.hstack([self.V, Q])
        P = P / np.sqrt(2)
        return np.hstack([P + self.U @ Q, self.U]), np.hstack([self.U, P])

    def retract(self, x: Array) -> "FixedRankMatrix":
        """Return the matrix of rank r nearest to X plus the tangent x."""
        P, Q = self._split(x)
        if self.kind == "general":
            new_left, left_factor = np.linalg.qr(P)
            Q_within = self.V.conj().T @ Q
            new_right, right_factor = np.linalg.qr(Q - self.V @ Q_within)
            core = _block(
                np.diag(self.d) + Q_within.conj().T, left_factor, right_factor.conj().T
            )
            core_left, d, core_right_h = svd(core)
            U = np.hstack([self.U, new_left]) @ core_left[:, : self.rank]
            V = np.hstack([self.V, new_right]) @ core_right_h[: self.rank].conj().T
            return replace(self, U=U, d=d[: self.rank], V=V)
        new_left, left_factor = np.linalg.qr(P / np.sqrt(2))
        core = _block(np.diag(self.d) + Q, left_factor, left_factor.conj().T)
        values, vectors = np.linalg.eigh(core)
        chosen = _order(values, self.kind)[: self.rank]
        U = np.hstack([self.U, new_left]) @ vectors[:, chosen]
        return replace(self, U=U, d=values[chosen], V=U)

    def project_normal(self, G: Array) -> Array:
        """Return the part of a matrix that is orthogonal to U and to V."""
        if self.kind != "general":
            G = (G + G.conj().T) / 2
        G = G - self.U @ (self.U.conj().T @ G)
        return np.asarray(G - (G @ self.V) @ self.V.conj().T)

    def with_directions(self, left: Array, right: Array) -> "FixedRankMatrix":
        """Return X with further components left·rightᴴ whose values are still zero."""
        U, V = np.hstack([self.U, left]), np.hstack([self.V, right])
        d = np.append(self.d, np.zeros(left.shape[1]))
        return replace(self, U=U, d=d, V=U if self.kind != "general" else V)

    def select(self, index: Array) -> "FixedRankMatrix":
        """Return the matrix of the components with these indices, or in this mask."""
        return replace(self, U=self.U[:, index], d=self.d[index], V=self.V[:, index])

    def _split(self, x: Array) -> tuple[Array, Array]:
        """Return the coordinates x as the matrices P and Q."""
        size = self.U.size
        return x[:size].reshape(self.U.shape), x[size:].reshape(-1, self.rank)


def degrees_of_freedom(
    shape: tuple[int, int], rank: int, kind: Symmetry, real: bool
) -> int:
    """Return the number of real parameters of matrices of a shape, rank and kind."""
    m, n = shape
    if kind == "general":
        return rank * (m + n - rank) * (1 if real else 2)
    return n * rank - rank * (rank - 1) // 2 if real else rank * (2 * n - rank)


def components(
    G: Array, kind: Symmetry, max_components: int | None = None
) -> tuple[Array, Array, Array]:
    """Return the leading components U, d, V of G = U diag(d) Vᴴ, largest first.

    Unless the kind is general, the eigendecomposition of the Hermitian part of G is
    returned, for "psd" only its positive eigenvalues. All components are returned
    if `max_components` is None.
    """
    size = min(G.shape)
    partial = (
        max_components is not None
        and size > FULL_DECOMPOSITION_UP_TO
        and max_components < size // 4
    )
    if kind == "general":
        if partial:
            U, d, Vh = svds(G, k=max_components, rng=np.random.default_rng(0))
            order = np.argsort(-d)
            U, d, Vh = U[:, order], d[order], Vh[order]
        else:
            U, d, Vh = svd(G)
        return U[:, :max_components], d[:max_components], Vh[:max_components].conj().T
    H = (G + G.conj().T) / 2
    if partial:
        which = "LA" if kind == "psd" else "LM"
        start = np.random.default_rng(0).standard_normal(len(H))
        values, vectors = eigsh(H, k=max_components, which=which, v0=start)
    else:
        values, vectors = np.linalg.eigh(H)
    order = _order(values, kind)[:max_components]
    return vectors[:, order], values[order], vectors[:, order]


def shrunk(G: Array, threshold: float, kind: Symmetry) -> FixedRankMatrix:
    """Apply the proximal map of ``threshold·‖·‖_*`` over matrices of a kind."""
    U, d, V = components(G, kind)
    d = np.sign(d) * np.maximum(np.abs(d) - threshold, 0)
    keep = d != 0
    return FixedRankMatrix(U[:, keep], d[keep], V[:, keep], kind)


def _order(values: Array, kind: Symmetry) -> Array:
    """Return the indices of eigenvalues, largest modulus first; positive if psd."""
    if kind == "psd":
        order = np.argsort(-values)
        return np.asarray(order[values[order] > 0])
    return np.argsort(-np.abs(values))


def _block(corner: Array, below: Array, right: Array) -> Array:
    """Return [[corner, right], [below, 0]]."""
    zero = np.zeros((below.shape[0], right.shape[1]))
    return np.block([[corner, right], [below, zero]])


class TangentSolution(NamedTuple):
    """Solution ξ of the normal equations on a tangent space."""

    x: Array  # coordinates of ξ
    measured: Array  # A(ξ)


def solve_normal_equations(
    A: Measurements,
    at: FixedRankMatrix,
    weights: Array,
    g: Array,
    steps: int,
    tol: float,
    skip_last_gradient: bool = False,
) -> TangentSolution:
    """Solve P A*(w∘A(ξ)) = g over a tangent space, by conjugate gradients.

    P is the projection on the tangent space. With g = P A*(w∘e) the solution is the
    weighted least-squares fit of e. A step takes two applications of the operator; the
    second one of the last step does not change the solution and can be skipped.
    """
    x, measured = np.zeros_like(g), np.zeros_like(A.y)
    direction, square = g, product(g, g)
    first_square = square
    for step in range(1, steps + 1):
        if square <= tol**2 * first_square:
            break
        q = A.forward(*at.expand(direction))
        curvature = product(q, weights * q)
        if not curvature > 0:  # the measurements do not depend on this direction
            break
        length = square / curvature
        x, measured = x + length * direction, measured + length * q
        if step == steps and skip_last_gradient:
            break
        g = g - length * at.project(A.adjoint(weights * q))
        last_square, square = square, product(g, g)
        direction = g + (square / last_square) * direction
    return TangentSolution(x, measured)


def fit_least_squares(
    A: Measurements,
    at: FixedRankMatrix,
    weights: Array,
    e: Array,
    steps: int,
    tol: float,
) -> FixedRankMatrix:
    """Return a matrix of the same rank that fits the residual e by least squares.

    One Gauss-Newton step: weighted least squares on the tangent space, then retraction.
    """
    if not at.rank:
        return at
    g = at.project(A.adjoint(weights * e))
    solution = solve_normal_equations(
        A, at, weights, g, steps, tol, skip_last_gradient=True
    )
    return at.retract(solution.x)

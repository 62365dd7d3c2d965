"""A matrix of low rank, and the linear space in which it can move without gaining rank.

X = U diag(d) Vᴴ with orthonormal U and V. Its tangent space is {P Vᴴ + U Qᴴ}; with P
orthogonal to U the coordinates (P, Q) are orthonormal, so that least squares on them is
as well conditioned as A itself is on matrices of low rank, however unequal d is. For a
Hermitian X (V = U, signs in d) it is {(P Uᴴ + U Pᴴ)/√2 + U Q Uᴴ}.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.sparse.linalg import eigsh, svds

from discrepant.core.linalg import Array

Symmetry = Literal["general", "symmetric", "psd"]
LARGE = 400  # lines beyond which leading components are computed, not all
AT_ONCE = 20  # components at the most that are computed there


@dataclass(frozen=True)
class FixedRankMatrix:
    """A matrix of rank r as factors."""

    U: Array  # (n1, r), orthonormal
    d: Array  # (r,), decreasing in size; negative only if symmetric
    V: Array  # (n2, r), orthonormal; U itself if not general
    kind: Symmetry

    @classmethod
    def zero(
        cls, shape: tuple[int, int], kind: Symmetry, dtype: np.dtype
    ) -> "FixedRankMatrix":
        """Return the matrix of rank zero."""
        U, V = (np.zeros((size, 0), dtype) for size in shape)
        return cls(U, np.zeros(0), V, kind)

    @classmethod
    def of(cls, X: Array, kind: Symmetry, rank: int | None = None) -> "FixedRankMatrix":
        """Return the nearest matrix of such a rank."""
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
        """Return X itself."""
        return np.asarray((self.U * self.d) @ self.V.conj().T)

    @property
    def freedom(self) -> int:
        """Real numbers that determine a matrix of this rank."""
        return degrees_of_freedom(
            (len(self.U), len(self.V)), self.rank, self.kind, self.real
        )

    @property
    def real(self) -> bool:
        """Whether X is real."""
        return not np.iscomplexobj(self.U)

    def signs(self) -> Array:
        """Return the coordinates of U sign(d) Vᴴ, the derivative of ‖X‖_*."""
        P = np.zeros_like(self.U)
        Q = self.V if self.kind == "general" else np.diag(np.sign(self.d))
        return np.concatenate([P.reshape(-1), Q.reshape(-1)]).astype(self.U.dtype)

    def project(self, G: Array) -> Array:
        """Return the coordinates of the projection of a matrix."""
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
        """Return L and R with L Rᴴ the tangent that has these coordinates."""
        P, Q = self._parts(x)
        if self.kind == "general":
            return np.hstack([P, self.U]), np.hstack([self.V, Q])
        P = P / np.sqrt(2)
        return np.hstack([P + self.U @ Q, self.U]), np.hstack([self.U, P])

    def moved(self, x: Array) -> "FixedRankMatrix":
        """Return the nearest matrix of rank r to X + tangent."""
        P, Q = self._parts(x)
        if self.kind == "general":
            left, over = np.linalg.qr(P)
            across = self.V.conj().T @ Q
            right, under = np.linalg.qr(Q - self.V @ across)
            core = _block(np.diag(self.d) + across.conj().T, over, under.conj().T)
            a, d, bh = np.linalg.svd(core)
            U = np.hstack([self.U, left]) @ a[:, : self.rank]
            V = np.hstack([self.V, right]) @ bh[: self.rank].conj().T
            return replace(self, U=U, d=d[: self.rank], V=V)
        left, over = np.linalg.qr(P / np.sqrt(2))
        core = _block(np.diag(self.d) + Q, over, over.conj().T)
        values, vectors = np.linalg.eigh(core)
        chosen = _order(values, self.kind)[: self.rank]
        U = np.hstack([self.U, left]) @ vectors[:, chosen]
        return replace(self, U=U, d=values[chosen], V=U)

    def beside(self, G: Array) -> Array:
        """Return what of a matrix is orthogonal to U and to V."""
        if self.kind != "general":
            G = (G + G.conj().T) / 2
        G = G - self.U @ (self.U.conj().T @ G)
        return np.asarray(G - (G @ self.V) @ self.V.conj().T)

    def grown(self, a: Array, b: Array) -> "FixedRankMatrix":
        """Return the same matrix with room for further components a bᴴ."""
        U, V = np.hstack([self.U, a]), np.hstack([self.V, b])
        d = np.append(self.d, np.zeros(a.shape[1]))
        return replace(self, U=U, d=d, V=U if self.kind != "general" else V)

    def kept(self, keep: Array) -> "FixedRankMatrix":
        """Return the matrix of some of the components."""
        return replace(self, U=self.U[:, keep], d=self.d[keep], V=self.V[:, keep])

    def _parts(self, x: Array) -> tuple[Array, Array]:
        size = self.U.size
        return x[:size].reshape(self.U.shape), x[size:].reshape(-1, self.rank)


def degrees_of_freedom(
    shape: tuple[int, int], rank: int, kind: Symmetry, real: bool
) -> int:
    """Return how many real numbers determine a matrix of this shape and rank."""
    m, n = shape
    if kind == "general":
        return rank * (m + n - rank) * (1 if real else 2)
    return n * rank - rank * (rank - 1) // 2 if real else rank * (2 * n - rank)


def components(
    G: Array, kind: Symmetry, most: int | None = None
) -> tuple[Array, Array, Array]:
    """Return leading components U, d, V of a matrix, U diag(d) Vᴴ, decreasing.

    Under X ⪰ 0 only its Hermitian part counts, and of that only what is positive. Of
    large matrices some leading ones are computed where `most` says how many.
    """
    few = most is not None and min(G.shape) > LARGE and most < min(G.shape) // 4
    if kind == "general":
        if few:
            U, d, Vh = svds(G, k=most, rng=np.random.default_rng(0))
            order = np.argsort(-d)
            U, d, Vh = U[:, order], d[order], Vh[order]
        else:
            U, d, Vh = np.linalg.svd(G, full_matrices=False)
        return U[:, :most], d[:most], Vh[:most].conj().T
    H = (G + G.conj().T) / 2
    if few:
        which = "LA" if kind == "psd" else "LM"
        start = np.random.default_rng(0).standard_normal(len(H))
        values, vectors = eigsh(H, k=most, which=which, v0=start)
    else:
        values, vectors = np.linalg.eigh(H)
    order = _order(values, kind)[:most]
    return vectors[:, order], values[order], vectors[:, order]


def dual_norm(G: Array, kind: Symmetry) -> float:
    """Return ‖·‖₂, or under X ⪰ 0 the largest eigenvalue if it is positive."""
    if kind == "general":
        return float(np.linalg.norm(G, 2))
    values = np.linalg.eigvalsh((G + G.conj().T) / 2)
    return max(0.0, float(values[-1]), 0.0 if kind == "psd" else -float(values[0]))


def shrunk(G: Array, threshold: float, kind: Symmetry) -> FixedRankMatrix:
    """Return the proximal map of ``threshold·‖·‖_*``, over matrices of this kind."""
    U, d, V = components(G, kind)
    d = np.sign(d) * np.maximum(np.abs(d) - threshold, 0)
    keep = d != 0
    return FixedRankMatrix(U[:, keep], d[keep], V[:, keep], kind)


def _order(values: Array, kind: Symmetry) -> Array:
    """Return the places of eigenvalues that count, decreasing."""
    if kind == "psd":
        order = np.argsort(-values)
        return np.asarray(order[values[order] > 0])
    return np.argsort(-np.abs(values))


def _block(corner: Array, below: Array, right: Array) -> Array:
    zero = np.zeros((below.shape[0], right.shape[1]))
    return np.block([[corner, right], [below, zero]])

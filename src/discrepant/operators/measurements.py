"""Measurements by given matrices, ``A(X)ᵢ = ⟨Aᵢ, X⟩ = trace(Aᵢᴴ X)``.

`Sensing` takes the matrices Aᵢ in memory, in a memory map, or sparse.
`Outer` has matrices of low rank, aᵢ bᵢᴴ, and never forms them. `Diagonal` has matrices
that commute.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.operators.operator import row_blocks

# Kinds of NumPy dtypes that are numbers.
NUMBERS = "fiubc"


class Sensing:
    """``A(X)ᵢ = ⟨Aᵢ, X⟩`` for matrices A₁ … A_m.

    Matrices that are computed on the fly or lie elsewhere need an operator of your own:
    ten lines, see `docs/operators.md`.

    Parameters
    ----------
    matrices : array-like, sparse matrix or list
        The matrices, stacked as (m, n₁, n₂), in memory or in a memory map; or a sparse
        matrix of shape (m, n₁·n₂) whose rows are the matrices, flattened row by row; or
        a list of matrices, dense or sparse.
    shape : tuple of int, optional
        The shape (n₁, n₂) of X; needed only for a sparse matrix.
    """

    def __init__(self, matrices: Any, shape: tuple[int, int] | None = None) -> None:
        self.matrices = matrices
        if isinstance(matrices, list | tuple) and any(map(sparse.issparse, matrices)):
            shape = matrices[0].shape
            matrices = _stack_sparse(matrices)
        if sparse.issparse(matrices):
            self._rows: Any = _sparse_rows(matrices, shape)
            assert shape is not None
            self.signal_shape = (int(shape[0]), int(shape[1]))
        else:
            self.matrices = stack = _stack(matrices)
            self._rows = stack.reshape(len(stack), math.prod(stack.shape[1:]))
            self.signal_shape = stack.shape[1:]
        self.data_shape: tuple[int, ...] = self._rows.shape[:1]

    def forward(self, X: Array) -> Array:
        """Return the m inner products."""
        x = np.asarray(X).reshape(-1).conj()
        products = [rows @ x for _, rows in self._blocks(x.dtype)]
        return np.concatenate(products).conj()

    def adjoint(self, z: Array) -> Array:
        """Return ``Σ zᵢ Aᵢ``."""
        z = np.asarray(z)
        terms = [z[part] @ rows for part, rows in self._blocks(z.dtype)]
        return np.asarray(sum(terms)).reshape(self.signal_shape)

    def _blocks(self, dtype: Any) -> Iterator[tuple[slice, Any]]:
        """Yield a few rows at a time, in the wider precision of theirs and `dtype`."""
        rows = self._rows
        if sparse.issparse(rows):
            yield slice(None), rows
            return
        kind = np.result_type(rows, dtype)
        for part in row_blocks(*rows.shape):
            yield part, rows[part].astype(kind, copy=False)


def _stack(matrices: Any) -> Array:
    """Return matrices as an array (m, n₁, n₂) of at least single precision."""
    try:
        array = np.asarray(matrices)
    except ValueError:
        raise _different_shapes() from None
    if array.ndim != 3 or array.dtype.kind not in NUMBERS:
        raise InputError(
            "Sensing needs matrices of numbers, stacked in a 3-D array (m, n1, n2), "
            f"got {array.dtype} of shape {array.shape}."
        )
    kind = np.result_type(array.dtype, np.float32)
    return array if array.dtype == kind else np.ascontiguousarray(array, kind)


def _stack_sparse(matrices: Any) -> Any:
    """Return a list of sparse matrices as the rows of one sparse matrix."""
    shape = matrices[0].shape
    if any(matrix.shape != shape for matrix in matrices):
        raise _different_shapes()
    flat = (1, shape[0] * shape[1])
    rows = [sparse.coo_array(matrix).reshape(flat) for matrix in matrices]
    return sparse.vstack(rows, format="csr")


def _sparse_rows(matrix: Any, shape: tuple[int, int] | None) -> Any:
    """Return flattened sparse matrices as rows of at least single precision."""
    if shape is None or len(shape) != 2 or matrix.shape[1] != shape[0] * shape[1]:
        given = "none" if shape is None else f"{tuple(shape)}"
        raise InputError(
            f"A sparse matrix of {matrix.shape[1]} columns needs the shape (n1, n2) of "
            f"X, with n1·n2 = {matrix.shape[1]}; got {given}."
        )
    rows = sparse.csr_array(matrix)
    return rows.astype(np.result_type(rows.dtype, np.float32))


def _different_shapes() -> InputError:
    return InputError(
        "The matrices of Sensing are of different shapes; all need to be n1×n2."
    )


class Outer:
    """``A(X)ᵢ = aᵢᴴ X bᵢ``: measurements of rank one, Aᵢ = aᵢ bᵢᴴ.

    Examples are phase retrieval, quadratic sketches of covariances (b = a) and bilinear
    forms. Nothing of the size m·n₁·n₂ is formed.

    Parameters
    ----------
    left : array-like of shape (m, n₁) or (m, n₁, k)
        The vectors aᵢ as rows; or k vectors per measurement, whose products are summed.
    right : array-like of shape (m, n₂) or (m, n₂, k), optional
        The vectors bᵢ; by default those of `left`.
    """

    def __init__(self, left: Any, right: Any = None) -> None:
        self.left, self.right = (
            _vectors(side) for side in (left, left if right is None else right)
        )
        if self.left.shape[::2] != self.right.shape[::2]:
            raise InputError(
                f"Outer needs as many vectors on the left as on the right, got "
                f"{np.shape(left)} and {np.shape(right)}."
            )
        self.signal_shape = self.left.shape[1], self.right.shape[1]
        self.data_shape: tuple[int, ...] = self.left.shape[:1]

    def forward(self, X: Array) -> Array:
        """Return the m bilinear forms aᵢᴴ X bᵢ."""
        return self._sum_of_products(lambda a, b: (a.conj() @ X, b))

    def adjoint(self, z: Array) -> Array:
        """Return ``Σ zᵢ aᵢ bᵢᴴ``."""
        total: Any = 0.0
        for part in row_blocks(len(self.left), sum(self.left.shape[1:])):
            a, b = self.left[part], self.right[part]
            for k in range(a.shape[2]):
                scaled = a[:, :, k] * z[part, None]
                total = total + scaled.T @ b[:, :, k].conj()
        return np.asarray(total)

    def forward_factors(self, U: Array, V: Array) -> Array:
        """Return the bilinear forms of U Vᴴ, from aᵢᴴ U and Vᴴ bᵢ."""
        return self._sum_of_products(lambda a, b: (a.conj() @ U, (b.conj() @ V).conj()))

    def _sum_of_products(
        self, factors: Callable[[Array, Array], tuple[Array, Array]]
    ) -> Array:
        """Return the inner products of two factors of aᵢ and bᵢ, summed over k."""
        products = []
        for part in row_blocks(len(self.left), sum(self.left.shape[1:])):
            pairs = zip(self.left[part].T, self.right[part].T, strict=True)
            terms = [np.einsum("mi,mi->m", *factors(a.T, b.T)) for a, b in pairs]
            products.append(np.sum(terms, axis=0))
        return np.concatenate(products)


def _vectors(side: Any) -> Array:
    """Return vectors as (m, n, k)."""
    array = np.asarray(side)
    if array.ndim not in (2, 3) or array.dtype.kind not in NUMBERS:
        raise InputError(
            f"Outer needs vectors as rows, (m, n) or (m, n, k), got {array.dtype} of "
            f"shape {array.shape}."
        )
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    return array[:, :, None] if array.ndim == 2 else array


class Diagonal:
    """``A(X)ᵢ = ⟨Q diag(aᵢ) Qᵀ, X⟩``: commuting matrices, as Theorem 1 assumes.

    Parameters
    ----------
    weights : ndarray of shape (m, n)
        The vectors aᵢ as rows.
    basis : ndarray of shape (n, n), optional
        The common orthonormal eigenvectors Q as columns; the identity by default.
    """

    def __init__(self, weights: Any, basis: Any = None) -> None:
        self.weights = weights = np.asarray(weights, dtype=float)
        if weights.ndim != 2:
            raise InputError(
                f"Diagonal needs weights of shape (m, n), got {weights.shape}."
            )
        m, n = weights.shape
        self.basis = basis = np.eye(n) if basis is None else np.asarray(basis, float)
        if basis.shape != (n, n) or not np.allclose(basis.T @ basis, np.eye(n)):
            raise InputError(
                f"Diagonal needs an orthonormal basis of shape ({n}, {n}); "
                "orthonormalise its columns, for example with numpy.linalg.qr."
            )
        self.signal_shape = n, n
        self.data_shape: tuple[int, ...] = (m,)

    def forward(self, X: Array) -> Array:
        """Return the weighted sums of the diagonal of ``Qᵀ X Q``."""
        diagonal = np.einsum("ki,kl,li->i", self.basis, X, self.basis)
        return np.asarray(self.weights @ diagonal)

    def adjoint(self, z: Array) -> Array:
        """Return ``Q diag(Σ zᵢ aᵢ) Qᵀ``."""
        return np.asarray((self.basis * (z @ self.weights)) @ self.basis.T)

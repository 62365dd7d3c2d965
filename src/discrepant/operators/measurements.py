"""Measurements by given matrices, ``A(X)ᵢ = ⟨Aᵢ, X⟩ = trace(Aᵢᴴ X)``.

`Sensing` takes the matrices Aᵢ in memory, sparse, on disk or computed on the fly.
`Outer` has matrices of low rank, aᵢ bᵢᴴ, and never forms them. `Diagonal` has matrices
that commute.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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

    Parameters
    ----------
    matrices : array-like, sparse matrix, list, callable, iterable or Dask array
        The matrices, stacked as (m, n₁, n₂); or a sparse matrix of shape (m, n₁·n₂)
        whose rows are the matrices, flattened row by row; or a list of matrices, dense
        or sparse. Matrices that do not fit into memory can be a Dask array, a memory
        map, or a function without arguments that returns an iterator over blocks
        (b, n₁, n₂). The function is called for every application of the operator and
        must return the same blocks each time.
    shape : tuple of int, optional
        The shape (n₁, n₂) of X; needed only for a sparse matrix.
    """

    def __init__(self, matrices: Any, shape: tuple[int, int] | None = None) -> None:
        self._store = _open_store(matrices, shape)
        self.data_shape: tuple[int, ...] = (self._store.count,)
        self.signal_shape = self._store.shape

    @property
    def matrices(self) -> Any:
        """The matrices, as they are stored."""
        return self._store.original

    def forward(self, X: Array) -> Array:
        """Return the m inner products."""
        products: Array = self._store.forward(np.asarray(X).reshape(-1))
        return products

    def adjoint(self, z: Array) -> Array:
        """Return ``Σ zᵢ Aᵢ``."""
        back: Array = self._store.adjoint(np.asarray(z))
        return back.reshape(self.signal_shape)


class _FlattenedMatrices:
    """Matrices in memory as the rows of a dense or sparse matrix (m, n₁·n₂)."""

    def __init__(self, original: Any, rows: Any, shape: tuple[int, int]) -> None:
        self.original, self.rows, self.shape = original, rows, shape
        self.count = rows.shape[0]
        self.complex = rows.dtype.kind == "c"
        self.conjugate = rows.conj() if sparse.issparse(rows) and self.complex else rows

    def forward(self, x: Array) -> Array:
        if sparse.issparse(self.rows):
            return np.asarray(self.conjugate @ x)
        if self.complex:
            return np.asarray(_product(self.rows, x.conj()).conj())
        return _product(self.rows, x)

    def adjoint(self, z: Array) -> Array:
        if sparse.issparse(self.rows):
            return np.asarray(self.rows.T @ z)
        return _product_from_left(z, self.rows)


class _MatrixBlocks:
    """Matrices that an iterator yields in blocks, anew for each application."""

    def __init__(self, original: Any, iterate: Callable[[], Iterator[Any]]) -> None:
        self.original, self.iterate = original, iterate
        shapes = [np.shape(block) for block in self._stacks()]
        if not shapes:
            raise InputError("Sensing was given no blocks of matrices.")
        self.shape: tuple[int, int] = shapes[0][1:]
        self.count = sum(shape[0] for shape in shapes)

    def _stacks(self) -> Iterator[Array]:
        first: tuple[int, ...] | None = None
        for block in self.iterate():
            stack = _stack(block)
            first = first or stack.shape[1:]
            if stack.shape[1:] != first:
                raise InputError(
                    f"The blocks hold matrices of different shapes, {first} and "
                    f"{stack.shape[1:]}."
                )
            yield stack

    def forward(self, x: Array) -> Array:
        parts = [
            _FlattenedMatrices(stack, _flatten(stack), self.shape).forward(x)
            for stack in self._stacks()
        ]
        products = np.concatenate(parts)
        self._check_count(len(products), self.count)
        return products

    def adjoint(self, z: Array) -> Array:
        total: Any = 0.0
        start = 0
        for stack in self._stacks():
            rows = _flatten(stack)
            part = z[start : start + len(rows)]
            self._check_count(len(part), len(rows))
            total = total + _product_from_left(part, rows)
            start += len(rows)
        return np.asarray(total)

    @staticmethod
    def _check_count(count: int, expected: int) -> None:
        if count != expected:
            raise InputError(
                "The blocks are not the same each time; pass a function that starts "
                "from the beginning whenever it is called."
            )


class _DaskMatrices:
    """Matrices in a Dask array (m, n₁, n₂)."""

    def __init__(self, array: Any) -> None:
        self.original = array
        self.shape: tuple[int, int] = array.shape[1:]
        self.count = array.shape[0]
        self.rows = array.reshape(array.shape[0], -1)

    def forward(self, x: Array) -> Array:
        return np.asarray((self.rows.conj() @ x).compute())

    def adjoint(self, z: Array) -> Array:
        return np.asarray((z @ self.rows).compute())


def _open_store(matrices: Any, shape: tuple[int, int] | None) -> Any:
    """Return the store for the form in which the matrices are given."""
    if sparse.issparse(matrices):
        return _sparse(matrices, shape)
    if _is_dask(matrices):
        if matrices.ndim != 3 or matrices.dtype.kind not in NUMBERS:
            raise _not_a_stack(matrices)
        return _DaskMatrices(matrices)
    if callable(matrices):
        return _MatrixBlocks(matrices, lambda: iter(matrices()))
    if isinstance(matrices, Iterator):
        raise InputError(
            "Sensing reads its matrices more than once, and an iterator can be read "
            "only once; pass the function that returns it, without calling it."
        )
    if isinstance(matrices, list | tuple) and any(map(sparse.issparse, matrices)):
        return _sparse_list(matrices)
    is_array = isinstance(matrices, np.ndarray | list | tuple)
    if not is_array and not hasattr(matrices, "__array__"):
        if isinstance(matrices, Iterable):
            return _MatrixBlocks(matrices, lambda: iter(matrices))
        raise _not_a_stack(np.asarray(matrices))
    stack = _stack(matrices)
    return _FlattenedMatrices(stack, _flatten(stack), stack.shape[1:])


def _flatten(stack: Array) -> Array:
    """Return stacked matrices as rows; there may be none."""
    return stack.reshape(len(stack), math.prod(stack.shape[1:]))


def _stack(matrices: Any) -> Array:
    """Return matrices as an array (m, n₁, n₂) of at least single precision."""
    try:
        array = np.asarray(matrices)
    except ValueError:
        raise InputError(
            "The matrices of Sensing are of different shapes; all need to be n1×n2."
        ) from None
    if array.ndim != 3 or array.dtype.kind not in NUMBERS:
        raise _not_a_stack(array)
    kind = np.result_type(array.dtype, np.float32)
    return array if array.dtype == kind else np.ascontiguousarray(array, kind)


def _not_a_stack(array: Any) -> InputError:
    return InputError(
        "Sensing needs matrices of numbers, stacked in a 3-D array (m, n1, n2), got "
        f"{array.dtype} of shape {array.shape}."
    )


def _sparse(matrix: Any, shape: tuple[int, int] | None) -> _FlattenedMatrices:
    if shape is None or len(shape) != 2 or matrix.shape[1] != shape[0] * shape[1]:
        given = "none" if shape is None else f"{tuple(shape)}"
        raise InputError(
            f"A sparse matrix of {matrix.shape[1]} columns needs the shape (n1, n2) of "
            f"X, with n1·n2 = {matrix.shape[1]}; got {given}."
        )
    rows = sparse.csr_array(matrix)
    dtype = np.result_type(rows.dtype, np.float32)
    return _FlattenedMatrices(matrix, rows.astype(dtype), shape)


def _sparse_list(matrices: Any) -> _FlattenedMatrices:
    shape = matrices[0].shape
    if any(matrix.shape != shape for matrix in matrices):
        raise InputError(
            "The matrices of Sensing are of different shapes; all need to be n1×n2."
        )
    flat = (1, shape[0] * shape[1])
    rows = [sparse.coo_array(matrix).reshape(flat) for matrix in matrices]
    return _sparse(sparse.vstack(rows, format="csr"), shape)


def _is_dask(matrices: Any) -> bool:
    return type(matrices).__module__.partition(".")[0] == "dask"


def _product(rows: Array, x: Array) -> Array:
    """Return rows @ x in the wider precision, converting a few rows at a time."""
    kind = np.result_type(rows, x)
    if rows.dtype == kind:
        return np.asarray(rows @ x.astype(kind, copy=False))
    parts = [rows[part].astype(kind) @ x for part in row_blocks(*rows.shape)]
    return np.concatenate(parts)


def _product_from_left(z: Array, rows: Array) -> Array:
    """Return z @ rows in the wider precision, converting a few rows at a time."""
    kind = np.result_type(rows, z)
    if rows.dtype == kind:
        return np.asarray(z.astype(kind, copy=False) @ rows)
    parts = [z[part] @ rows[part].astype(kind) for part in row_blocks(*rows.shape)]
    return np.asarray(sum(parts))


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

    @property
    def signal_shape(self) -> tuple[int, int]:
        """Shape of the matrix X."""
        return self.left.shape[1], self.right.shape[1]

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the observation y: one number per pair of vectors."""
        return self.left.shape[:1]

    def forward(self, X: Array) -> Array:
        """Return the m bilinear forms aᵢᴴ X bᵢ."""
        products = []
        for part in row_blocks(len(self.left), sum(self.left.shape[1:])):
            a, b = self.left[part], self.right[part]
            terms = [
                np.einsum("mi,mi->m", (a[:, :, k].conj() @ X), b[:, :, k])
                for k in range(a.shape[2])
            ]
            products.append(np.sum(terms, axis=0))
        return np.concatenate(products)

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
        products = []
        for part in row_blocks(len(self.left), sum(self.left.shape[1:])):
            a, b = self.left[part], self.right[part]
            terms = [
                np.einsum(
                    "mr,mr->m", a[:, :, k].conj() @ U, (b[:, :, k].conj() @ V).conj()
                )
                for k in range(a.shape[2])
            ]
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


@dataclass(frozen=True, eq=False)
class Diagonal:
    """``A(X)ᵢ = ⟨Q diag(aᵢ) Qᵀ, X⟩``: commuting matrices, as Theorem 1 assumes.

    Parameters
    ----------
    weights : ndarray of shape (m, n)
        The vectors aᵢ as rows.
    basis : ndarray of shape (n, n), optional
        The common orthonormal eigenvectors Q as columns; the identity by default.
    """

    weights: np.ndarray
    basis: np.ndarray | None = None

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=float)
        if weights.ndim != 2:
            raise InputError(
                f"Diagonal needs weights of shape (m, n), got {weights.shape}."
            )
        n = weights.shape[1]
        basis = np.eye(n) if self.basis is None else np.asarray(self.basis, float)
        if basis.shape != (n, n) or not np.allclose(basis.T @ basis, np.eye(n)):
            raise InputError(
                f"Diagonal needs an orthonormal basis of shape ({n}, {n}); "
                "orthonormalise its columns, for example with numpy.linalg.qr."
            )
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "basis", basis)

    @property
    def signal_shape(self) -> tuple[int, int]:
        """Shape of the matrix X."""
        n = self.weights.shape[1]
        return n, n

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the observation y."""
        return self.weights.shape[:1]

    def forward(self, X: Array) -> Array:
        """Return the weighted sums of the diagonal of ``Qᵀ X Q``."""
        assert self.basis is not None
        return np.asarray(
            self.weights @ np.einsum("ki,kl,li->i", self.basis, X, self.basis)
        )

    def adjoint(self, z: Array) -> Array:
        """Return ``Q diag(Σ zᵢ aᵢ) Qᵀ``."""
        assert self.basis is not None
        return np.asarray((self.basis * (z @ self.weights)) @ self.basis.T)

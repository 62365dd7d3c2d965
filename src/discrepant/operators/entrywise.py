"""Operators that observe entries of a matrix: all, a mask of them, or a list."""

from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.operators.operator import row_blocks

# Entries of a matrix per observed one below which forming the matrix is faster.
DENSE = 8


class Identity:
    """``A(X) = X``: every entry is observed (robust PCA)."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.signal_shape = shape
        self.data_shape: tuple[int, ...] = shape

    def forward(self, X: Array) -> Array:
        """Return X."""
        return X

    def adjoint(self, z: Array) -> Array:
        """Return z."""
        return z


class Mask:
    """``A(X) = observed ∘ X``: entries where ``observed`` is False are missing.

    The data have the shape of X, with zeros at missing entries.
    """

    def __init__(self, observed: Any) -> None:
        self.observed = observed = np.asarray(observed)
        if observed.ndim != 2 or observed.dtype != bool:
            raise InputError(
                "Mask needs a 2-D array of booleans (True where an entry is "
                f"observed), got {observed.dtype} of shape {observed.shape}."
            )
        self.signal_shape: tuple[int, int] = observed.shape
        self.data_shape: tuple[int, ...] = observed.shape

    def forward(self, X: Array) -> Array:
        """Return X with its unobserved entries set to zero."""
        return np.asarray(X * self.observed)

    def adjoint(self, z: Array) -> Array:
        """Return z with its unobserved entries set to zero."""
        return np.asarray(z * self.observed)


class Entries:
    """``A(X)ₖ = X[rowsₖ, columnsₖ]``: a list of entries.

    If few entries of a large matrix are observed, this takes less memory than a `Mask`.
    An entry may be observed more than once.

    Parameters
    ----------
    rows, columns : array-like of int
        Row and column indices of the observed entries.
    shape : tuple of int
        The shape of X.
    """

    def __init__(self, rows: Any, columns: Any, shape: tuple[int, int]) -> None:
        self.rows, self.columns = (np.asarray(index) for index in (rows, columns))
        self.signal_shape = (int(shape[0]), int(shape[1]))
        if (
            self.rows.ndim != 1
            or self.rows.shape != self.columns.shape
            or self.rows.dtype.kind not in "iu"
            or self.columns.dtype.kind not in "iu"
        ):
            raise InputError(
                "Entries needs two lists of whole numbers of one length, rows and "
                f"columns, got {self.rows.dtype} of shape {self.rows.shape} and "
                f"{self.columns.dtype} of shape {self.columns.shape}."
            )
        for name, index, size in zip(
            ("row", "column"), (self.rows, self.columns), self.signal_shape, strict=True
        ):
            if index.size and not (0 <= index.min() and index.max() < size):
                raise InputError(
                    f"Entries has a {name} {index.max()}, but the matrix has {size} of "
                    "them, counted from 0."
                )
        self.data_shape: tuple[int, ...] = self.rows.shape

    def forward(self, X: Array) -> Array:
        """Return the observed entries of X."""
        return np.asarray(X[self.rows, self.columns])

    def adjoint(self, z: Array) -> Array:
        """Return the matrix that has z at these entries and is zero elsewhere."""
        m, n = self.signal_shape
        flat = self.rows * n + self.columns
        parts = [z.real, z.imag] if np.iscomplexobj(z) else [z]
        back = [np.bincount(flat, part, m * n).reshape(m, n) for part in parts]
        return back[0] if len(back) == 1 else np.asarray(back[0] + 1j * back[1])

    def forward_factors(self, U: Array, V: Array) -> Array:
        """Return the observed entries of U Vᴴ; if they are few, without forming it."""
        m, n = self.signal_shape
        if DENSE * self.rows.size > m * n:
            return self.forward(U @ V.conj().T)
        entries = np.empty(self.rows.size, np.result_type(U, V))
        for part in row_blocks(self.rows.size, U.shape[1]):
            left, right = U[self.rows[part]], V[self.columns[part]].conj()
            entries[part] = np.einsum("kr,kr->k", left, right)
        return entries

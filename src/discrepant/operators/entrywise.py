"""How a matrix is observed: linear maps A with their adjoints.

An operator knows the shape of what goes in (``signal_shape``, the matrix X), the shape
of what comes out (``data_shape``, the observation y), and two methods that satisfy
``⟨A(X), z⟩ = ⟨X, A*(z)⟩``. One that has a quick way to see a matrix of low rank may say
so by a third, ``forward_factors(U, V)``, which returns A(U Vᴴ).

Measurements by given matrices are in `discrepant.operators.measurements`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array


def blocks(count: int, width: int, numbers: int = 1 << 21) -> Iterator[slice]:
    """Yield slices of rows of such a width that hold about so many numbers each."""
    height = max(1, numbers // max(width, 1))
    for start in range(0, count, height):
        yield slice(start, start + height)


@runtime_checkable
class Operator(Protocol):
    """A linear map from matrices to data."""

    @property
    def signal_shape(self) -> tuple[int, int]:
        """Shape of the matrix X."""
        ...

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the observation y."""
        ...

    def forward(self, X: Array) -> Array:
        """Return A(X)."""
        ...

    def adjoint(self, z: Array) -> Array:
        """Return A*(z)."""
        ...


@dataclass(frozen=True)
class Identity:
    """``A(X) = X``: every entry is seen (robust PCA)."""

    shape: tuple[int, int]

    @property
    def signal_shape(self) -> tuple[int, int]:
        """Shape of the matrix X."""
        return self.shape

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the observation y."""
        return self.shape

    def forward(self, X: Array) -> Array:
        """Return X."""
        return X

    def adjoint(self, z: Array) -> Array:
        """Return z."""
        return z


@dataclass(frozen=True, eq=False)
class Mask:
    """``A(X) = observed ∘ X``: entries where ``observed`` is False are not seen."""

    observed: np.ndarray

    def __post_init__(self) -> None:
        observed = np.asarray(self.observed)
        if observed.ndim != 2 or observed.dtype != bool:
            raise InputError(
                "Mask needs a 2-D array of booleans (True where an entry is "
                f"observed), got {observed.dtype} of shape {observed.shape}."
            )
        object.__setattr__(self, "observed", observed)

    @property
    def signal_shape(self) -> tuple[int, int]:
        """Shape of the matrix X."""
        return self.observed.shape

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the observation y: that of X, with zeros where nothing is seen."""
        return self.observed.shape

    def forward(self, X: Array) -> Array:
        """Return X with its unobserved entries set to zero."""
        return np.asarray(X * self.observed)

    def adjoint(self, z: Array) -> Array:
        """Return z with its unobserved entries set to zero."""
        return np.asarray(z * self.observed)


class Entries:
    """``A(X)ₖ = X[rowsₖ, columnsₖ]``: some entries, as a list.

    Where few entries of a large matrix are seen this takes less memory than a `Mask`,
    and an entry may be seen more than once.

    Parameters
    ----------
    rows, columns : array-like of int
        Where the entries are.
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

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the observation y: one number an entry."""
        return self.rows.shape

    def forward(self, X: Array) -> Array:
        """Return the entries."""
        return np.asarray(X[self.rows, self.columns])

    def adjoint(self, z: Array) -> Array:
        """Return the matrix that has z at these entries and is zero elsewhere."""
        m, n = self.signal_shape
        flat = self.rows * n + self.columns
        parts = [z.real, z.imag] if np.iscomplexobj(z) else [z]
        back = [np.bincount(flat, part, m * n).reshape(m, n) for part in parts]
        return back[0] if len(back) == 1 else np.asarray(back[0] + 1j * back[1])

    def forward_factors(self, U: Array, V: Array) -> Array:
        """Return the entries of U Vᴴ, without the others."""
        found = np.empty(self.rows.size, np.result_type(U, V))
        for part in blocks(self.rows.size, U.shape[1]):
            left, right = U[self.rows[part]], V[self.columns[part]].conj()
            found[part] = np.einsum("kr,kr->k", left, right)
        return found


@dataclass(frozen=True, eq=False)
class Diagonal:
    """``A(X)ᵢ = ⟨Q diag(aᵢ) Qᵀ, X⟩``: a commuting family, as Theorem 1 asks for.

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


@dataclass(frozen=True, eq=False)
class Wrapped:
    """Anything with ``shape``, ``matvec`` and ``rmatvec`` on the entries of X by rows.

    This covers ``scipy.sparse.linalg.LinearOperator`` and every PyLops operator.

    Parameters
    ----------
    linear : LinearOperator
        Maps the ``n₁·n₂`` entries of X to the data.
    signal_shape : tuple of int
        The shape (n₁, n₂) of X.
    """

    linear: Any
    signal_shape: tuple[int, int]

    def __post_init__(self) -> None:
        missing = [
            name
            for name in ("shape", "matvec", "rmatvec")
            if not hasattr(self.linear, name)
        ]
        if missing:
            raise InputError(
                f"Wrapped needs an operator with {', '.join(missing)}; pass a SciPy "
                "LinearOperator or a PyLops operator."
            )
        if len(self.signal_shape) != 2 or self.linear.shape[1] != np.prod(
            self.signal_shape
        ):
            raise InputError(
                f"The operator takes {self.linear.shape[1]} values, but a matrix of "
                f"shape {self.signal_shape} has {np.prod(self.signal_shape)}."
            )

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the observation y."""
        return (int(self.linear.shape[0]),)

    def forward(self, X: Array) -> Array:
        """Return A(X)."""
        return np.asarray(self.linear.matvec(X.reshape(-1)))

    def adjoint(self, z: Array) -> Array:
        """Return A*(z)."""
        return np.asarray(self.linear.rmatvec(z)).reshape(self.signal_shape)

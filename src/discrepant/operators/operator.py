"""How a matrix is observed: linear maps A with their adjoints.

An operator knows the shape of what goes in (``signal_shape``, the matrix X), the shape
of what comes out (``data_shape``, the observation y), and two methods that satisfy
``⟨A(X), z⟩ = ⟨X, A*(z)⟩``. One that has a quick way to see a matrix of low rank may say
so by a third, ``forward_factors(U, V)``, which returns A(U Vᴴ).

Measurements by given matrices are in `discrepant.operators.measurements`.
"""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array, norm


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


def check_adjoint(operator: Operator, dtype: Any = np.float64) -> None:
    """Refuse an operator on real matrices whose adjoint is not that of its forward map.

    See `dot_test`; the operator has to give real numbers both ways.

    Parameters
    ----------
    operator : Operator
        A linear map with its adjoint.
    dtype : dtype
        Type of the data.
    """
    if dot_test(operator, dtype, real=None):
        raise InputError(
            "The operator gives no real numbers; these are needed here. The solver "
            '"implicit" takes complex ones.'
        )


def dot_test(operator: Operator, dtype: Any, real: bool | None) -> bool:
    """Refuse an operator whose adjoint is not that of its forward map.

    By the law ``⟨A(X), z⟩ = ⟨X, A*(z)⟩`` on one random pair. With standard normal X and
    z both sides have a standard deviation of about ‖A(X)‖ and ‖A*(z)‖: that is what
    their difference is measured by, so that a product near zero is no obstacle. It may
    be the rounding of a sum, 10⁻⁶ of that in double and 10⁻³ in single precision.

    Returns whether X is complex: it is where the adjoint gives complex matrices, unless
    it is said to be real. Its measurements may be real all the same (those of Hermitian
    matrices are), and the law then holds for the real parts.
    """
    rng = np.random.default_rng(0)  # of its own: no solver's start depends on it
    X: Array = rng.standard_normal(operator.signal_shape)
    z: Array = rng.standard_normal(operator.data_shape)
    if np.dtype(dtype).kind == "c":
        z = z + 1j * rng.standard_normal(operator.data_shape)
    try:
        back = np.asarray(operator.adjoint(z))
        complex_X = bool(back.dtype.kind == "c" and not real)
        if complex_X:
            X = X + 1j * rng.standard_normal(operator.signal_shape)
        there = np.asarray(operator.forward(X))
    except NotImplementedError:
        raise InputError(
            "The operator has no adjoint; define its rmatvec, or its adjoint method."
        ) from None
    if there.shape != z.shape or back.shape != X.shape:
        raise InputError(
            f"The operator says that it maps {X.shape} to {z.shape}, but its forward "
            f"map gives {there.shape} and its adjoint {back.shape}."
        )
    if {there.dtype.kind, back.dtype.kind} - set("fiubc"):
        raise InputError("The operator gives no numbers; these are needed.")
    inner = getattr(getattr(operator, "linear", operator), "dtype", dtype)
    tol = 1e-3 if any(map(_coarse, (dtype, inner, there.dtype, back.dtype))) else 1e-6
    difference = abs(float(np.vdot(there, z).real) - float(np.vdot(X, back).real))
    if not difference <= tol * max(norm(there), norm(back)):  # also true of NaN
        raise InputError(
            "The operator's adjoint does not belong to its forward map: ⟨A(X), z⟩ and "
            "⟨X, A*(z)⟩ differ for random X and z; mend its adjoint (rmatvec)."
        )
    return complex_X


def _coarse(kind: Any) -> bool:
    """Whether numbers of this type are of less than double precision."""
    dtype = np.dtype(kind)
    return bool(dtype.itemsize < {"f": 8, "c": 16}.get(dtype.kind, 0))


def row_blocks(count: int, width: int, numbers: int = 1 << 21) -> Iterator[slice]:
    """Yield slices of rows of such a width that hold about so many numbers each."""
    height = max(1, numbers // max(width, 1))
    for start in range(0, count, height):
        yield slice(start, start + height)

"""The interface of linear operators A, and the dot test of their adjoints.

An operator has the shape of its input (``signal_shape``, the matrix X) and of its
output (``data_shape``, the observation y), and two methods that satisfy
``⟨A(X), z⟩ = ⟨X, A*(z)⟩``. A third, optional method ``forward_factors(U, V)`` returns
A(U Vᴴ) faster than by forming the matrix.
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
    """Refuse an operator that fails `dot_test` or does not map reals to reals."""
    if dot_test(operator, dtype, real=None):
        raise InputError(
            "The operator gives no real numbers; these are needed here. The solver "
            '"implicit" takes complex ones.'
        )


def dot_test(operator: Operator, dtype: Any, real: bool | None) -> bool:
    """Refuse an operator whose adjoint is wrong; return whether X is complex.

    The test is ``⟨A(X), z⟩ = ⟨X, A*(z)⟩`` for one random pair. For standard normal X
    and z the two sides have standard deviations of about ‖A(X)‖ and ‖A*(z)‖. Their
    difference is compared with these, so that products near zero need no special case.
    It may be due to rounding, up to 10⁻⁶ in double and 10⁻³ in single precision.

    X is complex if the adjoint gives complex matrices, unless the user declared it to
    be `real`. The measurements of a complex X may be real (those of Hermitian matrices
    are); the law then holds for the real parts. `dtype` is that of the data.
    """
    rng = np.random.default_rng(0)  # its own, so that no solver's start depends on it
    X: Array = rng.standard_normal(operator.signal_shape)
    z: Array = rng.standard_normal(operator.data_shape)
    if np.dtype(dtype).kind == "c":
        z = z + 1j * rng.standard_normal(operator.data_shape)
    try:
        back = np.asarray(operator.adjoint(z))
        complex_X = bool(back.dtype.kind == "c" and not real)
        if complex_X:
            X = X + 1j * rng.standard_normal(operator.signal_shape)
        image = np.asarray(operator.forward(X))
    except NotImplementedError:
        raise InputError(
            "The operator has no adjoint; define its rmatvec, or its adjoint method."
        ) from None
    if image.shape != z.shape or back.shape != X.shape:
        raise InputError(
            f"The operator declares a map from {X.shape} to {z.shape}, but its forward "
            f"map gives {image.shape} and its adjoint {back.shape}."
        )
    if {image.dtype.kind, back.dtype.kind} - set("fiubc"):
        raise InputError("The operator gives no numbers; these are needed.")
    inner = getattr(getattr(operator, "linear", operator), "dtype", dtype)
    types = (dtype, inner, image.dtype, back.dtype)
    tol = 1e-3 if any(map(_is_single_precision, types)) else 1e-6
    difference = abs(float(np.vdot(image, z).real) - float(np.vdot(X, back).real))
    if not difference <= tol * max(norm(image), norm(back)):  # also true for NaN
        raise InputError(
            "The operator's adjoint does not belong to its forward map: ⟨A(X), z⟩ and "
            "⟨X, A*(z)⟩ differ for random X and z; correct its adjoint (rmatvec)."
        )
    return complex_X


def _is_single_precision(type_: Any) -> bool:
    """Return whether a floating point type has less than double precision."""
    dtype = np.dtype(type_)
    return bool(dtype.itemsize < {"f": 8, "c": 16}.get(dtype.kind, 0))


def row_blocks(count: int, width: int, numbers: int = 1 << 21) -> Iterator[slice]:
    """Yield slices of rows of a given width with about `numbers` entries each."""
    height = max(1, numbers // max(width, 1))
    for start in range(0, count, height):
        yield slice(start, start + height)

"""The observation and how it was made, checked once before any solver runs.

Solvers rely on what `validate_observation` returns: finite real numbers in the shape
the operator gives, missing entries turned into zeros under a `Mask`, and an adjoint
that belongs to its forward map.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array, norm
from discrepant.core.validation import real_array
from discrepant.operators.entrywise import (
    Diagonal,
    Entries,
    Identity,
    Mask,
    Operator,
    Wrapped,
)
from discrepant.operators.measurements import Outer, Sensing

# Their adjoints are tested with the package; all others are tested at the door.
OWN = (Identity, Mask, Entries, Sensing, Outer, Diagonal)


def validate_observation(y: ArrayLike, operator: Any) -> tuple[Array, Operator]:
    """Return real data as floats and the operator that fits them, adjoint and all.

    Parameters
    ----------
    y : array-like
        The observation; NaN marks missing entries of a matrix that is seen as it is.
    operator : Operator, LinearOperator or None
        How it was made; None stands for a matrix that is seen as it is.
    """
    data, A = match_operator(real_array(y), operator)
    if type(A) not in OWN:
        check_adjoint(A, data.dtype)
    return data, A


def match_operator(data: Array, operator: Any) -> tuple[Array, Operator]:
    """Return data, real or complex, and the operator that fits them by its shape."""
    A = _as_operator(operator, data)
    if data.size == 0:
        raise InputError("The data are empty; at least one value is needed.")
    if data.shape != A.data_shape:
        raise InputError(
            f"The data have shape {data.shape}, but the operator gives {A.data_shape}."
        )
    if np.isinf(data).any():
        raise InputError(
            "The data contain infinite values; replace them by NaN to mark them as "
            "missing."
        )
    missing = np.isnan(data)
    if isinstance(A, Mask):
        missing |= ~A.observed
    elif missing.any() and not isinstance(A, Identity):
        raise InputError(
            "The data contain NaN, which this operator cannot leave out; drop those "
            "measurements from the data and from the operator."
        )
    if missing.all():
        raise InputError("All values are missing; at least one must be observed.")
    if missing.any():
        A = Mask(~missing)
        data = np.where(missing, data.dtype.type(0), data)
    return data, A


def nan_where_missing(data: Array, operator: Operator) -> Array:
    """Return the data with NaN, not zero, where nothing was observed."""
    if not isinstance(operator, Mask):
        return data
    return np.where(operator.observed, data, data.dtype.type(np.nan))


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


def _as_operator(operator: Any, data: Array) -> Operator:
    """Return an operator of this package's kind, whatever was passed for it."""
    if operator is None:
        if data.ndim != 2:
            raise InputError(
                f"A matrix (2-D) is needed, got {data.ndim}-D data; to recover a "
                "matrix from other data pass operator=."
            )
        return Identity(data.shape)
    if isinstance(operator, Operator):
        return operator
    entries = operator.shape[1] if len(getattr(operator, "shape", ())) == 2 else 0
    side = math.isqrt(entries)
    if side * side != entries:
        raise InputError(
            f"The operator takes {entries} values, which are not those of a square "
            "matrix; say which shape X has with Wrapped(operator, (rows, columns))."
        )
    return Wrapped(operator, (side, side))

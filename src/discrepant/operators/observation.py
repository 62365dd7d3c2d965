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
from discrepant.core.linalg import Array
from discrepant.core.validation import real_array
from discrepant.operators.entrywise import Entries, Identity, Mask
from discrepant.operators.linear_operator import Wrapped
from discrepant.operators.measurements import Diagonal, Outer, Sensing
from discrepant.operators.operator import Operator, check_adjoint

# Their adjoints are tested with the package; all others are tested at the door.
TESTED_OPERATORS = (Identity, Mask, Entries, Sensing, Outer, Diagonal)


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
    if type(A) not in TESTED_OPERATORS:
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

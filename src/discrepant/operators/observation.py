"""Validation of an observation y together with its operator, before any solver runs.

`validate_observation` guarantees to the solvers: finite real numbers in the shape that
the operator returns, zeros under a `Mask` in place of missing entries, and an adjoint
that belongs to its forward map.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import missing_values, real_array
from discrepant.operators.entrywise import Identity, Mask
from discrepant.operators.linear_operator import Wrapped
from discrepant.operators.operator import Operator, check_adjoint


def validate_observation(y: ArrayLike, operator: Any) -> tuple[Array, Operator]:
    """Return the data as real floats and their operator, with its adjoint tested.

    Without an operator y is a matrix itself, where NaN marks missing entries.
    """
    data, A = match_operator(real_array(y), operator)
    check_adjoint(A, data.dtype)
    return data, A


def match_operator(data: Array, operator: Any) -> tuple[Array, Operator]:
    """Return real or complex data and an operator of matching shape."""
    A = _as_operator(operator, data)
    if data.shape != A.data_shape:
        raise InputError(
            f"The data have shape {data.shape}, but the operator gives {A.data_shape}."
        )
    if np.isnan(data).any() and not isinstance(A, Identity | Mask):
        raise InputError(
            "The data contain NaN, which this operator cannot leave out; drop those "
            "measurements from the data and from the operator."
        )
    missing = missing_values(nan_where_missing(data, A))
    if missing.any():
        A = Mask(~missing)
        data = np.where(missing, data.dtype.type(0), data)
    return data, A


def nan_where_missing(data: Array, operator: Operator) -> Array:
    """Return the data with NaN, not zero, at entries that a `Mask` leaves out."""
    if not isinstance(operator, Mask):
        return data
    return np.where(operator.observed, data, data.dtype.type(np.nan))


def _as_operator(operator: Any, data: Array) -> Operator:
    """Return the given operator as an `Operator`; None becomes the identity."""
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
            "matrix; give the shape of X with Wrapped(operator, (rows, columns))."
        )
    return Wrapped(operator, (side, side))

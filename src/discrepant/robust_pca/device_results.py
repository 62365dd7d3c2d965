"""Data that lie on a device: looked at, and worked on, without leaving it."""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from discrepant.core.device_arrays import parts_of, place_of
from discrepant.core.errors import InputError, InputTypeError
from discrepant.core.linalg import Array
from discrepant.core.results import Result

BLOCK = 1 << 22  # entries worked on at a time


def on_device(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return data on a device as a floating array there, or say why they are none.

    Parameters
    ----------
    estimator : BaseEstimator
        Is told the number of features, or asked for it.
    X : array of torch, CuPy or JAX
        The data.
    reset : bool
        Whether the estimator learns from them what data look like.
    """
    name = type(X).__name__
    if estimator.missing == "unstored" or estimator.solver != "implicit":
        raise InputTypeError(
            f'A {name} on its device is fitted with solver="implicit" and '
            'missing="nan" only; pass an array of NumPy for others.'
        )
    if getattr(X, "requires_grad", False):
        raise InputError(
            "The data require gradients, and a fit has none: pass X.detach()."
        )
    if getattr(X, "layout", None) is not None and "strided" not in str(X.layout):
        raise InputTypeError("A sparse tensor was passed; pass X.to_dense().")
    if getattr(X, "is_meta", False):
        raise InputError("The tensor is on the device meta, which holds no values.")
    if len(X.shape) != 2:
        raise InputError(f"Expected 2D array, got {len(X.shape)}D array instead.")
    if 0 in X.shape:
        raise InputError(
            f"Found array with shape {tuple(X.shape)}; at least one row and one "
            "column are needed."
        )
    values = floating(X)
    try:
        validate_data(estimator, values, reset=reset, skip_check_array=True)
    except ValueError as error:
        raise InputError(str(error)) from None
    return values


def floating(X: Any) -> Any:
    """Return float32 as it is, and other numbers as float64."""
    place = place_of(X)
    xp = place.xp
    if X.dtype in (xp.float32, xp.float64):
        return X
    half = X.dtype == getattr(xp, "float16", None)
    if not (half or xp.isdtype(X.dtype, ("integral", "bool"))):
        raise InputError(
            f"A {type(X).__name__} of type {X.dtype} was passed; numbers of float32 "
            "or float64 are needed."
        )
    return xp.astype(X, place.widest)


def placed_with(X: Any, values: Array) -> Any:
    """Return narrow numbers of NumPy where X lies, and in its type."""
    return place_of(X).bring(values, X.dtype)


def coordinates_of(found: Result, rows: Any) -> Any:
    """Return where rows on a device lie in the row space of a fit."""
    place = place_of(rows)
    xp = place.xp
    if bool(xp.any(xp.isinf(rows))):
        raise InputError(
            "Input X contains infinity; replace it by NaN to mark it as missing."
        )
    return xp.astype(found.coordinates(rows), rows.dtype)


def explained_share(rows: Any, C: Any, components: Array) -> float:
    """Return 1 − Σ|X − X̂| / Σ|X| over the observed entries of rows on a device."""
    place, (number, n) = place_of(rows), rows.shape
    xp, V = place.xp, place.bring(components, place.widest)
    parts = parts_of(number, max(1, BLOCK // n))
    top = max(float(xp.max(_size(xp, rows[part, :]))) for part in parts)
    if not top:
        return 1.0
    off = size = 0.0
    for part in parts:  # no sum overflows
        y, c = (xp.astype(a[part, :], place.widest) / top for a in (rows, C))
        off += float(xp.sum(_size(xp, y - c @ V)))
        size += float(xp.sum(_size(xp, y)))
    return 1 - off / size


def sum_of_squares(residual: Any) -> float:
    """Return the sum of squares over what is not missing."""
    place, (number, n) = place_of(residual), residual.shape
    xp, total = place.xp, 0.0
    for part in parts_of(number, max(1, BLOCK // n)):
        size = _size(xp, residual[part, :])
        by_row = xp.sum(size * size, axis=1)
        total += float(np.sum(place.fetch(by_row), dtype=np.float64))
    return total


def _size(xp: Any, values: Any) -> Any:
    """Return |values|, and zero where they are missing."""
    return xp.where(xp.isnan(values), 0.0, xp.abs(values))

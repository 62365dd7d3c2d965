"""Validation of an estimator's data, by scikit-learn's conventions."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from discrepant.core.array_libraries import to_numpy
from discrepant.core.errors import InputError, InputTypeError
from discrepant.core.labels import column_types, container_kind
from discrepant.core.validation import error_text, masked_to_nan


def validate_array(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return data as a floating-point array, or as a sparse matrix if that is allowed.

    An array of another library becomes a NumPy array. With `reset` the estimator takes
    number and names of the features from the data; otherwise they must agree with its
    own.
    """
    if is_dask(X):
        raise InputTypeError(
            "An array in memory is needed, got a Dask collection; pass X.compute()."
        )
    X = to_numpy(X)
    unstored = estimator.missing == "unstored"
    if sparse.issparse(X) and not unstored:
        raise InputTypeError(
            "A dense array is needed, got sparse data. If entries that are not stored "
            'are missing, pass missing="unstored"; if they are zero, pass X.toarray().'
        )
    if unstored and reset and not sparse.issparse(X):
        raise InputTypeError(
            'missing="unstored" is for sparse matrices of SciPy; mark missing entries '
            "of an array by NaN."
        )
    kinds = {container_kind(type_) for type_ in column_types(X)}
    if kinds & set("mMV"):
        raise InputError(
            "The data contain dates, durations or records; numbers are needed (drop or "
            "encode such columns)."
        )
    try:
        return validate_data(
            estimator,
            masked_to_nan(X),
            reset=reset,
            accept_sparse=unstored,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )
    except (ValueError, TypeError, RuntimeError) as error:
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        raise kind(error_text(error) + ".") from None


def is_dask(X: Any) -> bool:
    """Whether this is a Dask collection; Dask itself is not imported."""
    return type(X).__module__.split(".")[0] == "dask"

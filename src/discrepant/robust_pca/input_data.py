"""What an estimator is given, looked at once and in scikit-learn's way."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from discrepant.core.array_libraries import to_numpy
from discrepant.core.errors import InputError, InputTypeError
from discrepant.core.labels import column_types, container_kind
from discrepant.core.validation import error_text, masked_to_nan


def validated(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return data as a floating array, or as the sparse matrix that they are.

    An array of another library becomes a NumPy array.

    Parameters
    ----------
    estimator : BaseEstimator
        Is told number and names of the features, or asked for them; what its
        ``missing`` says decides whether the data may be sparse.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data.
    reset : bool
        Whether the estimator learns from them what data look like.
    """
    if is_dask(X):
        raise InputTypeError(
            "A Dask collection was passed where an array in memory is needed; pass "
            "X.compute()."
        )
    X = to_numpy(X)
    unstored = estimator.missing == "unstored"
    if sparse.issparse(X) and not unstored:
        raise InputTypeError(
            "Sparse data were passed. If what they do not store is missing, pass "
            'missing="unstored"; if it is zero, pass X.toarray().'
        )
    if unstored and reset and not sparse.issparse(X):
        raise InputTypeError(
            'missing="unstored" is for sparse matrices of SciPy; mark missing entries '
            "of an array by NaN."
        )
    kinds = {container_kind(type_) for type_ in column_types(X)}
    if kinds & set("mMV"):
        raise InputError(
            "The data hold dates, durations or records; numbers are needed (drop "
            "or encode such columns)."
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
    """Whether this is an array, a table or the like of Dask; nothing is imported."""
    return type(X).__module__.split(".")[0] == "dask"

"""Validation of an estimator's data, by scikit-learn's conventions."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from discrepant.core.array_libraries import to_numpy
from discrepant.core.errors import InputError, InputTypeError
from discrepant.core.labels import column_types, container_kind
from discrepant.core.validation import error_text, masked_to_nan, refuse_infinite


def validate_data_of(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return data as an array of floats, or a sparse matrix if that is allowed.

    An array of another library becomes a NumPy array; a Dask array stays one, and its
    blocks are validated when they are computed. With `reset` the estimator takes number
    and names of the features from the data; otherwise they must agree with its own.
    """
    if is_dask(X):
        return _validate_dask_array(estimator, X, reset)
    X = to_numpy(X)
    unstored = estimator.missing == "unstored"
    if type(X).__name__ == "LazyFrame":
        raise InputTypeError(
            "A table in memory is needed, got a LazyFrame: collect() it."
        )
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
        data = validate_data(
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
    if not (reset or sparse.issparse(data)):  # a fit finds infinite values by itself
        refuse_infinite(data)
    return data


def _validate_dask_array(estimator: Any, X: Any, reset: bool) -> Any:
    """Return a Dask array of known shape; unless `reset`, of valid blocks of floats.

    In a fit, blocks are validated as they are loaded (`dask.blocks.load`).
    """
    import dask.array as da

    if estimator.missing != "nan" or estimator.solver != "implicit":
        raise InputError('A Dask array needs solver="implicit" and missing="nan".')
    if not isinstance(X, da.Array):
        kind = type(X).__name__
        raise InputTypeError(
            f"A Dask array is needed, got a Dask {kind}; pass "
            "X.to_dask_array(lengths=True)."
        )
    if X.ndim != 2:
        raise InputError(f"A matrix (2-D) is needed, got {X.ndim}-D data.")
    if X.dtype.kind not in "fiubO":
        raise InputError(
            f"The Dask array holds {X.dtype}; numbers are needed (drop or encode other "
            "columns)."
        )
    if np.isnan(X.shape).any():
        try:
            X = X.copy().compute_chunk_sizes()
        except Exception as error:
            raise InputError(
                "The shape of the Dask array is unknown, and computing its blocks to "
                f"determine it fails: {error_text(error)}."
            ) from None
    for axis, unit in enumerate(("sample(s)", "feature(s)")):
        if not X.shape[axis]:
            raise InputError(
                f"Found array with 0 {unit} (shape={X.shape}) while a minimum of 1 is "
                "required."
            )
    if reset:
        estimator.n_features_in_ = X.shape[1]
        return X
    if X.shape[1] != estimator.n_features_in_:
        raise InputError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    return X.map_blocks(_finite_block, dtype, dtype=dtype, meta=np.empty((0, 0), dtype))


def _finite_block(block: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Return a block of new rows as floats; NaN is missing."""
    rows = np.asarray(masked_to_nan(block)).astype(dtype, copy=False)
    refuse_infinite(rows)
    return rows


def is_dask(X: Any) -> bool:
    """Whether this is a Dask collection; Dask itself is not imported."""
    return type(X).__module__.split(".")[0] == "dask"

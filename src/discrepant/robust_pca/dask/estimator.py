"""`RobustPCA` of Dask arrays: fit, transform and score; the parts are Dask arrays.

A fit returns narrow factors. Its parts are lazy: each of their blocks is a pure
function of the block of the data and of the factors' rows and columns that belong to
it. It is the part of an in-memory result that is restricted to this block.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, product
from typing import Any
from uuid import uuid4

import numpy as np

from discrepant.core.errors import InputError, InputTypeError
from discrepant.core.linalg import Array
from discrepant.core.results import Certificate, History, Result
from discrepant.core.validation import error_text, masked_to_nan
from discrepant.robust_pca.dask.cluster import worker_pool
from discrepant.robust_pca.dask.rows import DaskRows
from discrepant.robust_pca.doubts import FitWarning
from discrepant.robust_pca.exact.result import ExactResult
from discrepant.robust_pca.fit_warnings import fit_warnings, sample_data
from discrepant.robust_pca.noisy.result import NoisyResult
from discrepant.robust_pca.rows.in_memory import ArrayRows

MatrixFit = ExactResult | NoisyResult  # factors, and the rows that they were fitted to


@dataclass(frozen=True, eq=False, repr=False)
class DaskResult(Result):
    """Result of a fit of a Dask array; parts of the size of the data are lazy.

    All other attributes are those of ``fit``.
    """

    fit: MatrixFit
    data: Any = field(repr=False)  # the Dask array, in the caller's chunks

    @property
    def low_rank(self) -> Any:
        """X, in the chunks of the data."""
        fit = self.fit
        left = fit.U * fit.singular_values
        dtype = fit.program.rows.dtype

        def block_task(rows: slice, columns: slice) -> Any:
            return (_product, left[rows], fit.components[:, columns], dtype)

        return _dask_array("low-rank", self.data, block_task, dtype, reads_data=False)

    @property
    def sparse(self) -> Any:
        """S, in the chunks of the data."""
        return self._part("sparse", self.fit.program.rows.dtype)

    @property
    def outliers(self) -> Any:
        """Which entries are flagged as corrupt."""
        return self._part("outliers", np.dtype(bool))

    @property
    def probability(self) -> Any:
        """The probability that each entry is corrupt."""
        return self._part("probability", self.fit.program.rows.dtype)

    @property
    def residual(self) -> Any:
        """Y − X − S; NaN where Y is missing."""
        return self._part("residual", self.fit.program.rows.dtype)

    def _part(self, name: str, dtype: np.dtype[Any]) -> Any:
        fit = self.fit
        if not isinstance(fit.program.rows, DaskRows):  # the data fit in memory
            import dask.array as da

            return da.from_array(getattr(fit, name), chunks=self.data.chunks)

        def block_task(rows: slice, columns: slice) -> Any:
            return (
                partial(_part_of_block, name, restrict_to_block(fit, rows, columns)),
            )

        return _dask_array(name, self.data, block_task, dtype)

    @property
    def certificate(self) -> Certificate:
        """Bound on the distance to the optimum; needs all data in memory."""
        rows = self.fit.program.rows
        if not isinstance(rows, DaskRows):
            return self.fit.certificate
        program = replace(self.fit.program, rows=rows.gather())
        return replace(self.fit, program=program).certificate

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a block of X."""
        return self.fit.block(rows, columns)

    def coordinates(self, rows: Array) -> Array:
        """Return the coordinates of new rows in the row space of X."""
        return self.fit.coordinates(rows)

    def __getattr__(self, name: str) -> Any:
        if name == "fit":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.fit, name)


def fit(model: Any, X: Any, previous: Any) -> tuple[DaskResult, Iterator[FitWarning]]:
    """Fit a Dask array, perhaps from a previous result; also return warnings."""
    if model.missing != "nan" or model.solver != "implicit":
        raise InputError('A Dask array needs solver="implicit" and missing="nan".')
    Y = validate_dask_array(model, X, reset=True)
    rows = DaskRows(Y, memory_limit=model.memory_limit)
    start = previous.fit if isinstance(previous, DaskResult) else None
    if start is not None:
        n_short = len(start.U) if rows.transposed else start.components.shape[1]
        start = start if n_short == rows.n else None
    with worker_pool(Y):
        matrix_fit = model._solve_rows(rows, start)
    result = DaskResult(matrix_fit, Y)
    return result, fit_warnings(Y, result, sample_data(matrix_fit))


def transform(model: Any, X: Any) -> Any:
    """Return the coordinates of the rows of a Dask array, lazily."""
    Y = validate_dask_array(model, X, reset=False)
    result = model._fitted()
    fit = result.fit if isinstance(result, DaskResult) else result
    if isinstance(fit, ExactResult | NoisyResult):  # do not send the data along
        fit = restrict_to_block(fit, slice(0, 0), slice(None))
    return _map_rows(_coordinates, Y, fit.coordinates, model.rank_)


def inverse_transform(model: Any, X: Any) -> Any:
    """Return the rows that have the given coordinates, lazily."""
    if X.ndim != 2 or X.shape[1] != model.rank_:
        raise InputError(
            f"Coordinates of shape (rows, {model.rank_}) are needed, got {X.shape}."
        )
    return _map_rows(_product, X, model.components_, model.n_features_in_)


def _map_rows(function: Any, X: Any, argument: Any, columns: int) -> Any:
    """Return an array of some columns, by ``function(block, argument, dtype)``."""
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    kind = {"dtype": dtype, "meta": np.empty((0, 0), dtype)}
    chunks = (X.chunks[0], (columns,))
    whole_rows = X.rechunk({1: -1})
    return whole_rows.map_blocks(function, argument, dtype, chunks=chunks, **kind)


def score(model: Any, X: Any) -> Any:
    """Return 1 − Σ|X − X̂| / Σ|X| of a Dask array, in one pass."""
    import dask.array as da

    Y = validate_dask_array(model, X, reset=False).rechunk({1: -1})
    C = transform(model, Y)
    sums = da.map_blocks(
        _absolute_sums, Y, C, model.components_, chunks=((1,) * Y.numblocks[0], (2,))
    )
    residual, total = sums.sum(axis=0).compute()
    return 1 - residual / total if total else 1.0


def validate_dask_array(model: Any, X: Any, *, reset: bool) -> Any:
    """Return a Dask array of known shape, or raise an error that says what is wrong.

    With `reset` the estimator takes the number of features from it; otherwise it must
    have the estimator's number.
    """
    import dask.array as da

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
    if any(np.isnan(chunk) for chunks in X.chunks for chunk in chunks):
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
        model.n_features_in_ = X.shape[1]
    elif X.shape[1] != model.n_features_in_:
        raise InputError(
            f"X has {X.shape[1]} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input."
        )
    return X


def restrict_to_block(fit: MatrixFit, rows: slice, columns: slice) -> MatrixFit:
    """Return a fit restricted to some rows and columns, without data."""
    program = fit.program
    transposed = program.rows.transposed
    long, short = (columns, rows) if transposed else (rows, columns)
    layout: Any = BlockLayout(transposed, program.rows.dtype)
    common: dict[str, Any] = {
        "U": fit.U[rows],
        "components": fit.components[:, columns],
        "history": History(),
        "program": replace(program, rows=layout),
    }
    if isinstance(fit, ExactResult):
        U, C = fit.state.U[long], fit.state.C[short]
        state = replace(fit.state, U=U, C=C, T=None, last=(U, C))
        return replace(fit, state=state, **common)
    cells = replace(
        fit.cells,
        sides=(fit.cells.sides[0][:, long], fit.cells.sides[1][:, short]),
        low_rank=(fit.cells.low_rank[0][long], fit.cells.low_rank[1][short]),
    )
    return replace(fit, cells=cells, noise=fit.noise[columns], **common)


@dataclass(frozen=True)
class BlockLayout:
    """Orientation and type of the rows of a block whose data are elsewhere."""

    transposed: bool
    dtype: np.dtype[Any]


def _part_of_block(name: str, fit: MatrixFit, block: Any) -> Array:
    """Return the part of a fit called `name`, for one block of the data."""
    layout: Any = fit.program.rows
    Y = np.asarray(masked_to_nan(block)).astype(layout.dtype, copy=False)
    rows = ArrayRows(Y, n_jobs=1, long_axis=1 if layout.transposed else 0)
    with_data = replace(fit, program=replace(fit.program, rows=rows))
    return np.asarray(getattr(with_data, name))


def _dask_array(
    name: str,
    data: Any,
    block_task: Any,
    dtype: np.dtype[Any],
    reads_data: bool = True,
) -> Any:
    """Return a Dask array in the chunks of the data, one task for each block."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    name = f"{name}-{uuid4().hex}"
    ends = [list(accumulate(chunks)) for chunks in data.chunks]
    tasks = {}
    for index in product(*map(range, data.numblocks)):
        slices = (
            slice(end[k] - chunks[k], end[k])
            for k, end, chunks in zip(index, ends, data.chunks, strict=True)
        )
        function, *arguments = block_task(*slices)
        block = [(data.name, *index)] if reads_data else []
        tasks[(name, *index)] = (function, *arguments, *block)
    dependencies = [data] if reads_data else []
    graph = HighLevelGraph.from_collections(name, tasks, dependencies)
    return da.Array(graph, name, data.chunks, dtype=dtype)


def _product(left: Array, right: Array, dtype: np.dtype[Any]) -> Array:
    return np.asarray(left @ right).astype(dtype, copy=False)


def _coordinates(block: Any, regress: Any, dtype: np.dtype[Any]) -> Array:
    """Return the coordinates of one block of rows."""
    Y = np.asarray(masked_to_nan(block)).astype(dtype, copy=False)
    if np.isinf(Y).any():
        raise InputError(
            "Input X contains infinity; replace it by NaN to mark it as missing."
        )
    return np.asarray(regress(Y)).astype(dtype, copy=False)


def _absolute_sums(block: Any, coordinates: Array, components: Array) -> Array:
    """Return Σ|X − X̂| and Σ|X| of one block."""
    Y = np.asarray(masked_to_nan(block)).astype(np.float64)
    expected = coordinates.astype(np.float64) @ components
    return np.array([[np.nansum(np.abs(Y - expected)), np.nansum(np.abs(Y))]])

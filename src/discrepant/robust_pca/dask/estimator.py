"""Dask arrays in, Dask arrays out: what `RobustPCA` does with data that lie elsewhere.

A fit hands back narrow factors. Its parts are lazy: each block of them is a pure
function of the block of the data and of the factors' rows and columns that belong to
it, namely what the result of a fit in memory would say if the block were all there is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, product
from typing import Any
from uuid import uuid4

import numpy as np

from discrepant.core.display import ResultDisplayMixin
from discrepant.core.errors import InputError, InputTypeError
from discrepant.core.linalg import Array
from discrepant.core.results import Certificate, History, Status
from discrepant.core.validation import error_text, masked_to_nan
from discrepant.robust_pca.dask.cluster import ClusterError, worker_pool
from discrepant.robust_pca.dask.rows import LazyRows
from discrepant.robust_pca.exact.result import ExactResult
from discrepant.robust_pca.fit_warnings import caveats, seen_of
from discrepant.robust_pca.noisy.result import NoisyResult
from discrepant.robust_pca.rows.in_memory import Rows

Found = ExactResult | NoisyResult


@dataclass(frozen=True)
class LazyParts(ResultDisplayMixin):
    """A fit of a Dask array; whatever is as large as the data is lazy."""

    found: Found
    data: Any = field(repr=False)  # the Dask array, in the caller's chunks

    @property
    def low_rank(self) -> Any:
        """X, in the chunks of the data."""
        found = self.found
        left = found.U * found.singular_values
        dtype = found.program.rows.dtype

        def piece(rows: slice, columns: slice) -> Any:
            return (_product, left[rows], found.components[:, columns], dtype)

        return _array("low-rank", self.data, piece, dtype, reads=False)

    @property
    def sparse(self) -> Any:
        """S, in the chunks of the data."""
        return self._part("sparse", self.found.program.rows.dtype)

    @property
    def outliers(self) -> Any:
        """Which entries are flagged as corrupt."""
        return self._part("outliers", np.dtype(bool))

    @property
    def probability(self) -> Any:
        """The probability that each entry is corrupt."""
        return self._part("probability", self.found.program.rows.dtype)

    @property
    def residual(self) -> Any:
        """Y − X − S; NaN where Y is missing."""
        return self._part("residual", self.found.program.rows.dtype)

    def _part(self, name: str, dtype: np.dtype[Any]) -> Any:
        found = self.found
        if not isinstance(found.program.rows, LazyRows):  # was brought into memory
            import dask.array as da

            return da.from_array(getattr(found, name), chunks=self.data.chunks)

        def piece(rows: slice, columns: slice) -> Any:
            return (partial(_part_of, name, restricted(found, rows, columns)),)

        return _array(name, self.data, piece, dtype)

    @property
    def certificate(self) -> Certificate:
        """Proof of optimality; its dual is as large as the data, and held in memory."""
        rows = self.found.program.rows
        if not isinstance(rows, LazyRows):
            return self.found.certificate
        program = replace(self.found.program, rows=rows.whole())
        return replace(self.found, program=program).certificate

    def coordinates(self, rows: Array) -> Array:
        """Return where new rows lie in the row space of X."""
        return self.found.coordinates(rows)

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a part of X."""
        return self.found.block(rows, columns)

    @property
    def rank(self) -> int:
        """Rank of X."""
        return self.found.rank

    @property
    def singular_values(self) -> Array:
        """Singular values of X."""
        return self.found.singular_values

    @property
    def components(self) -> Array:
        """Basis of the row space of X."""
        return self.found.components

    @property
    def lam(self) -> float:
        """The weight λ of ‖S‖₁."""
        return self.found.lam

    @property
    def noise(self) -> Array:
        """Noise of each column."""
        return self.found.noise

    @property
    def status(self) -> Status:
        """How the run ended."""
        return self.found.status

    @property
    def history(self) -> History:
        """How it went."""
        return self.found.history

    @property
    def n_steps(self) -> int:
        """Passes that were made."""
        return self.found.n_steps


def fit_lazily(
    model: Any, X: Any, rules: Any, before: Any
) -> tuple[LazyParts, Iterator[tuple[str, type[Warning]]]]:
    """Fit a Dask array; also returns what the user should know."""
    if model.missing != "nan" or model.solver != "implicit":
        raise InputError('A Dask array needs solver="implicit" and missing="nan".')
    Y = validated_lazily(model, X, reset=True)
    rows = LazyRows(Y, memory_limit=model.memory_limit)
    known = before.found if isinstance(before, LazyParts) else None
    known = model.__dict__.pop("_known", known) if model.warm_start else None
    if known is not None:
        short = len(known.U) if rows.turned else known.components.shape[1]
        known = known if short == rows.n else None
    try:
        with worker_pool(Y):
            found = model._solved(rows, rules, known)
    except ClusterError as error:
        model._known = error.known
        raise
    parts = LazyParts(found, Y)
    return parts, caveats(Y, parts, seen_of(found))


def transform(model: Any, X: Any) -> Any:
    """Return the coordinates of the rows of a Dask array, lazily."""
    Y = validated_lazily(model, X, reset=False)
    found = model._fitted()
    known = found.found if isinstance(found, LazyParts) else found
    if isinstance(known, ExactResult | NoisyResult):  # nothing of the data goes along
        known = _learned(known)
    dtype = np.dtype(np.float32 if Y.dtype == np.float32 else np.float64)
    return Y.rechunk({1: -1}).map_blocks(
        _coordinates,
        known,
        dtype,
        chunks=(Y.chunks[0], (model.rank_,)),
        dtype=dtype,
        meta=np.empty((0, 0), dtype),
    )


def inverse_transform(model: Any, X: Any) -> Any:
    """Return the rows that have the given coordinates, lazily."""
    if X.ndim != 2 or X.shape[1] != model.rank_:
        raise InputError(
            f"Coordinates of shape (rows, {model.rank_}) are needed, got {X.shape}."
        )
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    return X.rechunk({1: -1}).map_blocks(
        _product,
        model.components_,
        dtype,
        chunks=(X.chunks[0], (model.n_features_in_,)),
        dtype=dtype,
        meta=np.empty((0, 0), dtype),
    )


def score(model: Any, X: Any) -> Any:
    """Return 1 − Σ|X − X̂| / Σ|X| of a Dask array, in one pass."""
    import dask.array as da

    Y = validated_lazily(model, X, reset=False).rechunk({1: -1})
    C = transform(model, Y)
    sums = da.map_blocks(
        _missed, Y, C, model.components_, chunks=((1,) * Y.numblocks[0], (2,))
    )
    missed, size = sums.sum(axis=0).compute()
    return 1 - missed / size if size else 1.0


def validated_lazily(model: Any, X: Any, *, reset: bool) -> Any:
    """Return a Dask array of known shape, or say what cannot be worked with."""
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
                "The shape of the Dask array is not known, and its blocks cannot be "
                f"computed to find out: {error_text(error)}."
            ) from None
    for axis, what in enumerate(("sample(s)", "feature(s)")):
        if not X.shape[axis]:
            raise InputError(
                f"Found array with 0 {what} (shape={X.shape}) while a minimum of 1 is "
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


def restricted(found: Found, rows: slice, columns: slice) -> Found:
    """Return what a fit says of some rows and columns, without data."""
    program = found.program
    long, short = (columns, rows) if program.rows.turned else (rows, columns)
    bare: Any = _Bare(program.rows.turned, program.rows.dtype)
    common: dict[str, Any] = {
        "U": found.U[rows],
        "components": found.components[:, columns],
        "history": History(),
        "program": replace(program, rows=bare),
    }
    if isinstance(found, ExactResult):
        U, C = found.state.U[long], found.state.C[short]
        state = replace(found.state, U=U, C=C, T=None, last=(U, C))
        return replace(found, state=state, **common)
    cells = replace(
        found.cells,
        sides=(found.cells.sides[0][:, long], found.cells.sides[1][:, short]),
        low_rank=(found.cells.low_rank[0][long], found.cells.low_rank[1][short]),
    )
    return replace(found, cells=cells, noise=found.noise[columns], **common)


@dataclass(frozen=True)
class _Bare:
    """What is known of rows that are elsewhere."""

    turned: bool
    dtype: np.dtype[Any]


def _learned(found: Found) -> Any:
    """Return what new rows are judged by: no data, and nothing of their size."""
    few = restricted(found, slice(0, 0), slice(None))
    return few.coordinates


def _part_of(name: str, found: Found, block: Any) -> Array:
    """Return a part of a fit, for one block of the data."""
    bare: Any = found.program.rows
    Y = np.asarray(masked_to_nan(block)).astype(bare.dtype, copy=False)
    rows = Rows(Y, n_jobs=1, long=1 if bare.turned else 0)
    part = replace(found, program=replace(found.program, rows=rows))
    return np.asarray(getattr(part, name))


def _array(
    name: str, data: Any, piece: Any, dtype: np.dtype[Any], reads: bool = True
) -> Any:
    """Return a Dask array in the chunks of the data, one task a block."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    name = f"{name}-{uuid4().hex}"
    ends = [list(accumulate(chunks)) for chunks in data.chunks]
    tasks = {}
    for at in product(*map(range, data.numblocks)):
        places = (
            slice(end[k] - chunks[k], end[k])
            for k, end, chunks in zip(at, ends, data.chunks, strict=True)
        )
        function, *told = piece(*places)
        block = [(data.name, *at)] if reads else []
        tasks[(name, *at)] = (function, *told, *block)
    graph = HighLevelGraph.from_collections(name, tasks, [data] if reads else [])
    return da.Array(graph, name, data.chunks, dtype=dtype)


def _product(left: Array, right: Array, dtype: np.dtype[Any]) -> Array:
    return np.asarray(left @ right).astype(dtype, copy=False)


def _coordinates(block: Any, known: Any, dtype: np.dtype[Any]) -> Array:
    """Return the coordinates of one block of rows."""
    Y = np.asarray(masked_to_nan(block)).astype(dtype, copy=False)
    if np.isinf(Y).any():
        raise InputError(
            "Input X contains infinity; replace it by NaN to mark it as missing."
        )
    find = getattr(known, "coordinates", known)
    return np.asarray(find(Y)).astype(dtype, copy=False)


def _missed(block: Any, coordinates: Array, components: Array) -> Array:
    """Return Σ|X − X̂| and Σ|X| of one block."""
    Y = np.asarray(masked_to_nan(block)).astype(np.float64)
    expected = coordinates.astype(np.float64) @ components
    return np.array([[np.nansum(np.abs(Y - expected)), np.nansum(np.abs(Y))]])

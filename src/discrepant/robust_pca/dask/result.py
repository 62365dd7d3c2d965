"""Result of a fit of a Dask array: its parts are Dask arrays.

A fit returns narrow factors. Its parts are lazy: each of their blocks is a pure
function of the block of the data and of the factors' rows and columns that belong to
it. It is the part of an in-memory result that is restricted to this block.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.results import Certificate, History, Result
from discrepant.core.validation import masked_to_nan
from discrepant.robust_pca.dask.rows import DaskRows
from discrepant.robust_pca.exact.result import ExactResult
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
        import dask.array as da

        (rows, columns), rank = self.data.chunks, (self.rank,)
        left = (self.fit.U * self.fit.singular_values).astype(self.fit.U.dtype)
        U = da.from_array(left, chunks=(rows, rank), name=False)
        V = da.from_array(self.fit.components, chunks=(rank, columns), name=False)
        return U @ V

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

    @property
    def row_score(self) -> Array:
        """How unusual each row is, computed from blocks of whole rows."""
        if isinstance(self.fit, NoisyResult):
            score = self._part("row_score", np.dtype(np.float64), whole_rows=True)
            return np.asarray(score)
        return super().row_score

    def _part(self, name: str, dtype: np.dtype[Any], whole_rows: bool = False) -> Any:
        """Return a part of the fit, one task for each block of the data.

        With `whole_rows` it has one number for each row.
        """
        import dask.array as da

        fit, axes = self.fit, 1 if whole_rows else 2
        data = self.data.rechunk({1: -1}) if whole_rows else self.data
        chunks = data.chunks[:axes]
        if not isinstance(fit.program.rows, DaskRows):  # the data fit in memory
            return da.from_array(getattr(fit, name), chunks=chunks)
        fits: Any = np.empty(data.numblocks, object)
        places = da.core.slices_from_chunks(data.chunks)
        fits.flat = [restrict_to_block(fit, *place) for place in places]
        return da.map_blocks(
            _part_of_block,
            data,
            da.from_array(fits, chunks=1, name=False),
            part=name,
            chunks=chunks,
            drop_axis=range(axes, 2),
            dtype=dtype,
            meta=np.empty((0,) * axes, dtype),
        )

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


def block_coordinates(result: Any, rows: Any) -> Any:
    """Return the coordinates of the rows of a Dask array, lazily."""
    fit = result.fit if isinstance(result, DaskResult) else result
    if isinstance(fit, ExactResult | NoisyResult):  # do not send the data along
        fit = restrict_to_block(fit, slice(0, 0), slice(None))
    return rows.rechunk({1: -1}).map_blocks(
        _coordinates,
        fit.coordinates,
        chunks=(rows.chunks[0], (result.rank,)),
        dtype=rows.dtype,
        meta=np.empty((0, 0), rows.dtype),
    )


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


def _part_of_block(block: Any, its_fit: Array, part: str) -> Array:
    """Return a part of a fit for one block of the data; the fit comes in an array."""
    fit: MatrixFit = its_fit.item()
    layout: Any = fit.program.rows
    Y = np.asarray(masked_to_nan(block)).astype(layout.dtype, copy=False)
    rows = ArrayRows(Y, n_jobs=1, long_axis=1 if layout.transposed else 0)
    with_data = replace(fit, program=replace(fit.program, rows=rows))
    return np.asarray(getattr(with_data, part))


def _coordinates(rows: Array, regress: Any) -> Array:
    """Return the coordinates of one block of rows."""
    return np.asarray(regress(rows)).astype(rows.dtype, copy=False)

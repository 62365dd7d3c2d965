"""Passes over a Dask array: each is one set of tasks, one task for each block of rows.

A task is a pure function of one block and of narrow factors (`blocks`); all state is on
the client. A pass sends the rows of the m×r factors that belong to a block with its
task and the n×r factors once to each worker, and receives arrays of the same sizes. The
Dask array itself is never gathered.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from discrepant.core.arrays import even_sample
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.robust_pca.dask import blocks
from discrepant.robust_pca.dask.cluster import compute_tasks
from discrepant.robust_pca.rows.in_memory import ArrayRows
from discrepant.robust_pca.rows.rows import Pass, PassResult, RowFits, Rows, RowSpace

# Neighbouring chunks are merged into blocks, since a task takes some milliseconds in
# addition to its work. A block has at most the larger of two sizes:
# - a fraction 1/BLOCKS of the data, but from MIN_BLOCK_BYTES to MAX_BLOCK_BYTES, so
#   that many workers have something to do;
BLOCKS, MIN_BLOCK_BYTES, MAX_BLOCK_BYTES = 64, 1 << 20, 1 << 25
# - a fraction 1/MAX_TASKS of the data, at most HUGE_BLOCK_BYTES, so that huge data do
#   not give too many tasks.
MAX_TASKS, HUGE_BLOCK_BYTES = 4096, 1 << 28
# Bytes above which a chunk of whole rows is split: a worker must hold it in memory.
SPLIT_BYTES = 1 << 30
# Bytes that may be gathered in memory, by default, where no other way exists.
GATHER_BYTES = 1 << 28
# Number of whole rows that the preview reads, for the scales of the columns.
PREVIEW_ROWS = 64
# In place of the factors' rows, which are sent with their blocks.
NO_ROWS = np.empty((0, 0))


class DaskRows(Rows):
    """A Dask array of float64 or float32, in blocks along its long axis.

    float32 stays; all other numbers become float64. `memory_limit` is the number of
    bytes that may be gathered in memory where no other way exists.
    """

    def __init__(self, Y: Any, *, memory_limit: int | None = None) -> None:
        super().__init__()
        self._given = Y
        self.transposed = Y.shape[1] > Y.shape[0]
        self.long_axis_is_second = False
        self.m, self.n = max(Y.shape), min(Y.shape)
        self.dtype = np.dtype(np.float32 if Y.dtype == np.float32 else np.float64)
        self.n_jobs = None
        self.gather_limit = GATHER_BYTES if memory_limit is None else memory_limit
        self._Z = _in_row_blocks(Y.T if self.transposed else Y, self.dtype).map_blocks(
            blocks.load, self.dtype.str, self.transposed, dtype=self.dtype, meta=NO_ROWS
        )
        self._blocks = list(self._Z.to_delayed(optimize_graph=True).ravel())
        ends = list(itertools.accumulate(self._Z.chunks[0]))
        self._bounds = list(zip([0, *ends[:-1]], ends, strict=True))
        self._previewed: tuple[Array, Array, Array] | None = None

    # -- orientation ---------------------------------------------------------------

    def same_layout(self, other: Rows) -> bool:
        """Whether both have the same shape and type."""
        alike = isinstance(other, DaskRows) and self.shape == other.shape
        return alike and self.dtype == other.dtype

    def to_caller_layout(self, X: Array) -> Array:
        """Convert an array whose rows are the long axis to the caller's orientation."""
        return X.T if self.transposed else X

    # -- gathering -----------------------------------------------------------------

    @property
    def data(self) -> Array:
        """The caller's array in memory, if it fits."""
        return self.gather().data

    @property
    def fits_in_memory(self) -> bool:
        """Whether all data may be gathered in memory."""
        return self.size * self.dtype.itemsize <= self.gather_limit

    def gather(self) -> ArrayRows:
        """Return all data in memory, if they fit."""
        if not self.fits_in_memory:
            size = self.size * self.dtype.itemsize
            raise InputError(
                f"This needs the whole matrix in memory, {size / 1e9:.3g} GB, but only "
                f"{self.gather_limit / 1e9:.3g} GB are allowed: raise memory_limit, or "
                "keep the defaults of alpha, psd, polish, solver and noise, with which "
                "a sample of the rows is enough for most data."
            )
        (Z,) = compute_tasks([self._Z])
        return ArrayRows(self.to_caller_layout(Z))

    # -- samples -------------------------------------------------------------------

    def sample(self) -> Array:
        """Return evenly spaced rows and columns (`even_sample` of the shape)."""
        return self.to_caller_layout(self._preview()[1])

    def entries(self, i: Array, j: Array) -> Array:
        """Return the entries at the caller's indices, if all data fit in memory."""
        return self.gather().entries(i, j)

    def take(self, indices: Array, axis: int) -> Array:
        """Return some rows (axis 0) or columns (axis 1) as float64, one per line."""
        order = np.argsort(indices, kind="stable")  # Dask reads each block once
        part = self._Z[:, indices[order]].T if axis else self._Z[indices[order]]
        lines = np.empty(part.shape)
        (lines[order],) = compute_tasks([part])
        return lines

    def scales(self, axis: int, entries: int = 256) -> Array:
        """Return `row_scales` of the caller's rows (axis 0) or columns (axis 1)."""
        if (axis == 0) is self.transposed:  # of the short axis, from a few rows
            few = ArrayRows(self._preview()[2], n_jobs=1, long_axis=0)
            return few.scales(1, entries)
        scales = self._run_tasks(blocks.scales, entries)
        return np.concatenate(scales, dtype=np.float64)

    def _preview(self) -> tuple[Array, Array, Array]:
        """Return the scan, sampled entries, and a few whole rows: one pass, once."""
        if self._previewed is None:
            sampled, columns = even_sample(self.shape)
            if self.transposed:
                sampled, columns = columns, sampled
            some = self._split_by_block(np.arange(self.m)[sampled])
            step = max(self.m // PREVIEW_ROWS, 1)
            whole = self._split_by_block(np.arange(0, self.m, step))
            parts = self._run_tasks(
                blocks.preview, columns, list(zip(some, whole, strict=True))
            )
            scan, entries, lines = map(np.concatenate, zip(*parts, strict=True))
            self._previewed = scan, entries, lines
        return self._previewed

    # -- passes --------------------------------------------------------------------

    def empty_like_data(self, fill: float | None = None) -> Array:
        """Refuse: no array of the size of a Dask array is kept."""
        raise NotImplementedError("no array of the size of a Dask array is kept")

    def run(self, pass_: Pass) -> PassResult:
        """Run a kernel over all blocks; the rows of the factors go with each block."""
        if pass_.kernel == "scan":
            none, scan = np.zeros((0, 0)), self._preview()[0]
            return PassResult(none, none, scan, none, none, none)
        U, C = map(self._as_factor, pass_.low_rank or (None, None))
        row_values, column_values = map(
            self._as_factor, pass_.line_values or (None, None)
        )
        left, right = self._as_factor(pass_.left), self._as_factor(pass_.right)

        by_block: list[Any] = []
        for start, stop in self._bounds:
            values = None if row_values is None else row_values[:, start:stop]
            factors = (None if X is None else X[start:stop] for X in (U, left))
            by_block.append((*factors, values))
        common = replace(
            pass_,
            low_rank=None if U is None else (NO_ROWS, C),
            right=right,
            left=None,
            line_values=None if row_values is None else (NO_ROWS, column_values),
        )
        results = self._run_tasks(blocks.run, common, by_block)
        right, left, tile_sums, by_row, by_column, histogram = zip(
            *results, strict=True
        )
        return PassResult(
            np.concatenate(right, dtype=np.float64),
            np.sum(left, axis=0),
            np.concatenate(tile_sums),
            np.concatenate(by_row, axis=1),
            np.sum(by_column, axis=0),
            np.sum(histogram, axis=0),
        )

    def regress(self, indices: Array, space: RowSpace) -> RowFits:
        """Regress some rows (of increasing indices) robustly on a row space."""
        all_rows = len(indices) == self.m
        local: list[Any] = [None] * len(self._bounds)
        if not all_rows:
            local = self._split_by_block(indices)
        needed = [k for k, rows in enumerate(local) if rows is None or len(rows)]
        parts = self._run_tasks(blocks.regress, space, local, needed)
        return RowFits(*map(np.concatenate, zip(*parts, strict=True)))

    # -- tasks ---------------------------------------------------------------------

    def _run_tasks(
        self,
        task: Callable[..., Any],
        common_data: Any,
        by_block: list[Any] | None = None,
        which: Iterable[int] | None = None,
    ) -> list[Any]:
        """Run a task on all blocks, or on some, and return the result of each.

        `by_block` are data that belong to one block each.
        """
        from dask import delayed

        common = delayed(_identity, pure=False)(common_data)  # sent to a worker once
        run_task = delayed(blocks.run_on_block, pure=False)
        tasks = []
        for k in range(len(self._bounds)) if which is None else which:
            data = None if by_block is None else by_block[k]
            tasks.append(run_task(task, self._blocks[k], data, common))
        return compute_tasks(tasks)

    def _split_by_block(self, indices: Array) -> list[Array]:
        """Return the indices (increasing) in each block, relative to its first row."""
        ends = np.searchsorted(indices, [stop for _, stop in self._bounds])
        parts = np.split(indices, ends[:-1])
        return [p - start for p, (start, _) in zip(parts, self._bounds, strict=True)]

    def _as_factor(self, factor: Any) -> Any:
        return None if factor is None else np.ascontiguousarray(factor, self.dtype)


def _identity(value: Any) -> Any:
    return value


def _in_row_blocks(Z: Any, dtype: np.dtype[Any]) -> Any:
    """Return a Dask array in chunks of whole rows, as large as the constants say."""
    from dask.array.core import normalize_chunks

    row_bytes = Z.shape[1] * dtype.itemsize
    size = Z.shape[0] * row_bytes
    for_workers = min(max(size // BLOCKS, MIN_BLOCK_BYTES), MAX_BLOCK_BYTES)
    wanted = max(for_workers, min(size // MAX_TASKS, HUGE_BLOCK_BYTES))
    limit = min(max(wanted, max(Z.chunks[0]) * row_bytes), SPLIT_BYTES)
    heights, _ = normalize_chunks(
        ("auto", -1), Z.shape, limit, dtype, previous_chunks=Z.chunks
    )
    return Z.rechunk({0: heights, 1: -1})

"""The stored entries of a sparse matrix, sorted by row and by column."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import count_threads, refuse_infinite

# Tasks per thread: some lines take longer than others.
TASKS_PER_THREAD = 4


@dataclass(frozen=True, eq=False)
class SortedEntries:
    """Entries sorted by line, that is by row or by column; see `kernels`."""

    pointer: Array  # first entry of each line, and the end of the last
    cross_index: Array  # index of each entry along the other axis
    position: Array  # where the value of each entry is stored

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """What the compiled loops read."""
        return self.pointer, self.cross_index, self.position

    @property
    def counts(self) -> Array:
        """Number of entries of each line."""
        return np.diff(self.pointer)

    def sums(self, values: Array) -> Array:
        """Return the sum of the entries' values of each line."""
        total = np.append(0, np.cumsum(values[self.position]))
        return np.diff(total[self.pointer])


class StoredEntries:
    """The observed entries of a sparse matrix; all others, and NaN, are missing."""

    def __init__(self, table: Any, n_jobs: int | None = None) -> None:
        from scipy import sparse

        if np.dtype(table.dtype).kind not in "fiub":
            raise InputError(f"The data are of type {table.dtype}; numbers are needed.")
        self.shape: tuple[int, int] = table.shape
        self.sparse_class = type(table)
        self.dtype = np.dtype(np.float32 if table.dtype == np.float32 else np.float64)
        self.n_threads = count_threads(n_jobs)
        stored = table.tocoo()
        observed = ~np.isnan(stored.data)
        values = stored.data[observed].astype(np.float64)
        indices = tuple(index[observed] for index in stored.coords)
        by_row = sparse.coo_array((values, indices), self.shape).tocsr()
        if not len(values):
            raise InputError("No entry is stored; at least one must be observed.")
        refuse_infinite(values)
        if by_row.nnz < len(values):  # formats disagree on the value of such entries
            raise InputError(
                "Some entries are stored twice; add them up (sum_duplicates) or drop "
                "all but one."
            )
        self.y: Array = by_row.data
        position = np.arange(by_row.nnz, dtype=by_row.indices.dtype)
        self.rows = SortedEntries(by_row.indptr, by_row.indices, position)
        columns = self.to_csr(position).tocsc()
        self.columns = SortedEntries(columns.indptr, columns.indices, columns.data)

    @property
    def by_axis(self) -> tuple[SortedEntries, SortedEntries]:
        """The entries sorted by row, and sorted by column."""
        return self.rows, self.columns

    def run(self, axis: int, kernel: Callable[..., Any], *arguments: Any) -> None:
        """Run a compiled loop over all rows (axis 0) or columns (1), in threads."""
        arrays = self.by_axis[axis].arrays
        pointer = arrays[0]
        cuts = np.linspace(0, len(self.y), TASKS_PER_THREAD * self.n_threads + 1)
        bounds = np.searchsorted(pointer, cuts[1:-1])
        bounds = np.unique([0, *bounds, len(pointer) - 1])
        with ThreadPoolExecutor(self.n_threads) as pool:
            tasks = [
                pool.submit(kernel, arrays, *arguments, first, last)
                for first, last in pairwise(bounds)
            ]
            for task in tasks:
                task.result()

    def to_sparse(self, values: Array) -> Any:
        """Return values at the entries as a sparse array of the caller's class."""
        return self.sparse_class(self.to_csr(values))

    def to_csr(self, values: Array) -> Any:
        """Return values at the entries as a sparse array by rows."""
        from scipy import sparse

        parts = values, self.rows.cross_index, self.rows.pointer
        return sparse.csr_array(parts, self.shape, copy=True)

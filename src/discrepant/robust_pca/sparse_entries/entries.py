"""The stored entries of a sparse matrix, sorted by row and by column."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import count_threads

# Tasks per thread: some lines take longer than others.
TASKS_PER_THREAD = 4
# Lines checked at a time for entries that are stored twice, which limits memory.
CHECK_LINES = 4096


@dataclass(frozen=True, eq=False)
class SortedEntries:
    """Entries sorted by line, that is by row or by column; see `kernels`."""

    pointer: Array  # first entry of each line, and the end of the last
    cross_index: Array  # index of each entry along the other axis
    position: Array  # where the value of each entry is stored
    bounds: Array  # first line of each task, and the end of the last

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """What the compiled loops read."""
        return self.pointer, self.cross_index, self.position

    @property
    def lines(self) -> int:
        """Number of lines."""
        return len(self.pointer) - 1

    @property
    def counts(self) -> Array:
        """Number of entries of each line."""
        return np.diff(self.pointer)


class StoredEntries:
    """The observed entries of a sparse matrix; all others, and NaN, are missing."""

    def __init__(self, table: Any, n_jobs: int | None = None) -> None:
        self.shape: tuple[int, int] = table.shape
        if np.dtype(table.dtype).kind not in "fiub":
            raise InputError(f"The data are of type {table.dtype}; numbers are needed.")
        coo = table.tocoo()
        row, column = coo.coords
        is_float = coo.data.dtype.kind == "f"
        observed = ~np.isnan(coo.data) if is_float else np.s_[:]
        self.row = np.ascontiguousarray(row[observed], np.int32)
        self.column = np.ascontiguousarray(column[observed], np.int32)
        is_single = coo.data.dtype == np.float32
        self.dtype = np.dtype(np.float32 if is_single else np.float64)
        self.y = np.ascontiguousarray(coo.data[observed], np.float64)
        if not np.isfinite(self.y).all():
            raise InputError(
                "The data contain infinite values; replace them by NaN to mark them "
                "as missing."
            )
        if not len(self.y):
            raise InputError("No entry is stored; at least one must be observed.")
        self.n_threads = count_threads(n_jobs)
        self.rows = self._sorted(self.row, self.column, self.shape[0])
        self.columns = self._sorted(self.column, self.row, self.shape[1])
        _check_no_duplicates(self.rows)

    @property
    def by_axis(self) -> tuple[SortedEntries, SortedEntries]:
        """The entries sorted by row, and sorted by column."""
        return self.rows, self.columns

    def run(
        self, entries: SortedEntries, kernel: Callable[..., Any], *arguments: Any
    ) -> None:
        """Run a compiled loop over all rows or all columns, in threads."""
        tasks = list(zip(entries.bounds[:-1], entries.bounds[1:], strict=True))
        common = (entries.arrays, *arguments)
        if self.n_threads == 1 or len(tasks) == 1:
            for bounds in tasks:
                kernel(*common, *bounds)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            for future in [pool.submit(kernel, *common, *bounds) for bounds in tasks]:
                future.result()

    def to_sparse(self, values: Array, sparse_class: Any) -> Any:
        """Return values at the entries as a sparse array of the caller's class."""
        from scipy import sparse

        coo = sparse.coo_array((values, (self.row, self.column)), self.shape)
        return sparse_class(coo)

    def _sorted(self, line: Array, cross_index: Array, lines: int) -> SortedEntries:
        """Return the entries sorted by line, and lines divided evenly into tasks."""
        order = np.argsort(line, kind="stable")
        index_dtype = np.int32 if len(order) < 2**31 else np.int64
        pointer = np.zeros(lines + 1, np.int64)
        np.cumsum(np.bincount(line, minlength=lines), out=pointer[1:])
        cuts = np.linspace(0, len(line), TASKS_PER_THREAD * self.n_threads + 1)
        bounds = np.unique(np.searchsorted(pointer, cuts[1:-1]))
        bounds = np.unique([0, *bounds, lines])
        position = order.astype(index_dtype)
        return SortedEntries(pointer, cross_index[order], position, bounds)


def _check_no_duplicates(entries: SortedEntries) -> None:
    """Raise an error if an entry is stored twice: formats disagree on its value."""
    for first in range(0, entries.lines, CHECK_LINES):
        last = min(first + CHECK_LINES, entries.lines)
        part = slice(entries.pointer[first], entries.pointer[last])
        counts = np.diff(entries.pointer[first : last + 1])
        line = np.repeat(np.arange(len(counts)), counts)
        order = np.lexsort((entries.cross_index[part], line))
        cross_index = entries.cross_index[part][order]
        if np.any((np.diff(cross_index) == 0) & (np.diff(line) == 0)):
            raise InputError(
                "Some entries are stored twice; add them up (sum_duplicates) or drop "
                "all but one."
            )

"""The stored entries of a table, seen from its rows and from its columns."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import count_threads

PARTS = 4  # of the lines to a thread: some take longer than others


@dataclass(frozen=True, eq=False)
class Side:
    """Entries sorted by line; see `kernels`."""

    pointer: Array
    other: Array
    place: Array
    bounds: Array  # lines at which the parts begin, and the last ends

    @property
    def lines(self) -> int:
        """How many lines there are."""
        return len(self.pointer) - 1

    @property
    def counts(self) -> Array:
        """How many entries each line has."""
        return np.diff(self.pointer)


class StoredEntries:
    """Values at places of a table; all else is missing.

    Parameters
    ----------
    table : scipy.sparse matrix or array
        Of which the stored entries are observed; those stored as NaN are not.
    n_jobs : int, optional
        Threads; by default one a core.
    """

    def __init__(self, table: Any, n_jobs: int | None = None) -> None:
        self.shape: tuple[int, int] = table.shape
        if np.dtype(table.dtype).kind not in "fiub":
            raise InputError(f"The data are of type {table.dtype}; numbers are needed.")
        coo = table.tocoo()
        row, column = coo.coords
        seen = ~np.isnan(coo.data) if coo.data.dtype.kind == "f" else np.s_[:]
        self.row = np.ascontiguousarray(row[seen], np.int32)
        self.column = np.ascontiguousarray(column[seen], np.int32)
        kept = np.float32 if coo.data.dtype == np.float32 else np.float64
        self.dtype = np.dtype(kept)
        self.y = np.ascontiguousarray(coo.data[seen], np.float64)
        if not np.isfinite(self.y).all():
            raise InputError(
                "The data contain infinite values; replace them by NaN to mark them "
                "as missing."
            )
        if not len(self.y):
            raise InputError("No entry is stored; at least one must be observed.")
        self.workers = count_threads(n_jobs)
        self.rows = self._side(self.row, self.column, self.shape[0])
        self.columns = self._side(self.column, self.row, self.shape[1])
        _refuse_twice(self.rows)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both, rows first."""
        return self.rows, self.columns

    def each(self, side: Side, kernel: Callable[..., Any], *arguments: Any) -> None:
        """Run a compiled loop over all lines of a side, in threads."""
        parts = list(zip(side.bounds[:-1], side.bounds[1:], strict=True))
        before = (side.pointer, side.other, side.place, *arguments)
        if self.workers == 1 or len(parts) == 1:
            for part in parts:
                kernel(*before, *part)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            for done in [pool.submit(kernel, *before, *part) for part in parts]:
                done.result()

    def like(self, values: Array, kind: Any) -> Any:
        """Return values at the entries as a sparse array of the caller's kind."""
        from scipy import sparse

        made = sparse.coo_array((values, (self.row, self.column)), self.shape)
        return kind(made)

    def _side(self, line: Array, other: Array, lines: int) -> Side:
        order = np.argsort(line, kind="stable")
        small = np.int32 if len(order) < 2**31 else np.int64
        pointer = np.zeros(lines + 1, np.int64)
        np.cumsum(np.bincount(line, minlength=lines), out=pointer[1:])
        share = np.linspace(0, len(line), PARTS * self.workers + 1)
        bounds = np.unique(np.searchsorted(pointer, share[1:-1]))
        bounds = np.unique([0, *bounds, lines])
        return Side(pointer, other[order], order.astype(small), bounds)


def _refuse_twice(side: Side) -> None:
    """Refuse entries that are stored twice, which is right before it is wrong."""
    for i in range(0, side.lines, 4096):
        ends = side.pointer[i], side.pointer[min(i + 4096, side.lines)]
        counts = np.diff(side.pointer[i : i + 4097])
        line = np.repeat(np.arange(len(counts)), counts)
        order = np.lexsort((side.other[ends[0] : ends[1]], line))
        other = side.other[ends[0] : ends[1]][order]
        if np.any((np.diff(other) == 0) & (np.diff(line) == 0)):
            raise InputError(
                "Some entries are stored twice; add them up (sum_duplicates) or drop "
                "all but one."
            )

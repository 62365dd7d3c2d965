"""Where the rows live, and the map and reduce over them.

`Rows` holds the caller's data as it lies in memory or in a file and never writes to it.
Its `sweep` is the one road to the m×n entries: tiles along the long axis go through a
kernel, and only narrow arrays come back.

    tile = U_b Cᵀ → kernel → tile        P_b = tile · right        B += tileᵀ · left_b

A solver asks for a kernel by name, as in ``rows.sweep("step", …)``; which code runs it
is the rows' business: compiled loops on threads here.

The m indices of the long axis are called rows here and the n of the short one columns,
whichever way the caller's array is turned; `turned` says whether they were swapped.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np

from discrepant.core.arrays import even_sample
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.threads import ONE_BLAS_THREAD, split_evenly
from discrepant.core.validation import check_mapped, count_threads
from discrepant.robust_pca.rows import (
    kernels,
)
from discrepant.robust_pca.rows import (
    regression_kernel as regression,
)
from discrepant.robust_pca.rows import (
    robust_kernels as robust,
)
from discrepant.robust_pca.rows.lock import Held
from discrepant.robust_pca.rows.pages import Pages, room_for
from discrepant.robust_pca.rows.tiles import Fits, Products, Tally, Tile

# Bytes of a tile: small enough to stay in cache between BLAS, kernel and BLAS again,
# and large enough for BLAS to run at speed (`benchmarks/matrix.py`: 2⁻² and 2² times
# as much are both slower).
TILE_BYTES = 1 << 20
# Entries below which another thread costs more than it brings: some 30 µs of work,
# which is what handing it to a thread takes.
WORTH_A_THREAD = 1 << 15


class Rows(Held):
    """An m×n array of float64 or float32, seen as blocks along its long axis.

    A context manager, for one thread at a time: inside it, there is one worker per core
    and BLAS is held at one thread, so that the two do not fight over the cores.

    Parameters
    ----------
    Y : array of shape (., .)
        In memory or memory-mapped; may be read-only.  Only an array that is contiguous
        in neither order, or of another type, is copied.
    n_jobs : int, optional
        Threads; by default one per core that this process may use.  Negative numbers
        count from there: −1 is all of them, −2 all but one.
    memory_limit : int, optional
        Bytes that `scratch` may take in memory; beyond it goes to a temporary file.
    long : int, optional
        The axis that is called rows; by default the longer one.
    """

    apart = ("_workers",)
    m: int
    n: int

    def __init__(
        self,
        Y: Any,
        *,
        n_jobs: int | None = None,
        memory_limit: int | None = None,
        long: int | None = None,
    ) -> None:
        super().__init__()
        Z = np.asarray(Y)
        if Z.ndim != 2:
            raise InputError(f"A matrix (2-D) is needed, got {Z.ndim}-D data.")
        if Z.dtype not in (np.float32, np.float64):
            Z = Z.astype(np.float64)
        along_rows = Z.flags.c_contiguous or not Z.flags.f_contiguous
        Z = np.ascontiguousarray(Z if along_rows else Z.T)
        # Read-only, so that one compiled kernel serves writeable and read-only data.
        Z = Z.view()
        Z.flags.writeable = False
        self._Z = Z
        self._transposed = not along_rows  # Z against the caller's array
        self.wide = Z.shape[1] > Z.shape[0]  # the long axis is Z's second
        if long is not None:
            self.wide = (long == 1) is along_rows
        self.dtype = Z.dtype
        self.turned = self.wide is along_rows
        self.m, self.n = Z.shape[::-1] if self.wide else Z.shape
        self._memory_limit, self.n_jobs = memory_limit, n_jobs
        self._pages = Pages(Z, self.wide, memory_limit)
        jobs = min(count_threads(n_jobs), max(Z.size // WORTH_A_THREAD, 1))
        self._shares = split_evenly(self.m, jobs)
        fitting = max(TILE_BYTES // max(self.n * Z.itemsize, 1), 16)
        self._tile_rows = min(fitting, max(-(-self.m // jobs), 1))
        self._workers: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        """Start the workers and hold BLAS at one thread."""
        check_mapped(self._Z)
        super().__enter__()
        ONE_BLAS_THREAD.enter()
        jobs = len(self._shares)
        self._workers = ThreadPoolExecutor(jobs) if jobs > 1 else None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the workers and give BLAS its threads back."""
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.shutdown(cancel_futures=True)
        ONE_BLAS_THREAD.leave()
        super().__exit__(kind, error, trace)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_workers": None})
        self._Z.flags.writeable = False  # which pickles forget

    # -- how the data lie ----------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the caller's array."""
        return (self.n, self.m) if self.turned else (self.m, self.n)

    @property
    def size(self) -> int:
        """Number of entries."""
        return self._Z.size

    def as_given(self, X: Array) -> Array:
        """Turn an array laid out as the data to the caller's orientation."""
        return X.T if self._transposed else X

    def turn(self, U: Array, V: Array) -> tuple[Array, Array]:
        """Turn factors from the blocks' orientation to the caller's, or back."""
        return (V, U) if self.turned else (U, V)

    def lies_like(self, other: "Rows") -> bool:
        """Whether both have the same shape, order in memory and type."""
        if not isinstance(other, Rows) or self._Z.shape != other._Z.shape:
            return False
        return self.turned == other.turned and self.dtype == other.dtype

    # -- a look at the data --------------------------------------------------------

    def sample(self) -> Array:
        """Return evenly spread rows and columns (`even_sample` of the shape)."""
        rows, columns = even_sample(self._Z.shape)
        which = np.arange(len(self._Z))[rows]
        return self.as_given(self._pages.taken(self._Z, which, 0)[:, columns])

    def entries(self, i: Array, j: Array) -> Array:
        """Return the entries at the given places, one for each pair (i, j)."""
        return np.asarray(self.as_given(self._Z)[i, j])

    def lines(self, which: Array, axis: int) -> Array:
        """Return some rows (axis 0) or columns (1), of the long and the short axis."""
        along = axis == (1 if self.wide else 0)
        found = self._pages.taken(self._Z, which, 0 if along else 1)
        return np.asarray(found if along else found.T, np.float64)

    def line_sizes(self, axis: int, entries: int = 256) -> Array:
        """Return the usual size of each row (axis 0) or column of the caller's."""
        return self._pages.sizes(self._Z, axis ^ self._transposed, entries)

    # -- work ----------------------------------------------------------------------

    def scratch(self, fill: float | None = None) -> Array:
        """Return an array laid out as the data, on file if memory is short.

        It holds zeros unless another number to fill it with is given.
        """
        array = room_for(self._Z.shape, self.dtype, self._memory_limit)
        if fill:
            array[:] = fill
        return array

    def sweep(
        self,
        kernel: str,
        arrays: tuple[Array, ...] = (),
        scalars: tuple[float, ...] = (),
        *,
        low_rank: tuple[Array, Array] | None = None,
        right: Array | None = None,
        left: Array | None = None,
        power: bool = False,
    ) -> tuple[Array, Array, Array]:
        """Run a kernel over all tiles and multiply each tile as it is produced.

        Parameters
        ----------
        kernel : str
            Name of a function of `kernels`; it is called as ``kernel(Z, *arrays, row,
            column, tile, *scalars)``.
        arrays : tuple of ndarray
            Further arrays laid out as the data, such as T.
        scalars : tuple of float
            Passed in the type of the data.
        low_rank : (U, C), optional
            U of shape (m, r), C of shape (n, r); the tile starts as U_b Cᵀ.
        right : ndarray of shape (n, k), optional
            Gives P = tile · right.
        left : ndarray of shape (m, k), optional
            Gives B = Σ tileᵀ · left_b.
        power : bool
            Take P itself as `left`: B = Σ tileᵀ tile · right.

        Returns
        -------
        P : ndarray of shape (m, k)
        B : ndarray of shape (n, k)
            Both in float64, and without columns where not asked for.
        results : ndarray of shape (tiles, .)
            What the kernel returned for each tile.
        """
        run_kernel = getattr(kernels, kernel)
        constants = self._constants(scalars)
        right = self._narrow(np.empty((self.n, 0)) if right is None else right)
        left = self._narrow(np.empty((self.m, 0)) if left is None else left)
        P = np.empty((self.m, right.shape[1]), self.dtype)
        products = Products(right, P, P if power else left)

        def share(bounds: tuple[int, int]) -> tuple[Array, Array]:
            add, results = products.fresh(), []
            for tile in self._tiles(bounds, low_rank):
                found = run_kernel(
                    self._Z, *arrays, *tile.place, tile.values, *constants
                )
                results.append(found or ())
                add(tile)
            return add.B, np.array(results)

        parts = self._shared(share)
        B = np.sum([part[0] for part in parts], axis=0)
        results = np.concatenate([part[1] for part in parts])
        return P.astype(np.float64, copy=False), B, results

    def tally(
        self,
        kernel: str,
        scalars: tuple[float, ...],
        *,
        low_rank: tuple[Array, Array],
        sides: tuple[Array, Array],
        table: Array,
        counts: tuple[int, int] = (0, 0),
        bins: int = 0,
        arrays: tuple[Array, ...] = (),
        right: Array | None = None,
    ) -> Tally:
        """Run a kernel that also reads and adds up numbers by row and by column.

        Parameters
        ----------
        kernel : str
            Name of a function of `robust`; it is called as ``kernel(Z, *arrays, row,
            column, tile, first, second, table, by_first, by_second, histogram,
            *scalars)``, where first and second are the two axes of Z.
        scalars, arrays, low_rank
            As for `sweep`.
        sides : (A, B)
            Numbers read for each row, of shape (., m), and column, of shape (., n).
        table : ndarray
            A table that the kernel looks up in.
        counts : (int, int)
            How many numbers are added up for each row and for each column.
        bins : int
            Length of the histogram.
        right : ndarray of shape (n, k), optional
            Gives P = tile · right and B = Σ tileᵀ P_b.
        """
        run_kernel = getattr(robust, kernel)
        constants, looked_up = self._constants(scalars), self._narrow(table)
        A, B = map(self._narrow, sides)
        right = self._narrow(np.empty((self.n, 0)) if right is None else right)
        P = np.empty((self.m, right.shape[1]), self.dtype)
        products = Products(right, P, P)
        by_row = np.zeros((counts[0], self.m))

        def share(bounds: tuple[int, int]) -> tuple[Array, Array, Array]:
            add = products.fresh()
            by_column = np.zeros((counts[1], self.n), self.dtype)
            histogram = np.zeros(bins, np.int64)
            for tile in self._tiles(bounds, low_rank):
                long = self._narrow(A[:, tile.rows])
                by_long = np.zeros((counts[0], long.shape[1]), self.dtype)
                first, second = (long, by_long), (B, by_column)
                if self.wide:
                    first, second = second, first
                run_kernel(
                    self._Z,
                    *arrays,
                    *tile.place,
                    tile.values,
                    first[0],
                    second[0],
                    looked_up,
                    first[1],
                    second[1],
                    histogram,
                    *constants,
                )
                by_row[:, tile.rows] = by_long
                add(tile)
            return add.B, by_column.astype(np.float64), histogram

        parts = self._shared(share)
        product, by_column, histogram = (
            np.sum([part[k] for part in parts], axis=0) for k in range(3)
        )
        P = P.astype(np.float64, copy=False)
        return Tally(P, product, by_row, by_column, histogram)

    def regress(
        self,
        which: Array,
        at: Array,
        basis: Array,
        scale: Array,
        unit: float,
        noise: float = 0.0,
    ) -> Fits:
        """Fit some rows by a basis, whatever a part of each holds (`regression`).

        Parameters
        ----------
        which : ndarray of int
            The rows, in rising order.
        at : ndarray of int, shape (q,)
            The columns that they are fitted at.
        basis : ndarray of shape (q, r)
            Directions of the row space at these columns.
        scale : ndarray of shape (q,)
            What the data are multiplied by there, beside their unit.
        noise : float
            Their noise after that, where it is known.
        """
        X = np.ascontiguousarray(basis.T, np.float64)
        scale, number = np.ascontiguousarray(scale, np.float64), self.dtype.type(unit)
        k = len(which)
        found = Fits(np.empty((k, len(X))), np.empty(k), *np.empty((2, k), np.int64))

        def share(bounds: tuple[int, int]) -> None:
            for start in range(*bounds, self._pages.stretch):
                part = slice(start, min(start + self._pages.stretch, bounds[1]))
                parts = (array[part] for array in found)
                told = (self.wide, which[part], at, X, scale, noise, number)
                regression.fit_rows(self._Z, *told, *parts)
                self._pages.give_back(which[start], which[part.stop - 1] + 1)

        self._shared(share, split_evenly(k, len(self._shares)))
        return found

    def _shared(
        self,
        share: Callable[[tuple[int, int]], Any],
        bounds: list[tuple[int, int]] | None = None,
    ) -> list[Any]:
        """Run a share of the rows on each worker."""
        check_mapped(self._Z)
        crowded = ONE_BLAS_THREAD.crowded(len(self._shares))
        workers = None if crowded else self._workers
        run: Callable[..., Any] = map if workers is None else workers.map
        return list(run(share, self._shares if bounds is None else bounds))

    def _tiles(
        self, bounds: tuple[int, int], low_rank: tuple[Array, Array] | None
    ) -> Iterator[Tile]:
        """Yield tiles of U Cᵀ, one after the other in the same memory."""
        U, C = (None, None) if low_rank is None else map(self._narrow, low_rank)
        buffer = np.empty(self._tile_rows * self.n, self.dtype)
        read = bounds[0]  # up to there pages are given back
        for start in range(*bounds, self._tile_rows):
            if start > bounds[0]:  # a map may be cut while it is read
                check_mapped(self._Z)
            rows = slice(start, min(start + self._tile_rows, bounds[1]))
            b, wide = rows.stop - rows.start, self.wide
            values = buffer[: b * self.n].reshape((self.n, b) if wide else (b, self.n))
            if U is not None and C is not None:
                np.dot(*((C, U[rows].T) if wide else (U[rows], C.T)), out=values)
            place = (0, start) if wide else (start, 0)
            yield Tile(rows, place, values, values.T if wide else values)
            if rows.stop - read >= self._pages.stretch or rows.stop == bounds[1]:
                self._pages.give_back(read, rows.stop)
                read = rows.stop

    def _constants(self, scalars: tuple[float, ...]) -> tuple[Any, ...]:
        return tuple(self.dtype.type(x) for x in scalars)

    def _narrow(self, factor: Array) -> Array:
        return np.ascontiguousarray(factor, self.dtype)

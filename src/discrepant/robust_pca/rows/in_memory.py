"""Passes over an array in memory or a memory map: tiles, threads and BLAS products.

`ArrayRows` holds the caller's array as it lies in memory or in a file and never writes
to it. Tiles along the long axis stay in cache between BLAS, the kernel and BLAS again.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from discrepant.core.arrays import even_sample
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.memory import array_on_file
from discrepant.core.robust_statistics import row_scales
from discrepant.core.threads import ONE_BLAS_THREAD, split_evenly
from discrepant.core.validation import check_mapped, count_threads
from discrepant.robust_pca.rows import kernels, regression_kernel, robust_kernels
from discrepant.robust_pca.rows.rows import Pass, PassResult, RowFits, Rows, RowSpace

# Size of a tile, in bytes: small enough to stay in cache between BLAS, kernel and BLAS
# again, and large enough for BLAS to run at full speed (`benchmarks/matrix.py`: a
# quarter and four times as much are both slower).
TILE_BYTES = 1 << 20
# The compiled kernels by their names.
KERNELS = vars(kernels) | vars(robust_kernels)
# Entries per thread below which another thread costs more than it gains: about 30 µs of
# work, the time to hand work to a thread.
ENTRIES_PER_THREAD = 1 << 15


class ArrayRows(Rows):
    """An array or a memory map of float64 or float32, in blocks along its long axis.

    A context manager, for one thread at a time: inside it, there is one worker thread
    per core and BLAS is held at one thread, so that the two do not compete.

    The array is copied only if it is contiguous in neither order or of another type. An
    array of `empty_like_data` lies in a temporary file if it exceeds `memory_limit`
    bytes. `long_axis` is the axis that is called rows, by default the longer one;
    `n_jobs` is the number of threads in joblib's convention, by default one per core.
    """

    not_pickled = ("_workers",)

    def __init__(
        self,
        Y: Any,
        *,
        n_jobs: int | None = None,
        memory_limit: int | None = None,
        long_axis: int | None = None,
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
        self._Z_is_transposed = not along_rows  # against the caller's array
        self.long_axis_is_second = Z.shape[1] > Z.shape[0]
        if long_axis is not None:
            self.long_axis_is_second = (long_axis == 1) is along_rows
        self.dtype = Z.dtype
        self.transposed = self.long_axis_is_second is along_rows
        self.m, self.n = Z.shape[::-1] if self.long_axis_is_second else Z.shape
        self._memory_limit, self.n_jobs = memory_limit, n_jobs
        jobs = min(count_threads(n_jobs), max(Z.size // ENTRIES_PER_THREAD, 1))
        self._thread_ranges = split_evenly(self.m, jobs)
        fitting = max(TILE_BYTES // max(self.n * Z.itemsize, 1), 16)
        self._tile_rows = min(fitting, max(-(-self.m // jobs), 1))
        self._workers: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        """Start the worker threads and hold BLAS at one thread."""
        check_mapped(self._Z)
        super().__enter__()
        ONE_BLAS_THREAD.enter()
        jobs = len(self._thread_ranges)
        self._workers = ThreadPoolExecutor(jobs) if jobs > 1 else None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the worker threads and give BLAS its threads back."""
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.shutdown(cancel_futures=True)
        ONE_BLAS_THREAD.leave()
        super().__exit__(kind, error, trace)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_workers": None})
        self._Z.flags.writeable = False  # pickles do not keep it

    # -- orientation ---------------------------------------------------------------

    def to_caller_layout(self, X: Array) -> Array:
        """Convert an array laid out as the data to the caller's orientation."""
        return X.T if self._Z_is_transposed else X

    def same_layout(self, other: Rows) -> bool:
        """Whether both have the same shape, order in memory and type."""
        if not isinstance(other, ArrayRows) or self._Z.shape != other._Z.shape:
            return False
        return self.transposed == other.transposed and self.dtype == other.dtype

    @property
    def data(self) -> Array:
        """The caller's array, read-only."""
        return self.to_caller_layout(self._Z)

    # -- samples -------------------------------------------------------------------

    def sample(self) -> Array:
        """Return evenly spaced rows and columns (`even_sample` of the shape)."""
        return self.to_caller_layout(self._Z[even_sample(self._Z.shape)])

    def entries(self, i: Array, j: Array) -> Array:
        """Return the entries at the caller's indices, one for each pair (i, j)."""
        return np.asarray(self.data[i, j])

    def take(self, indices: Array, axis: int) -> Array:
        """Return some rows (axis 0) or columns (axis 1) as float64, one per line."""
        first_axis = axis == (1 if self.long_axis_is_second else 0)
        lines = np.take(self._Z, indices, 0 if first_axis else 1)
        return np.asarray(lines if first_axis else lines.T, np.float64)

    def scales(self, axis: int, entries: int = 256) -> Array:
        """Return `row_scales` of the caller's rows (axis 0) or columns (axis 1)."""
        return row_scales(self.data.T if axis else self.data, entries)

    # -- passes --------------------------------------------------------------------

    def empty_like_data(self, fill: float | None = None) -> Array:
        """Return an array laid out as the data; in a file if it exceeds the limit.

        It holds zeros unless another number is given. Zeros cost nothing before they
        are written to: the system provides such pages on demand.
        """
        limit, shape = self._memory_limit, self._Z.shape
        if limit is None or self._Z.nbytes <= limit:
            array = np.zeros(shape, self.dtype)
        else:
            array = array_on_file(shape, self.dtype).view(np.ndarray)
        if fill:
            array[:] = fill
        return array

    def run(self, pass_: Pass) -> PassResult:
        """Run a kernel over all tiles and multiply each tile by narrow factors."""
        right = self._as_factor(pass_.right, (self.n, 0))
        left = right_product = np.empty((self.m, right.shape[1]), self.dtype)
        if not pass_.power:
            left = self._as_factor(pass_.left, (self.m, 0))
        of_rows, of_columns = pass_.line_values or (None, None)
        row_values = self._as_factor(of_rows, (0, self.m))
        column_values = self._as_factor(of_columns, (0, self.n))
        table = self._as_factor(pass_.table, (0,))
        n_row_sums, n_column_sums = pass_.n_sums or (0, 0)
        by_row = np.zeros((n_row_sums, self.m))

        def run_range(bounds: tuple[int, int]) -> tuple[Array, ...]:
            multiply, tile_sums = TileProducts(right, right_product, left), []
            by_column = np.zeros((n_column_sums, self.n), self.dtype)
            histogram = np.zeros(pass_.bins, np.int64)
            for tile in self._tiles(bounds, pass_.low_rank):
                values = self._as_factor(row_values[:, tile.rows])
                tile_by_row = np.zeros((n_row_sums, values.shape[1]), self.dtype)
                lines, sums = (values, column_values), (tile_by_row, by_column)
                returned = self._run_kernel(pass_, tile, lines, table, sums, histogram)
                tile_sums.append(returned or ())
                by_row[:, tile.rows] = tile_by_row
                multiply(tile)
            by_column = by_column.astype(np.float64)
            return np.array(tile_sums), multiply.left_product, by_column, histogram

        tile_sums, *totals = zip(*self._run_in_threads(run_range), strict=True)
        left_product, by_column, histogram = (np.sum(part, axis=0) for part in totals)
        return PassResult(
            right_product.astype(np.float64, copy=False),
            left_product,
            np.concatenate(tile_sums),
            by_row,
            by_column,
            histogram,
        )

    def _run_kernel(
        self,
        pass_: Pass,
        tile: "Tile",
        lines: Any,
        table: Array,
        sums: Any,
        counts: Any,
    ) -> Any:
        """Run the kernel of a pass on one tile; return the numbers that it returns."""
        if callable(pass_.kernel):
            parts = (X[tile.place] for X in (self._Z, *pass_.arrays))
            return pass_.kernel(tile.values, *parts)
        by_line: tuple[Any, ...] = ()
        if pass_.n_sums is not None:
            if self.long_axis_is_second:
                lines, sums = lines[::-1], sums[::-1]
            by_line = lines, table, sums, counts
        corner = (part.start for part in tile.place)
        scalars = map(self.dtype.type, pass_.scalars)
        kernel = KERNELS[pass_.kernel]
        return kernel(self._Z, *pass_.arrays, *corner, tile.values, *by_line, *scalars)

    def regress(self, indices: Array, space: RowSpace) -> RowFits:
        """Regress some rows (of increasing indices) robustly on a row space."""
        X = np.ascontiguousarray(space.basis.T, np.float64)
        scale = np.ascontiguousarray(space.scale, np.float64)
        k = len(indices)
        fits = RowFits(np.empty((k, len(X))), np.empty(k), *np.empty((2, k), np.int32))

        def run_range(bounds: tuple[int, int]) -> None:
            part = slice(*bounds)
            regression_kernel.fit_rows(
                self._Z,
                self.long_axis_is_second,
                indices[part],
                space.columns,
                X,
                scale,
                space.noise,
                self.dtype.type(space.unit),
                tuple(array[part] for array in fits),
            )

        self._run_in_threads(run_range, split_evenly(k, len(self._thread_ranges)))
        return fits

    def _run_in_threads(
        self,
        run_range: Callable[[tuple[int, int]], Any],
        ranges: list[tuple[int, int]] | None = None,
    ) -> list[Any]:
        """Call a function with the range of rows of each worker thread."""
        check_mapped(self._Z)
        crowded = ONE_BLAS_THREAD.crowded(len(self._thread_ranges))
        workers = None if crowded else self._workers
        run: Callable[..., Any] = map if workers is None else workers.map
        return list(run(run_range, self._thread_ranges if ranges is None else ranges))

    def _tiles(
        self, bounds: tuple[int, int], low_rank: tuple[Array, Array] | None
    ) -> Iterator["Tile"]:
        """Yield tiles of U Cᵀ, one after the other in the same memory."""
        U, C = (None, None) if low_rank is None else map(self._as_factor, low_rank)
        buffer = np.empty(self._tile_rows * self.n, self.dtype)
        second = self.long_axis_is_second
        for start in range(*bounds, self._tile_rows):
            rows = slice(start, min(start + self._tile_rows, bounds[1]))
            height = rows.stop - rows.start
            shape = (self.n, height) if second else (height, self.n)
            values = buffer[: height * self.n].reshape(shape)
            if U is not None and C is not None:
                np.dot(*((C, U[rows].T) if second else (U[rows], C.T)), out=values)
            place = (slice(0, self.n), rows) if second else (rows, slice(0, self.n))
            yield Tile(rows, place, values, values.T if second else values)

    def _as_factor(
        self, factor: Array | None, default_shape: tuple[int, ...] = ()
    ) -> Array:
        factor = np.zeros(default_shape) if factor is None else factor
        return np.ascontiguousarray(factor, self.dtype)


class Tile(NamedTuple):
    """Some rows of a working matrix, in memory that stays in cache."""

    rows: slice
    place: tuple[slice, slice]  # where it lies in Z
    values: Array  # oriented as Z is
    by_rows: Array  # the same memory, one line for each row


class TileProducts:
    """Products of tiles with narrow factors, for one worker thread.

    Each tile times `right` (n, k) is written to `right_product` (m, k). `left_product`
    (n, l) is Σ tileᵀ · `left` over the tiles so far, in float64; `left` (m, l) may be
    `right_product`.
    """

    def __init__(self, right: Array, right_product: Array, left: Array) -> None:
        self.right, self.right_product, self.left = right, right_product, left
        self.left_product = np.zeros((len(right), left.shape[1]))
        # In float32 a product of one tile is a short sum; the total is in float64.
        self._tile_product = np.empty(self.left_product.shape, right_product.dtype)

    def __call__(self, tile: Tile) -> None:
        """Multiply one tile."""
        if self.right_product.size:
            np.dot(tile.by_rows, self.right, out=self.right_product[tile.rows])
        if self.left_product.size:
            np.dot(tile.by_rows.T, self.left[tile.rows], out=self._tile_product)
            self.left_product += self._tile_product

"""The interface of m×n data to the solvers: orientation, samples and passes.

The m indices of the long axis are called rows and the n of the short axis columns, no
matter how the caller's array is oriented; `transposed` says whether they were swapped.
A pass runs a compiled kernel over tiles of the data, and returns narrow arrays only:

    tile = U_b Cᵀ → kernel → tile      right: tile · R      left: Σ tileᵀ · L_b

Solvers call the typed functions of `passes`, which describe a `Pass` to `Rows.run`.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from discrepant.core.linalg import Array


@dataclass(frozen=True)
class Pass:
    """One pass over the data: a kernel, its arguments, and factors of the tiles.

    A kernel changes a tile in place, and returns numbers that are summed over tiles.
    A function is called as ``kernel(tile, Z_b, *arrays_b)`` with the parts of Z and of
    the arrays that the tile covers. A name is that of a compiled kernel, called as
    ``kernel(Z, *arrays, row, column, tile, *scalars)``. With `n_sums` it also reads and
    sums numbers for each row and each column, and comes
    ``lines, table, sums, histogram`` before the scalars; lines and sums are pairs, for
    the two axes of Z.
    """

    kernel: str | Callable[..., Any]
    scalars: tuple[float, ...] = ()  # passed in the type of the data
    arrays: tuple[Array, ...] = ()  # further arrays laid out as the data, such as T
    low_rank: tuple[Array, Array] | None = None  # U (m, r), C (n, r): tile = U_b Cᵀ
    right: Array | None = None  # (n, k): multiplies each tile from the right
    left: Array | None = None  # (m, k): multiplies each transposed tile
    power: bool = False  # take tile · right for `left`: gives Σ tileᵀ tile · right
    line_values: tuple[Array, Array] | None = None  # (., m), (., n): read by the kernel
    table: Array | None = None  # lookup table of the kernel
    n_sums: tuple[int, int] | None = None  # numbers summed for each row, each column
    bins: int = 0  # length of the histogram


class PassResult(NamedTuple):
    """Result of `Rows.run`; all but the sums of tiles and the histogram are float64."""

    right: Array  # (m, k): every tile times the given right factor
    left: Array  # (n, k): sum over tiles of tileᵀ times the given left factor
    tile_sums: Array  # (tiles, .): the numbers that the kernel returned for each tile
    by_row: Array  # (., m): numbers summed for each row
    by_column: Array  # (., n): numbers summed for each column
    histogram: Array  # (bins,)


class RowSpace(NamedTuple):
    """What rows are regressed on, and how their data are scaled."""

    columns: Array  # (q,), those whose entries are used
    basis: Array  # (q, r), of the row space at these columns
    scale: Array  # (q,), multiplies the data there, after unit and clipping
    unit: float  # multiplies all data, which are then clipped to ±1
    noise: float = 0.0  # of the data after scaling; zero if unknown


class RowFits(NamedTuple):
    """Result of `Rows.regress`: one robust regression per row."""

    coordinates: Array  # (rows, r)
    residual: Array  # root mean square residual of the clean entries
    n_clean: Array  # number of clean entries among those used; zero if the fit failed
    n_observed: Array  # number of observed entries among those used


class Rows(ABC):
    """An m×n matrix of float64 or float32, processed in blocks along its long axis.

    A context manager for one thread at a time: it holds a lock, which pickles leave
    out.

    Attributes
    ----------
    m, n : int
        Lengths of the long and of the short axis.
    dtype : dtype
        float64 or float32.
    transposed : bool
        Whether the long axis is the caller's second.
    long_axis_is_second : bool
        Whether the long axis is the second one of the array that the kernels read.
    n_jobs : int or None
        Number of threads, in joblib's convention.
    """

    m: int
    n: int
    dtype: np.dtype[Any]
    transposed: bool
    long_axis_is_second: bool
    n_jobs: int | None
    not_pickled: tuple[str, ...] = ()  # attributes that pickles leave out

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __enter__(self) -> Self:
        """Acquire the lock."""
        self.lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lock."""
        self.lock.release()

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("lock", *self.not_pickled)
        return {key: value for key, value in vars(self).items() if key not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=threading.RLock())

    # -- orientation ---------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the caller's array."""
        return (self.n, self.m) if self.transposed else (self.m, self.n)

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.m * self.n

    def swap_factors(self, U: Array, V: Array) -> tuple[Array, Array]:
        """Convert factors of (rows, columns) to the caller's orientation, or back."""
        return (V, U) if self.transposed else (U, V)

    @abstractmethod
    def to_caller_layout(self, X: Array) -> Array:
        """Convert an array laid out as the data to the caller's orientation."""

    @abstractmethod
    def same_layout(self, other: "Rows") -> bool:
        """Whether both have the same shape, order in memory and type."""

    @property
    @abstractmethod
    def data(self) -> Array:
        """The caller's array."""

    # -- samples -------------------------------------------------------------------

    @abstractmethod
    def sample(self) -> Array:
        """Return evenly spaced rows and columns (`even_sample` of the shape)."""

    @abstractmethod
    def entries(self, i: Array, j: Array) -> Array:
        """Return the entries at the caller's indices, one for each pair (i, j)."""

    @abstractmethod
    def take(self, indices: Array, axis: int) -> Array:
        """Return some rows (axis 0, of the long axis) or columns (axis 1) as float64.

        One line of the result is one row or one column.
        """

    @abstractmethod
    def scales(self, axis: int, entries: int = 256) -> Array:
        """Return `row_scales` of each row (axis 0) or column (1) of the caller's array.

        `entries` is the number of entries to use of each.
        """

    # -- passes --------------------------------------------------------------------

    @abstractmethod
    def empty_like_data(self, fill: float | None = None) -> Array:
        """Return an array laid out as the data, of zeros or of another number."""

    @abstractmethod
    def run(self, pass_: Pass) -> PassResult:
        """Run a kernel over all tiles and multiply each tile by narrow factors."""

    @abstractmethod
    def regress(self, indices: Array, space: RowSpace) -> RowFits:
        """Regress some rows (of increasing indices) robustly on a row space."""

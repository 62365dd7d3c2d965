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

import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from types import TracebackType
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from discrepant.errors import InputError
from discrepant.linalg import Array, row_sizes, some_of
from discrepant.matrix.sweep import kernels

# Bytes of a tile: small enough to stay in cache between BLAS, kernel and BLAS again,
# and large enough for BLAS to run at speed (`benchmarks/matrix.py`: 2⁻² and 2² times
# as much are both slower).
TILE_BYTES = 1 << 20
# Entries below which another thread costs more than it brings: some 30 µs of work,
# which is what handing it to a thread takes.
WORTH_A_THREAD = 1 << 15


def open_rows(
    Y: Any, *, n_jobs: int | None = None, memory_limit: int | None = None
) -> "Rows":
    """Return the rows of whatever holds a matrix: today, what NumPy can see."""
    return Rows(Y, n_jobs=n_jobs, memory_limit=memory_limit)


class Rows:
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
    """

    def __init__(
        self, Y: Any, *, n_jobs: int | None = None, memory_limit: int | None = None
    ) -> None:
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
        self._wide = Z.shape[1] > Z.shape[0]  # the long axis is Z's second
        self.dtype = Z.dtype
        self.turned = self._wide is along_rows
        self.m, self.n = max(Z.shape), min(Z.shape)
        self._memory_limit = memory_limit
        jobs = min(_threads(n_jobs), max(Z.size // WORTH_A_THREAD, 1))
        cuts = np.linspace(0, self.m, jobs + 1).astype(int)
        self._shares = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
        fitting = max(TILE_BYTES // max(self.n * Z.itemsize, 1), 16)
        self._tile_rows = min(fitting, max(-(-self.m // jobs), 1))
        self._workers: ThreadPoolExecutor | None = None
        self.lock = threading.RLock()  # held while open

    def __enter__(self) -> Self:
        """Start the workers and hold BLAS at one thread."""
        self.lock.acquire()
        _ONE_BLAS_THREAD.enter()
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
        _ONE_BLAS_THREAD.leave()
        self.lock.release()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k not in ("lock", "_workers")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=threading.RLock(), _workers=None)

    # -- how the data lie ----------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the caller's array."""
        m, n = self.as_given(self._Z).shape
        return m, n

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
        same = self._Z.shape == other._Z.shape and self.turned == other.turned
        return same and self.dtype == other.dtype

    # -- a look at the data --------------------------------------------------------

    def sample(self) -> Array:
        """Return evenly spread rows and columns (`linalg.some_of` of the shape)."""
        return self.as_given(self._Z)[some_of(self.shape)]

    def entries(self, i: Array, j: Array) -> Array:
        """Return the entries at the given places, one for each pair (i, j)."""
        return np.asarray(self.as_given(self._Z)[i, j])

    def line_sizes(self, entries: int = 256) -> tuple[Array, Array]:
        """Return the usual size of each row and of each column of the caller's."""
        given = self.as_given(self._Z)
        return row_sizes(given, entries), row_sizes(given.T, entries)

    # -- work ----------------------------------------------------------------------

    def scratch(self, fill: float | None = None) -> Array:
        """Return an array laid out as the data, on file if memory is short.

        Its content is arbitrary unless a number to fill it with is given.
        """
        shape, dtype = self._Z.shape, self.dtype
        if self._memory_limit is None or self._Z.nbytes <= self._memory_limit:
            array = np.empty(shape, dtype)
        else:
            with tempfile.TemporaryFile() as file:  # the map keeps it alive, unnamed
                array = np.memmap(file, dtype, "w+", shape=shape).view(np.ndarray)
        if fill is not None:
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
        as_data = self.dtype.type
        constants = tuple(as_data(x) for x in scalars)
        U, C = (None, None) if low_rank is None else map(self._narrow, low_rank)
        right = self._narrow(np.empty((self.n, 0)) if right is None else right)
        left = self._narrow(np.empty((self.m, 0)) if left is None else left)
        P = np.empty((self.m, right.shape[1]), self.dtype)
        sides = P if power else left

        def share(bounds: tuple[int, int]) -> tuple[Array, Array]:
            buffer = np.empty(self._tile_rows * self.n, self.dtype)
            # Float32 products are short sums; only their total is kept in float64.
            B = np.zeros((self.n, sides.shape[1]))
            product = np.empty(B.shape, self.dtype)
            results = []
            for start in range(*bounds, self._tile_rows):
                rows = slice(start, min(start + self._tile_rows, bounds[1]))
                b = rows.stop - rows.start
                if self._wide:
                    place = (0, start)
                    tile = buffer[: b * self.n].reshape(self.n, b)
                    by_rows = tile.T
                else:
                    place = (start, 0)
                    tile = by_rows = buffer[: b * self.n].reshape(b, self.n)
                if U is not None and C is not None:
                    if self._wide:
                        np.dot(C, U[rows].T, out=tile)
                    else:
                        np.dot(U[rows], C.T, out=tile)
                found = run_kernel(self._Z, *arrays, *place, tile, *constants)
                results.append(found or ())
                if P.size:
                    np.dot(by_rows, right, out=P[rows])
                if B.size:
                    np.dot(by_rows.T, sides[rows], out=product)
                    B += product
            return B, np.array(results)

        run: Callable[..., Any] = map if self._workers is None else self._workers.map
        parts = list(run(share, self._shares))
        B = np.sum([part[0] for part in parts], axis=0)
        results = np.concatenate([part[1] for part in parts])
        return P.astype(np.float64, copy=False), B, results

    def _narrow(self, factor: Array) -> Array:
        return np.ascontiguousarray(factor, self.dtype)


class _OneBlasThread:
    """Hold BLAS at one thread while any rows are at work in this process.

    Fits may overlap, in several threads: the last one out restores what the first one
    found.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._limit = threading.Lock(), 0, None

    def enter(self) -> None:
        """Count one more user."""
        with self._lock:
            if not self._users:
                self._limit = ThreadpoolController().limit(limits=1, user_api="blas")
            self._users += 1

    def leave(self) -> None:
        """Count one less, and restore BLAS after the last."""
        with self._lock:
            self._users -= 1
            if not self._users and self._limit is not None:
                self._limit.restore_original_limits()


_ONE_BLAS_THREAD = _OneBlasThread()


def _threads(n_jobs: int | None) -> int:
    """Read a number of threads as joblib does, except that none given means all."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise InputError(
            f"n_jobs must be a whole number other than zero, got {n_jobs!r}; −1 is all "
            "cores."
        )
    return int(effective_n_jobs(-1 if n_jobs is None else int(n_jobs)))

"""Where the rows live, and the map and reduce over them.

`Rows` holds the caller's data as it lies in memory or in a file and never writes to it.
Its `sweep` is the one road to the m×n entries: tiles along the long axis go through a
kernel, and only narrow arrays come back.

    tile = U_b Cᵀ → kernel → tile        P_b = tile · right        B += tileᵀ · left_b

The m indices of the long axis are called rows here and the n of the short one columns,
whichever way the caller's array is turned; `turned` says whether they were swapped.
"""

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from discrepant.errors import InputError

# Bytes of a tile: small enough to stay in cache between BLAS, kernel and BLAS again,
# and large enough for BLAS to run at speed.
TILE_BYTES = 1 << 20
# Entries below which another thread costs more than it brings.
_WORTH_A_THREAD = 1 << 15


class Rows:
    """An m×n array of float64 or float32, seen as blocks along its long axis.

    A context manager: inside it, there is one thread per core and BLAS is held at one
    thread, so that the two do not fight over the cores.

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
        self.Z = Z
        self.dtype = Z.dtype
        self.wide = Z.shape[1] > Z.shape[0]
        self.Z_is_transposed = not along_rows
        self.turned = self.wide is along_rows
        self.m, self.n = max(Z.shape), min(Z.shape)
        jobs = min(_threads(n_jobs), max(Z.size // _WORTH_A_THREAD, 1))
        cuts = np.linspace(0, self.m, jobs + 1).astype(int)
        self._shares = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
        fitting = max(TILE_BYTES // max(self.n * Z.itemsize, 1), 16)
        self.tile_rows = min(fitting, max(-(-self.m // jobs), 1))
        self._memory_limit = memory_limit
        self._threads: ThreadPoolExecutor | None = None
        self._blas: Any = None

    def __enter__(self) -> "Rows":
        """Start the threads and hold BLAS at one."""
        self._blas = ThreadpoolController().limit(limits=1, user_api="blas")
        self._blas.__enter__()
        jobs = len(self._shares)
        self._threads = ThreadPoolExecutor(jobs) if jobs > 1 else None
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the threads and give BLAS its own back."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None
        blas, self._blas = self._blas, None
        blas.__exit__(*error)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the caller's array."""
        return self.as_given(self.Z).shape

    def as_given(self, X: np.ndarray) -> np.ndarray:
        """Turn an array laid out as the data to the caller's orientation."""
        return X.T if self.Z_is_transposed else X

    def turn(self, U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Turn factors from the blocks' orientation to the caller's, or back."""
        return (V, U) if self.turned else (U, V)

    def lies_like(self, other: "Rows") -> bool:
        """Whether both have the same shape and the same order in memory."""
        return self.Z.shape == other.Z.shape and self.turned == other.turned

    def scratch(self) -> np.ndarray:
        """Return an uninitialised array like the data, on file if memory is short."""
        if self._memory_limit is None or self.Z.nbytes <= self._memory_limit:
            return np.empty(self.Z.shape, self.dtype)
        with tempfile.TemporaryFile() as file:  # the map keeps it alive, unnamed
            return np.memmap(file, self.dtype, "w+", shape=self.Z.shape).view(
                np.ndarray
            )

    def sweep(
        self,
        kernel: Callable[..., tuple[float, ...] | None],
        arrays: tuple[np.ndarray, ...] = (),
        scalars: tuple[float, ...] = (),
        *,
        low_rank: tuple[np.ndarray, np.ndarray] | None = None,
        right: np.ndarray | None = None,
        left: np.ndarray | None = None,
        power: bool = False,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run `kernel` over all tiles and multiply each tile as it is produced.

        Parameters
        ----------
        kernel : callable
            Called as ``kernel(Z, *arrays, row, column, tile, *scalars)``.
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
        as_data = self.dtype.type
        constants = tuple(as_data(x) for x in scalars)
        U, C = (None, None) if low_rank is None else map(self._narrow, low_rank)
        right = self._narrow(np.empty((self.n, 0)) if right is None else right)
        left = self._narrow(np.empty((self.m, 0)) if left is None else left)
        P = np.empty((self.m, right.shape[1]), self.dtype)
        sides = P if power else left

        def share(bounds: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
            buffer = np.empty(self.tile_rows * self.n, self.dtype)
            # Float32 products are short sums; only their total is kept in float64.
            B = np.zeros((self.n, sides.shape[1]))
            product = np.empty(B.shape, self.dtype)
            results = []
            for start in range(*bounds, self.tile_rows):
                rows = slice(start, min(start + self.tile_rows, bounds[1]))
                b = rows.stop - rows.start
                if self.wide:
                    place = (0, start)
                    tile = buffer[: b * self.n].reshape(self.n, b)
                    by_rows = tile.T
                else:
                    place = (start, 0)
                    tile = by_rows = buffer[: b * self.n].reshape(b, self.n)
                if U is not None and C is not None:
                    if self.wide:
                        np.dot(C, U[rows].T, out=tile)
                    else:
                        np.dot(U[rows], C.T, out=tile)
                results.append(kernel(self.Z, *arrays, *place, tile, *constants) or ())
                if P.size:
                    np.dot(by_rows, right, out=P[rows])
                if B.size:
                    np.dot(by_rows.T, sides[rows], out=product)
                    B += product
            return B, np.array(results)

        run: Callable[..., Any] = map if self._threads is None else self._threads.map
        parts = list(run(share, self._shares))
        B = np.sum([part[0] for part in parts], axis=0)
        results = np.concatenate([part[1] for part in parts])
        return P.astype(np.float64, copy=False), B, results

    def _narrow(self, factor: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(factor, self.dtype)


def _threads(n_jobs: int | None) -> int:
    """Read a number of threads as joblib does."""
    if n_jobs is None:
        return _cores()
    if not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise InputError(
            f"n_jobs must be a whole number other than zero, got {n_jobs!r}; −1 is all "
            "cores."
        )
    return int(n_jobs) if n_jobs > 0 else max(_cores() + 1 + int(n_jobs), 1)


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

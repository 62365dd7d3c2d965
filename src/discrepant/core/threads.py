"""The number of threads of BLAS, and an even division of work among threads."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from threadpoolctl import ThreadpoolController

# Multiplications from which a matrix product is worth more than one BLAS thread: about
# 1 ms of work for one core.
WORTH_SHARING = 4_000_000
# Rows of a table in one task: some thirty arrays of 0.2 MB for 50 columns. The division
# does not depend on the number of threads, so that neither do sums over the blocks.
BLOCK_ROWS = 512


class OneBlasThread:
    """Hold BLAS at one thread while any fit in this process runs threads of its own.

    Fits may overlap. The first one to enter sets BLAS to one thread; the last one to
    leave restores the number that the first one replaced.
    """

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0
        self._replaced: list[tuple[Any, int]] = []  # libraries, their threads before

    def enter(self) -> None:
        """Add one user."""
        with self._lock:
            if not self._users:
                blas_only = ThreadpoolController().select(user_api="blas")
                libraries = blas_only.lib_controllers
                self._replaced = [(blas, blas.get_num_threads()) for blas in libraries]
                for blas, _ in self._replaced:
                    _set_threads(blas, 1)
            self._users += 1

    def crowded(self, threads: int) -> bool:
        """Whether so many fits overlap that each is fastest with one thread."""
        return self._users >= threads

    def leave(self) -> None:
        """Remove one user; the last one restores the threads of BLAS."""
        with self._lock:
            self._users -= 1
            if not self._users:
                for blas, count in self._replaced:
                    _set_threads(blas, count)


def _set_threads(blas: Any, count: int) -> None:
    """Set the number of threads of one BLAS library for the whole process.

    threadpoolctl ignores all Python threads but the first that calls it. Users are
    counted here (`OneBlasThread`), so that any thread may make the change.
    """
    getattr(blas, "_real_set_num_threads", blas.set_num_threads)(count)


ONE_BLAS_THREAD = OneBlasThread()


def split_evenly(number: int, jobs: int) -> list[tuple[int, int]]:
    """Return the first and the end index of the items of each job."""
    cuts = [round(number * k / jobs) for k in range(jobs + 1)]
    return list(pairwise(cuts))


def map_row_blocks(
    function: Callable[[slice], Any], rows: int, n_jobs: int
) -> Iterator[Any]:
    """Yield the function's results for blocks of `BLOCK_ROWS` rows, in their order."""
    blocks = [slice(i, min(i + BLOCK_ROWS, rows)) for i in range(0, rows, BLOCK_ROWS)]
    if n_jobs == 1 or len(blocks) <= 1:
        yield from map(function, blocks)
        return
    pool = ThreadPoolExecutor(min(n_jobs, len(blocks)))
    try:
        yield from pool.map(function, blocks)
    finally:  # the caller may stop early
        pool.shutdown(cancel_futures=True)


@contextmanager
def blas_threads(multiplications: int) -> Iterator[None]:
    """Hold BLAS at one thread where products are small."""
    if multiplications >= WORTH_SHARING:
        yield
        return
    ONE_BLAS_THREAD.enter()
    try:
        yield
    finally:
        ONE_BLAS_THREAD.leave()

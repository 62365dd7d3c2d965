"""How many threads work, and that BLAS does not bring more of its own."""

import threading
from itertools import pairwise
from typing import Any

from threadpoolctl import ThreadpoolController


class OneBlasThread:
    """Hold BLAS at one thread while any rows are at work in this process.

    Fits may overlap, in several threads: the last one out restores what the first one
    found.
    """

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0
        self._held: list[tuple[Any, int]] = []  # libraries, and their threads before

    def enter(self) -> None:
        """Count one more user."""
        with self._lock:
            if not self._users:
                found = ThreadpoolController().select(user_api="blas").lib_controllers
                self._held = [(blas, blas.get_num_threads()) for blas in found]
                for blas, _ in self._held:
                    _set_threads(blas, 1)
            self._users += 1

    def crowded(self, threads: int) -> bool:
        """Whether so many fits go on at once that each does best with one thread."""
        return self._users >= threads

    def leave(self) -> None:
        """Count one less, and restore BLAS after the last."""
        with self._lock:
            self._users -= 1
            if not self._users:
                for blas, count in self._held:
                    _set_threads(blas, count)


def _set_threads(blas: Any, count: int) -> None:
    """Set the threads of a library for all of the process.

    threadpoolctl heeds only the first thread that ever asked; here the users are
    counted, and whichever is first or last speaks for all.
    """
    getattr(blas, "_real_set_num_threads", blas.set_num_threads)(count)


ONE_BLAS_THREAD = OneBlasThread()


def split_evenly(number: int, jobs: int) -> list[tuple[int, int]]:
    """Return where the share of each worker begins and ends."""
    cuts = [round(number * k / jobs) for k in range(jobs + 1)]
    return list(pairwise(cuts))

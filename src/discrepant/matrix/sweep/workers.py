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
        self._limit: Any = None

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


ONE_BLAS_THREAD = OneBlasThread()


def shares_of(number: int, jobs: int) -> list[tuple[int, int]]:
    """Return where the share of each worker begins and ends."""
    cuts = [round(number * k / jobs) for k in range(jobs + 1)]
    return list(pairwise(cuts))

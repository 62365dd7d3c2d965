"""Bands of rows that threads share."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from joblib import cpu_count

LEAST = 48  # rows that are worth a thread
Band = tuple[int, int]  # its first row, and the one after its last
EACH = 2  # bands a thread: who is done first takes the next


class Bands:
    """The rows of a picture in bands, and threads that work on them."""

    def __init__(self, height: int) -> None:
        count = max(1, min(EACH * cpu_count(), height // LEAST))
        edges = np.linspace(0, height, count + 1).astype(int).tolist()
        self._bands = list(pairwise(edges))
        self._pool = ThreadPoolExecutor(min(count, cpu_count()))

    def each(self, work: Callable[[Band], None]) -> None:
        """Do something with all bands."""
        list(self._pool.map(work, self._bands))

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=False)

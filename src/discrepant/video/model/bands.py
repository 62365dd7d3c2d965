"""Bands of rows that threads share."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from joblib import cpu_count

Band = tuple[int, int]  # its first row, and the one after its last
LEAST = 15_000  # values that are worth waking a thread
EACH = 2  # bands a thread: who is done first takes the next


class Bands:
    """The rows of pictures in bands, and threads that work on them.

    Parameters
    ----------
    shape : tuple of int
        Of a picture: (rows, columns, channels).
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        height, size = shape[0], int(np.prod(shape))
        count = max(1, min(EACH * cpu_count(), size // LEAST, height))
        edges = np.linspace(0, height, count + 1).astype(int).tolist()
        self._bands = list(pairwise(edges))
        self._helpers = min(count, cpu_count()) - 1
        self._pool = ThreadPoolExecutor(max(self._helpers, 1))

    def each(self, work: Callable[[Band], None]) -> None:
        """Do something with all bands, in this thread and in those that are awake."""
        left = iter(self._bands)

        def run() -> None:
            for band in left:
                work(band)

        helpers = [self._pool.submit(run) for _ in range(self._helpers)]
        run()
        for helper in helpers:
            if not helper.cancel():
                helper.result()

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=False)

"""Bands of rows, which threads process side by side."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from joblib import cpu_count

Band = tuple[int, int]  # first row, and the row after the last
MIN_VALUES = 15_000  # values of a band: fewer do not pay for waking a thread
BANDS_PER_THREAD = 2  # so that the first thread to finish takes another band


class RowBands:
    """The rows of frames in bands, and threads that process them.

    Parameters
    ----------
    shape : tuple of int
        Shape of a frame: (rows, columns, channels).
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        height, size = shape[0], int(np.prod(shape))
        count = max(1, min(BANDS_PER_THREAD * cpu_count(), size // MIN_VALUES, height))
        edges = np.linspace(0, height, count + 1).astype(int).tolist()
        self._bands = list(pairwise(edges))
        self._helpers = min(count, cpu_count()) - 1
        self._pool = ThreadPoolExecutor(max(self._helpers, 1))

    def each(self, work: Callable[[Band], None]) -> None:
        """Call a function for every band, in this thread and in the pool."""
        remaining = iter(self._bands)

        def run() -> None:
            for band in remaining:
                work(band)

        helpers = [self._pool.submit(run) for _ in range(self._helpers)]
        run()
        for helper in helpers:
            if not helper.cancel():
                helper.result()

    def close(self) -> None:
        """Shut down the threads."""
        self._pool.shutdown(wait=False)

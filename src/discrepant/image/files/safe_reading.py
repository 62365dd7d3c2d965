"""Checks shared by all image readers: memory needed, and errors only logged."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from discrepant.core.memory import check_memory

# Bytes that `restore` takes for each value of a page, beside the image and its copy:
# the signed corruption (4), the probability (4), and two masks (1 each), one of the
# page's tiles and one of the result.
BYTES_PER_VALUE = 10
# Bytes for each value of the tile in work. `core.local_mode` holds two arrays of 16
# floats, 128 bytes, for the channels that it works on at a time, and as much again in
# smaller arrays. On two cores, 512×512×3 values took 196 bytes each at the peak.
TILE_BYTES_PER_VALUE = 250
# Bytes for the largest tiles, 1088×1088×3 values with overlap; measured.
MAX_TILE_BYTES = 800_000_000
# Bytes of values up to which a file is read into memory rather than mapped.
MAX_UNMAPPED_BYTES = 64_000_000


def memory_needed(n_values: int, n_page_values: int, itemsize: int) -> int:
    """Return roughly how many bytes it takes to restore a file.

    ``n_values`` is the number of values in the file, ``n_page_values`` the number
    restored at a time, ``itemsize`` the bytes of one value.
    """
    tile = min(MAX_TILE_BYTES, TILE_BYTES_PER_VALUE * n_page_values)
    file = n_values * (2 * itemsize + 1)  # the image, its copy, and the mask
    return file + BYTES_PER_VALUE * n_page_values + tile


def check_restore_memory(
    path: Path, n_values: int, n_page_values: int, itemsize: int
) -> None:
    """Raise an InputError if a file cannot be restored in the available memory."""
    check_memory(path, memory_needed(n_values, n_page_values, itemsize))


@contextmanager
def captured_log(name: str, level: int = logging.ERROR) -> Iterator[list[str]]:
    """Yield a list that collects this thread's messages to a logger.

    The messages are not passed on to the logger's handlers. Libraries that read images
    report lost pages and tags only in their logs.

    Parameters
    ----------
    name : str
        Name of the logger.
    level : int
        Level from which messages are collected; lesser ones are dropped.
    """
    thread, messages = threading.get_ident(), list[str]()

    def collect(record: logging.LogRecord) -> bool:
        if record.thread != thread:
            return True
        if record.levelno >= level:
            messages.append(record.getMessage())
        return False

    logger = logging.getLogger(name)
    logger.addFilter(collect)
    try:
        yield messages
    finally:
        logger.removeFilter(collect)

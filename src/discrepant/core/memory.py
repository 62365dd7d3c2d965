"""Available memory, size checks before files are read, arrays in temporary files.

A file of a few bytes may declare any size. The declared size is compared with the
available memory before anything is allocated.
"""

import errno
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from discrepant.core.errors import InputError

# Environment variable: gigabytes of memory that reading a file may take.
SETTING = "DISCREPANT_MEMORY"
# Largest number of bytes that one byte of a Deflate stream can encode.
MAX_DEFLATE_RATIO = 1032
# Declared bytes that are always allowed, so that headers of small files do not count.
SLACK = 1 << 16


def available_memory() -> int | None:
    """Return the bytes of memory that may be used, or None if they are unknown.

    The limit is that of the machine or of the container. The environment variable
    ``DISCREPANT_MEMORY`` replaces it by a number of gigabytes.
    """
    setting = os.environ.get(SETTING)
    if setting:
        try:
            size = float(setting) * 1e9
            if size >= 0:
                return int(size)
        except (ValueError, OverflowError):
            pass
        raise InputError(f"{SETTING} must be a number of gigabytes, got {setting!r}.")
    limits = [_machine_memory(), _container_memory()]
    return min((limit for limit in limits if limit is not None), default=None)


def check_memory(path: Path, needed: int, advice: str = "cut it into parts") -> None:
    """Refuse a file whose content does not fit into memory."""
    available = available_memory()
    if available is not None and needed > available:
        raise InputError(
            f"{path} needs some {_format_size(needed)} of memory, and there are "
            f"{_format_size(available)}; {advice}."
        )


def check_declared_size(
    path: Path, declared: int, max_ratio: int = MAX_DEFLATE_RATIO
) -> None:
    """Refuse a file that declares more than `max_ratio` times its own bytes."""
    size = path.stat().st_size
    if declared > max_ratio * size + SLACK:
        raise InputError(
            f"{path} declares {_format_size(declared)}, more than its {size:,} bytes "
            "can hold; it is damaged or cut short."
        )


def array_on_file(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray[Any, Any]:
    """Return an array in an unnamed temporary file that is deleted with the array.

    Disk space is allocated at once: a full disk during a write to a memory map would
    end the process.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile() as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise InputError(
                    f"{tempfile.gettempdir()} has no space for {_format_size(size)} of "
                    "working arrays; set TMPDIR to a folder that has."
                ) from None
        return np.memmap(file, dtype, "w+", shape=shape)


def _format_size(count: int) -> str:
    """Return a number of bytes as text with its unit."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB")):
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return f"{count:,} bytes"


def _machine_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _container_memory() -> int | None:
    try:
        return int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # no container, or no limit ("max")
        return None

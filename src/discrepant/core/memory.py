"""How much memory there is, whether what a file declares fits, and arrays on file.

A file of a few bytes may declare any size. What it would take is compared with what is
there before any of it is taken.
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

SETTING = "DISCREPANT_MEMORY"  # gigabytes that reading a file may take
MAX_DEFLATE_RATIO = (
    1032  # bytes that one byte of a Deflate stream can stand for, at the most
)
SLACK = 1 << 16  # bytes by which a small file is not judged


def available_memory() -> int | None:
    """Return the bytes that may be taken, or None where they are not known.

    They are those of the machine, or of the container, unless the environment variable
    ``DISCREPANT_MEMORY`` says how many gigabytes.
    """
    told = os.environ.get(SETTING)
    if told:
        try:
            size = float(told) * 1e9
            if size >= 0:
                return int(size)
        except (ValueError, OverflowError):
            pass
        raise InputError(f"{SETTING} must be a number of gigabytes, got {told!r}.")
    limits = [_machine(), _container()]
    return min((limit for limit in limits if limit is not None), default=None)


def check_memory(path: Path, needed: int, advice: str = "cut it into parts") -> None:
    """Refuse a file whose content does not fit into memory."""
    there = available_memory()
    if there is not None and needed > there:
        raise InputError(
            f"{path} needs some {_size(needed)} of memory, and there are "
            f"{_size(there)}; {advice}."
        )


def check_declared_size(
    path: Path, declared: int, most_of_a_byte: int = MAX_DEFLATE_RATIO
) -> None:
    """Refuse a file that declares more bytes than its own can stand for."""
    size = path.stat().st_size
    if declared > most_of_a_byte * size + SLACK:
        raise InputError(
            f"{path} declares {_size(declared)}, more than its {size:,} bytes can "
            "hold; it is damaged or cut short."
        )


def array_on_file(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray[Any, Any]:
    """Return an array in a temporary file, which has no name and goes with the array.

    Its room is taken at once: to run out of it while writing to a map is fatal.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile() as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise InputError(
                    f"{tempfile.gettempdir()} has no room for {_size(size)} of working "
                    "arrays; set TMPDIR to a folder that has."
                ) from None
        return np.memmap(file, dtype, "w+", shape=shape)


def _size(count: int) -> str:
    """Say a number of bytes in words."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB")):
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return f"{count:,} bytes"


def _machine() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _container() -> int | None:
    try:
        return int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # there is none, or it says "max"
        return None

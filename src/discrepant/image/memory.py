"""How much memory there is, and whether an image fits into it."""

import os
from pathlib import Path

from discrepant.errors import InputError

# What `restore` takes, beside an image and its copy: for each value of a page, and for
# the tile in work, which grows with the page up to a bound.
BYTES_PER_VALUE = 10
TILE_BYTES_PER_VALUE = 250
TILE_BYTES = 800_000_000


def physical_memory() -> int | None:
    """Return the bytes of memory of this machine, or None where they are not known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def memory_needed(values: int, page: int, itemsize: int) -> int:
    """Return the bytes that restoring a file takes, roughly."""
    tile = min(TILE_BYTES, TILE_BYTES_PER_VALUE * page)
    return values * (2 * itemsize + 1) + BYTES_PER_VALUE * page + tile


def check_room(path: Path, values: int, page: int, itemsize: int) -> None:
    """Refuse a file of so many values, ``page`` of them at a time, if too large."""
    needed, there = memory_needed(values, page, itemsize), physical_memory()
    if there is not None and needed > there:
        raise InputError(
            f"{path} needs some {needed / 2**30:.0f} GiB of memory, and this machine "
            f"has {there / 2**30:.0f} GiB; cut it into parts."
        )

"""How much memory there is, and whether an image fits into it."""

import os
from pathlib import Path

from discrepant.errors import InputError

# What `restore` takes beside an image and its copy, in bytes.
# For each value of a page: the signed corruption (4), the probability (4), and two
# masks (1 each), one of a page's own tiles and one of the result.
BYTES_PER_VALUE = 10
# For each value of the tile in work: `mode` holds two arrays of 16 floats, 128 bytes,
# for the channels that it works on at a time, and as much again in smaller ones. On two
# cores, 512×512×3 values took 196 bytes each at the peak. And for the largest tiles, of
# 1088×1088×3 with overlap: `python benchmarks/restore.py --large` prints the peak.
TILE_BYTES_PER_VALUE = 250
TILE_BYTES = 800_000_000


def physical_memory() -> int | None:
    """Return the bytes of memory of this machine, or None where they are not known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def memory_needed(values: int, page: int, itemsize: int) -> int:
    """Return roughly how many bytes it takes to restore a file.

    ``values`` is how many values the file holds, ``page`` how many of them are restored
    at a time, ``itemsize`` the bytes of one.
    """
    tile = min(TILE_BYTES, TILE_BYTES_PER_VALUE * page)
    file = values * (2 * itemsize + 1)  # the image, its copy, and the mask
    return file + BYTES_PER_VALUE * page + tile


def check_room(path: Path, values: int, page: int, itemsize: int) -> None:
    """Refuse a file that does not fit into memory; see `memory_needed`."""
    needed, there = memory_needed(values, page, itemsize), physical_memory()
    if there is not None and needed > there:
        raise InputError(
            f"{path} needs some {needed / 2**30:.0f} GiB of memory, and this machine "
            f"has {there / 2**30:.0f} GiB; cut it into parts."
        )

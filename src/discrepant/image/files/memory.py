"""How much memory there is, and whether an image fits into it."""

from pathlib import Path

from discrepant.core.memory import check_memory

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
SMALL = 64_000_000  # bytes of a file that is not worth a map of it


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
    check_memory(path, memory_needed(values, page, itemsize))

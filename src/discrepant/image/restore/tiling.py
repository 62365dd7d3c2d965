"""Cut an image into overlapping tiles, so that memory is bounded at any size."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# `python benchmarks/images/photographs.py --large` measures memory, time and the error
# along the seams with these constants.

# Largest number of rows and columns of an image that is not cut.
MAX_UNCUT_SIDE = 1024
# Rows and columns of a tile's core in a larger image. It is smaller than
# `MAX_UNCUT_SIDE` because a large image takes memory itself.
CORE_SIDE = 512
# Largest number of values of a tile: many channels make smaller tiles.
MAX_VALUES = 4_000_000
# Rows and columns that a tile extends beyond its core. Similar patches are searched
# within 10 pixels, and the widest Gaussian windows end after some 13.
OVERLAP = 32

Place = tuple[slice, slice]  # rows and columns


@dataclass(frozen=True)
class Tile:
    """Position of a tile in an image.

    Attributes
    ----------
    core : (slice, slice)
        Rows and columns of the image that this tile, and no other, decides on.
    padded : (slice, slice)
        Rows and columns of the image that the tile is computed from: its core and an
        overlap with its neighbours.
    core_in_padded : (slice, slice)
        Position of the core within ``padded``.
    """

    core: Place
    padded: Place
    core_in_padded: Place


def tiles(rows: int, columns: int, channels: int) -> Iterator[Tile]:
    """Yield the tiles of an image of the given shape, row by row."""
    side_in_memory = math.isqrt(MAX_VALUES // channels)
    max_uncut = min(MAX_UNCUT_SIDE, max(4 * OVERLAP, side_in_memory))
    for down in _cut_axis(rows, max_uncut):
        for across in _cut_axis(columns, max_uncut):
            yield Tile(*zip(down, across, strict=True))


def _cut_axis(length: int, max_uncut: int) -> list[tuple[slice, slice, slice]]:
    """Cut an axis evenly; return core, padded and core in padded of each part."""
    side = max_uncut if length <= max_uncut else min(CORE_SIDE, max_uncut)
    edges = np.linspace(0, length, -(-length // side) + 1).astype(int)
    parts = []
    for start, stop in pairwise(edges):
        low, high = max(start - OVERLAP, 0), min(stop + OVERLAP, length)
        core_in_padded = slice(start - low, stop - low)
        parts.append((slice(start, stop), slice(low, high), core_in_padded))
    return parts

"""Tile by tile: an image of any size in bounded memory, within a time limit.

Each tile sees a strip of its neighbours, decides on its own part alone, and learns what
corruption looks like by itself. What is done to one is told in `tile`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.core.results import History
from discrepant.image.restore.budget import Rounds
from discrepant.image.restore.core.full_pass import TUNING as DETECTION
from discrepant.image.restore.core.photograph import restore_tile
from discrepant.image.restore.core.similar_patches import Search
from discrepant.image.restore.intensity_scale import Tone


@dataclass(frozen=True)
class Tuning:
    """How an image is cut; `python benchmarks/restore.py --large` tries it.

    Attributes
    ----------
    side : int
        Rows and columns up to which an image is not cut.
    part : int
        Rows and columns of a tile's own part where it is: smaller, since a large image
        takes memory itself, and two cores work on a tile at once.
    values : int
        Values of it, at most: many channels make smaller tiles. See `memory`.
    overlap : int
        Rows and columns that a tile sees beyond its own part. Patches look 10 for their
        like, windows reach some 13; the benchmark prints the error along the seams
        over that elsewhere.
    """

    side: int = 1024
    part: int = 512
    values: int = 4_000_000
    overlap: int = 32


TUNING = Tuning()
Place = tuple[slice, slice]  # rows and columns


@dataclass(frozen=True)
class Window:
    """Where a tile lies.

    Attributes
    ----------
    own : (slice, slice)
        Rows and columns of the image that the tile decides on.
    seen : (slice, slice)
        Rows and columns of the image that it sees: its own and an overlap.
    within : (slice, slice)
        Where its own part lies in what it sees.
    """

    own: Place
    seen: Place
    within: Place


@dataclass(frozen=True, eq=False)
class Mended:
    """What was made of all tiles, in the image's own dtype and range.

    ``values`` is the image with the values of ``mask`` replaced; ``untold``, whether a
    part was left as it is because nothing could be told of it; ``graphic``, whether a
    part was judged as a graphic; ``marks`` and ``suggestions``, pixels that lie under
    marks for certain, and perhaps; the other attributes are those of `Restoration`.
    """

    values: Array
    mask: Array
    probability: Array
    history: History
    complete: bool
    untold: bool
    graphic: bool
    marks: Array
    suggestions: Array


def windows(rows: int, columns: int, channels: int) -> Iterator[Window]:
    """Yield where the tiles of an image lie, row by row."""
    most = math.isqrt(TUNING.values // channels)
    whole = min(TUNING.side, max(4 * TUNING.overlap, most))
    for down in _cuts(rows, whole):
        for across in _cuts(columns, whole):
            yield Window(*zip(down, across, strict=True))


def _cuts(length: int, whole: int) -> list[tuple[slice, slice, slice]]:
    """Cut an axis evenly; returns own, seen and within of each part."""
    side = whole if length <= whole else min(TUNING.part, whole)
    edges = np.linspace(0, length, -(-length // side) + 1).astype(int)
    parts = []
    for start, stop in pairwise(edges):
        low, high = max(start - TUNING.overlap, 0), min(stop + TUNING.overlap, length)
        within = slice(start - low, stop - low)
        parts.append((slice(start, stop), slice(low, high), within))
    return parts


def mend(
    values: Array,
    bad: Array,
    search: Search,
    time_limit: float | None,
    report: Report,
) -> Mended:
    """Restore an image tile by tile.

    Parameters
    ----------
    values, bad : ndarray of shape (rows, columns, channels)
        The image, of any dtype, and which of its values are known to be wrong.
    search : Search
        How thoroughly.
    time_limit : float or None
        Seconds; tiles that are not reached stay as they were, bad values grey.
    report : callable
        Told ``(share done, note)``; answers whether to go on.
    """
    tone = Tone.of(values, bad)
    places = list(windows(*values.shape))
    out = values.copy()
    mask = np.zeros(values.shape, bool)
    probability = np.zeros(values.shape, np.float32)
    most = len(DETECTION.stiffness) + search.passes
    rounds = Rounds(report, len(places), most, time_limit)
    untold = graphic = False
    marks, suggestions = np.zeros((2, *values.shape[:2]), bool)
    for number, place in enumerate(places):
        own, known_bad = place.own, bad[place.own]
        if rounds.begin(number):
            seen = tone.forward(values[place.seen])
            levels = tone.levels
            tile = restore_tile(seen, ~bad[place.seen], levels, search, rounds)
            untold, graphic = untold or tile.untold, graphic or tile.graphic
            mended = tone.backward(tile.guess[place.within])
            mask[own] = tile.replace[place.within]
            if tile.marks is not None:
                marks[own] = tile.marks.mask[place.within]
                suggestions[own] = tile.marks.suggested[place.within]
            clean = tile.weight[place.within]
            probability[own] = np.where(known_bad, 1, 1 - clean)
        else:
            mended = tone.backward(np.full(values.shape[2], 0.5))
            mask[own] = probability[own] = known_bad
        out[own] = np.where(mask[own], mended, out[own])
    report(1.0, f"{mask.mean():.0%} corrupted")
    return Mended(
        values=out,
        mask=mask,
        probability=probability,
        history=rounds.history(),
        complete=rounds.complete,
        untold=untold,
        graphic=graphic,
        marks=marks,
        suggestions=suggestions,
    )

"""Tile by tile: an image of any size in bounded memory, within a time limit.

Each tile sees a strip of its neighbours, decides on its own part alone, and learns what
corruption looks like by itself. In a tile, border lines that are no part of the picture
are taken off (`borders`); then a smooth image is fitted to the values that can be
believed (`detect`), and patches that look alike predict one another (`patches`).
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from discrepant.image.restore.borders import separate
from discrepant.image.restore.detect import TUNING as DETECTION
from discrepant.image.restore.detect import detect
from discrepant.image.restore.judge import Belief, Judge
from discrepant.image.restore.patches import TUNING as PATCHES
from discrepant.image.restore.patches import Search, refine
from discrepant.image.restore.tone import Tone
from discrepant.linalg import Array
from discrepant.progress import Report
from discrepant.result import History


@dataclass(frozen=True)
class Tuning:
    """How an image is cut; `python benchmarks/restore.py --large` tries it.

    Attributes
    ----------
    side : int
        Rows and columns of a tile's own part, at most.
    values : int
        Values of it, at most: many channels make smaller tiles. See `memory`.
    overlap : int
        Rows and columns that a tile sees beyond its own part. Patches look 10 for their
        like, windows reach some 13; the benchmark prints the error along the seams
        over that elsewhere.
    """

    side: int = 1024
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
class Tile:
    """What was made of one tile, on [0, 1].

    Attributes
    ----------
    guess : ndarray of shape (rows, columns, channels)
        What each value should be.
    weight : ndarray
        The probability of each value to be clean.
    replace : ndarray of bool
        The values that are better replaced by the guess.
    """

    guess: Array
    weight: Array
    replace: Array


@dataclass(frozen=True, eq=False)
class Mended:
    """What was made of all tiles, in the image's own dtype and range.

    ``values`` is the image with the values of ``mask`` replaced; the other attributes
    are those of `Restoration`.
    """

    values: Array
    mask: Array
    probability: Array
    history: History
    complete: bool


@dataclass
class Rounds:
    """Notes the rounds of a restoration, and says after each whether to go on.

    Attributes
    ----------
    report : callable
        Told the share of the work that is done; answers whether to go on.
    tiles, most : int
        How many tiles there are, and how many rounds each takes at most.
    time_limit : float or None
        Seconds for all of them.
    stopped : bool
        Whether the report asked to stop.
    going : bool
        The last answer.
    complete : bool
        Whether every answer was to go on.
    """

    report: Report
    tiles: int
    most: int
    time_limit: float | None
    stopped: bool = False
    going: bool = True
    complete: bool = True
    _started: float = field(default_factory=time.perf_counter)
    _rows: list[tuple[float, int, float]] = field(default_factory=list)
    _tile: int = 0
    _round: int = 0
    _until: float = math.inf  # seconds at which this tile's time is over

    def begin(self, tile: int) -> bool:
        """Begin a tile; return whether there is time for it.

        It has an even share of the time that is left. The first always begins: there
        is a result however short the time.
        """
        self._tile, self._round = tile, 0
        seconds = self._seconds()
        if self.time_limit is not None:
            left = max(self.time_limit - seconds, 0)
            self._until = seconds + left / (self.tiles - tile)
        self.going = not self.stopped and (tile == 0 or seconds < self._until)
        self.complete = self.complete and self.going
        return self.going

    def proceed(self, weight: Array) -> bool:
        """Note a round, and say whether to go on."""
        seconds, share = self._seconds(), float(1 - weight.mean())
        self._rows.append((seconds, self._tile, share))
        self._round += 1
        done = (self._tile + self._round / self.most) / self.tiles
        self.stopped = not self.report(min(done, 1.0), f"{share:.0%} corrupted")
        self.going = seconds < self._until and not self.stopped
        self.complete = self.complete and self.going
        return self.going

    def history(self) -> History:
        """Return one row a round."""
        seconds, tile, share = np.array(self._rows, float).reshape(-1, 3).T
        steps = np.arange(1, len(self._rows) + 1)
        return History(
            {"step": steps, "seconds": seconds, "tile": tile, "corrupted": share}
        )

    def _seconds(self) -> float:
        return time.perf_counter() - self._started


def windows(rows: int, columns: int, channels: int) -> Iterator[Window]:
    """Yield where the tiles of an image lie, row by row."""
    most = math.isqrt(TUNING.values // channels)
    side = min(TUNING.side, max(4 * TUNING.overlap, most))
    for down in _cuts(rows, side):
        for across in _cuts(columns, side):
            yield Window(*zip(down, across, strict=True))


def _cuts(length: int, side: int) -> list[tuple[slice, slice, slice]]:
    """Cut an axis evenly; returns own, seen and within of each part."""
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
    for number, place in enumerate(places):
        own, known_bad = place.own, bad[place.own]
        if rounds.begin(number):
            seen = tone.forward(values[place.seen])
            tile = restore_tile(seen, ~bad[place.seen], search, rounds)
            mended = tone.backward(tile.guess[place.within])
            mask[own] = tile.replace[place.within]
            clean = tile.weight[place.within]
            probability[own] = np.where(known_bad, 1, 1 - clean)
        else:
            mended = tone.backward(np.full(values.shape[2], 0.5))
            mask[own] = probability[own] = known_bad
        out[own] = np.where(mask[own], mended, out[own])
    report(1.0, f"{mask.mean():.0%} corrupted")
    return Mended(out, mask, probability, rounds.history(), rounds.complete)


def restore_tile(y: Array, known: Array, search: Search, rounds: Rounds) -> Tile:
    """Restore one tile: the picture, and by itself each border that is none of it."""
    rows, columns, known = separate(y, known)
    inside = (rows, columns)
    guess, weight, replace = y.copy(), np.zeros_like(y), np.zeros(y.shape, bool)
    picture, belief = _restore_picture(y[inside], known[inside], search, rounds)
    guess[inside], weight[inside] = picture.guess, picture.weight
    replace[inside] = picture.replace
    for line in _outside(y.shape, rows, columns):
        # What corruption looks like is the same there, and known from the picture.
        judge = Judge(y[line], known[line], belief=belief)
        guess[line], weight[line] = detect(y[line], known[line], judge, _always)
        replace[line] = weight[line] < PATCHES.trusted
    return Tile(guess, weight, replace)


def _restore_picture(
    y: Array, known: Array, search: Search, rounds: Rounds
) -> tuple[Tile, Belief]:
    """Restore what belongs together; returns what was learned of the corruption too."""
    judge = Judge(y, known)
    x, weight = detect(y, known, judge, rounds.proceed)
    tile = Tile(x, weight, weight < PATCHES.trusted)
    if rounds.going:
        found = refine(y, known, (x, weight), judge, search, rounds.proceed)
        tile = Tile(*found)
    return tile, judge.belief


def _always(weight: Array) -> bool:
    return True


def _outside(shape: tuple[int, ...], rows: slice, columns: slice) -> Iterator[Place]:
    """Yield the border lines that are not in the given rows and columns."""
    whole = slice(None)
    for edge in _ends(rows, shape[0]):
        yield edge, whole
    for edge in _ends(columns, shape[1]):
        yield whole, edge


def _ends(inner: slice, length: int) -> Iterator[slice]:
    """Yield what lies before and after a slice, where there is something."""
    start, stop, _ = inner.indices(length)
    for edge in (slice(0, start), slice(stop, length)):
        if edge.start < edge.stop:
            yield edge

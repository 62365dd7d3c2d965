"""One tile of an image: a graphic or a photograph, much or little corrupted.

A graphic is judged by what recurs in the same surroundings (`graphic`), the photographs
in it as such. In a photograph, border lines that are no part of it are taken off first
(`borders`), and what lies on it is found (`marks`); where corruption is rare, a
cheap look (`screen`) tells what is in doubt; else a smooth image is fitted to the
values that can be believed (`detect`). Then patches that look alike predict one another
(`patches`).
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.threads import blas_threads
from discrepant.image.restore.budget import Rounds
from discrepant.image.restore.core.border_lines import separate
from discrepant.image.restore.core.full_pass import detect
from discrepant.image.restore.core.mixture import Belief, Judge
from discrepant.image.restore.core.quick_pass import screen
from discrepant.image.restore.core.similar_patches import TUNING as PATCHES
from discrepant.image.restore.core.similar_patches import Search, refine
from discrepant.image.restore.defects.surface_defects import (
    SurfaceDefects,
    detect_surface_defects,
)
from discrepant.image.restore.graphics.clustering import crowded
from discrepant.image.restore.graphics.graphic import Graphic, look

Place = tuple[slice, slice]  # rows and columns


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
    untold : bool
        Whether nothing could be told of it, so that it was left as it is.
    graphic : bool
        Whether it was judged as a graphic.
    marks : Marks or None
        What lies on the picture; of a graphic, None.
    """

    guess: Array
    weight: Array
    replace: Array
    untold: bool = False
    graphic: bool = False
    marks: SurfaceDefects | None = None


def restore_tile(
    y: Array, known: Array, levels: float, search: Search, rounds: Rounds
) -> Tile:
    """Restore one tile.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The values on [0, 1] in single precision, and which may be looked at.
    levels : float
        How many values there might be.
    search : Search
        How thoroughly.
    rounds : Rounds
        Told of each round; says whether to go on.
    """
    found = look(y, known, levels)
    if found is None:
        return _photograph(y, known, search, rounds)
    return _graphic(y, known, found, search, rounds)


def _photograph(y: Array, known: Array, search: Search, rounds: Rounds) -> Tile:
    """Restore a photograph, and by itself each border that is none of it."""
    rows, columns, known = separate(y, known)
    inside = (rows, columns)
    shown = np.zeros_like(known)
    shown[inside] = known[inside]
    with ThreadPoolExecutor(1) as pool, blas_threads(0):
        # Most pictures have no marks: meanwhile, restore it as if there were none.
        trial = _Trial(rounds, pool.submit(detect_surface_defects, y, shown))
        picture, belief = _restore_picture(y[inside], known[inside], search, trial)
        marks = trial.marks.result()
    if marks.mask.any():
        known = known & ~marks.mask[..., None]
        picture, belief = _restore_picture(y[inside], known[inside], search, rounds)
    guess, weight, wrong = y.copy(), np.zeros_like(y), np.zeros(y.shape, bool)
    guess[inside], weight[inside] = picture.guess, picture.weight
    wrong[inside] = picture.replace
    for line in _outside(y.shape, rows, columns):
        # What corruption looks like is the same there, and known from the picture.
        judge = Judge(y[line], known[line], belief=belief)
        guess[line], weight[line] = detect(y[line], known[line], judge, _always)
        wrong[line] = weight[line] < PATCHES.trusted
    return Tile(guess, weight, wrong, marks=marks)


def _graphic(
    y: Array, known: Array, found: Graphic, search: Search, rounds: Rounds
) -> Tile:
    """Restore a graphic, and the photographs in it."""
    lost = np.isnan(found.mended)
    guess = np.where(lost, y, found.mended)
    wrong = found.wrong | ~known
    tile = Tile(guess, 1 - found.probability, wrong, found.untold, graphic=True)
    # Corruption falls everywhere alike: none in the graphic, none in the photograph.
    settled = found.share == 0 and found.settled.mean() > 0.5
    if not lost.any() and (settled or not found.photograph.any()):
        rounds.proceed(tile.weight)
        return tile
    sure, open_ = ~lost & ~found.photograph, found.photograph
    picture, _ = _restore_picture(guess, ~lost, search, rounds, sure)
    if found.share > 0:
        # As much is corrupted there as in the graphic: what is more is the picture.
        spared = known & crowded(picture.replace & open_, found.share)
        picture = replace(picture, replace=picture.replace & ~spared)
    return Tile(
        np.where(sure, guess, picture.guess),
        np.where(open_, picture.weight, tile.weight),
        np.where(open_, picture.replace, tile.replace),
        found.untold,
        graphic=True,
    )


@dataclass(frozen=True, eq=False)
class _Trial:
    """The rounds of a restoration that is given up if marks turn out to be there."""

    rounds: Rounds
    marks: Future[SurfaceDefects]

    @property
    def going(self) -> bool:
        over = self.marks.done() and self.marks.result().mask.any()
        return self.rounds.going and not over

    def proceed(self, weight: Array) -> bool:
        self.rounds.proceed(weight)
        return self.going


def _restore_picture(
    y: Array,
    known: Array,
    search: Search,
    rounds: Rounds | _Trial,
    sure: Array | None = None,
) -> tuple[Tile, Belief]:
    """Restore what belongs together; returns what was learned of the corruption too.

    ``sure`` says which values are clean beyond doubt.
    """
    judge = Judge(y, known, sure=sure)
    found = screen(y, known, judge)
    rare = found is not None
    if found is not None:
        rounds.proceed(found[1])
    else:
        judge = Judge(y, known, sure=sure)
        found = detect(y, known, judge, rounds.proceed)
    tile = Tile(*found, found[1] < PATCHES.trusted)
    if rounds.going:
        tile = Tile(*refine(y, known, found, judge, search, rounds.proceed, rare))
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

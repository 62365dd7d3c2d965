"""Marks that lie on a picture: dust, scratches, hairs, text, stamps.

A small network says how likely each pixel lies under one, by what is around it
(`mark_network`). What it cannot see is that marks share their colours all over the
picture: these are learned from the picture itself, in turn with what lies under marks.
If there seem to be any, a larger network looks again, with all that is known by then.
Where much is nearly certain, and crosses what is beneath, there are marks: a third says
which pixels they cover, and these are taken out; what may as well be the picture is
only suggested.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter, maximum_filter
from scipy.special import expit

from discrepant.core.linalg import Array
from discrepant.image.restore.defects.network import first_look, look_again, seen
from discrepant.image.restore.fill import fill_gaps

Known = tuple[Array, Array, Array]  # see `known_before`


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/marks.py --only scan` tries again.

    Attributes
    ----------
    smallest : int
        Rows and columns that a picture needs for anything to be told.
    known : float
        Share of its pixels that must be known.
    colourless : float
        Channels that differ by less, in the mean, say the same.
    bins, greys : int
        Of each channel, in which colours are counted; of a picture without colour.
    surer : float
        The power of its probability by which a pixel counts: the surest lie wholly
        under a mark, and have its colour.
    spread : float
        Deviation of the Gaussian, in bins, by which those around count too.
    doubt : float
        Colours are learned as if so many more pixels had been seen, which tell nothing.
    least, most : float
        Bounds of what a colour adds to the logarithm of the odds.
    reach : float
        Deviation of the Gaussian, in pixels, within which those under a mark lend each
        other the evidence of their colours: at its edge they are mixtures.
    rounds : int
        How often colours and odds follow from one another.
    striking, some : float
        The probability at first sight of pixels that are counted to decide whether to
        look again, and the share of the picture that they must have.
    around, few, crowded : float
        Deviation of the Gaussian, in pixels, by which the share of a place that seems
        to lie under marks is counted; the share that marks have; and what is taken off
        the logarithm of the odds for what is more: texture of which much looks like
        marks.
    likely, possible, doubtful : float
        The probability of a pixel that is taken out, of one that is suggested where
        something is taken out, and of one that is suggested elsewhere.
    sure, enough : float
        The probability of pixels that are counted to decide whether there are marks,
        and the share of the picture that those of them must have which cross what is
        beneath; with less, marks are only suggested. Of 280 clean photographs, with
        noise and without, none had more than 0.0046, crossing or not, but one of a page
        of writing.
    rough : float
        Marks cross what is beneath where it is so far from a smooth picture. Writing
        on an unevenly lit page, or a mast before the sky, does not cross anything.
    smooth : float
        Deviation, in pixels, of the Gaussian that makes a smooth picture.
    drawn : float
        If more neighbours than this share are exactly alike, a program has drawn the
        picture: letters and lines on a map belong to it, and are only suggested. What
        was scanned or photographed has noise.
    """

    smallest: int = 32
    known: float = 0.5
    colourless: float = 0.01
    bins: int = 16
    greys: int = 64
    surer: float = 3.0
    spread: float = 0.7
    doubt: float = 20.0
    least: float = -3.0
    most: float = 4.0
    reach: float = 1.0
    rounds: int = 3
    striking: float = 0.95
    some: float = 0.001
    around: float = 16.0
    few: float = 0.1
    crowded: float = 8.0
    likely: float = 0.67
    possible: float = 0.15
    doubtful: float = 0.5
    sure: float = 0.85
    enough: float = 0.0035
    rough: float = 0.045
    smooth: float = 32.0
    drawn: float = 0.3


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class SurfaceDefects:
    """Pixels under marks, of shape (rows, columns): for certain, and perhaps."""

    mask: Array
    suggested: Array


def detect_surface_defects(y: Array, known: Array) -> SurfaceDefects:
    """Find the marks on a picture.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and which values may be looked at.
    """
    certain, perhaps = np.zeros((2, *y.shape[:2]), bool)
    told: Array = np.asarray(known.all(axis=2))
    if (
        y.shape[2] not in (1, 3)
        or min(y.shape[:2]) < TUNING.smallest
        or told.mean() < TUNING.known
    ):
        return SurfaceDefects(certain, perhaps)
    y = fill_gaps(y, known)
    if colourless(y):
        y = y.mean(axis=2, keepdims=True)
    x = seen(y)
    glance = expit(first_odds(y, x)) * told
    if np.mean(glance > TUNING.striking) <= TUNING.some:
        return SurfaceDefects(certain, perhaps)
    before = known_before(y, x)
    chance = expit(odds_again("second", x, before)) * told
    sure = chance > TUNING.sure
    if np.mean(sure & _rough(y, chance)) > TUNING.enough and not _drawn(y):
        chance = expit(odds_again("third", x, before)) * told
        certain = chance > TUNING.likely
        perhaps = chance > TUNING.possible
    else:
        perhaps = chance > TUNING.doubtful
    return SurfaceDefects(certain, perhaps & ~certain)


def _rough(y: Array, chance: Array) -> Array:
    """Return where the picture beneath marks is far from a smooth one."""
    around: Array = maximum_filter(chance > TUNING.possible, 3)
    grey = y.mean(axis=2, keepdims=True)
    beneath = fill_gaps(grey, ~around[..., None])[..., 0]
    relief = beneath - gaussian_filter(beneath, TUNING.smooth)
    return np.asarray(np.abs(relief) > TUNING.rough)


def _drawn(y: Array) -> bool:
    """Return whether a program has drawn a picture."""
    down, across = y[1:] == y[:-1], y[:, 1:] == y[:, :-1]
    alike = min(np.mean(each.all(axis=2)) for each in (down, across))
    return float(alike) > TUNING.drawn


def first_odds(y: Array, x: Array) -> Array:
    """Return the logarithm of the odds that pixels lie under marks, at a glance.

    Parameters
    ----------
    y, x : ndarray of shape (rows, columns, channels)
        The picture, and what is `seen` of it.
    """
    alone = first_look(x)
    return np.asarray(alone + told_by_colours(y, alone)[1])


def known_before(y: Array, x: Array) -> Known:
    """Return what is known for those that look again.

    They are the odds as the first look has them, from all mirror images, and what
    colours add: a pixel's own, and those around.
    """
    alone = first_look(x, mirrored=True)
    return alone, *told_by_colours(y, alone)


def odds_again(look: str, x: Array, before: Known) -> Array:
    """Return the logarithm of the odds as the second or the third look has them."""
    odds = look_again(look, x, *before)
    share = gaussian_filter(expit(odds), TUNING.around)
    return np.asarray(odds - TUNING.crowded * np.maximum(share - TUNING.few, 0))


def told_by_colours(y: Array, alone: Array) -> tuple[Array, Array]:
    """Return what colours add to the logarithm of the odds: one's own, those around."""
    colours = _numbered(y)
    own = expit(alone) ** 2 + 1e-4
    around = gaussian_filter(own, TUNING.reach)
    told = np.zeros_like(alone)
    for _ in range(TUNING.rounds):
        chance = expit(alone + told) ** TUNING.surer
        colour = _told(colours, chance, y.shape[2])
        told = gaussian_filter(own * colour, TUNING.reach) / around
    return colour, told


def colourless(y: Array) -> bool:
    """Return whether all channels of an image say the same."""
    apart = np.abs(y - y.mean(axis=2, keepdims=True)).mean()
    return float(apart) < TUNING.colourless


def _numbered(y: Array) -> Array:
    """Return the bin of each pixel's colour."""
    shape = _binned(y.shape[2])
    where = np.clip((y * shape[0]).astype(np.int64), 0, shape[0] - 1)
    numbers: Array = np.ravel_multi_index(tuple(np.moveaxis(where, 2, 0)), shape)
    return numbers


def _binned(channels: int) -> tuple[int, ...]:
    """Return how many bins of colours there are, channel by channel."""
    return (TUNING.bins if channels > 1 else TUNING.greys,) * channels


def _told(colours: Array, chance: Array, channels: int) -> Array:
    """Return what colours add to the logarithm of the odds."""
    shape = _binned(channels)

    def counted(weight: Array) -> Array:
        counts = np.bincount(colours.ravel(), weight.ravel(), math.prod(shape))
        smooth: Array = gaussian_filter(
            counts.reshape(shape), TUNING.spread, mode="constant"
        )
        return smooth.ravel()

    under, beside = counted(chance), counted(1 - chance)
    both = under + beside
    usual = TUNING.doubt * both / both.sum() + 1e-12

    def share(counts: Array) -> Array:
        shares: Array = (counts + usual) / (counts.sum() + TUNING.doubt)
        return shares

    told = np.log(share(under) / share(beside))
    found: Array = np.clip(told, TUNING.least, TUNING.most)[colours]
    return found

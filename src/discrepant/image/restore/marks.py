"""Marks that lie on a picture: dust, scratches, hairs, text, stamps.

A mark is a layer of one colour c over the picture: each value is ``α c + (1 − α) b``
with b the picture beneath and α from 0 to 1, soft at the edge. What tells it from the
picture is that it does not care for what it lies on: over dark and light the same
colour, its edge sharp, its ends abrupt, and there is much of it. Colours that many thin
things share are looked for (`mark_ridges`); in each, what hangs together is measured
(`mark_pieces`) and weighed (`mark_evidence`), and how many marks there are is learned
from the picture itself. What may as well be the picture is only suggested.
"""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from discrepant.image.restore.mark_pieces import (
    TUNING as PIECES,
)
from discrepant.image.restore.mark_pieces import (
    Pieces,
    blocks,
    dilated,
    find_pieces,
)
from discrepant.image.restore.mark_ridges import TUNING as RIDGES
from discrepant.image.restore.mark_ridges import (
    Colour,
    Ridges,
    find_colours,
    find_ridges,
)
from discrepant.linalg import Array


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
        Channels that differ by less, over blocks of pixels, say the same.
    first : float
        Share of the bands of rows, those with most tips of a colour, that tell whether
        it is worth a look.
    sure, likely, possible, doubtful : float
        The probability of a piece that counts as sure; of one that is taken out, and of
        one that is suggested, where there are marks; of one that is, elsewhere.
    uneven : float
        Roughness of the ground over the variety, at least: else it is light that
        varies.
    some, some_share : float
        Sure pieces, and their share, of which a group is worth suggesting.
    whole : float
        Pixels covered by this share have the colour of the mark.
    fewest : int
        Such pixels that tell it.
    largest : float
        Share of the picture that a group may cover. What covers more is texture.
    smooth : float
        Deviation, in pixels, of the Gaussian that makes a smooth picture.
    """

    smallest: int = 32
    known: float = 0.5
    colourless: float = 0.01
    first: float = 0.25
    sure: float = 0.9
    likely: float = 0.8
    possible: float = 0.05
    doubtful: float = 0.3
    uneven: float = 0.25
    some: int = 5
    some_share: float = 0.01
    whole: float = 0.85
    fewest: int = 30
    largest: float = 0.12
    smooth: float = 16.0


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Marks:
    """Pixels under marks, of shape (rows, columns): for certain, and perhaps."""

    certain: Array
    perhaps: Array


@dataclass(frozen=True)
class Account:
    """What a group of pieces of one colour has to show.

    Attributes
    ----------
    sure : int
        Pieces that are marks nearly for certain, if there are marks at all.
    share : float
        Those among all pieces of the colour: a picture has thin things too, and some
        of them look like marks.
    variety : float
        The deviation of the contrast to what is beneath. Writing in the picture is of
        one colour on one ground.
    roughness : float
        How far the ground is from a smooth one. Writing on an unevenly lit page, or a
        mast before the sky, does not cross anything.
    """

    sure: int
    share: float
    variety: float
    roughness: float

    def suffices(self, demand: "Demand") -> bool:
        """Return whether this is enough."""
        together = self.share * self.variety * self.roughness
        return (
            self.sure >= demand.sure
            and self.roughness >= demand.roughness
            and self.roughness >= TUNING.uneven * self.variety
            and together >= demand.together
        )


@dataclass(frozen=True)
class Demand:
    """Sure pieces, roughness, and the product of all other merits, that are enough."""

    sure: int
    roughness: float
    together: float


# By trial: clean photographs, with and without noise, come to products of 2e-4, without
# colour to 4e-4, and scans up to 3e-3; pages of text to a roughness of 0.028.
DEMANDS = {1: Demand(20, 0.04, 8e-4), 3: Demand(12, 0.04, 4e-4)}
SPOILED = Demand(10, 0.03, 1.5e-4)  # where there are marks of another colour


def find_marks(y: Array, known: Array) -> Marks:
    """Find the marks on a picture.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and which values may be looked at.
    """
    certain, perhaps = np.zeros((2, *y.shape[:2]), bool)
    seen: Array = np.asarray(known.all(axis=2))
    if (
        y.shape[2] not in DEMANDS
        or min(y.shape[:2]) < TUNING.smallest
        or seen.mean() < TUNING.known
    ):
        return Marks(certain, perhaps)
    y = _without_colour(_filled(y, ~seen))
    groups = _groups(y)
    relief = _relief(y, groups)
    accounts = [_account(*group, relief) for group in groups]
    demand = DEMANDS[y.shape[2]]
    if any(account.suffices(demand) for account in accounts):
        demand = SPOILED
    for (group, chance), account in zip(groups, accounts, strict=True):
        if account.suffices(demand):
            certain |= group.pixels(chance > TUNING.likely)
            perhaps |= group.pixels(chance > TUNING.possible)
        elif account.sure >= TUNING.some and account.share > TUNING.some_share:
            perhaps |= group.pixels(chance > TUNING.doubtful)
    return Marks(certain & seen, perhaps & seen & ~certain)


def _groups(y: Array) -> list[tuple[Pieces, Array]]:
    """Return pieces of each colour that is worth a look, and how likely each is one."""
    found = find_ridges(y)
    groups = []
    for colour in find_colours(y, found):
        if _promising(y, found, colour):
            pieces = find_pieces(y, found, colour.values)
            if pieces is not None:
                pieces = _refined(y, found, pieces) or pieces
                chance = pieces.chances()
                covered = np.count_nonzero((chance > 0.5)[pieces.labels])
                if covered < TUNING.largest * pieces.labels.size:
                    groups.append((pieces, chance))
    return groups


def _refined(y: Array, found: Ridges, pieces: Pieces) -> Pieces | None:
    """Return pieces of the colour that the surest ones have where they cover wholly."""
    sure = pieces.chances() > TUNING.likely
    whole = sure[pieces.labels] & (pieces.alpha > TUNING.whole)
    if np.count_nonzero(whole) < TUNING.fewest:
        return None
    return find_pieces(y, found, np.median(y[whole], axis=0))


def _promising(y: Array, found: Ridges, colour: Colour) -> bool:
    """Return whether marks of a colour show in the bands of rows with most tips."""
    bands = -(-len(y) // RIDGES.band)
    count = max(round(TUNING.first * bands), 2)
    if count >= bands:
        return True
    chosen = np.sort(np.argsort(colour.tips, kind="stable")[-count:])
    rows = (RIDGES.band * chosen[:, None] + np.arange(RIDGES.band)).ravel()
    rows = rows[rows < len(y)]
    part = np.ascontiguousarray(y[rows])
    pieces = find_pieces(part, found.rows(rows), colour.values)
    return pieces is not None and int((pieces.chances() > 0.5).sum()) > 1


def _account(group: Pieces, chance: Array, relief: Array) -> Account:
    """Return what a group has to show, of which each piece has a chance."""
    sure = chance > TUNING.sure
    contrast = group.measures["contrast"][sure]
    i, j = np.nonzero((chance > 0.5)[group.labels])
    beneath = relief[i // PIECES.block, j // PIECES.block]
    return Account(
        int(sure.sum()),
        float(sure.mean()),
        float(contrast.std()) if contrast.size else 0.0,
        float(np.sqrt(np.mean(beneath**2))) if beneath.size else 0.0,
    )


def _relief(y: Array, groups: list[tuple[Pieces, Array]]) -> Array:
    """Return by blocks how far the picture beneath all marks is from a smooth one."""
    hole = np.zeros(y.shape[:2], bool)
    for group, chance in groups:
        hole |= (chance > TUNING.possible)[group.labels]
    beneath = blocks(_filled(y, dilated(dilated(hole))).mean(axis=2))
    smooth = ndimage.gaussian_filter(beneath, TUNING.smooth / PIECES.block)
    relief: Array = beneath - smooth
    return relief


def _filled(y: Array, hole: Array) -> Array:
    """Return an image with its holes filled from around them."""
    if not hole.any():
        return y
    from discrepant.image.restore.mark_kernels import filled

    return filled(y, hole)


def _without_colour(y: Array) -> Array:
    """Return the mean of the channels of an image in which they say the same."""
    grey = y.mean(axis=2, keepdims=True)
    apart = [blocks(y[..., c] - grey[..., 0]) for c in range(y.shape[2])]
    return grey if float(np.std(apart)) < TUNING.colourless else y

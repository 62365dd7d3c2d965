"""What hangs together in one colour, cut into pieces and measured."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage
from scipy.spatial import cKDTree

from discrepant.image.restore.mark_evidence import chances, evidence
from discrepant.image.restore.mark_ridges import Ridges
from discrepant.linalg import Array

AROUND = np.ones((3, 3), bool)


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/marks.py --only scan` tries again.

    Attributes
    ----------
    contrast : float
        Between colour and ground, at least (38 of 255 grey levels).
    reaching : float
        A pixel covered by this share has no part in the ground.
    lowest : float
        And one covered by this share belongs to a piece.
    rim : float
        Pixels beside a piece that are covered by this share are wrong too.
    cell : int
        Rows and columns of the grid along which long things are cut.
    block, window : int
        Rows and columns of the blocks for which surroundings are told, and of the
        window over them, in blocks.
    alike : float
        Values so near to the colour have it.
    floor : float
        Error of the ground (two grey levels), as if it were noise.
    slender, far, aligned, aside : float
        Two pieces of this length over width keep company if they are no further apart,
        in pixels, the cosine of the angle between them is this, and each lies no more
        pixels off the line of the other.
    """

    contrast: float = 0.15
    reaching: float = 0.25
    lowest: float = 0.3
    rim: float = 0.15
    cell: int = 24
    block: int = 4
    window: int = 5
    alike: float = 0.1
    floor: float = 0.008
    slender: float = 4.0
    far: float = 60.0
    aligned: float = 0.98
    aside: float = 2.5


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Pieces:
    """What hangs together in one colour, cut along a grid.

    Attributes
    ----------
    labels : ndarray of shape (rows, columns)
        The number of the piece of each pixel; 0 is none.
    alpha, contrast : ndarray of shape (rows, columns)
        How far a pixel is covered, and how far the colour is from the ground there.
    noise : float
        The deviation of the noise.
    measures : dict of ndarray
        For each piece, by name; the first is none.
    cells : ndarray of int
        In which cell of the grid each lies.
    company : ndarray of shape (pairs, 2)
        Pieces that touch, or lie on one straight line.
    """

    labels: Array
    alpha: Array
    contrast: Array
    noise: float
    measures: dict[str, Array]
    cells: Array
    company: Array

    def chances(self) -> Array:
        """Return the probability of each piece to be a mark; the first is none."""
        rows, columns = (-(-n // TUNING.cell) for n in self.labels.shape)
        weights = evidence(self.measures)[1:]
        grid = (rows, columns)
        return np.append(0, chances(weights, self.cells[1:], self.company - 1, grid))

    def pixels(self, chosen: Array) -> Array:
        """Return those of chosen pieces, and those beside that they cover partly."""
        inside = chosen[self.labels]
        least = np.maximum(TUNING.rim, 2 * self.noise / np.maximum(self.contrast, 0.01))
        found: Array = inside | (dilated(inside) & (self.alpha > least))
        return found


@dataclass(frozen=True, eq=False)
class Strips:
    """Each piece as a strip: its middle, its direction, and length over width."""

    middle: Array
    along: Array
    slender: Array


def find_pieces(y: Array, found: Ridges, colour: Array) -> Pieces | None:
    """Return what hangs together in a colour; None if nothing does."""
    from discrepant.image.restore.mark_kernels import BIN, BINS, SUMS, filled, measure

    alpha, contrast, _ = _mixture(y, found.ground, colour, found.score > 0)
    hole = dilated((alpha > TUNING.reaching) & (contrast > TUNING.contrast))
    ground = filled(y, hole)
    alpha, contrast, misfit = _mixture(y, ground, colour, hole)
    inside = (alpha > TUNING.lowest) & (contrast > TUNING.contrast)
    if not inside.any():
        return None
    labels, cells = _cut(inside)
    coloured = np.abs(y - colour).max(axis=2) < TUNING.alike
    deviation, alike = _surroundings(y, hole, coloured & ~inside)
    sums = np.zeros((len(cells), len(SUMS)))
    counts = np.zeros((len(cells), BINS), np.int64)
    measure(
        labels,
        alpha,
        misfit,
        contrast,
        found.noise,
        deviation,
        alike,
        found.step,
        TUNING.block,
        sums,
        counts,
    )
    named = dict(zip(SUMS, sums.T, strict=True))
    size, core = np.maximum(named["size"], 1), np.maximum(named["core"], 0.5)
    steps = np.cumsum(counts, axis=1)
    top, mid = (
        BIN * ((steps < share * size[:, None]).sum(axis=1) + 0.5)
        for share in (0.85, 0.5)
    )
    strips = _strips(named, size)
    measures = {
        "size": size,
        "core": named["core"],
        "grow": size / core,
        "top": top,
        "mid": mid,
        "edge": named["shine"] / np.maximum(named["rim"], 1) / mid,
        "misfit": np.sqrt(named["misfit"] / core / (found.noise**2 + TUNING.floor**2)),
        "beyond": named["beyond"] / size,
        "texture": named["texture"] / size,
        "alike": named["alike"] / size,
        "deep": named["deep"] / size,
        "slender": strips.slender,
        "sides": named["sides"] / core,
        "contrast": named["contrast"] / size,
    }
    company = _company(labels, strips)
    return Pieces(labels, alpha, contrast, found.noise, measures, cells, company)


def dilated(mask: Array) -> Array:
    """Return a mask's pixels and their eight neighbours."""
    from discrepant.image.restore.mark_kernels import dilate

    out = np.zeros_like(mask)
    dilate(mask, out)
    return out


def blocks(a: Array) -> Array:
    """Return means over blocks; those at the lower and right border are filled up."""
    n = TUNING.block
    rows, columns = a.shape
    a = np.pad(a, ((0, -rows % n), (0, -columns % n)), mode="edge")
    a = a.reshape(a.shape[0] // n, n, -1, n)
    means: Array = a.mean(axis=(1, 3), dtype=np.float32)
    return means


def _mixture(
    y: Array, ground: Array, colour: Array, where: Array
) -> tuple[Array, Array, Array]:
    """Return α, the contrast of the colour to the ground, and the squared misfit."""
    from discrepant.image.restore.mark_kernels import mixtures

    alpha, contrast, misfit = np.zeros((3, *y.shape[:2]), np.float32)
    mixtures(y, ground, colour, where, alpha, contrast, misfit)
    return alpha, contrast, misfit


def _cut(inside: Array) -> tuple[Array, Array]:
    """Return what hangs together, cut along a grid: labels, and the cell of each."""
    labels, _ = ndimage.label(inside, AROUND)
    rows, columns = (-(-n // TUNING.cell) for n in inside.shape)
    i, j = np.nonzero(inside)
    cell = i // TUNING.cell * columns + j // TUNING.cell
    whole = labels[i, j].astype(np.int64)
    key, which = np.unique(whole * (rows * columns) + cell, return_inverse=True)
    out = np.zeros(inside.shape, np.int32)
    out[i, j] = which + 1
    return out, np.append(0, key % (rows * columns))


def _surroundings(y: Array, hole: Array, coloured: Array) -> tuple[Array, Array]:
    """Return by blocks how far values around deviate, and how many have the colour."""
    grey = y.mean(axis=2)
    weight = (~hole).astype(np.float32)
    parts = [blocks(a) for a in (weight, weight * grey, weight * grey**2, coloured)]
    share, first, second, alike = (
        ndimage.uniform_filter(part, TUNING.window) for part in parts
    )
    share = np.maximum(share, 1e-6)
    deviation = np.sqrt(np.maximum(second / share - (first / share) ** 2, 0))
    return deviation, alike


def _strips(named: dict[str, Array], size: Array) -> Strips:
    """Return each piece as the strip that has its second moments."""
    i, j = named["row"] / size, named["column"] / size
    ii = named["rows"] / size - i**2
    jj = named["columns"] / size - j**2
    ij = named["both"] / size - i * j
    mean, half = (ii + jj) / 2, np.hypot((ii - jj) / 2, ij)
    # A pixel is a square: it has a variance of 1/12 by itself.
    ratio = (mean + half + 1 / 12) / np.maximum(mean - half + 1 / 12, 1 / 12)
    turn = np.arctan2(2 * ij, ii - jj) / 2
    along = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return Strips(np.stack([i, j], axis=1), along, np.sqrt(ratio))


def _company(labels: Array, strips: Strips) -> Array:
    """Return pairs of pieces that touch, or lie on one straight line, both ways."""
    rows, columns = labels.shape
    pairs = []
    for di, dj in ((0, 1), (1, 0), (1, 1), (1, -1)):
        here = labels[: rows - di, max(-dj, 0) : columns - max(dj, 0)]
        there = labels[di:, max(dj, 0) : columns + min(dj, 0)]
        touch = (here != there) & (here > 0) & (there > 0)
        pairs.append(np.stack([here[touch], there[touch]], axis=1))
    thin = np.nonzero(strips.slender > TUNING.slender)[0]
    if len(thin) > 1:
        tree = cKDTree(strips.middle[thin])
        near = thin[tree.query_pairs(TUNING.far, output_type="ndarray")]
        one, other = near.T
        gap = strips.middle[other] - strips.middle[one]
        cosine = np.sum(strips.along[one] * strips.along[other], axis=1)
        aligned = np.abs(cosine) > TUNING.aligned
        for along in (strips.along[one], strips.along[other]):
            aside = gap[:, 0] * along[:, 1] - gap[:, 1] * along[:, 0]
            aligned &= np.abs(aside) < TUNING.aside
        pairs.append(near[aligned])
    one, other = np.concatenate(pairs).astype(np.int64).T
    count = len(strips.slender)
    keys = np.unique(np.concatenate([one * count + other, other * count + one]))
    return np.stack([keys // count, keys % count], axis=1)

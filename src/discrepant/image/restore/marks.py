"""Marks that lie on a picture: dust, scratches, hairs, text, stamps.

A mark is a layer of one colour c over the picture: each value is ``α c + (1 − α) b``
with b the picture beneath and α from 0 to 1, soft at the edge. What tells it from the
picture is that it does not care for what it lies on: over dark and light the same
colour, its edge sharp, its ends abrupt, and there are many of it. Colours that many
thin things share are looked for (`colours`); for each, what hangs together is measured
(`components`) and weighed (`evidence`); and how many marks there are is learned from
the picture itself, so that where there are none, none are found.
"""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage
from scipy.spatial import cKDTree

from discrepant.image.restore.mark_evidence import chances, evidence
from discrepant.linalg import Array


@dataclass(frozen=True)
class Tuning:
    least_contrast: float = 0.15
    ridge: float = 4.0
    strong: float = 0.12
    lowest: float = 0.3
    fewest: int = 8
    block: int = 4
    cell: int = 24
    slender: float = 4.0
    far: float = 60.0
    aligned: float = 0.98
    aside: float = 2.5
    smallest: int = 32
    band: int = 64
    most: int = 4
    sure: float = 0.9
    some: int = 5
    some_share: float = 0.01
    likely: float = 0.7
    possible: float = 0.15
    rim: float = 0.12
    lone: float = 0.08
    impulses: float = 0.15
    colourless: float = 0.01
    window: int = 5
    colour_bins: int = 16
    near: float = 0.2
    apart: float = 0.1


TUNING = Tuning()
AROUND = np.ones((3, 3), bool)


@dataclass(frozen=True, eq=False)
class Ridges:
    """What differs from both its sides: how much, and what those are."""

    noise: float
    score: Array
    ground: Array
    step: Array


@dataclass(frozen=True, eq=False)
class Components:
    """What hangs together in one colour.

    ``labels`` from 1 on, ``alpha``, ``contrast`` (of the colour to the ground beneath),
    ``relief`` and by name the measures of each component.
    """

    labels: Array
    alpha: Array
    contrast: Array
    measures: dict[str, Array]
    cells: Array
    company: Array

    def chances(self) -> Array:
        """Return the probability of each piece to be a mark; the first is none."""
        grid = tuple(-(-n // TUNING.cell) for n in self.labels.shape)
        weights = evidence(self.measures)[1:]
        found = chances(weights, self.cells[1:], self.company - 1, grid)
        return np.append(0, found)


def find_ridges(y: Array) -> Ridges:
    from discrepant.image.restore.mark_kernels import ridges

    noise = max(_noise(y), 1 / 255)
    score, ground = np.zeros(y.shape[:2], np.float32), np.zeros_like(y)
    step = np.zeros(y.shape[:2], np.float32)
    smooth = ndimage.uniform_filter(y, (3, 3, 1))
    ridges(y, smooth, y.shape[2] * (TUNING.ridge * noise) ** 2, score, ground, step)
    return Ridges(noise, score, ground, step / y.shape[2])


def _noise(y: Array) -> float:
    """Return the noise of the quieter parts."""
    e = (y[:-1, :-1] - y[1:, :-1] - y[:-1, 1:] + y[1:, 1:]) / 2
    rows, columns = (n // 16 * 16 for n in e.shape[:2])
    if not (rows and columns):
        return 1.0
    blocks = np.abs(e[:rows, :columns]).reshape(rows // 16, 16, columns // 16, 16, -1)
    spread = np.median(blocks, axis=(1, 3)) / 0.6745
    return float(np.sqrt(np.mean(np.quantile(spread, 0.2, axis=(0, 1)) ** 2)))


def colours(y: Array, found: Ridges) -> list[tuple[Array, Array]]:
    """Return colours that thin things share, at most four, and where those are.

    Of each it is told how many of its tips lie in each band of rows.
    """
    channels = y.shape[2]
    tip = found.score > channels * TUNING.strong**2
    tip &= found.score >= ndimage.maximum_filter(found.score, 3)
    v, b = y[tip], found.ground[tip]
    if len(v) < TUNING.fewest or _lone(y, tip, v, b) > TUNING.impulses:
        return []
    n = TUNING.colour_bins
    among_tips, among_all = (
        _histogram(a, n) for a in (v, y[::2, ::2].reshape(-1, channels))
    )
    purity = among_tips**2 / np.maximum(among_all, 1)
    seeds = [np.ones(channels), np.zeros(channels)]
    for place in np.argsort(purity, axis=None)[:-40:-1]:
        seed = (np.array(np.unravel_index(place, purity.shape)) + 0.5) / n
        seeds.append(seed)
    out: list[tuple[Array, Array]] = []
    band = np.nonzero(tip)[0] // TUNING.band
    for seed in seeds:
        colour = _refined(seed, v, b)
        if colour is None or len(out) == TUNING.most:
            continue
        if all(np.abs(colour - other).max() > TUNING.apart for other, _ in out):
            near = np.abs(v - colour).max(axis=1) < TUNING.near
            out.append((colour, np.bincount(band[near])))
    return out


def _promising(y: Array, found: Ridges, colour: Array, tips: Array) -> bool:
    """Return whether marks of a colour show in the bands of rows with most tips."""
    bands = -(-len(y) // TUNING.band)
    count = max(bands // 4, 2)
    if count >= bands:
        return True
    chosen = np.sort(np.argsort(tips)[-count:])
    rows = (TUNING.band * chosen[:, None] + np.arange(TUNING.band)).ravel()
    rows = rows[rows < len(y)]
    part = Ridges(found.noise, found.score[rows], found.ground[rows], found.step[rows])
    group = components(np.ascontiguousarray(y[rows]), part, colour)
    return group is not None and int((group.chances() > 0.5).sum()) >= 2


def _lone(y: Array, tip: Array, v: Array, b: Array) -> float:
    """Return the share of tips whose neighbours are no part of them: impulses."""
    i, j = np.nonzero(tip)
    rows, columns = tip.shape
    up = v - b
    square = np.maximum((up**2).sum(axis=1), 1e-9)
    most = np.zeros(len(i))
    for di, dj in ((0, 1), (1, 0), (0, -1), (-1, 0)):
        beside = y[np.clip(i + di, 0, rows - 1), np.clip(j + dj, 0, columns - 1)]
        most = np.maximum(most, ((beside - b) * up).sum(axis=1) / square)
    return float(np.mean(most < TUNING.lone))


def _histogram(values: Array, n: int) -> Array:
    channels = values.shape[1]
    where = np.clip((values * n).astype(np.int64), 0, n - 1)
    flat = np.ravel_multi_index(tuple(where.T), (n,) * channels)
    counts = np.bincount(flat, minlength=n**channels).reshape((n,) * channels)
    smooth: Array = ndimage.uniform_filter(counts.astype(float), 3, mode="constant")
    return smooth * 3**channels


def _refined(seed: Array, v: Array, b: Array) -> Array | None:
    """Return the colour of which values near a seed are mixtures with the ground."""
    near = np.abs(v - seed).max(axis=1) < TUNING.near
    if near.sum() < TUNING.fewest:
        return None
    v, b = v[near], b[near]
    along = np.mean(v - b, axis=0)
    # Bright things and dark ones may have the same colour: keep the more frequent.
    same = ((v - b) @ along) > 0
    v, b = v[same], b[same]
    along = np.mean(v - b, axis=0)
    along /= max(float(np.linalg.norm(along)), 1e-9)
    reach = v @ along
    middle = np.median(v, axis=0)
    colour = middle + along * (np.quantile(reach, 0.9) - middle @ along)
    return np.clip(colour, 0, 1).astype(np.float32)


def components(y: Array, found: Ridges, colour: Array) -> Components | None:
    """Return what hangs together in a colour, measured; None if there is nothing."""
    from discrepant.image.restore.mark_kernels import BIN, SUMS, filled, measure

    channels = y.shape[2]
    alpha, contrast, _ = _mixture(y, found.ground, colour, found.score > 0)
    strong = (alpha > 0.25) & (contrast > TUNING.least_contrast)
    if np.count_nonzero(strong) < TUNING.fewest:
        return None
    hole = _dilated(strong)
    ground = filled(y, hole)
    alpha, contrast, misfit = _mixture(y, ground, colour, hole)
    inside = (alpha > TUNING.lowest) & (contrast > TUNING.least_contrast)
    labels, cells = _pieces(inside)
    count = len(cells) - 1
    if not count:
        return None
    coloured = np.abs(y - colour).max(axis=2) < TUNING.apart
    deviation, alike = _surroundings(y, hole, coloured & ~inside)
    sums = np.zeros((count + 1, len(SUMS)))
    counts = np.zeros((count + 1, 30), np.int64)
    measure(
        *(labels, alpha, misfit, contrast, found.noise),
        *(deviation, alike, found.step, TUNING.block, sums, counts),
    )
    named = dict(zip(SUMS, sums.T, strict=True))
    size = np.maximum(named["size"], 1)
    core = np.maximum(named["core"], 0.5)
    steps = np.cumsum(counts, axis=1)
    top, mid = (
        BIN * ((steps < share * size[:, None]).sum(axis=1) + 0.5)
        for share in (0.85, 0.5)
    )
    floor = found.noise**2 + 0.008**2
    shape = _strips(named, size)
    measures = {
        "size": size,
        "core": named["core"],
        "grow": size / core,
        "top": top,
        "mid": mid,
        "edge": named["shine"] / np.maximum(named["rim"], 1) / mid,
        "misfit": np.sqrt(named["misfit"] / core / floor),
        "beyond": named["beyond"] / size,
        "texture": named["texture"] / size,
        "alike": named["alike"] / size,
        "deep": named["deep"] / size,
        "sides": named["sides"] / core,
        "slender": shape.slender,
        "contrast": named["contrast"] / size,
    }
    return Components(labels, alpha, contrast, measures, cells, _company(labels, shape))


@dataclass(frozen=True, eq=False)
class Strips:
    """Each piece as a strip: its middle, its direction, and length over width."""

    middle: Array
    along: Array
    slender: Array


def _strips(named: dict[str, Array], size: Array) -> Strips:
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
    pairs = []
    for di, dj in ((0, 1), (1, 0), (1, 1), (1, -1)):
        here = labels[: labels.shape[0] - di, max(-dj, 0) : labels.shape[1] - max(dj, 0)]
        there = labels[di:, max(dj, 0) : labels.shape[1] + min(dj, 0)]
        touch = (here != there) & (here > 0) & (there > 0)
        pairs.append(np.stack([here[touch], there[touch]], axis=1))
    thin = np.nonzero(strips.slender > TUNING.slender)[0]
    thin = thin[thin > 0]
    if len(thin) > 1:
        near = thin[cKDTree(strips.middle[thin]).query_pairs(TUNING.far, output_type="ndarray")]
        one, other = near.T
        gap = strips.middle[other] - strips.middle[one]
        aligned = np.abs(np.sum(strips.along[one] * strips.along[other], axis=1)) > TUNING.aligned
        for along in (strips.along[one], strips.along[other]):
            aside = gap[:, 0] * along[:, 1] - gap[:, 1] * along[:, 0]
            aligned &= np.abs(aside) < TUNING.aside
        pairs.append(near[aligned])
    one, other = np.concatenate(pairs).astype(np.int64).T
    count = len(strips.slender)
    keys = np.unique(np.concatenate([one * count + other, other * count + one]))
    return np.stack([keys // count, keys % count], axis=1)


def _pieces(inside: Array) -> tuple[Array, Array]:
    """Return what hangs together, cut along a grid: labels, and the cell of each."""
    labels, count = ndimage.label(inside, AROUND)
    rows, columns = (-(-n // TUNING.cell) for n in inside.shape)
    i, j = np.nonzero(inside)
    cell = i // TUNING.cell * columns + j // TUNING.cell
    key, which = np.unique(
        labels[i, j] * (rows * columns) + cell, return_inverse=True
    )
    out = np.zeros(inside.shape, np.int32)
    out[i, j] = which + 1
    return out, np.append(0, key % (rows * columns))


def _mixture(
    y: Array, ground: Array, colour: Array, where: Array
) -> tuple[Array, Array, Array]:
    """Return α, the contrast of the colour to the ground, and the squared misfit."""
    from discrepant.image.restore.mark_kernels import mixtures

    alpha, contrast, misfit = np.zeros((3, *y.shape[:2]), np.float32)
    mixtures(y, ground, colour, where, alpha, contrast, misfit)
    return alpha, contrast, misfit


def _dilated(mask: Array) -> Array:
    from discrepant.image.restore.mark_kernels import dilated

    out = np.zeros_like(mask)
    dilated(mask, out)
    return out


def _surroundings(
    y: Array, hole: Array, coloured: Array
) -> tuple[Array, Array]:
    """Return by blocks how far values around deviate, and how many have the colour."""
    grey = y.mean(axis=2)
    weight = (~hole).astype(np.float32)
    size = TUNING.window
    parts = [_blocks(a) for a in (weight, weight * grey, weight * grey**2, coloured)]
    share, first, second, alike = (ndimage.uniform_filter(a, size) for a in parts)
    share = np.maximum(share, 1e-6)
    deviation = np.sqrt(np.maximum(second / share - (first / share) ** 2, 0))
    return deviation, alike


def _blocks(a: Array) -> Array:
    """Return means over blocks; those at the lower and right border may be smaller."""
    n = TUNING.block
    rows, columns = a.shape
    a = np.pad(a, ((0, -rows % n), (0, -columns % n)), mode="edge")
    means: Array = a.reshape(a.shape[0] // n, n, -1, n).mean(axis=(1, 3), dtype=np.float32)
    return means


@dataclass(frozen=True, eq=False)
class Marks:
    """Pixels that lie under marks: for certain, and perhaps."""

    certain: Array
    perhaps: Array


def find_marks(y: Array, known: Array, verbose: bool = False) -> Marks:
    """Find the marks on a picture.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and which values may be looked at.
    """
    certain, perhaps = np.zeros((2, *y.shape[:2]), bool)
    if y.shape[2] not in (1, 3) or min(y.shape[:2]) < TUNING.smallest:
        return Marks(certain, perhaps)
    seen = known.all(axis=2)
    if seen.mean() < 0.5:
        return Marks(certain, perhaps)
    if not seen.all():
        from discrepant.image.restore.mark_kernels import filled

        y = filled(y, ~seen)
    y = _without_colour(y)
    found = find_ridges(y)
    groups = []
    for colour, tips in colours(y, found):
        if _promising(y, found, colour, tips):
            group = components(y, found, colour)
            if group is not None:
                groups.append((group, group.chances()))
    relief = _relief(y, groups)
    accounts = [_account(group, chance, relief) for group, chance in groups]
    demand = DEMANDS[y.shape[2]]
    if any(demand.met(account) for account in accounts):
        demand = SPOILED  # a picture with marks of one colour may have some of another
    for (group, chance), account in zip(groups, accounts, strict=True):
        if verbose:
            print(account, len(chance), account.share)
        if demand.met(account):
            certain |= _spread(group, chance > TUNING.likely, found.noise)
            perhaps |= _spread(group, chance > TUNING.possible, found.noise)
        elif account.sure >= TUNING.some and account.share > TUNING.some_share:
            perhaps |= _spread(group, chance > 0.5, found.noise)
    certain &= seen
    return Marks(certain, perhaps & seen & ~certain)


@dataclass(frozen=True)
class Account:
    """What a group of pieces of one colour has to show, or must have.

    Attributes
    ----------
    sure : int
        Pieces that are marks nearly for certain, if there are marks at all.
    share : float
        Those among all pieces of the colour: a picture has thin things, too, and some
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

    def met(self, other: "Account") -> bool:
        """Return whether another has as much of all."""
        return (
            other.sure >= self.sure
            and other.share >= self.share
            and other.variety >= self.variety
            and other.roughness >= self.roughness
        )


# Without colour there is less to tell marks by.
DEMANDS = {1: Account(30, 0.04, 0.09, 0.03), 3: Account(15, 0.03, 0.09, 0.03)}
SPOILED = Account(10, 0.02, 0.05, 0.03)


def _account(group: Components, chance: Array, relief: Array) -> Account:
    sure = chance > TUNING.sure
    contrast = group.measures["contrast"][sure]
    return Account(
        int(sure.sum()),
        float(sure.mean()),
        float(contrast.std()) if contrast.size else 0.0,
        _roughness(relief, (chance > 0.5)[group.labels]),
    )


def _without_colour(y: Array) -> Array:
    """Return the mean of the channels of an image in which they say the same."""
    grey = y.mean(axis=2, keepdims=True)
    apart = [_blocks(y[..., c] - grey[..., 0]) for c in range(y.shape[2])]
    return grey if float(np.std(apart)) < TUNING.colourless else y


def _relief(y: Array, groups: list[tuple[Components, Array]]) -> Array:
    """Return how far the picture beneath all marks lies from a smooth one, by blocks."""
    from discrepant.image.restore.mark_kernels import filled

    hole = np.zeros(y.shape[:2], bool)
    for group, chance in groups:
        hole |= (chance > TUNING.possible)[group.labels]
    beneath = _blocks(filled(y, _dilated(_dilated(hole))).mean(axis=2))
    relief: Array = beneath - ndimage.gaussian_filter(beneath, 16 / TUNING.block)
    return relief


def _roughness(relief: Array, chosen: Array) -> float:
    """Return the root mean square of the relief under chosen pixels."""
    i, j = np.nonzero(chosen)
    beneath = relief[i // TUNING.block, j // TUNING.block]
    return float(np.sqrt(np.mean(beneath**2))) if len(i) else 0.0


def _spread(group: Components, chosen: Array, noise: float) -> Array:
    """Return the pixels of chosen pieces, and those beside that they cover partly."""
    inside = chosen[group.labels]
    beside = _dilated(inside)
    least = np.maximum(TUNING.rim, 2 * noise / np.maximum(group.contrast, 0.01))
    found: Array = inside | (beside & (group.alpha > least))
    return found

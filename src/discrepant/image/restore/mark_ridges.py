"""Thin things in a picture, and the colours that many of them share."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from discrepant.linalg import Array


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/marks.py --only scan` tries again.

    Attributes
    ----------
    block : int
        Rows and columns in which noise is measured.
    quiet : float
        Noise is what this share of the blocks stay below: the others have texture.
    finest : float
        The noise at least, a step of 8-bit values.
    ridge : float
        Deviations of the noise by which a thin thing differs from both its sides.
    strong : float
        And by how much it does where its colour is asked for (30 of 255 grey levels).
    fewest : int
        Tips that a colour needs.
    most : int
        Colours that are looked at: black, white, and those that few but tips have.
    bins : int
        Of each channel, in which colours are counted.
    near : float
        Tips so near to a colour may be mixtures of it.
    apart : float
        Colours that differ by less are one.
    extreme : float
        The quantile of the tips, along the direction from the ground, at the colour.
    lone : float
        A tip of which not even this share is on the pixels beside it is an impulse.
    impulses : float
        With so many of them among the tips, impulses are what is wrong with the image.
    band : int
        Rows of a band, in which tips are counted.
    """

    block: int = 16
    quiet: float = 0.2
    finest: float = 1 / 255
    ridge: float = 4.0
    strong: float = 0.12
    fewest: int = 8
    most: int = 4
    bins: int = 16
    near: float = 0.2
    apart: float = 0.1
    extreme: float = 0.9
    lone: float = 0.08
    impulses: float = 0.15
    band: int = 64


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Ridges:
    """What differs from both its sides.

    Attributes
    ----------
    noise : float
        The deviation of the noise.
    score : ndarray of shape (rows, columns)
        The squared difference, summed over channels; 0 where it is no more than noise.
    ground : ndarray of shape (rows, columns, channels)
        The mean of both sides.
    step : ndarray of shape (rows, columns)
        The squared difference of the sides, a channel.
    """

    noise: float
    score: Array
    ground: Array
    step: Array

    def rows(self, which: Array) -> "Ridges":
        """Return those of some rows."""
        parts = (self.score, self.ground, self.step)
        return Ridges(self.noise, *(part[which] for part in parts))


@dataclass(frozen=True, eq=False)
class Colour:
    """A colour that thin things share, and how many lie in each band of rows."""

    values: Array
    tips: Array


def find_ridges(y: Array) -> Ridges:
    """Return what differs from both its sides in an image on [0, 1]."""
    from discrepant.image.restore.mark_kernels import ridges

    channels = y.shape[2]
    noise = max(_noise(y), TUNING.finest)
    score, step = np.zeros((2, *y.shape[:2]), np.float32)
    ground = np.zeros_like(y)
    smooth = ndimage.uniform_filter(y, (3, 3, 1))
    ridges(y, smooth, channels * (TUNING.ridge * noise) ** 2, score, ground, step)
    return Ridges(noise, score, ground, step / channels)


def find_colours(y: Array, found: Ridges) -> list[Colour]:
    """Return colours that thin things share; none where impulses are what is wrong."""
    channels = y.shape[2]
    tip = found.score > channels * TUNING.strong**2
    tip &= found.score >= ndimage.maximum_filter(found.score, 3)
    v, b = y[tip], found.ground[tip]
    if len(v) < TUNING.fewest or _lone(y, tip, v, b) > TUNING.impulses:
        return []
    n = TUNING.bins
    among_tips = _histogram(v, n)
    among_all = _histogram(y[::2, ::2].reshape(-1, channels), n)
    purity = among_tips**2 / np.maximum(among_all, 1)
    best = np.argsort(purity, axis=None)[: -10 * TUNING.most : -1]
    places = np.stack(np.unravel_index(best, purity.shape), axis=1)
    seeds = [np.ones(channels), np.zeros(channels), *((places + 0.5) / n)]
    band = np.nonzero(tip)[0] // TUNING.band
    out: list[Colour] = []
    for seed in seeds:
        values = _refined(seed, v, b)
        if values is None or len(out) == TUNING.most:
            continue
        if all(np.abs(values - other.values).max() > TUNING.apart for other in out):
            near = np.abs(v - values).max(axis=1) < TUNING.near
            out.append(Colour(values, np.bincount(band[near])))
    return out


def _noise(y: Array) -> float:
    """Return the noise of the quieter parts."""
    e = (y[:-1, :-1] - y[1:, :-1] - y[:-1, 1:] + y[1:, 1:]) / 2
    n = TUNING.block
    rows, columns = (m // n * n for m in e.shape[:2])
    blocks = np.abs(e[:rows, :columns]).reshape(rows // n, n, columns // n, n, -1)
    # The median of |e| is 0.6745 standard deviations.
    spread = np.median(blocks, axis=(1, 3)) / 0.6745
    quiet = np.quantile(spread, TUNING.quiet, axis=(0, 1))
    return float(np.sqrt(np.mean(quiet**2)))


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
    """Count values in bins, each with those around it."""
    channels = values.shape[1]
    where = np.clip((values * n).astype(np.int64), 0, n - 1)
    flat = np.ravel_multi_index(tuple(where.T), (n,) * channels)
    counts = np.bincount(flat, minlength=n**channels).reshape((n,) * channels)
    smooth = ndimage.uniform_filter(counts.astype(float), 3, mode="constant")
    found: Array = smooth * 3**channels
    return found


def _refined(seed: Array, v: Array, b: Array) -> Array | None:
    """Return the colour of which values near a seed are mixtures with the ground."""
    near = np.abs(v - seed).max(axis=1) < TUNING.near
    if near.sum() < TUNING.fewest:
        return None
    v, b = v[near], b[near]
    # Bright things and dark ones may have the same colour: keep the more frequent.
    same = ((v - b) @ np.mean(v - b, axis=0)) > 0
    v, b = v[same], b[same]
    if not len(v):
        return None
    along = np.mean(v - b, axis=0)
    along /= max(float(np.linalg.norm(along)), 1e-9)
    middle = np.median(v, axis=0)
    colour = middle + along * (np.quantile(v @ along, TUNING.extreme) - middle @ along)
    clipped: Array = np.clip(colour, 0, 1).astype(np.float32)
    return clipped

"""Cosmic rays in a field of stars: what is sharper than the point spread.

Light goes through the optics, and all that shines is a sum of point spreads. For a
Gaussian one of deviation s a sum S of them obeys, at a distance d to either side,

    S(p) ≤ exp(d² / 2s²) · (S(p − d) + S(p + d)) / 2,

with equality for a star that is centred on p: no star, galaxy or crowd of them is
sharper, in any direction. A cosmic ray, a hot pixel, is. Its track may be long, but is
thin across. The bound, exp(κ), is measured for each direction on the field's own stars,
of which ``ln S(p) − (ln S(p − d) + ln S(p + d)) / 2`` is the same wherever their middle
lies; rays scatter. What exceeds it by more than the noise is found at a false discovery
rate, and taken out for the next look, so that tracks are followed to their ends.
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter, maximum_filter, minimum_filter, zoom
from scipy.stats import norm

from discrepant.core.linalg import Array
from discrepant.image.restore.budget import Budget
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.detectors.weak_outliers import (
    benjamini_hochberg,
    binary_exponent,
)
from discrepant.image.restore.estimate import Estimate

# Directions, as (down, across): of the neighbours, and of those behind them.
STEPS = ((0, 1), (1, 0), (1, 1), (1, -1), (0, 2), (2, 0), (2, 2), (2, -2))
# Several directions together: less noise where a ray is a single pixel.
RINGS = ((0, 1), (0, 1, 2, 3), (4, 5))


@dataclass(frozen=True)
class Tuning:
    """What was chosen on made fields of other seeds than `benchmarks/detectors.py`.

    Attributes
    ----------
    cell : int
        Pixels over which the ground is a median; larger than any star.
    bright : float
        Deviations above the ground from which a peak tells the point spread.
    fewest : int
        Stars that must agree on it.
    near : float
        How far from the commonest κ a peak's may be, in κ, to be that of a star.
    tight : float
        Scatter of those, in κ, at most: stars are alike, and detail is not.
    narrowest, widest : float
        Standard deviation of the point spread, in pixels: what is narrower is no light,
        and all is sharper than wider ones, so that nothing could be told.
    tail : float
        Share of values between 3 and 5 deviations too sharp, at most; photographs and
        their compression have more.
    misfit : float
        A point spread is known to this share, at best.
    guessed : float
        What replaces a value is known to this share.
    rate : float
        The false discovery rate.
    grown : float
        Deviations that suffice beside what was found.
    looks : int
        How often all is looked at.
    ground : float
        Share of the values that must be no more than noise above the ground: a picture
        has no ground.
    """

    cell: int = 32
    bright: float = 25.0
    fewest: int = 8
    near: float = 0.35
    tight: float = 0.25
    narrowest: float = 0.6
    widest: float = 3.2
    tail: float = 0.004
    misfit: float = 0.03
    guessed: float = 0.5
    rate: float = 0.01
    grown: float = 2.7
    looks: int = 6
    ground: float = 0.5


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Rays:
    """What is no light: new values, which they are, and how likely each is wrong."""

    guess: Array
    mask: Array
    probability: Array


def cosmic_rays(plane: Array, bad: Array, detector: Detector) -> Rays | None:
    """Find what is sharper than the stars of a field; None if it is none.

    Parameters
    ----------
    plane, bad : ndarray of shape (rows, columns)
        Values in their own unit, and which are known to be wrong.
    detector : Detector
        Gain and read noise where known; else the noise of the ground is measured, and
        that of light follows from it as if all of the ground's were light's.
    """
    if min(plane.shape) < 2 * TUNING.cell or bad.mean() > 0.1:
        return None
    y = plane.astype(np.float64)
    full = detector.is_saturated(y)
    known = ~bad & np.isfinite(y)
    exponent = binary_exponent(y[known])
    y, detector = np.ldexp(y, -exponent), detector.in_unit(exponent)
    y = np.where(known, y, np.median(y[known]))
    ground = _ground(y)
    noise = _Noise.of(y - ground, ground, detector)
    if noise is None:
        return None
    wrong = ~known
    light = y - ground
    spread = _spread(light, noise, full | wrong)
    if spread is None:
        return None
    sharp = np.zeros(y.shape)
    for _ in range(TUNING.looks):
        light = _filled(y - ground, wrong | full, wrong, spread)
        z = _excess(light, y - ground, wrong, noise, spread, full)
        z[full | ~known] = 0
        if np.mean((z > 3) & (z < 5)) > TUNING.tail:
            return None
        found = benjamini_hochberg(
            norm.sf(z) * len(STEPS), TUNING.rate * detector.sensitivity
        )
        near = maximum_filter(wrong | found, 3)
        more = (found | (near & (z > TUNING.grown))) & ~wrong
        sharp = np.maximum(sharp, z)
        wrong |= more
        if not more.any():
            break
    light = _filled(y - ground, wrong | full, wrong, spread)
    guess = np.ldexp(light + ground, exponent)
    return Rays(guess, wrong, _probability(sharp, wrong))


def repair_star_field(values: Array, bad: Array, detector: Detector) -> Estimate | None:
    """Return a field of stars without what is no light; None if it is none.

    Untold, values of 8 bits are taken for those of a photograph.
    """
    kind, size = values.dtype.kind, values.dtype.itemsize
    counted = detector.gain is not None or (kind == "f" or size > 1)
    if kind not in "uif" or not counted:
        return None
    channels = range(values.shape[2])
    found = [cosmic_rays(values[..., c], bad[..., c], detector) for c in channels]
    rays = [each for each in found if each is not None]
    if len(rays) < len(found):
        return None
    guess, mask, probability = (
        np.stack([getattr(each, name) for each in rays], axis=2)
        for name in ("guess", "mask", "probability")
    )
    guess = np.rint(guess) if kind in "ui" else guess
    good = values[~bad]
    guess = np.clip(guess, good.min(), good.max()).astype(values.dtype)
    out = np.where(mask, guess, values)
    history = Budget(lambda share, note: True, 1, 1, None).history()
    none = np.zeros(values.shape[:2], bool)  # marks are looked for in photographs
    return Estimate(out, mask, probability, history, True, False, False, none, none)


@dataclass(frozen=True)
class _Noise:
    """Variance as a line in light: ``dark + slope · light``, in the image's unit."""

    dark: float
    slope: float

    @classmethod
    def of(cls, light: Array, ground: Array, detector: Detector) -> "_Noise | None":
        """Return the noise; None if most of the image is no ground."""
        level = max(float(np.median(ground)), 0.0)
        if detector.gain is not None:
            dark = (detector.read_noise / detector.gain) ** 2 + level / detector.gain
            return cls(dark, 1 / float(detector.gain))
        middle = float(np.median(light))
        low = light[light < middle]
        if not low.size:  # a flat ground
            return None
        spread = float(np.median(np.abs(low - middle))) / 0.6745
        if spread <= 0 or np.mean(light < middle + 3 * spread) < TUNING.ground:
            return None
        return cls(spread**2, spread**2 / max(level, spread))

    def at(self, light: Array) -> Array:
        """Return the variance under so much light above the ground."""
        variance: Array = self.dark + self.slope * np.maximum(light, 0)
        return variance


@dataclass(frozen=True)
class _Spread:
    """How sharp a star is in each direction, and how far that scatters."""

    kappa: Array
    scatter: Array

    @property
    def width(self) -> float:
        """The standard deviation in pixels."""
        return float(np.sqrt(1 / (2 * np.mean(self.kappa[:2]))))


def _ground(y: Array) -> Array:
    """Return the ground under the stars, rather too low than too high.

    Just below the medians over cells, the least of three by three, smoothly joined.
    """
    cell = TUNING.cell
    rows, columns = (-(-n // cell) for n in y.shape)
    wide = np.pad(
        y,
        ((0, rows * cell - y.shape[0]), (0, columns * cell - y.shape[1])),
        "symmetric",
    )
    cells = wide.reshape(rows, cell, columns, cell).swapaxes(1, 2)
    thin = minimum_filter(np.quantile(cells, 0.4, axis=(2, 3)), 3)
    whole = zoom(thin, cell, order=1, mode="nearest", grid_mode=True)
    found: Array = whole[: y.shape[0], : y.shape[1]]
    return found


def _pair(light: Array, step: tuple[int, int]) -> tuple[Array, Array]:
    """Return the values to either side; beyond the edge, those at it."""
    reach = max(map(abs, step))
    wide = np.pad(light, reach, mode="edge")
    rows, columns = light.shape
    sides = []
    for sign in (-1, 1):
        i, j = reach + sign * step[0], reach + sign * step[1]
        sides.append(wide[i : i + rows, j : j + columns])
    return sides[0], sides[1]


def _spread(light: Array, noise: _Noise, out: Array) -> _Spread | None:
    """Return the point spread, on which the field's stars agree."""
    peak = (light == maximum_filter(light, 5)) & ~maximum_filter(out, 7)
    peak &= light > TUNING.bright * np.sqrt(noise.dark)
    peak[:3] = peak[-3:] = False
    peak[:, :3] = peak[:, -3:] = False
    kappas = []
    for step in STEPS:
        a, b = (side[peak] for side in _pair(light, step))
        least = np.sqrt(noise.dark)
        logs = (np.log(np.maximum(a, least)) + np.log(np.maximum(b, least))) / 2
        kappas.append(np.log(light[peak]) - logs)
    kappa = np.array(kappas)  # (steps, peaks)
    # A star is as sharp across as down: rays are drawn out. One that is flat is full.
    round_ = np.maximum(kappa[0], kappa[1])
    kappa = kappa[:, round_ > 0]
    round_ = round_[round_ > 0]
    if len(round_) < TUNING.fewest:
        return None
    middle = _mode(round_)
    near = np.abs(round_ - middle) < TUNING.near * middle
    if near.sum() < max(TUNING.fewest, 0.2 * near.size) or middle <= 0:
        return None
    stars = kappa[:, near]
    centre = np.median(stars, axis=1)
    scatter = np.median(np.abs(stars - centre[:, None]), axis=1) / 0.6745
    found = _Spread(centre, scatter)
    told = scatter[:2].mean() < TUNING.tight * centre[:2].mean()
    told &= TUNING.narrowest < found.width < TUNING.widest
    return found if told else None


def _mode(x: Array) -> float:
    """Return where values are densest: the half that lies closest, again and again."""
    x = np.sort(x)
    while len(x) > 4:
        half = -(-len(x) // 2)
        widths = x[half - 1 :] - x[: len(x) - half + 1]
        start = int(np.argmin(widths))
        x = x[start : start + half]
    return float(np.mean(x))


def _excess(
    light: Array, y: Array, wrong: Array, noise: _Noise, spread: _Spread, full: Array
) -> Array:
    """Return by how many deviations values exceed what light could be there.

    ``light`` is what is there without what was found ``wrong``; what replaces it on a
    star is little more than a guess.
    """
    doubt = np.where(wrong, (TUNING.guessed * np.maximum(light, 0)) ** 2, 0)
    sides, variances, relative = [], [], []
    for step, kappa, scatter in zip(STEPS, spread.kappa, spread.scatter, strict=True):
        bound = np.exp(kappa)
        a, b = _pair(light, step)
        mean = (a + b) / 2
        sides.append(np.maximum(bound * mean, mean))  # below the ground is no light
        unsure = noise.at(a) + noise.at(b) + sum(_pair(doubt, step))
        variances.append(bound**2 * unsure / 4)
        relative.append(max(float(scatter), TUNING.misfit))
    z = np.full(light.shape, -np.inf)
    singles = [(k,) for k in range(len(STEPS))]
    for group in (*singles, *RINGS):
        most = np.mean([sides[k] for k in group], axis=0)
        variance = np.sum([variances[k] for k in group], axis=0) / len(group) ** 2
        error = np.mean([relative[k] for k in group]) * np.maximum(most, 0)
        own = noise.at(most)
        z = np.maximum(z, (y - most) / np.sqrt(own + variance + error**2))
    # Beside what is full nothing can be said.
    z[maximum_filter(full, 5)] = 0
    return z


def _filled(light: Array, out: Array, wrong: Array, spread: _Spread) -> Array:
    """Return light with what is wrong replaced by what is around it."""
    if not wrong.any():
        return light
    kept = (~out).astype(float)
    width = 0.7 * spread.width
    total = gaussian_filter(light * kept, width, truncate=6)
    count = gaussian_filter(kept, width, truncate=6)
    found: Array = np.where(wrong, total / np.maximum(count, 1e-12), light)
    return found


def _probability(z: Array, wrong: Array) -> Array:
    """Return how likely each is wrong: a half at the weakest that was found."""
    if not wrong.any():
        return np.zeros(z.shape, np.float32)
    least = float(z[wrong].min()) if (z[wrong] > 0).any() else 0.0
    found = 1 / (1 + np.exp(np.clip(least - z, -50, 50)))
    found = np.where(wrong, np.maximum(found, 0.5), np.minimum(found, 0.49))
    return found.astype(np.float32)

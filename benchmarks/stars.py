"""Made star fields: stars, galaxies, saturated stars, and the tracks of cosmic rays."""

from dataclasses import dataclass

import numpy as np
from scipy.special import erf

GAIN, READ_NOISE, FULL = 1.5, 6.0, 60_000.0  # electrons a unit, electrons, units


@dataclass(frozen=True, eq=False)
class Field:
    """A field in units of the detector, the pixels that rays hit, and star peaks."""

    image: np.ndarray
    rays: np.ndarray
    peaks: np.ndarray


def star_field(
    seed: int, spread: float, side: int = 384, moffat: bool = False
) -> Field:
    """Make a field whose stars have the given standard deviation in pixels.

    Poisson and read noise, stars from the noise to beyond saturation, galaxies, and 60
    rays of 1 to 30 pixels that leave some 100 to 5,000 electrons in each. A pixel is
    hit if a ray left more there than twice its noise.
    """
    rng = np.random.default_rng(seed)
    sky = np.full((side, side), rng.uniform(50, 400))
    scene = sky.copy()
    flux = 10 ** rng.uniform(2.5, 6.8, 250)
    places = rng.uniform(4, side - 4, (250, 2))
    for f, place in zip(flux, places, strict=True):
        _add(scene, f, place, spread, moffat)
    for _ in range(12):
        _galaxy(scene, rng, spread)
    added = np.zeros_like(scene)
    for _ in range(60):
        _track(added, rng)
    added = np.where(added > 20, added, 0)
    electrons = rng.poisson(scene) + rng.poisson(added)
    electrons = electrons + READ_NOISE * rng.normal(size=scene.shape)
    units = np.clip(electrons / GAIN + 0.0, None, FULL)
    hit = added > 2 * np.sqrt(scene + READ_NOISE**2)
    hit &= units < FULL
    middle = np.rint(places).astype(int)
    peak = scene[middle[:, 0], middle[:, 1]] - sky[0, 0]
    seen = peak > 10 * np.sqrt(sky[0, 0] + READ_NOISE**2)
    peaks = np.zeros(scene.shape, bool)
    peaks[middle[seen, 0], middle[seen, 1]] = True
    return Field(np.rint(units).astype(np.uint16), hit, peaks & ~(added > 0))


def _profile(shape: tuple[int, int], place: np.ndarray, spread: float) -> np.ndarray:
    """Return a Gaussian point spread, integrated over each pixel."""
    sides = []
    for n, x in zip(shape, place, strict=True):
        edges = (np.arange(n + 1) - 0.5 - x) / (np.sqrt(2) * spread)
        sides.append(np.diff(erf(edges)) / 2)
    return np.outer(*sides)


def _add(
    scene: np.ndarray, flux: float, place: np.ndarray, spread: float, moffat: bool
) -> None:
    if not moffat:
        scene += flux * _profile(scene.shape, place, spread)
        return
    # Moffat's wings, of the same half width, on a grid three times as fine.
    beta, fine, reach = 3.5, 3, 60
    core = 2.355 * spread / 2 / np.sqrt(2 ** (1 / beta) - 1)
    low = np.maximum(np.rint(place).astype(int) - reach, 0)
    high = np.minimum(low + 2 * reach, scene.shape)
    i, j = (
        (np.arange((b - a) * fine) + 0.5) / fine - 0.5 + a - x
        for a, b, x in zip(low, high, place, strict=True)
    )
    made = (1 + (i[:, None] ** 2 + j**2) / core**2) ** -beta
    rows, columns = high - low
    made = made.reshape(rows, fine, columns, fine).sum((1, 3))
    scene[low[0] : high[0], low[1] : high[1]] += flux * made / made.sum()


def _galaxy(scene: np.ndarray, rng: np.random.Generator, spread: float) -> None:
    """Add an exponential disc, blurred as stars are."""
    from scipy.ndimage import gaussian_filter

    i, j = np.mgrid[: scene.shape[0], : scene.shape[1]]
    y, x = rng.uniform(10, scene.shape[0] - 10, 2)
    angle, axis, size = rng.uniform(0, np.pi), rng.uniform(0.3, 1), rng.uniform(2, 7)
    u = (i - y) * np.cos(angle) + (j - x) * np.sin(angle)
    v = ((j - x) * np.cos(angle) - (i - y) * np.sin(angle)) / axis
    disc = np.exp(-np.hypot(u, v) / size)
    scene += gaussian_filter(10 ** rng.uniform(4, 6) * disc / disc.sum(), spread)


def _track(added: np.ndarray, rng: np.random.Generator) -> None:
    """Add a ray: a straight or slightly bent line, sampled finely."""
    length = rng.choice([1, 2, 3, 5, 8, 12, 20, 30])
    level = 10 ** rng.uniform(2, 3.7)
    y, x = rng.uniform(2, added.shape[0] - 2, 2)
    angle, bend = rng.uniform(0, 2 * np.pi), rng.normal(0, 0.02)
    for _ in range(int(length * 10)):
        i, j = round(y), round(x)
        if 0 <= i < added.shape[0] and 0 <= j < added.shape[1]:
            added[i, j] += level / 10 * rng.gamma(2, 0.5)
        y, x, angle = y + np.sin(angle) / 10, x + np.cos(angle) / 10, angle + bend / 10

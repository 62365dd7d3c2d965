"""Synthetic star fields with galaxies, saturated stars and tracks of cosmic rays."""

from dataclasses import dataclass

import numpy as np
from scipy.special import erf

# Electrons per count.
GAIN = 1.5
# Noise in the dark, in electrons.
READ_NOISE = 6.0
# Largest count.
SATURATION = 60_000.0


@dataclass(frozen=True, eq=False)
class Field:
    """A star field in counts, the mask of cosmic rays, and the mask of star peaks."""

    image: np.ndarray
    rays: np.ndarray
    peaks: np.ndarray


def star_field(
    seed: int, psf_std: float, side: int = 384, moffat: bool = False
) -> Field:
    """Return a field whose stars have a standard deviation of so many pixels.

    It has Poisson and read noise, stars from the noise to beyond saturation, galaxies,
    and 60 rays of 1 to 30 pixels with 100 to 5,000 electrons in each. A pixel is hit
    if a ray adds more than twice its noise.
    """
    rng = np.random.default_rng(seed)
    sky = np.full((side, side), rng.uniform(50, 400))
    scene = sky.copy()
    fluxes = 10 ** rng.uniform(2.5, 6.8, 250)
    positions = rng.uniform(4, side - 4, (250, 2))
    for flux, position in zip(fluxes, positions, strict=True):
        _add_star(scene, flux, position, psf_std, moffat)
    for _ in range(12):
        _add_galaxy(scene, rng, psf_std)
    rays = np.zeros_like(scene)
    for _ in range(60):
        _add_track(rays, rng)
    rays = np.where(rays > 20, rays, 0)
    electrons = rng.poisson(scene) + rng.poisson(rays)
    electrons = electrons + READ_NOISE * rng.normal(size=scene.shape)
    counts = np.clip(electrons / GAIN + 0.0, None, SATURATION)
    hit = rays > 2 * np.sqrt(scene + READ_NOISE**2)
    hit &= counts < SATURATION
    centres = np.rint(positions).astype(int)
    heights = scene[centres[:, 0], centres[:, 1]] - sky[0, 0]
    bright = heights > 10 * np.sqrt(sky[0, 0] + READ_NOISE**2)
    peaks = np.zeros(scene.shape, bool)
    peaks[centres[bright, 0], centres[bright, 1]] = True
    return Field(np.rint(counts).astype(np.uint16), hit, peaks & ~(rays > 0))


def _gaussian_psf(
    shape: tuple[int, int], position: np.ndarray, psf_std: float
) -> np.ndarray:
    """Return a Gaussian point-psf_std function, integrated over each pixel."""
    sides = []
    for n, x in zip(shape, position, strict=True):
        edges = (np.arange(n + 1) - 0.5 - x) / (np.sqrt(2) * psf_std)
        sides.append(np.diff(erf(edges)) / 2)
    return np.outer(*sides)


def _add_star(
    scene: np.ndarray, flux: float, position: np.ndarray, psf_std: float, moffat: bool
) -> None:
    if not moffat:
        scene += flux * _gaussian_psf(scene.shape, position, psf_std)
        return
    # A Moffat profile of the same half width, on a grid three times as fine.
    beta, fine, reach = 3.5, 3, 60
    core = 2.355 * psf_std / 2 / np.sqrt(2 ** (1 / beta) - 1)
    low = np.maximum(np.rint(position).astype(int) - reach, 0)
    high = np.minimum(low + 2 * reach, scene.shape)
    i, j = (
        (np.arange((b - a) * fine) + 0.5) / fine - 0.5 + a - x
        for a, b, x in zip(low, high, position, strict=True)
    )
    profile = (1 + (i[:, None] ** 2 + j**2) / core**2) ** -beta
    rows, columns = high - low
    profile = profile.reshape(rows, fine, columns, fine).sum((1, 3))
    scene[low[0] : high[0], low[1] : high[1]] += flux * profile / profile.sum()


def _add_galaxy(scene: np.ndarray, rng: np.random.Generator, psf_std: float) -> None:
    """Add an exponential disc, blurred by the point-psf_std function."""
    from scipy.ndimage import gaussian_filter

    i, j = np.mgrid[: scene.shape[0], : scene.shape[1]]
    y, x = rng.uniform(10, scene.shape[0] - 10, 2)
    angle, axis, size = rng.uniform(0, np.pi), rng.uniform(0.3, 1), rng.uniform(2, 7)
    u = (i - y) * np.cos(angle) + (j - x) * np.sin(angle)
    v = ((j - x) * np.cos(angle) - (i - y) * np.sin(angle)) / axis
    disc = np.exp(-np.hypot(u, v) / size)
    scene += gaussian_filter(10 ** rng.uniform(4, 6) * disc / disc.sum(), psf_std)


def _add_track(rays: np.ndarray, rng: np.random.Generator) -> None:
    """Add a cosmic ray: a straight or slightly curved track, sampled finely."""
    length = rng.choice([1, 2, 3, 5, 8, 12, 20, 30])
    level = 10 ** rng.uniform(2, 3.7)
    y, x = rng.uniform(2, rays.shape[0] - 2, 2)
    angle, curvature = rng.uniform(0, 2 * np.pi), rng.normal(0, 0.02)
    for _ in range(int(length * 10)):
        i, j = round(y), round(x)
        if 0 <= i < rays.shape[0] and 0 <= j < rays.shape[1]:
            rays[i, j] += level / 10 * rng.gamma(2, 0.5)
        y, x, angle = (
            y + np.sin(angle) / 10,
            x + np.cos(angle) / 10,
            angle + curvature / 10,
        )

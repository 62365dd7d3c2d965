"""Cosmic rays in star fields, and the options for detectors."""

import numpy as np
import pytest

from discrepant import restore
from discrepant.core.errors import InputError

GAIN = 2.0  # electrons per count
READ_NOISE = 5.0  # electrons
SATURATION = 50_000  # counts


def star_field(seed=0, psf_std=1.2, side=160):
    """Return a 16-bit star field, the mask of cosmic rays, and the stars' peaks."""
    rng = np.random.default_rng(seed)
    i, j = np.mgrid[:side, :side]
    scene = np.full((side, side), 150.0)
    peaks = rng.integers(5, side - 5, (60, 2))
    for (y, x), flux in zip(peaks, 10 ** rng.uniform(3, 6.5, 60), strict=True):
        dy, dx = rng.uniform(-0.5, 0.5, 2)
        square = (i - y - dy) ** 2 + (j - x - dx) ** 2
        scene += flux / (2 * np.pi * psf_std**2) * np.exp(-square / (2 * psf_std**2))
    rays = np.zeros(scene.shape)
    for _ in range(12):
        y, x, angle = *rng.uniform(10, side - 40, 2), rng.uniform(0, np.pi / 2)
        for step in range(rng.integers(1, 30)):
            at = int(y + step * np.sin(angle)), int(x + step * np.cos(angle))
            rays[at] += 800 * rng.uniform(0.5, 2)
    electrons = rng.poisson(scene + rays) + READ_NOISE * rng.normal(size=scene.shape)
    counts = np.clip(np.rint(electrons / GAIN), 0, SATURATION).astype(np.uint16)
    return counts, rays > 5 * np.sqrt(scene), peaks


@pytest.mark.parametrize("detector_given", [True, False])
def test_cosmic_rays_are_flagged_and_stars_are_not(detector_given):
    image, hit, peaks = star_field()
    detector = {"gain": GAIN, "read_noise": READ_NOISE, "saturation": SATURATION}
    result = restore(image, **(detector if detector_given else {}))
    assert (result.mask & hit).sum() > 0.9 * hit.sum()
    assert (result.mask & hit).sum() > 0.9 * result.mask.sum()
    flagged_stars = (
        result.mask[peaks[:, 0], peaks[:, 1]] & ~hit[peaks[:, 0], peaks[:, 1]]
    )
    assert not flagged_stars.any()
    assert np.array_equal(result.image[~result.mask], image[~result.mask])
    assert result.image.dtype == image.dtype
    assert np.median(result.image[result.mask]) < 200


@pytest.mark.filterwarnings("ignore::UserWarning")  # noise alone is undetermined
@pytest.mark.parametrize("exponent", [-1000, 500, 1000])
@pytest.mark.parametrize("kind", ["normal", "uniform", "stars"])
def test_results_do_not_depend_on_the_unit(kind, exponent):
    """Squares of very large or small values neither overflow nor vanish."""
    rng = np.random.default_rng(0)
    noise = {"normal": rng.standard_normal, "uniform": rng.random}
    image = star_field()[0].astype(float) if kind == "stars" else noise[kind]((80, 80))
    result, scaled = restore(image), restore(np.ldexp(image, exponent))
    assert np.isfinite(scaled.image).all()
    if kind == "stars":
        assert np.array_equal(scaled.mask, result.mask) and result.mask.any()
        assert np.allclose(np.ldexp(scaled.image, -exponent), result.image)


def test_saturated_values_are_not_flagged():
    image, _, _ = star_field(seed=3)
    image[40:44, 50] = image[60, 70:73] = SATURATION  # charge overflow
    detector = {"gain": GAIN, "read_noise": READ_NOISE}
    result = restore(image, saturation=SATURATION, **detector)
    saturated = image >= SATURATION
    assert not result.mask[saturated].any()
    assert (result.probability[saturated] == 0).all()
    assert restore(image, **detector).mask[60, 70:73].all()


@pytest.mark.parametrize("axes", [None, "TYX"])
def test_saturated_values_are_kept_in_images_and_stacks(axes):
    rng = np.random.default_rng(0)
    image = (100 + 20 * np.sin(np.arange(64) / 9)[:, None] * np.ones(64)).astype(
        np.uint8
    )
    image = image + rng.integers(0, 4, image.shape).astype(np.uint8)
    image[::9, ::7] = 255
    given = image if axes is None else np.stack([image, image, image])
    assert restore(given, axes=axes, quality="fast").mask[..., 9, 7].all()
    kept = restore(given, axes=axes, saturation=255, quality="fast")
    assert not kept.mask.any()
    assert np.array_equal(kept.image, given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gain": -1}, "gain must be"),
        ({"read_noise": -2}, "read_noise must be"),
        ({"saturation": "high"}, "saturation must be"),
        ({"sensitivity": 0}, "sensitivity must be"),
    ],
)
def test_invalid_detectors_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        restore(np.zeros((32, 32)), **options)

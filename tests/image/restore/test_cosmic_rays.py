"""A detector's own words: cosmic rays among stars, saturation, gain, read noise."""

import numpy as np
import pytest

from discrepant import restore
from discrepant.core.errors import InputError
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.detectors.denoise import noise_variance

GAIN, READ_NOISE, FULL = 2.0, 5.0, 50_000


def field(seed=0, spread=1.2, side=160):
    """A field of stars in units of 16 bits, the hit pixels, and the stars' peaks."""
    rng = np.random.default_rng(seed)
    i, j = np.mgrid[:side, :side]
    scene = np.full((side, side), 150.0)
    peaks = rng.integers(5, side - 5, (60, 2))
    for (y, x), flux in zip(peaks, 10 ** rng.uniform(3, 6.5, 60), strict=True):
        dy, dx = rng.uniform(-0.5, 0.5, 2)
        square = (i - y - dy) ** 2 + (j - x - dx) ** 2
        scene += flux / (2 * np.pi * spread**2) * np.exp(-square / (2 * spread**2))
    added = np.zeros(scene.shape)
    for _ in range(12):
        y, x, angle = *rng.uniform(10, side - 40, 2), rng.uniform(0, np.pi / 2)
        for step in range(rng.integers(1, 30)):
            at = int(y + step * np.sin(angle)), int(x + step * np.cos(angle))
            added[at] += 800 * rng.uniform(0.5, 2)
    electrons = rng.poisson(scene + added) + READ_NOISE * rng.normal(size=scene.shape)
    units = np.clip(np.rint(electrons / GAIN), 0, FULL).astype(np.uint16)
    return units, added > 5 * np.sqrt(scene), peaks


@pytest.mark.parametrize("told", [True, False])
def test_rays_are_found_and_stars_are_kept(told):
    image, hit, peaks = field()
    words = {"gain": GAIN, "read_noise": READ_NOISE, "saturation": FULL}
    found = restore(image, **(words if told else {}))
    assert (found.mask & hit).sum() > 0.9 * hit.sum()
    assert (found.mask & hit).sum() > 0.9 * found.mask.sum()
    touched = found.mask[peaks[:, 0], peaks[:, 1]] & ~hit[peaks[:, 0], peaks[:, 1]]
    assert not touched.any()
    assert np.array_equal(found.image[~found.mask], image[~found.mask])
    assert found.image.dtype == image.dtype
    assert np.median(found.image[found.mask]) < 200


@pytest.mark.filterwarnings("ignore::UserWarning")  # it is no picture
@pytest.mark.parametrize("exponent", [-1000, 500, 1000])
@pytest.mark.parametrize("kind", ["normal", "uniform", "stars"])
def test_squares_neither_overflow_nor_vanish(kind, exponent):
    """A star field and its noise are the same in any unit."""
    rng = np.random.default_rng(0)
    noise = {"normal": rng.standard_normal, "uniform": rng.random}
    image = field()[0].astype(float) if kind == "stars" else noise[kind]((80, 80))
    usual, other = restore(image), restore(np.ldexp(image, exponent))
    assert np.isfinite(other.image).all()
    if kind == "stars":
        assert np.array_equal(other.mask, usual.mask) and usual.mask.any()
        assert np.allclose(np.ldexp(other.image, -exponent), usual.image)


def test_what_is_full_is_not_wrong():
    image, _, _ = field(seed=3)
    image[40:44, 50] = image[60, 70:73] = FULL  # columns that bled
    words = {"gain": GAIN, "read_noise": READ_NOISE}
    found = restore(image, saturation=FULL, **words)
    full = image >= FULL
    assert not found.mask[full].any()
    assert (found.probability[full] == 0).all()
    assert restore(image, **words).mask[60, 70:73].all()


@pytest.mark.parametrize("axes", [None, "TYX"])
def test_saturation_holds_in_any_image(axes):
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
    ("words", "says"),
    [
        ({"gain": -1}, "gain must be"),
        ({"read_noise": -2}, "read_noise must be"),
        ({"saturation": "high"}, "saturation must be"),
        ({"sensitivity": 0}, "sensitivity must be"),
    ],
)
def test_wrong_words_get_one_sentence(words, says):
    with pytest.raises(InputError, match=says):
        restore(np.zeros((32, 32)), **words)


def test_noise_is_taken_off_where_that_is_asked_for():
    rng = np.random.default_rng(0)
    i, j = np.mgrid[:96, :96]
    clean = 2000 + 900 * np.sin(i / 9) * np.cos(j / 7) + 500 * (i > j)
    noisy = rng.poisson(clean).astype(np.uint16)  # its variance is its brightness
    noisy[10, 20] = 60_000
    plain = restore(noisy, quality="fast")
    smooth = restore(noisy, quality="fast", denoise=True)
    assert smooth.image.dtype == noisy.dtype
    assert plain.mask[10, 20]
    assert smooth.mask[10, 20]
    error = [np.mean((a.image - clean) ** 2) for a in (plain, smooth)]
    assert error[1] < error[0] / 3
    assert np.array_equal(plain.mask, smooth.mask)
    # The noise at each brightness is measured to a fifth.
    measured = noise_variance(noisy.astype(float), Detector())
    assert 0.8 < np.median(measured / clean) < 1.25


def test_without_noise_there_is_none_to_take_off():
    i, j = np.mgrid[:64, :64]
    image = np.rint(120 + 60 * np.sin(i / 8) * np.cos(j / 11)).astype(np.uint8)
    found = restore(image, quality="fast", denoise=True)
    assert np.array_equal(found.image, image)

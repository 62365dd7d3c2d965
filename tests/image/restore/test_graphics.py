"""restore() on graphics: clean ones are unchanged, corrupted ones are restored."""

import warnings

import numpy as np
import pytest

from discrepant import restore
from discrepant.image.corruptions import salt_and_pepper
from discrepant.image.restore.graphics.clustering import (
    denser_than_chance,
    more_regular_than_chance,
)
from discrepant.image.restore.graphics.contexts import distinct
from discrepant.image.restore.graphics.graphic import is_graphic

rng = np.random.default_rng(0)


def square():
    image = np.full((120, 120), 255, np.uint8)
    image[30:90, 30:90] = 128
    return image


def code():
    cells = np.pad(rng.random((24, 24)) < 0.5, 3)
    return np.where(cells.repeat(4, 0).repeat(4, 1), 0, 255).astype(np.uint8)


def grid():
    image = np.full((100, 100, 3), (250, 240, 200), np.uint8)
    image[::7], image[:, ::7] = (40, 40, 90), (40, 40, 90)
    return image


def labels():
    return (np.add.outer(np.arange(90) // 13, np.arange(90) // 17) * 3001).astype(
        np.uint16
    )


def dither():
    ramp = np.linspace(0, 1, 128) + np.zeros((96, 1))
    table = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]])
    return (ramp > (np.tile(table, (24, 32)) + 0.5) / 16).astype(np.float32)


KINDS = [square, code, grid, labels, dither]


@pytest.mark.parametrize("make", KINDS)
def test_clean_graphic_is_unchanged(make):
    image = make()
    assert np.array_equal(restore(image, quality="fast").image, image)


@pytest.mark.parametrize("make", KINDS)
def test_random_values_on_a_graphic_are_flagged(make):
    image = make()
    hit = rng.random(image.shape) < 0.05
    top = float(image.max())
    values = rng.uniform(0, top, image.shape).astype(image.dtype)
    given = np.where(hit, values, image)
    corrupt = given != image
    result = restore(given, quality="fast")
    assert result.mask[corrupt].mean() >= 0.9
    assert result.mask[~corrupt].mean() <= 0.01


def test_uniform_areas_are_not_flagged():
    image = square()
    hit = rng.random(image.shape) < 0.3
    given = np.where(hit, rng.integers(0, 256, image.shape), image).astype(np.uint8)
    result = restore(given, quality="fast")
    assert result.mask[given == image].mean() < 0.01
    assert np.mean(result.image != image) < 0.01


@pytest.mark.parametrize("make", [code, grid, labels])
def test_salt_and_pepper_on_a_graphic_is_flagged(make):
    image = make()
    ends = np.where(rng.random(image.shape) < 0.5, image.min(), image.max())
    given = np.where(rng.random(image.shape) < 0.1, ends, image).astype(image.dtype)
    result = restore(given, quality="fast")
    corrupt = given != image
    assert result.mask[corrupt].mean() >= 0.8
    assert result.mask[~corrupt].mean() <= 0.01


def test_dither_with_many_random_values_is_restored():
    image = (255 * dither()).astype(np.uint8)
    hit = rng.random(image.shape) < 0.3
    given = np.where(hit, rng.integers(0, 256, image.shape), image).astype(np.uint8)
    result = restore(given, quality="fast")
    assert result.mask[given == image].mean() < 0.01
    assert np.mean(result.image != image) < 0.1


def test_letter_that_occurs_once_is_not_flagged():
    image = square()
    letter = np.hypot(*np.mgrid[-6:7, -6:7]) * 20
    image[5:18, 60:73] = np.minimum(letter, 255)
    hit = rng.random(image.shape) < 0.05
    given = np.where(hit, rng.integers(0, 256, image.shape), image).astype(np.uint8)
    result = restore(given, quality="fast")
    part = np.s_[8:15, 63:70]
    assert result.mask[part][~hit[part]].mean() < 0.1
    assert result.mask[given != image].mean() > 0.9


@pytest.mark.parametrize("dtype", [bool, np.uint8])
def test_random_cells_are_unchanged_with_a_warning(dtype):
    image = (rng.random((100, 100)) < 0.5).astype(dtype)
    with pytest.warns(UserWarning, match="left unchanged"):
        result = restore(image, quality="fast")
    assert np.array_equal(result.image, image)


def test_independent_impulses_are_neither_clustered_nor_regular():
    corrupt = rng.random((200, 200, 3)) < 0.1
    assert not denser_than_chance(corrupt, 0.1).any()
    assert not more_regular_than_chance(corrupt)


def test_clusters_and_regular_dots_are_recognised():
    corrupt = rng.random((200, 200, 1)) < 0.05
    corrupt[50:56, 50:56] = True
    assert denser_than_chance(corrupt, 0.05)[50:56, 50:56].all()
    dots = np.zeros((200, 200, 1), bool)
    dots[::4, ::4] = True
    assert more_regular_than_chance(dots)


def test_dots_on_an_empty_background_are_unchanged():
    image = np.zeros((100, 100), np.uint8)
    image[tuple(rng.integers(0, 100, (2, 40)))] = rng.integers(60, 256, 40)
    with pytest.warns(UserWarning, match="left unchanged"):
        result = restore(image, quality="fast")
    assert np.array_equal(result.image, image)


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.7])
def test_photograph_with_impulses_is_not_a_graphic(fraction):
    data = pytest.importorskip("skimage.data")
    image = data.chelsea()[:200, :200]
    hit = rng.random(image.shape) < fraction
    salt = np.where(rng.random(image.shape) < 0.5, 0, 255)
    given = np.where(hit, salt, image).astype(np.uint8)
    assert not is_graphic(given.astype(np.int64), 256, np.ones(given.shape, bool))


def test_clean_photograph_takes_two_steps_at_most():
    data = pytest.importorskip("skimage.data")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = restore(data.chelsea()[:200, :200])
    assert len(result.history["step"]) <= 2
    assert not result.mask.any()


def error_diffusion_dither():
    """Return a ramp as black and white dots by error diffusion (Floyd, 1976)."""
    grey = np.tile(np.linspace(0, 1, 160), (96, 1))
    out = np.zeros(grey.shape)
    for i in range(96):
        for j in range(160):
            out[i, j] = grey[i, j] > 0.5
            error = grey[i, j] - out[i, j]
            for k, m, fraction in ((0, 1, 7), (1, -1, 3), (1, 0, 5), (1, 1, 1)):
                if i + k < 96 and 0 <= j + m < 160:
                    grey[i + k, j + m] += error * fraction / 16
    return (255 * out).astype(np.uint8)


def test_impulses_of_a_dithers_own_values_are_undetermined():
    clean = error_diffusion_dither()
    np.testing.assert_array_equal(restore(clean, quality="fast").image, clean)
    for fraction in (0.05, 0.2):
        given = salt_and_pepper(clean / 255, fraction, random_state=1)[0]
        given = (255 * given).astype(np.uint8)
        with pytest.warns(UserWarning, match="left unchanged"):
            result = restore(given, quality="fast")
        np.testing.assert_array_equal(result.image, given)


@pytest.mark.parametrize("n_keys", [1, 50, 10**12])
def test_distinct_keys_are_numbered_in_ascending_order(n_keys):
    keys = np.random.default_rng(0).integers(0, n_keys, (40, 50)) * 7919
    values, positions = distinct(keys)
    expected, inverse = np.unique(keys, return_inverse=True)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(positions, inverse.ravel())

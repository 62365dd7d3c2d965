"""restore() on graphics: clean ones come back as they were, spoiled ones are mended."""

import warnings

import numpy as np
import pytest

from discrepant import restore
from discrepant.image.restore.graphic import is_graphic

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
def test_a_clean_graphic_is_left_alone(make):
    image = make()
    assert np.array_equal(restore(image, quality="fast").image, image)


@pytest.mark.parametrize("make", KINDS)
def test_random_values_on_a_graphic_are_found(make):
    image = make()
    hit = rng.random(image.shape) < 0.05
    top = float(image.max())
    values = rng.uniform(0, top, image.shape).astype(image.dtype)
    given = np.where(hit, values, image)
    wrong = given != image
    found = restore(given, quality="fast")
    assert found.mask[wrong].mean() >= 0.9
    assert found.mask[~wrong].mean() <= 0.01


def test_flat_ground_is_not_judged_corrupt():
    image = square()
    hit = rng.random(image.shape) < 0.3
    given = np.where(hit, rng.integers(0, 256, image.shape), image).astype(np.uint8)
    found = restore(given, quality="fast")
    assert found.mask[given == image].mean() < 0.01
    assert np.mean(found.image != image) < 0.01


def test_dots_on_nothing_are_the_picture():
    image = np.zeros((100, 100), np.uint8)
    image[tuple(rng.integers(0, 100, (2, 40)))] = rng.integers(60, 256, 40)
    with pytest.warns(UserWarning, match="left as it is"):
        found = restore(image, quality="fast")
    assert np.array_equal(found.image, image)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.7])
def test_a_photograph_with_impulses_is_no_graphic(share):
    data = pytest.importorskip("skimage.data")
    image = data.chelsea()[:200, :200]
    hit = rng.random(image.shape) < share
    salt = np.where(rng.random(image.shape) < 0.5, 0, 255)
    given = np.where(hit, salt, image).astype(np.uint8)
    assert not is_graphic(given.astype(np.int64), 256, np.ones(given.shape, bool))


def test_a_clean_photograph_takes_one_look():
    data = pytest.importorskip("skimage.data")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = restore(data.chelsea()[:200, :200])
    assert len(found.history["step"]) <= 2
    assert not found.mask.any()

"""Images that went through JPEG after they were spoiled, and weak hot pixels."""

import io

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter, median_filter

from discrepant import restore
from discrepant.core.errors import InputError
from discrepant.image.restore.jpeg.detection import impulsive, rounding
from discrepant.image.restore.jpeg.scale_mixture import Spread
from support.jpeg import saved_as_jpeg, smooth_image, with_salt_and_pepper


def error(image, truth):
    return float(np.mean((image.astype(float) - truth) ** 2))


@pytest.mark.parametrize("quality", [90, 75])
@pytest.mark.parametrize(("channels", "share"), [(1, 0.05), (3, 0.05), (3, 0.3)])
def test_no_median_is_as_good_after_jpeg(channels, share, quality):
    truth = smooth_image(channels)
    given = saved_as_jpeg(with_salt_and_pepper(truth, share), quality)
    medians = [error(median_filter(given, (k, k, 1)), truth) for k in (3, 5, 7)]
    assert error(restore(given, quality="fast").image, truth) < 0.9 * min(medians)


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_that_was_only_saved_comes_back_as_it_was(channels):
    given = saved_as_jpeg(smooth_image(channels), 75)
    assert impulsive(given) is None
    np.testing.assert_array_equal(restore(given, quality="fast").image, given)


def test_the_comb_is_in_the_spoiled_blocks_only_if_they_were_saved():
    truth = smooth_image(1)
    everywhere = np.ones(truth.shape, bool)
    deviation = rounding(
        saved_as_jpeg(with_salt_and_pepper(truth, 0.1), 75), everywhere
    )
    # The standard's steps at quality 75, half of those at 50: rms of q / √12.
    assert deviation == pytest.approx(9.7, rel=0.1)
    before = saved_as_jpeg(truth, 75)
    after = with_salt_and_pepper(before, 0.1)
    assert rounding(after, after != before) is None


def test_hot_pixels_of_one_height_are_no_comb():
    """On a smooth ground they make the same few coefficients over and over."""
    rng = np.random.default_rng(2)
    ramp = np.add.outer(np.arange(256), np.arange(256))[..., None] / 16 + 20
    before = saved_as_jpeg(
        np.rint(ramp + rng.normal(size=ramp.shape)).astype(np.uint8), 85
    )
    hot = before.copy()
    hot[rng.random(hot.shape) < 0.005] = 255
    assert rounding(hot, hot != before) is None
    found = restore(hot, quality="fast")
    assert (found.image != hot).mean() < 0.01


def test_the_shares_of_a_mixture_of_scales_are_learned():
    rng = np.random.default_rng(0)
    far = rng.random((200, 200)) < 0.2
    drawn = rng.normal(size=far.shape) * np.where(far, 0.32, 0.01)
    doubt = np.full(far.shape, 1e-6)
    spread = Spread.of(drawn, doubt, 0.01**2)
    assert spread.shares[0] == pytest.approx(0.8, abs=0.05)
    assert spread.clean[~far].mean() > 0.9 > 0.1 > spread.clean[far].mean()
    by_kind = Spread.of(drawn, doubt, 0.01**2, kind=far.astype(int))
    assert by_kind.clean[far].mean() < spread.clean[far].mean()


def hot(share, seed=0):
    """Return a smooth ground with Poisson noise and hot pixels of 8 deviations."""
    rng = np.random.default_rng(seed)
    ground = 200 * (1 + np.sin(3 * np.mgrid[:192, :192][0] / 192) / 2)
    mask = rng.random(ground.shape) < share
    given = rng.poisson(ground) + np.where(mask, 8 * np.sqrt(ground), 0)
    return np.rint(given).astype(np.uint16), mask


def test_weak_hot_pixels_are_found_at_a_false_discovery_rate():
    given, mask = hot(0.01)
    found = restore(given, quality="fast")
    assert found.mask[mask].mean() >= 0.9
    assert (found.mask & ~mask).sum() <= 0.02 * found.mask.sum()
    assert found.probability[mask].mean() > 0.9
    assert found.probability[~mask].mean() < 0.01


def test_noise_alone_is_neither_flagged_nor_removed():
    given, _ = hot(0.0, seed=3)
    np.testing.assert_array_equal(restore(given, quality="fast").image, given)


def test_a_detector_that_is_known_needs_no_measuring():
    given, mask = hot(0.01)
    found = restore(given, quality="fast", gain=1.0, read_noise=0.5)
    assert found.mask[mask].mean() >= 0.9
    few = restore(given, quality="fast", gain=0.05)  # noise would be 4.5 times larger
    assert few.mask[mask].mean() < 0.1


@pytest.mark.parametrize(
    "wrong", [{"sensitivity": 0}, {"gain": -1.0}, {"read_noise": -1.0}]
)
def test_words_that_mean_nothing_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        restore(np.zeros((8, 8)), **wrong)


def test_bright_colours_do_not_fade():
    rng = np.random.default_rng(3)
    relief = gaussian_filter(rng.normal(size=(128, 128)), 10)
    orange = np.array([215, 120, 35]) + 25 * (relief / relief.std())[..., None]
    truth = np.rint(np.clip(orange, 0, 255)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(with_salt_and_pepper(truth, 0.3)).save(file, "JPEG", quality=75)
    found = restore(np.asarray(Image.open(file)), quality="fast").image.astype(float)
    assert np.mean(found[..., 0] - found[..., 2]) > 0.9 * 180

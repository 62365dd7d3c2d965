"""Images that were corrupted before they were saved as JPEG."""

import io

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter, median_filter

from discrepant import restore
from discrepant.image.restore.jpeg.detection import (
    blocks_with_flat_spectrum,
    jpeg_rounding_std,
)
from discrepant.image.restore.jpeg.scale_mixture import ScaleMixture
from support.jpeg import saved_as_jpeg, smooth_image, with_salt_and_pepper


def squared_error(image, truth):
    return float(np.mean((image.astype(float) - truth) ** 2))


@pytest.mark.parametrize("quality", [90, 75])
@pytest.mark.parametrize(("channels", "fraction"), [(1, 0.05), (3, 0.05), (3, 0.3)])
def test_restore_is_better_than_median_filters_after_jpeg(channels, fraction, quality):
    truth = smooth_image(channels)
    given = saved_as_jpeg(with_salt_and_pepper(truth, fraction), quality)
    medians = [squared_error(median_filter(given, (k, k, 1)), truth) for k in (3, 5, 7)]
    restored = restore(given, quality="fast").image
    assert squared_error(restored, truth) < 0.9 * min(medians)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_clean_jpeg_is_unchanged(channels):
    given = saved_as_jpeg(smooth_image(channels), 75)
    assert blocks_with_flat_spectrum(given) is None
    np.testing.assert_array_equal(restore(given, quality="fast").image, given)


def test_quantisation_is_detected_only_if_corruption_came_first():
    truth = smooth_image(1)
    everywhere = np.ones(truth.shape, bool)
    std = jpeg_rounding_std(
        saved_as_jpeg(with_salt_and_pepper(truth, 0.1), 75), everywhere
    )
    # The standard's steps at quality 75, half of those at 50: rms of q / √12.
    assert std == pytest.approx(9.7, rel=0.1)
    before = saved_as_jpeg(truth, 75)
    after = with_salt_and_pepper(before, 0.1)
    assert jpeg_rounding_std(after, after != before) is None


def test_hot_pixels_of_one_height_are_not_taken_for_quantisation():
    """On a smooth background they repeat the same few coefficients."""
    rng = np.random.default_rng(2)
    ramp = np.add.outer(np.arange(256), np.arange(256))[..., None] / 16 + 20
    before = saved_as_jpeg(
        np.rint(ramp + rng.normal(size=ramp.shape)).astype(np.uint8), 85
    )
    hot = before.copy()
    hot[rng.random(hot.shape) < 0.005] = 255
    assert jpeg_rounding_std(hot, hot != before) is None
    result = restore(hot, quality="fast")
    assert (result.image != hot).mean() < 0.01


def test_the_weights_of_a_scale_mixture_are_estimated():
    rng = np.random.default_rng(0)
    impulse = rng.random((200, 200)) < 0.2
    residual = rng.normal(size=impulse.shape) * np.where(impulse, 0.32, 0.01)
    variance = np.full(impulse.shape, 1e-6)
    mixture = ScaleMixture.fit(residual, variance, 0.01**2)
    clean = mixture.clean_probability
    assert mixture.weights[0] == pytest.approx(0.8, abs=0.05)
    assert clean[~impulse].mean() > 0.9 > 0.1 > clean[impulse].mean()
    grouped = ScaleMixture.fit(residual, variance, 0.01**2, group=impulse.astype(int))
    assert grouped.clean_probability[impulse].mean() < clean[impulse].mean()


def test_saturated_colours_are_kept():
    rng = np.random.default_rng(3)
    relief = gaussian_filter(rng.normal(size=(128, 128)), 10)
    orange = np.array([215, 120, 35]) + 25 * (relief / relief.std())[..., None]
    truth = np.rint(np.clip(orange, 0, 255)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(with_salt_and_pepper(truth, 0.3)).save(file, "JPEG", quality=75)
    restored = restore(np.asarray(Image.open(file)), quality="fast").image.astype(float)
    assert np.mean(restored[..., 0] - restored[..., 2]) > 0.9 * 180

"""Weak hot pixels on smooth backgrounds are flagged at a false discovery rate."""

import numpy as np

from discrepant import restore


def hot_pixels_on_poisson_noise(fraction, seed=0):
    """Return a smooth image with Poisson noise, and its hot pixels of 8 deviations."""
    rng = np.random.default_rng(seed)
    background = 200 * (1 + np.sin(3 * np.mgrid[:192, :192][0] / 192) / 2)
    hot = rng.random(background.shape) < fraction
    counts = rng.poisson(background) + np.where(hot, 8 * np.sqrt(background), 0)
    return np.rint(counts).astype(np.uint16), hot


def test_weak_hot_pixels_are_flagged_at_the_false_discovery_rate():
    image, hot = hot_pixels_on_poisson_noise(0.01)
    result = restore(image, quality="fast")
    assert result.mask[hot].mean() >= 0.9
    assert (result.mask & ~hot).sum() <= 0.02 * result.mask.sum()
    assert result.probability[hot].mean() > 0.9
    assert result.probability[~hot].mean() < 0.01


def test_noise_alone_is_neither_flagged_nor_removed():
    image, _ = hot_pixels_on_poisson_noise(0.0, seed=3)
    np.testing.assert_array_equal(restore(image, quality="fast").image, image)


def test_a_given_gain_sets_the_noise():
    image, hot = hot_pixels_on_poisson_noise(0.01)
    result = restore(image, quality="fast", gain=1.0, read_noise=0.5)
    assert result.mask[hot].mean() >= 0.9
    # With this gain the noise would be 4.5 times as large.
    overestimated = restore(image, quality="fast", gain=0.05)
    assert overestimated.mask[hot].mean() < 0.1

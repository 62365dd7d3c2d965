"""Probabilities of corruption hold as frequencies, also after JPEG compression."""

import time

import numpy as np
import pytest

from discrepant import restore
from discrepant.image.restore.core import calibration
from discrepant.image.restore.core.calibration import calibrate
from discrepant.image.restore.core.mixture import CorruptionMixture, CorruptionModel
from support.jpeg import saved_as_jpeg, smooth_image, with_salt_and_pepper


def ramp_with_random_values(fraction, seed=0):
    """Return a ramp with noise of deviation 0.02 and a fraction of random values.

    Returns the values, which are random, the residuals from the ramp and their scale.
    """
    rng = np.random.default_rng(seed)
    corrupt = rng.random((200, 200, 1)) < fraction
    ramp = np.linspace(0.1, 0.9, 200)[:, None]
    clean = ramp + 0.02 * rng.normal(size=corrupt.shape)
    y = np.where(corrupt, rng.random(corrupt.shape), clean).astype(np.float32)
    residual = (y - ramp).astype(np.float32)
    return y, corrupt, residual, np.full(y.shape, 0.02, np.float32)


@pytest.mark.parametrize("fraction", [0.05, 0.4])
def test_calibrated_probabilities_hold_as_frequencies(fraction, monkeypatch):
    """Student's tails are too heavy for normal residuals; calibration corrects this."""
    # No patches are used, so that no value influences its own prediction.
    monkeypatch.setattr(calibration, "SELF_INFLUENCE", 1.0)
    y, corrupt, residual, scale = ramp_with_random_values(fraction)
    everywhere = np.ones(y.shape, bool)
    mixture = CorruptionMixture(y, everywhere)
    mixture.model = CorruptionModel(fraction, np.full(256, fraction / (1 - fraction)))
    clean = mixture.clean_posterior(residual, scale)
    probability = 1 - calibrate(clean, mixture, residual, scale, everywhere)
    uncertain = (clean < 0.95) & (clean > 0.01)
    true = corrupt[uncertain].mean()
    before, after = (abs(p[uncertain].mean() - true) for p in (1 - clean, probability))
    assert after < max(before / 2, 0.03)
    assert corrupt[probability > 0.99].mean() > 0.97


def test_without_certain_values_probabilities_are_unchanged():
    y, _, residual, scale = ramp_with_random_values(0.0)
    everywhere = np.ones(y.shape, bool)
    mixture = CorruptionMixture(y, everywhere)
    mixture.model = CorruptionModel(1e-4, np.full(256, 1e-4))
    clean = mixture.clean_posterior(residual, scale)
    calibrated = calibrate(clean, mixture, residual, scale, everywhere)
    np.testing.assert_array_equal(calibrated, clean)


def test_after_jpeg_impulses_are_flagged_and_not_their_blocks():
    truth = smooth_image(1)
    before = with_salt_and_pepper(truth, 0.05)
    result = restore(saved_as_jpeg(before, 90), quality="fast")
    corrupt = before != truth
    assert result.mask[corrupt].mean() > 0.8
    assert result.mask[~corrupt].mean() < 0.01


def test_jpeg_repair_keeps_to_the_time_limit():
    compressed = saved_as_jpeg(with_salt_and_pepper(smooth_image(1), 0.3), 75)
    given = np.tile(compressed, (6, 6, 1))
    started = time.perf_counter()
    result = restore(given, time_limit=0.5)
    assert time.perf_counter() - started < 30  # without a limit it takes minutes
    assert not result.complete


def test_hot_pixels_are_detected_beside_a_channel_that_is_often_saturated():
    from sklearn.datasets import load_sample_image

    truth = load_sample_image("china.jpg")[
        :320, 200:520
    ]  # its sky is saturated in blue
    given = truth.copy()
    hot = np.random.default_rng(1).random(truth.shape[:2]) < 0.005
    given[hot] = 255
    result = restore(given, quality="fast")
    visible = hot & (truth.min(axis=2) < 175)
    assert result.mask.any(axis=2)[visible].mean() > 0.7
    assert not result.mask[~hot].any()

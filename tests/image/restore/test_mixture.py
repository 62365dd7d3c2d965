"""The corruption mixture estimates the fraction and the values of the corruption."""

import numpy as np
import pytest

from discrepant.image.restore.core.mixture import CorruptionMixture


def test_fraction_and_value_of_the_corruption_are_estimated():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.2, 0.8, (80, 80, 1)).astype(np.float32)
    corrupt = rng.random(x.shape) < 0.3
    y = np.where(corrupt, 1, x + 0.01 * rng.standard_normal(x.shape)).astype(np.float32)
    mixture = CorruptionMixture(y, np.ones(y.shape, bool))
    for _ in range(4):
        clean = mixture.update(y - x, np.full(y.shape, 0.01, np.float32))
    assert mixture.model.fraction == pytest.approx(corrupt.mean(), abs=0.01)
    assert mixture.model.value_odds.argmax() == 255
    assert ((clean < 0.5) == corrupt).mean() > 0.999


def test_initial_model_is_used_and_not_changed():
    rng = np.random.default_rng(0)
    y, valid = rng.random((20, 20, 3)).astype(np.float32), np.ones((20, 20, 3), bool)
    first = CorruptionMixture(y, valid)
    first.update(y - 0.5, np.full(y.shape, 0.1, np.float32))
    model = first.model
    second = CorruptionMixture(y[:1], valid[:1], model=model)
    assert second.model is model
    second.update(y[:1] - 0.1, np.full((1, 20, 3), 0.01, np.float32))
    assert first.model is model


def test_hot_pixels_are_a_peak_beside_a_white_area():
    rng = np.random.default_rng(0)
    y = rng.uniform(0.2, 0.8, (256, 256, 1)).astype(np.float32)
    y[:, :32] = 1  # a white sky
    for fraction in (0.0005, 0.005):
        hot = rng.random(y.shape) < fraction
        given = np.where(hot, np.float32(1), y)
        mixture = CorruptionMixture(given, np.ones(y.shape, bool))
        odds = mixture.fit_model(1 - hot.astype(np.float32)).value_odds[0]
        assert odds[-1] > 3 * np.median(odds)
        # If the sky counts as corrupted too, white is no evidence of corruption.
        odds = mixture.fit_model((given < 1).astype(np.float32)).value_odds[0]
        assert odds[-1] < 3 * np.median(odds)

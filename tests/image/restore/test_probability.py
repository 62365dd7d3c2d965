"""What is said of values: calibrated, per pixel, in time."""

import time

import numpy as np
import pytest

from discrepant import restore
from discrepant.image.restore.core import calibration
from discrepant.image.restore.core.calibration import calibrate
from discrepant.image.restore.core.mixture import CorruptionMixture, CorruptionModel
from discrepant.image.restore.graphics.numbering import numbered
from support.jpeg import saved_as_jpeg, smooth_image, with_salt_and_pepper


def mixture(share, seed=0):
    """Return normal errors of deviation 0.02 on a ramp, and a share at random."""
    rng = np.random.default_rng(seed)
    hit = rng.random((200, 200, 1)) < share
    ramp = np.linspace(0.1, 0.9, 200)[:, None]
    clean = ramp + 0.02 * rng.normal(size=hit.shape)
    y = np.where(hit, rng.random(hit.shape), clean).astype(np.float32)
    error = (y - ramp).astype(np.float32)
    return y, hit, error, np.full(y.shape, 0.02, np.float32)


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_said_probabilities_are_borne_out(share, monkeypatch):
    """Student's tails are too heavy for normal errors; the mixture tells how much."""
    monkeypatch.setattr(calibration, "DRAWN_IN", 1.0)  # no patches are used
    y, hit, error, scale = mixture(share)
    judge = CorruptionMixture(y, np.ones(y.shape, bool))
    judge.model = CorruptionModel(share, np.full(256, share / (1 - share)))
    said = judge.clean_posterior(error, scale)
    chance = 1 - calibrate(said, judge, error, scale, np.ones(y.shape, bool))
    doubted = (said < 0.95) & (said > 0.01)
    true = hit[doubted].mean()
    before, after = (abs(a[doubted].mean() - true) for a in (1 - said, chance))
    assert after < max(before / 2, 0.03)
    assert hit[chance > 0.99].mean() > 0.97


def test_nothing_sure_leaves_what_is_said():
    y, _, error, scale = mixture(0.0)
    judge = CorruptionMixture(y, np.ones(y.shape, bool))
    judge.model = CorruptionModel(1e-4, np.full(256, 1e-4))
    said = judge.clean_posterior(error, scale)
    same = calibrate(said, judge, error, scale, np.ones(y.shape, bool))
    np.testing.assert_array_equal(same, said)


@pytest.mark.parametrize("distinct", [1, 50, 10**12])
def test_keys_are_numbered_as_by_sorting(distinct):
    keys = np.random.default_rng(0).integers(0, distinct, (40, 50)) * 7919
    values, which = numbered(keys)
    expected, inverse = np.unique(keys, return_inverse=True)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(which, inverse.ravel())


def test_after_jpeg_impulses_are_flagged_and_not_their_blocks():
    truth = smooth_image(1)
    before = with_salt_and_pepper(truth, 0.05)
    found = restore(saved_as_jpeg(before, 90), quality="fast")
    hit = before != truth
    assert found.mask[hit].mean() > 0.8
    assert found.mask[~hit].mean() < 0.01


def test_jpeg_keeps_to_the_time_limit():
    given = np.tile(
        saved_as_jpeg(with_salt_and_pepper(smooth_image(1), 0.3), 75), (6, 6, 1)
    )
    started = time.perf_counter()
    found = restore(given, time_limit=0.5)
    assert time.perf_counter() - started < 30  # whole, it takes minutes
    assert not found.complete


def test_white_of_one_channel_hides_no_hot_pixels_of_the_others():
    from sklearn.datasets import load_sample_image

    truth = load_sample_image("china.jpg")[:320, 200:520]  # the blue of its sky is full
    given = truth.copy()
    hot = np.random.default_rng(1).random(truth.shape[:2]) < 0.005
    given[hot] = 255
    found = restore(given, quality="fast")
    plain = hot & (truth.min(axis=2) < 175)
    assert found.mask.any(axis=2)[plain].mean() > 0.7
    assert not found.mask[~hot].any()

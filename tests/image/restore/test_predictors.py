"""The laws of the parts of restore: the plate, the patches, the judge."""

import numpy as np
import pytest

from discrepant.image.restore.core.kernels import apply_bending_energy
from discrepant.image.restore.core.mixture import CorruptionMixture
from discrepant.image.restore.core.similar_patches import (
    MIN_VARIANCE,
    RIDGE,
    PatchSearch,
    predict_from_patches,
)
from discrepant.image.restore.core.thin_plate import (
    channel_precision,
    fit_thin_plate,
    leverage,
)
from discrepant.image.restore.fill import fill_gaps


def test_bending_is_symmetric_and_ignores_planes():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 7, 9, 2))
    Qa, Qb = np.empty_like(a), np.empty_like(b)
    apply_bending_energy(a, 0.3, Qa)
    apply_bending_energy(b, 0.3, Qb)
    assert np.vdot(a, Qb) == pytest.approx(np.vdot(Qa, b))
    assert np.vdot(a, Qa) > 0
    i, j = np.mgrid[:7, :9]
    plane = (1.0 + 2 * i - 3 * j)[..., None]
    apply_bending_energy(plane, 0.0, Qp := np.empty_like(plane))
    assert np.abs(Qp).max() < 1e-12


def test_a_stiff_plate_continues_a_plane_over_gaps():
    i, j = np.mgrid[:20, :20]
    plane = (0.02 * i + 0.01 * j)[..., None].astype(np.float32)
    clean = np.random.default_rng(0).random(plane.shape) < 0.4
    start = fill_gaps(np.where(clean, plane, 0), clean)
    weight = clean.astype(np.float32)
    out = fit_thin_plate(
        plane, weight, 1e-3, channel_precision(plane), start, steps=200
    )
    assert np.abs(out - plane).max() < 0.03


def test_predictions_are_those_of_the_gaussian():
    rng = np.random.default_rng(0)
    x = rng.random((7, 6, 1)).astype(np.float32)
    y = x + 0.1 * rng.standard_normal(x.shape).astype(np.float32)
    noise = np.where(rng.random(x.shape) < 0.7, 0.01, -1).astype(np.float32)
    mean, _ = predict_from_patches(x, y, noise, PatchSearch(stride=1))
    # Two patches of 6×6 fit into 7×6; both form the group of both.
    patches = np.stack([x[k : k + 6].ravel() for k in range(2)]).astype(float)
    centre = patches.mean(0)
    S = (patches - centre).T @ (patches - centre) / 2
    jitter = MIN_VARIANCE + RIDGE * np.trace(S) / len(S)
    total, precision = np.zeros((2, 7, 6))
    for k in range(2):
        seen = noise[k : k + 6].ravel() >= 0
        for m in range(36):
            others = seen & (np.arange(36) != m)
            K = S[np.ix_(others, others)] + (0.01 + jitter) * np.eye(others.sum())
            gain = np.linalg.solve(K, S[others, m])
            guess = centre[m] + gain @ (y[k : k + 6].ravel() - centre)[others]
            variance = S[m, m] - gain @ S[others, m] + jitter
            total[k + m // 6, m % 6] += guess / variance
            precision[k + m // 6, m % 6] += 1 / variance
    assert np.allclose(mean[..., 0], total / precision, atol=2e-3)


@pytest.mark.parametrize("channels", [1, 3])
def test_leverage_is_how_a_value_pulls_the_plate_to_itself(channels):
    rng = np.random.default_rng(0)
    x = rng.random((33, 33, channels)).astype(np.float32)
    P, stiffness, density = channel_precision(x), 0.5, 0.6
    weight = np.full(x.shape, density, np.float32)
    pushed = x.copy()
    pushed[16, 16, 0] += 1
    before, after = (
        fit_thin_plate(y, weight, stiffness, P, x, steps=300) for y in (x, pushed)
    )
    pull = (after - before)[16, 16, 0] / density
    assert leverage(weight, stiffness, P)[16, 16, 0] == pytest.approx(pull, rel=0.02)


def test_a_judge_learns_how_much_is_corrupted_and_with_what():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.2, 0.8, (80, 80, 1)).astype(np.float32)
    wrong = rng.random(x.shape) < 0.3
    y = np.where(wrong, 1, x + 0.01 * rng.standard_normal(x.shape)).astype(np.float32)
    judge = CorruptionMixture(y, np.ones(y.shape, bool))
    for _ in range(4):
        weight = judge.update(y - x, np.full(y.shape, 0.01, np.float32))
    assert judge.model.fraction == pytest.approx(wrong.mean(), abs=0.01)
    assert judge.model.value_odds.argmax() == 255
    assert ((weight < 0.5) == wrong).mean() > 0.999


def test_a_judge_begins_from_what_another_learned():
    rng = np.random.default_rng(0)
    y, known = rng.random((20, 20, 3)).astype(np.float32), np.ones((20, 20, 3), bool)
    first = CorruptionMixture(y, known)
    first.update(y - 0.5, np.full(y.shape, 0.1, np.float32))
    learned = first.model
    second = CorruptionMixture(y[:1], known[:1], model=learned)
    assert second.model is learned
    second.update(y[:1] - 0.1, np.full((1, 20, 3), 0.01, np.float32))
    assert first.model is learned


def test_hot_pixels_stand_out_in_a_picture_with_white_parts():
    rng = np.random.default_rng(0)
    y = rng.uniform(0.2, 0.8, (256, 256, 1)).astype(np.float32)
    y[:, :32] = 1  # a white sky
    for share in (0.0005, 0.005):
        hot = rng.random(y.shape) < share
        given = np.where(hot, np.float32(1), y)
        judge = CorruptionMixture(given, np.ones(y.shape, bool))
        odds = judge.fit_model(1 - hot.astype(np.float32)).value_odds[0]
        assert odds[-1] > 3 * np.median(odds)
        # The sky taken for corruption too is no hint of it.
        odds = judge.fit_model((given < 1).astype(np.float32)).value_odds[0]
        assert odds[-1] < 3 * np.median(odds)

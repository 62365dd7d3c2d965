"""Thin-plate spline and similar patches agree with their formulas."""

import numpy as np
import pytest

from discrepant.image.restore.core.kernels import apply_bending_energy
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


def test_bending_energy_is_symmetric_and_zero_for_planes():
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


def test_spline_continues_a_plane_over_gaps():
    i, j = np.mgrid[:20, :20]
    plane = (0.02 * i + 0.01 * j)[..., None].astype(np.float32)
    clean = np.random.default_rng(0).random(plane.shape) < 0.4
    start = fill_gaps(np.where(clean, plane, 0), clean)
    weight = clean.astype(np.float32)
    out = fit_thin_plate(
        plane, weight, 1e-3, channel_precision(plane), start, steps=200
    )
    assert np.abs(out - plane).max() < 0.03


def test_patch_predictions_equal_those_of_the_gaussian():
    rng = np.random.default_rng(0)
    x = rng.random((7, 6, 1)).astype(np.float32)
    y = x + 0.1 * rng.standard_normal(x.shape).astype(np.float32)
    noise = np.where(rng.random(x.shape) < 0.7, 0.01, -1).astype(np.float32)
    mean, _ = predict_from_patches(x, y, noise, PatchSearch(stride=1))
    # Two patches of 6×6 fit into 7×6, and each is in the group of both.
    patches = np.stack([x[k : k + 6].ravel() for k in range(2)]).astype(float)
    centre = patches.mean(0)
    S = (patches - centre).T @ (patches - centre) / 2
    jitter = MIN_VARIANCE + RIDGE * np.trace(S) / len(S)
    total, precision = np.zeros((2, 7, 6))
    for k in range(2):
        observed = noise[k : k + 6].ravel() >= 0
        for m in range(36):
            others = observed & (np.arange(36) != m)
            K = S[np.ix_(others, others)] + (0.01 + jitter) * np.eye(others.sum())
            gain = np.linalg.solve(K, S[others, m])
            prediction = centre[m] + gain @ (y[k : k + 6].ravel() - centre)[others]
            variance = S[m, m] - gain @ S[others, m] + jitter
            total[k + m // 6, m % 6] += prediction / variance
            precision[k + m // 6, m % 6] += 1 / variance
    assert np.allclose(mean[..., 0], total / precision, atol=2e-3)


@pytest.mark.parametrize("channels", [1, 3])
def test_leverage_is_the_change_of_the_spline_per_change_of_a_value(channels):
    rng = np.random.default_rng(0)
    x = rng.random((33, 33, channels)).astype(np.float32)
    P, stiffness, density = channel_precision(x), 0.5, 0.6
    weight = np.full(x.shape, density, np.float32)
    changed = x.copy()
    changed[16, 16, 0] += 1
    before, after = (
        fit_thin_plate(y, weight, stiffness, P, x, steps=300) for y in (x, changed)
    )
    attraction = (after - before)[16, 16, 0] / density
    assert leverage(weight, stiffness, P)[16, 16, 0] == pytest.approx(
        attraction, rel=0.02
    )

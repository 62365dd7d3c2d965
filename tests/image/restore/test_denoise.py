"""Denoising: the noise is measured, removed on request, and absent noise is not."""

import numpy as np

from discrepant import restore
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.detectors.denoise import noise_variance


def test_noise_is_removed_on_request():
    rng = np.random.default_rng(0)
    i, j = np.mgrid[:96, :96]
    clean = 2000 + 900 * np.sin(i / 9) * np.cos(j / 7) + 500 * (i > j)
    noisy = rng.poisson(clean).astype(np.uint16)  # the variance equals the brightness
    noisy[10, 20] = 60_000
    plain = restore(noisy, quality="fast")
    denoised = restore(noisy, quality="fast", denoise=True)
    assert denoised.image.dtype == noisy.dtype
    assert plain.mask[10, 20]
    assert denoised.mask[10, 20]
    error = [np.mean((a.image - clean) ** 2) for a in (plain, denoised)]
    assert error[1] < error[0] / 3
    assert np.array_equal(plain.mask, denoised.mask)
    # The variance at each brightness is estimated to within 25%.
    measured = noise_variance(noisy.astype(float), Detector())
    assert 0.8 < np.median(measured / clean) < 1.25


def test_an_image_without_noise_is_unchanged():
    i, j = np.mgrid[:64, :64]
    image = np.rint(120 + 60 * np.sin(i / 8) * np.cos(j / 11)).astype(np.uint8)
    result = restore(image, quality="fast", denoise=True)
    assert np.array_equal(result.image, image)

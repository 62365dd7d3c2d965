"""A photograph, its synthetic corruption, and the error of a restoration."""

import numpy as np
import pytest

data = pytest.importorskip("skimage.data")
CAT = data.chelsea()[60:156, 130:226]


def psnr(image, truth):
    """Return the peak signal-to-noise ratio of an 8-bit image, in decibels."""
    error = np.mean((image.astype(float) - truth) ** 2)
    return 10 * np.log10(255**2 / error) if error else np.inf


def corrupt(truth, kind, fraction, seed=0):
    """Return an 8-bit image with a fraction of its values corrupted."""
    rng = np.random.default_rng(seed)
    hit = rng.random(truth.shape) < fraction
    values = rng.integers(0, 256, truth.shape)
    if kind == "salt-and-pepper":
        values = np.where(values < 128, 0, 255)
    elif kind == "hot":
        values[:] = 255
    elif kind == "lines":
        hit[:] = False
        hit[20], hit[60], hit[:, 33] = True, True, True
        values[20], values[60], values[:, 33] = 0, 180, 255
    elif kind == "pixels":
        hit[:] = hit[..., :1]
        values = np.where(values[..., :1] < 128, 0, 255) + np.zeros_like(values)
    return np.where(hit, values, truth).astype(truth.dtype)

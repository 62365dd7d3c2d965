"""Synthetic images that are corrupted and saved as JPEG."""

import io

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

from discrepant.image.corruptions import salt_and_pepper


def smooth_image(channels):
    """Return an 8-bit image of 96×96 pixels: smooth, with edges and stripes."""
    rng = np.random.default_rng(5)
    values = gaussian_filter(rng.normal(size=(96, 96, channels)), (9, 9, 0))
    values = 128 + 60 * values / np.abs(values).max()
    values[30:60, 20:70] += 45
    values[:, 48:] += 12 * np.sin(np.arange(48))[:, None]
    return np.rint(np.clip(values, 0, 255)).astype(np.uint8)


def with_salt_and_pepper(image, fraction):
    """Return an 8-bit image with a fraction of its values set to 0 or 255."""
    corrupted, _ = salt_and_pepper(image / 255, fraction, random_state=1)
    return np.rint(255 * corrupted).astype(np.uint8)


def saved_as_jpeg(image, quality):
    """Return an image after saving it as JPEG and reading it again."""
    file = io.BytesIO()
    Image.fromarray(image.squeeze()).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file)).reshape(image.shape)

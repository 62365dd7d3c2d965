"""Synthetic images that are corrupted and saved as JPEG."""

import io

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

from discrepant.image.corruptions import salt_and_pepper


def picture(channels):
    """Return smooth shapes with edges and stripes, 96×96, of 8 bits."""
    rng = np.random.default_rng(5)
    ground = gaussian_filter(rng.normal(size=(96, 96, channels)), (9, 9, 0))
    ground = 128 + 60 * ground / np.abs(ground).max()
    ground[30:60, 20:70] += 45
    ground[:, 48:] += 12 * np.sin(np.arange(48))[:, None]
    return np.rint(np.clip(ground, 0, 255)).astype(np.uint8)


def spoiled(image, share):
    return np.rint(255 * salt_and_pepper(image / 255, share, random_state=1)[0]).astype(
        np.uint8
    )


def saved(image, quality):
    file = io.BytesIO()
    Image.fromarray(image.squeeze()).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file)).reshape(image.shape)

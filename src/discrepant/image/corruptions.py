"""Synthetic corruption of images: salt-and-pepper noise and random values.

Each function takes an image with values in [0, 1] of shape (H, W) or (H, W, C), and
returns the corrupted image and the mask of the corrupted values, which are drawn
independently, channel by channel, as in the paper.
"""

from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.image.arrays import check_floats


def salt_and_pepper(
    image: Array, fraction: float, *, random_state: Any = None
) -> tuple[Array, np.ndarray]:
    """Set a fraction of the values to 0 or 1, each with probability one half."""
    mask, rng = _draw_mask(image, fraction, random_state)
    salt = rng.random(image.shape) < 0.5
    return np.where(mask, salt.astype(image.dtype), image), mask


def random_impulses(
    image: Array, fraction: float, *, random_state: Any = None
) -> tuple[Array, np.ndarray]:
    """Replace a fraction of the values by uniform random values in [0, 1]."""
    mask, rng = _draw_mask(image, fraction, random_state)
    return np.where(mask, rng.random(image.shape).astype(image.dtype), image), mask


def _draw_mask(
    image: Array, fraction: float, random_state: Any
) -> tuple[np.ndarray, np.random.Generator]:
    """Draw the mask of corrupted values; also return the generator."""
    check_floats(image)
    if not 0 <= fraction <= 1:
        raise InputError(
            f"The corrupted fraction must be from 0 to 1, got {fraction!r}."
        )
    rng = np.random.default_rng(random_state)
    return rng.random(image.shape) < fraction, rng

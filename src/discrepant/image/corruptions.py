"""Synthetic corruption of images: impulses, dead rows or columns, hot pixels.

Each function takes an image with values in [0, 1] of shape (H, W) or (H, W, C), and
returns the corrupted image and the mask of the corrupted values.
"""

from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.image.arrays import check_floats

CorruptedAndMask = tuple[Array, np.ndarray]


def salt_and_pepper(
    image: Array, fraction: float, *, pixels: bool = False, random_state: Any = None
) -> CorruptedAndMask:
    """Set a fraction of the values to 0 or 1, each with probability one half.

    The values are drawn independently, channel by channel, as in the paper; with
    ``pixels=True`` all channels of a pixel become 0, or all become 1.
    """
    mask, rng = _draw_mask(image, fraction, pixels, random_state)
    shape = image.shape[:2] if pixels else image.shape
    salt = (rng.random(shape) < 0.5).astype(image.dtype)
    return _replace(image, mask, _over_channels(salt, image)), mask


def random_impulses(
    image: Array, fraction: float, *, pixels: bool = False, random_state: Any = None
) -> CorruptedAndMask:
    """Replace a fraction of the values by uniform random values in [0, 1]."""
    mask, rng = _draw_mask(image, fraction, pixels, random_state)
    return _replace(image, mask, rng.random(image.shape).astype(image.dtype)), mask


def hot_pixels(
    image: Array, fraction: float, *, excess: float = 0.5, random_state: Any = None
) -> CorruptedAndMask:
    """Add between ``excess / 2`` and ``excess`` to a fraction of the pixels."""
    mask, rng = _draw_mask(image, fraction, True, random_state)
    added = _over_channels(excess * rng.uniform(0.5, 1, image.shape[:2]), image)
    hot = np.minimum(image + added, 1).astype(image.dtype)
    return _replace(image, mask, hot), mask


def dead_lines(
    image: Array, fraction: float, *, axis: int = 0, random_state: Any = None
) -> CorruptedAndMask:
    """Set a fraction of the rows (axis 0) or columns (axis 1) to zero."""
    _check(image, fraction)
    if axis not in (0, 1):
        raise InputError(f"axis must be 0 (rows) or 1 (columns), got {axis!r}.")
    rng = np.random.default_rng(random_state)
    count = round(fraction * image.shape[axis])
    dead = rng.choice(image.shape[axis], count, replace=False)
    mask = np.zeros(image.shape, bool)
    mask[dead if axis == 0 else (slice(None), dead)] = True
    return _replace(image, mask, np.zeros_like(image)), mask


def _draw_mask(
    image: Array, fraction: float, pixels: bool, random_state: Any
) -> tuple[np.ndarray, np.random.Generator]:
    """Draw the mask of corrupted values or pixels; also return the generator."""
    _check(image, fraction)
    rng = np.random.default_rng(random_state)
    corrupted = rng.random(image.shape[:2] if pixels else image.shape) < fraction
    return _over_channels(corrupted, image), rng


def _over_channels(values: np.ndarray, image: Array) -> np.ndarray:
    """Repeat the value of each pixel over its channels."""
    if values.ndim < image.ndim:
        values = values[..., None]
    return np.broadcast_to(values, image.shape)


def _replace(image: Array, mask: np.ndarray, values: np.ndarray) -> Array:
    """Return the image with the given values where the mask is True."""
    return np.where(mask, values, image)


def _check(image: Array, fraction: float) -> None:
    check_floats(image)
    if not 0 <= fraction <= 1:
        raise InputError(
            f"The corrupted fraction must be from 0 to 1, got {fraction!r}."
        )

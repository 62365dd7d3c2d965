"""What goes wrong with images: impulses, dead lines, hot pixels.

Each function takes an image with values in [0, 1], (H, W) or (H, W, C), and returns the
corrupted image and the mask of the values that were touched.
"""

from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.image.arrays import check_floats

Noisy = tuple[Array, np.ndarray]


def salt_and_pepper(
    image: Array, share: float, *, pixels: bool = False, random_state: Any = None
) -> Noisy:
    """Set a share of the values to 0 or 1, either with probability a half.

    The values are drawn independently, channel by channel, as in the paper; with
    ``pixels=True`` a pixel turns white or black as a whole.
    """
    mask, rng = _drawn(image, share, pixels, random_state)
    shape = image.shape[:2] if pixels else image.shape
    salt = (rng.random(shape) < 0.5).astype(image.dtype)
    return _placed(image, mask, _over_channels(salt, image)), mask


def random_impulses(
    image: Array, share: float, *, pixels: bool = False, random_state: Any = None
) -> Noisy:
    """Replace a share of the values by others, drawn evenly from 0 to 1."""
    mask, rng = _drawn(image, share, pixels, random_state)
    return _placed(image, mask, rng.random(image.shape).astype(image.dtype)), mask


def hot_pixels(
    image: Array, share: float, *, excess: float = 0.5, random_state: Any = None
) -> Noisy:
    """Add between half of ``excess`` and all of it to a share of the pixels."""
    mask, rng = _drawn(image, share, True, random_state)
    added = _over_channels(excess * rng.uniform(0.5, 1, image.shape[:2]), image)
    hot = np.minimum(image + added, 1).astype(image.dtype)
    return _placed(image, mask, hot), mask


def dead_lines(
    image: Array, share: float, *, axis: int = 0, random_state: Any = None
) -> Noisy:
    """Set a share of the rows (axis 0) or columns (axis 1) to zero."""
    _check(image, share)
    if axis not in (0, 1):
        raise InputError(f"axis must be 0 (rows) or 1 (columns), got {axis!r}.")
    rng = np.random.default_rng(random_state)
    count = round(share * image.shape[axis])
    lines = rng.choice(image.shape[axis], count, replace=False)
    mask = np.zeros(image.shape, bool)
    mask[lines if axis == 0 else (slice(None), lines)] = True
    return _placed(image, mask, np.zeros_like(image)), mask


def _drawn(
    image: Array, share: float, pixels: bool, random_state: Any
) -> tuple[np.ndarray, np.random.Generator]:
    """Draw which values, or whole pixels, are corrupted; the generator draws on."""
    _check(image, share)
    rng = np.random.default_rng(random_state)
    hit = rng.random(image.shape[:2] if pixels else image.shape) < share
    return _over_channels(hit, image), rng


def _over_channels(values: np.ndarray, image: Array) -> np.ndarray:
    """Repeat what holds for a pixel over its channels."""
    if values.ndim < image.ndim:
        values = values[..., None]
    return np.broadcast_to(values, image.shape)


def _placed(image: Array, mask: np.ndarray, values: np.ndarray) -> Array:
    """Return the image with other values where the mask is set."""
    return np.where(mask, values, image)


def _check(image: Array, share: float) -> None:
    check_floats(image)
    if not 0 <= share <= 1:
        raise InputError(f"The corrupted share must be from 0 to 1, got {share!r}.")

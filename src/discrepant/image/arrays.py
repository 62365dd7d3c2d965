"""Images as arrays: checked at the door, scored against a truth."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discrepant.errors import InputError
from discrepant.linalg import Array

MOST_CHANNELS = 32
MARGIN = 8  # pixels left out of the interior's score


def has_alpha(image: Array, channel_axis: int | None) -> bool:
    """Return whether an array looks like RGBA: integers, of four channels, last."""
    return image.dtype.kind in "ui" and channel_axis == 2 and image.shape[2] == 4


def checked_image(image: ArrayLike) -> Array:
    """Return an image as floats in [0, 1]; refuse what is not one."""
    try:
        values = np.asarray(image)
    except ValueError as error:
        raise InputError(f"This is not an image: {error}.") from None
    if values.ndim not in (2, 3):
        raise InputError(
            f"An image is (H, W) or (H, W, C), got an array of shape {values.shape}."
        )
    if values.size == 0:
        raise InputError(f"The image is empty: its shape is {values.shape}.")
    if values.ndim == 3 and values.shape[2] > MOST_CHANNELS:
        raise InputError(
            f"An image of up to {MOST_CHANNELS} channels is needed, got "
            f"{values.shape[2]}; channels stand last."
        )
    if values.dtype.kind == "u":
        return values / np.iinfo(values.dtype).max
    if values.dtype.kind != "f":
        raise InputError(
            f"An image of floats or unsigned integers is needed, got {values.dtype}."
        )
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise InputError(
            f"{bad} values of the image are NaN or infinite; replace them first, for "
            "instance by 0: they are then treated as corrupted."
        )
    if values.min() < 0 or values.max() > 1:
        raise InputError(
            f"Values in [0, 1] are needed, got {values.min():g} to {values.max():g}."
        )
    return values


def psnr(image: Array, truth: Array, margin: int = 0) -> float:
    """Return the peak signal-to-noise ratio in dB, for values in [0, 1].

    ``margin`` leaves out so many pixels along each edge, where they exist.
    """
    where: Any = ...
    if margin and min(truth.shape[:2]) > 2 * margin:
        where = (slice(margin, -margin), slice(margin, -margin))
    error = np.clip(image[where], 0, 1) - truth[where]
    mean = float(np.mean(error**2, dtype=np.float64))
    return math.inf if mean == 0 else -10 * math.log10(mean)

"""Images as arrays: checked once, at the door, and scored against a truth."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import check_integer, error_text

# A convention: a third axis of up to so many is taken for channels (colours, detector
# elements, bands of a spectrum), a longer one for pages.
MOST_CHANNELS = 32
# A convention: so many pixels along each edge, whose neighbours are missing on one
# side, are left out where the interior is scored. The tables of the README use it.
MARGIN = 8


def array_of(values: Any, what: str) -> Array:
    """Return anything that looks like an array as one; ``what`` begins the refusal."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{what} has rows of different lengths.") from None
    except (TypeError, RuntimeError) as error:
        raise InputError(
            f"{what} cannot be read as an array: {error_text(error)}."
        ) from None


def check_shape(values: Array) -> None:
    """Refuse what has not the shape of an image."""
    if values.ndim not in (2, 3):
        raise InputError(
            "An image has shape (rows, columns) or (rows, columns, channels), got "
            f"{values.shape}."
        )
    if values.size == 0:
        raise InputError(f"The image is empty: its shape is {values.shape}.")


def check_values(values: Array) -> None:
    """Refuse what does not hold the values of an image."""
    if values.dtype.kind not in "buif":
        raise InputError(
            f"An image holds integers, bools or floats, not {values.dtype}."
        )
    if values.size == 0:
        raise InputError(f"The image is empty: its shape is {values.shape}.")


def check_floats(values: Array) -> None:
    """Refuse an image that does not hold floats."""
    check_shape(values)
    if values.dtype.kind != "f":
        raise InputError(f"An image of floats in [0, 1] is needed, got {values.dtype}.")


def unit_image(image: ArrayLike) -> Array:
    """Return an image as floats in [0, 1]; unsigned integers are divided by the top."""
    values = array_of(image, "The image")
    check_shape(values)
    if values.ndim == 3 and values.shape[2] > MOST_CHANNELS:
        raise InputError(
            f"An image of up to {MOST_CHANNELS} channels is needed, got "
            f"{values.shape[2]}; channels stand last."
        )
    if values.dtype.kind == "u":
        return values / np.iinfo(values.dtype).max
    check_floats(values)
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


def has_transparency(image: Array, channel_axis: int | None) -> bool:
    """Return whether an array looks like RGBA: integers, of four channels, last."""
    return image.dtype.kind in "ui" and channel_axis == 2 and image.shape[2] == 4


@dataclass(frozen=True, eq=False)
class Stack:
    """An image of any dtype with its channels last, and which values are bad.

    Attributes
    ----------
    values : ndarray of shape (rows, columns, channels)
        The image; a view of what was given.
    bad : ndarray of bool, of the same shape
        The values that are known to be wrong.
    axis : int or None
        Where the channels were; None if the image had no such axis.
    """

    values: Array
    bad: Array
    axis: int | None

    @classmethod
    def of(cls, image: Any, mask: Any, channel_axis: int | None) -> "Stack":
        """Check an image and a mask of its known-bad values, which may be None.

        Values hidden in a masked array, NaN and infinite values are bad too.
        """
        given = array_of(image, "The image")
        check_values(given)
        check_shape(given)
        axis = _checked_axis(given, channel_axis)
        values = given[..., None] if axis is None else np.moveaxis(given, axis, -1)
        bad = np.zeros(values.shape, bool)
        if mask is not None:
            bad |= _checked_mask(array_of(mask, "The mask"), given, axis)
        if np.ma.isMaskedArray(image):
            bad |= _checked_mask(np.ma.getmaskarray(image), given, axis)
        if given.dtype.kind == "f":
            bad |= ~np.isfinite(values)
        return cls(values, bad, axis)

    @property
    def colours(self) -> int:
        """How many of the channels, from the first, are not transparency."""
        return int(self.values.shape[2]) - has_transparency(self.values, self.axis)

    def shaped(self, array: Array) -> Array:
        """Return an array of the stack's shape in the shape of the given image."""
        return array[..., 0] if self.axis is None else np.moveaxis(array, -1, self.axis)


def _checked_axis(given: Array, channel_axis: int | None) -> int | None:
    """Return where the channels are, counted from the front."""
    if given.ndim == 2:
        return None
    if channel_axis is None:
        raise InputError(
            f"An image of shape {given.shape} has channels: say by channel_axis where."
        )
    axis = check_integer(
        "channel_axis", channel_axis, "-3 to 2", lambda axis: axis in range(-3, 3)
    )
    return axis % 3


def _checked_mask(mask: Array, given: Array, axis: int | None) -> Array:
    """Return a mask of the image's shape, or of its pixels, with its channels last."""
    if mask.dtype.kind not in "bui":
        raise InputError(f"mask holds bools, True where bad, not {mask.dtype}.")
    marked: Array = mask != 0
    if marked.shape == given.shape and axis is not None:
        return np.moveaxis(marked, axis, -1)
    pixels = tuple(n for k, n in enumerate(given.shape) if k != axis)
    if marked.shape == pixels:
        return marked[..., None]
    raise InputError(f"mask has shape {mask.shape}, the image {given.shape}.")


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

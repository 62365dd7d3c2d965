"""Images as arrays: checks of shape, dtype and mask, channels-last views, and PSNR."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import check_integer, error_text

# Length up to which a third axis is taken for channels (colours, detector elements,
# spectral bands); a longer one is taken for pages. A convention.
MAX_CHANNELS = 32


def as_array(values: Any, name: str) -> Array:
    """Convert array-like values to an array; ``name`` begins the error message."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{name} has rows of different lengths.") from None
    except (TypeError, RuntimeError) as error:
        raise InputError(
            f"{name} cannot be read as an array: {error_text(error)}."
        ) from None


def check_shape(values: Array) -> None:
    """Raise an InputError unless an array has two or three axes and is not empty."""
    if values.ndim not in (2, 3):
        raise InputError(
            "An image has shape (rows, columns) or (rows, columns, channels), got "
            f"{values.shape}."
        )
    if values.size == 0:
        raise InputError(f"The image is empty: its shape is {values.shape}.")


def check_values(values: Array) -> None:
    """Raise an InputError unless an array holds integers, bools or floats."""
    if values.dtype.kind not in "buif":
        raise InputError(
            f"An image holds integers, bools or floats, not {values.dtype}."
        )
    if values.size == 0:
        raise InputError(f"The image is empty: its shape is {values.shape}.")


def check_floats(values: Array) -> None:
    """Raise an InputError unless an array is an image of floats."""
    check_shape(values)
    if values.dtype.kind != "f":
        raise InputError(f"An image of floats in [0, 1] is needed, got {values.dtype}.")


def unit_image(image: ArrayLike) -> Array:
    """Return an image as floats in [0, 1].

    Unsigned integers are divided by the largest value of their dtype; floats must lie
    in [0, 1] already.
    """
    values = as_array(image, "The image")
    check_shape(values)
    if values.ndim == 3 and values.shape[2] > MAX_CHANNELS:
        raise InputError(
            f"An image of up to {MAX_CHANNELS} channels is needed, got "
            f"{values.shape[2]}; the last axis holds the channels."
        )
    if values.dtype.kind == "u":
        return values / np.iinfo(values.dtype).max
    check_floats(values)
    n_not_finite = int(np.count_nonzero(~np.isfinite(values)))
    if n_not_finite:
        raise InputError(
            f"{n_not_finite} values of the image are NaN or infinite; replace them "
            "first, for instance by 0: they are then treated as corrupted."
        )
    if values.min() < 0 or values.max() > 1:
        raise InputError(
            f"Values in [0, 1] are needed, got {values.min():g} to {values.max():g}."
        )
    return values


def has_transparency(image: Array, channel_axis: int | None) -> bool:
    """Return whether an array is taken for RGBA: integers, four channels, last."""
    return image.dtype.kind in "ui" and channel_axis == 2 and image.shape[2] == 4


@dataclass(frozen=True, eq=False)
class ChannelsLast:
    """A channels-last view of an image of any dtype, with its known-bad values.

    Attributes
    ----------
    values : ndarray of shape (rows, columns, channels)
        The image; a view of the input.
    known_bad : ndarray of bool, of the same shape
        The values that are known to be corrupted.
    axis : int or None
        The channel axis of the input; None if it had none.
    """

    values: Array
    known_bad: Array
    axis: int | None

    @classmethod
    def of(cls, image: Any, mask: Any, channel_axis: int | None) -> "ChannelsLast":
        """Check an image and a mask of its known-bad values, which may be None.

        Values hidden in a masked array, NaN and infinite values are known bad too.
        """
        given = as_array(image, "The image")
        check_values(given)
        check_shape(given)
        axis = _checked_axis(given, channel_axis)
        values = given[..., None] if axis is None else np.moveaxis(given, axis, -1)
        known_bad = np.zeros(values.shape, bool)
        if mask is not None:
            known_bad |= _checked_mask(as_array(mask, "The mask"), given, axis)
        if np.ma.isMaskedArray(image):
            known_bad |= _checked_mask(np.ma.getmaskarray(image), given, axis)
        if given.dtype.kind == "f":
            known_bad |= ~np.isfinite(values)
        return cls(values, known_bad, axis)

    @property
    def n_colours(self) -> int:
        """The number of channels without transparency, which is the last channel."""
        return int(self.values.shape[2]) - has_transparency(self.values, self.axis)

    def in_input_layout(self, array: Array) -> Array:
        """Return an array of the shape of ``values`` with the axes of the input."""
        return array[..., 0] if self.axis is None else np.moveaxis(array, -1, self.axis)


def _checked_axis(given: Array, channel_axis: int | None) -> int | None:
    """Return the channel axis as a non-negative number; None if there is none."""
    if given.ndim == 2:
        return None
    if channel_axis is None:
        raise InputError(
            f"An image of shape {given.shape} has channels: give their axis as "
            "channel_axis."
        )
    axis = check_integer(
        "channel_axis", channel_axis, "-3 to 2", lambda axis: axis in range(-3, 3)
    )
    return axis % 3


def _checked_mask(mask: Array, given: Array, axis: int | None) -> Array:
    """Return a mask of the image's shape or of its pixels with the channels last."""
    if mask.dtype.kind not in "bui":
        raise InputError(f"mask holds bools, True where bad, not {mask.dtype}.")
    marked: Array = mask != 0
    if marked.shape == given.shape and axis is not None:
        return np.moveaxis(marked, axis, -1)
    pixels = tuple(n for k, n in enumerate(given.shape) if k != axis)
    if marked.shape == pixels:
        return marked[..., None]
    raise InputError(f"mask has shape {mask.shape}, the image {given.shape}.")


def psnr(image: Array, truth: Array) -> float:
    """Return the peak signal-to-noise ratio in dB, for values in [0, 1]."""
    error = np.clip(image, 0, 1) - truth
    mean = float(np.mean(error**2, dtype=np.float64))
    return math.inf if mean == 0 else -10 * math.log10(mean)

"""Filters that a user would pick instead, told a window or how corruption looks."""

import numpy as np
from numpy.typing import ArrayLike

from discrepant.core.errors import InputError, missing_extra
from discrepant.core.linalg import Array
from discrepant.image.arrays import unit_image


def median(image: ArrayLike, size: int = 3) -> Array:
    """Replace each value by the median of a window around it, channel by channel."""
    from scipy.ndimage import median_filter

    values = unit_image(image)
    _check_window(size)
    found: Array = median_filter(values, size=_window(values, size), mode="reflect")
    return found


def adaptive_median(image: ArrayLike, most: int = 13) -> Array:
    """Replace impulses by the median of the smallest window that is not all impulses.

    For each value the window grows from 3×3 up to ``most``×``most`` until its median
    lies strictly between its lowest and its highest value. If then the value itself
    lies strictly between them it is kept, else the median takes its place (Hwang and
    Haddad; 1995).
    """
    from scipy.ndimage import maximum_filter, median_filter, minimum_filter

    values = unit_image(image)
    _check_window(most)
    found = np.array(values)
    waiting = np.ones(values.shape, bool)  # no window was large enough so far
    for size in range(3, most + 1, 2):
        window = _window(values, size)
        low = minimum_filter(values, size=window, mode="reflect")
        high = maximum_filter(values, size=window, mode="reflect")
        middle = median_filter(values, size=window, mode="reflect")
        settled = waiting & (low < middle) & (middle < high)
        impulse = settled & ((values <= low) | (values >= high))
        found[impulse] = middle[impulse]
        waiting &= ~settled
    found[waiting] = middle[waiting]
    return found


def inpaint_extremes(image: ArrayLike) -> Array:
    """Take every 0 and 1 for corrupted, and fill it in biharmonically.

    It is told what corruption looks like: exactly 0 or 1, and nothing else.
    """
    try:
        from skimage.restoration import inpaint_biharmonic
    except ModuleNotFoundError:
        raise missing_extra("Inpainting needs scikit-image", "restore") from None
    values = unit_image(image)
    channels = values[..., None] if values.ndim == 2 else values
    filled = np.empty_like(channels)
    for c in range(channels.shape[2]):
        channel = channels[..., c]
        bad = (channel == 0) | (channel == 1)
        filled[..., c] = (
            channel if bad.all() or not bad.any() else inpaint_biharmonic(channel, bad)
        )
    clipped: Array = np.clip(filled.reshape(values.shape), 0, 1)
    return clipped


def _window(values: Array, size: int) -> tuple[int, ...]:
    """Return the window's shape: square over the pixels, one channel at a time."""
    return (size, size) + (1,) * (values.ndim - 2)


def _check_window(size: int) -> None:
    if size < 3 or size % 2 == 0:
        raise InputError(f"A window needs an odd size of 3 or more, got {size!r}.")

"""Median filters and inpainting of extremes, for comparison with `restore`."""

import numpy as np
from numpy.typing import ArrayLike

from discrepant.core.errors import InputError, missing_extra
from discrepant.core.linalg import Array
from discrepant.image.arrays import unit_image


def median(image: ArrayLike, size: int = 3) -> Array:
    """Replace each value by the median of a window around it, per channel."""
    from scipy.ndimage import median_filter

    values = unit_image(image)
    _check_window(size)
    filtered: Array = median_filter(values, size=_window(values, size), mode="reflect")
    return filtered


def adaptive_median(image: ArrayLike, most: int = 13) -> Array:
    """Replace impulses by the median of the smallest window that is not all impulses.

    For each value the window grows from 3×3 up to ``most``×``most`` until its median
    lies strictly between its lowest and its highest value. If the value itself then
    lies strictly between them, it is kept; otherwise the median replaces it (Hwang and
    Haddad; 1995).
    """
    from scipy.ndimage import maximum_filter, median_filter, minimum_filter

    values = unit_image(image)
    _check_window(most)
    filtered = np.array(values)
    undecided = np.ones(values.shape, bool)  # no window was large enough so far
    for size in range(3, most + 1, 2):
        window = _window(values, size)
        low = minimum_filter(values, size=window, mode="reflect")
        high = maximum_filter(values, size=window, mode="reflect")
        medians = median_filter(values, size=window, mode="reflect")
        decided = undecided & (low < medians) & (medians < high)
        impulse = decided & ((values <= low) | (values >= high))
        filtered[impulse] = medians[impulse]
        undecided &= ~decided
    filtered[undecided] = medians[undecided]
    return filtered


def inpaint_extremes(image: ArrayLike) -> Array:
    """Replace every value of exactly 0 or 1 by biharmonic inpainting.

    It assumes that these values, and no others, are corrupted.
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
        extreme = (channel == 0) | (channel == 1)
        filled[..., c] = (
            channel
            if extreme.all() or not extreme.any()
            else inpaint_biharmonic(channel, extreme)
        )
    clipped: Array = np.clip(filled.reshape(values.shape), 0, 1)
    return clipped


def _window(values: Array, size: int) -> tuple[int, ...]:
    """Return the shape of a window: square over the pixels, one channel wide."""
    return (size, size) + (1,) * (values.ndim - 2)


def _check_window(size: int) -> None:
    if size < 3 or size % 2 == 0:
        raise InputError(f"A window needs an odd size of 3 or more, got {size!r}.")

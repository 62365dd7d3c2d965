"""Images as arrays: read from a file, checked at the door, scored against a truth."""

import math
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discrepant.errors import InputError
from discrepant.linalg import Array

MOST_CHANNELS = 32
MARGIN = 8  # pixels left out of the interior's score


@dataclass(frozen=True, eq=False)
class Picture:
    """What a file holds: values in [0, 1], and what is needed to write them back.

    ``alpha`` is the transparency, which is kept as it is; ``dtype`` is the depth.
    """

    values: Array
    alpha: np.ndarray | None
    dtype: np.dtype

    def restored(self, values: Array) -> np.ndarray:
        """Return values in the depth of the file, with its transparency."""
        if self.dtype.kind != "f":
            most = np.iinfo(self.dtype).max
            values = np.round(np.clip(values, 0, 1) * most)
        values = values.astype(self.dtype)
        if self.alpha is None:
            return values
        return np.dstack([values, self.alpha])


def read_image(path: Path) -> Picture:
    """Read an image file: 8- or 16-bit, float, grey, colour, palette, with alpha."""
    if not path.is_file():
        raise InputError(f"{path} is not a file.")
    try:
        raw = _decoded(path)
    except ModuleNotFoundError:
        raise InputError(
            "Image files need scikit-image: pip install 'discrepant[restore]'."
        ) from None
    except Exception as error:  # a decoder may raise anything on a broken file
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"{path} cannot be read as an image: {reason[0].rstrip('.')}."
        ) from None
    if raw.ndim not in (2, 3) or raw.size == 0:
        raise InputError(f"{path} holds no single image: its shape is {raw.shape}.")
    alpha = None
    if raw.ndim == 3 and raw.shape[2] in (2, 4) and path.suffix.lower() == ".png":
        raw, alpha = raw[..., :-1], raw[..., -1]
        raw = raw[..., 0] if raw.shape[2] == 1 else raw
    if raw.dtype.kind == "b":
        raw = raw.astype(np.uint8) * 255
    return Picture(checked_image(raw), alpha, raw.dtype)


def _decoded(path: Path) -> np.ndarray:
    """Decode a file; Pillow and tifffile come with scikit-image."""
    content = BytesIO(path.read_bytes())
    if path.suffix.lower() in (".tif", ".tiff"):
        from tifffile import imread

        return np.asarray(imread(content))
    from PIL import Image

    with Image.open(content) as file:
        if file.mode in ("P", "PA"):
            mode = "RGBA" if "transparency" in file.info else "RGB"
            return np.asarray(file.convert(mode))
        if file.mode in ("CMYK", "YCbCr", "LAB", "HSV"):
            return np.asarray(file.convert("RGB"))
        decoded = np.asarray(file)
    return decoded.astype(np.uint16) if decoded.dtype.kind == "i" else decoded


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

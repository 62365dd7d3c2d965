"""Read and write PNG, JPEG, TIFF, WebP and NPY files with their metadata."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from discrepant.core.errors import InputError, missing_extra
from discrepant.core.linalg import Array
from discrepant.core.memory import array_on_file
from discrepant.core.validation import error_text
from discrepant.image.arrays import MAX_CHANNELS, has_transparency
from discrepant.image.files.image_file import ImageFile, upright
from discrepant.image.files.pillow import is_deep, read_pillow, write_pillow
from discrepant.image.files.safe_reading import (
    MAX_UNMAPPED_BYTES,
    check_restore_memory,
)
from discrepant.image.files.tiff import read_tiff, write_tiff

FORMATS = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
    ".npy": "NPY",
}
# Numbers of channels that a format can hold without transparency.
_OPAQUE_CHANNELS = {"PNG": (1, 3), "JPEG": (1, 3), "WEBP": (1, 3)}
# Numbers of channels that a format can hold, the last of which is transparency.
_TRANSPARENT_CHANNELS = {"PNG": (2, 4), "JPEG": (), "WEBP": (4,)}
# Pixels that a side may have.
_LONGEST_SIDE = {"PNG": 2**31 - 1, "JPEG": 65_500, "WEBP": 16_383}
_NEEDED = "This needs Pillow, tifffile and imagecodecs"


def is_image(path: Path) -> bool:
    """Return whether the file's ending is that of an image format."""
    return path.suffix.lower() in FORMATS


def read(path: Path, *, mapped: bool = False) -> ImageFile:
    """Read an image file; raise an InputError of one sentence if that fails.

    With ``mapped``, the values of a large NPY or TIFF file are memory-mapped, as are
    always those of a large TIFF whose metadata declare its pages as frames.
    """
    kind = _format(path)
    if not path.is_file():
        raise InputError(f"{path} is not a file.")
    try:
        if kind == "NPY":
            image = _read_npy(path, mapped)
        elif kind == "TIFF":
            image = read_tiff(path, mapped)
        else:
            image = read_pillow(path, kind)
    except InputError:
        raise
    except MemoryError:
        raise InputError(
            f"{path} cannot be read as {kind}: it is too large for memory, or damaged."
        ) from None
    except ModuleNotFoundError:
        raise missing_extra(_NEEDED, "restore") from None
    except Exception as error:  # readers raise anything on a broken file
        raise InputError(
            f"{path} cannot be read as {kind}: {error_text(error)}."
        ) from None
    orientation = image.orientation if image.orientation in range(1, 9) else 1
    values = _in_native_byte_order(image.values)
    return replace(image, values=values, orientation=orientation)


def _in_native_byte_order(values: Array) -> Array:
    """Return values in the machine's byte order; memory-mapped ones stay so."""
    native = values.dtype.newbyteorder("=")
    if values.dtype == native or not isinstance(values, np.memmap):
        return values.astype(native, copy=False)
    out = array_on_file(values.shape, native)
    for page, out_page in zip(values, out, strict=True):
        out_page[...] = page
    return out


def check_fits(path: Path, image: ImageFile) -> None:
    """Raise an InputError unless the format of ``path`` can hold the image."""
    kind = _format(path)
    _check_installed(kind, image)
    dtype, channels = image.values.dtype, image.channels
    if kind == "TIFF" and dtype.itemsize > 8:
        raise InputError(f"{path.name}: TIFF cannot hold {dtype} values; use .npy.")
    if kind in ("NPY", "TIFF"):
        return
    if image.page_axes:
        raise InputError(f"{path.name}: {kind} cannot hold several pages; use .tif.")
    allowed = _TRANSPARENT_CHANNELS if image.transparent else _OPAQUE_CHANNELS
    if channels not in allowed[kind]:
        note = ", one of them transparency" if image.transparent else ""
        raise InputError(
            f"{path.name}: {kind} cannot hold {channels} channels{note}; use .tif."
        )
    deep_png = dtype == np.uint16 and kind == "PNG"
    if not (dtype in (np.uint8, np.bool_) or deep_png):
        raise InputError(f"{path.name}: {kind} cannot hold {dtype} values; use .tif.")
    side = max(image.values.shape[axis] for axis in image.plane)
    if side > _LONGEST_SIDE[kind]:
        raise InputError(
            f"{path.name}: {kind} cannot hold a side of {side} pixels; use .tif."
        )


def write(path: Path, image: ImageFile, values: Array) -> None:
    """Write values with the metadata of an image file, as far as the format allows."""
    check_fits(path, image)
    kind = _format(path)
    try:
        if kind == "NPY":
            np.save(path, upright(values, image.orientation, image.plane))
        elif kind == "TIFF":
            write_tiff(path, image, values)
        else:
            write_pillow(path, kind, image, values)
    except (InputError, MemoryError, OSError):
        raise
    except Exception as error:  # writers raise anything on unusual metadata
        raise InputError(
            f"{path.name} cannot be written as {kind}: {error_text(error)}."
        ) from None


def _format(path: Path) -> str:
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise InputError(
            f"{path.name}: the ending must be one of {', '.join(FORMATS)}."
        ) from None


def _check_installed(kind: str, image: ImageFile) -> None:
    needed = {"NPY": [], "TIFF": ["tifffile"]}.get(kind, ["PIL"])
    if kind == "PNG" and is_deep(image):
        needed = ["PIL", "imagecodecs"]
    if any(find_spec(module) is None for module in needed):
        raise missing_extra(_NEEDED, "restore")


def _read_npy(path: Path, mapped: bool) -> ImageFile:
    stored = np.load(path, mmap_mode="r", allow_pickle=False)
    if stored.ndim not in (2, 3):
        raise InputError(
            f"{path} holds an array of shape {stored.shape}, not an image."
        )
    axis = _channel_axis(stored.shape)
    pages = (0,) if stored.ndim == 3 and axis is None else ()
    n_page_values = stored.size // (len(stored) or 1) if pages else stored.size
    if mapped and stored.nbytes > MAX_UNMAPPED_BYTES:
        values: Array = stored
    else:
        check_restore_memory(path, stored.size, n_page_values, stored.dtype.itemsize)
        values = np.array(stored)
    return ImageFile(values, pages, axis, "NPY", has_transparency(values, axis))


def _channel_axis(shape: tuple[int, ...]) -> int | None:
    """Return the channel axis: the last or first axis if it is short and shortest."""
    for axis in (2, 0) if len(shape) == 3 else ():
        if shape[axis] == min(shape) and shape[axis] <= MAX_CHANNELS:
            return axis
    return None

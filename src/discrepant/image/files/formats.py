"""Image files: PNG, JPEG, TIFF, WebP and NPY, read and written with what they carry."""

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
from discrepant.image.files.memory import SMALL, check_room
from discrepant.image.files.pillow import is_deep, read_pillow, write_pillow
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
# How many channels a format can hold, without transparency and with it, and how many
# pixels a side may have.
_OPAQUE = {"PNG": (1, 3), "JPEG": (1, 3), "WEBP": (1, 3)}
_TRANSPARENT = {"PNG": (2, 4), "JPEG": (), "WEBP": (4,)}
_LONGEST_SIDE = {"PNG": 2**31 - 1, "JPEG": 65_500, "WEBP": 16_383}
_NEEDED = "This needs Pillow, tifffile and imagecodecs"


def is_image(path: Path) -> bool:
    """Return whether the file's ending is that of an image."""
    return path.suffix.lower() in FORMATS


def read(path: Path, *, mapped: bool = False) -> ImageFile:
    """Read an image file; if that fails, one sentence says why.

    With ``mapped``, the values of a large NPY or TIFF file stay in a file, as do those
    of a TIFF that says itself that its pages are frames.
    """
    kind = _format(path)
    if not path.is_file():
        raise InputError(f"{path} is not a file.")
    try:
        if kind == "NPY":
            picture = _read_npy(path, mapped)
        elif kind == "TIFF":
            picture = read_tiff(path, mapped)
        else:
            picture = read_pillow(path, kind)
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
    turned = picture.orientation if picture.orientation in range(1, 9) else 1
    return replace(picture, values=_native(picture.values), orientation=turned)


def _native(values: Array) -> Array:
    """Return values in the machine's order of bytes; on file if they are so."""
    native = values.dtype.newbyteorder("=")
    if values.dtype == native or not isinstance(values, np.memmap):
        return values.astype(native, copy=False)
    out = array_on_file(values.shape, native)
    for page, to in zip(values, out, strict=True):
        to[...] = page
    return out


def check_fits(path: Path, picture: ImageFile) -> None:
    """Raise unless the format of this name can hold what the picture holds."""
    kind = _format(path)
    _check_installed(kind, picture)
    dtype, channels = picture.values.dtype, picture.channels
    if kind == "TIFF" and dtype.itemsize > 8:
        raise InputError(f"{path.name}: TIFF cannot hold {dtype} values; use .npy.")
    if kind in ("NPY", "TIFF"):
        return
    if picture.page_axes:
        raise InputError(f"{path.name}: {kind} cannot hold several pages; use .tif.")
    if channels not in (_TRANSPARENT if picture.transparent else _OPAQUE)[kind]:
        also = ", one of them transparency" if picture.transparent else ""
        raise InputError(
            f"{path.name}: {kind} cannot hold {channels} channels{also}; use .tif."
        )
    wide = dtype == np.uint16 and kind == "PNG"
    if not (dtype in (np.uint8, np.bool_) or wide):
        raise InputError(f"{path.name}: {kind} cannot hold {dtype} values; use .tif.")
    side = max(picture.values.shape[axis] for axis in picture.plane)
    if side > _LONGEST_SIDE[kind]:
        raise InputError(
            f"{path.name}: {kind} cannot hold a side of {side} pixels; use .tif."
        )


def write(path: Path, picture: ImageFile, values: Array) -> None:
    """Write values in place of the picture's, with what metadata the format holds."""
    check_fits(path, picture)
    kind = _format(path)
    try:
        if kind == "NPY":
            np.save(path, upright(values, picture.orientation, picture.plane))
        elif kind == "TIFF":
            write_tiff(path, picture, values)
        else:
            write_pillow(path, kind, picture, values)
    except (InputError, MemoryError, OSError):
        raise
    except Exception as error:  # writers raise anything on odd metadata
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


def _check_installed(kind: str, picture: ImageFile) -> None:
    needed = {"NPY": [], "TIFF": ["tifffile"]}.get(kind, ["PIL"])
    if kind == "PNG" and is_deep(picture):
        needed = ["PIL", "imagecodecs"]
    if any(find_spec(module) is None for module in needed):
        raise missing_extra(_NEEDED, "restore")


def _read_npy(path: Path, mapped: bool) -> ImageFile:
    there = np.load(path, mmap_mode="r", allow_pickle=False)
    if there.ndim not in (2, 3):
        raise InputError(f"{path} holds an array of shape {there.shape}, no image.")
    axis = _channel_axis(there.shape)
    pages = (0,) if there.ndim == 3 and axis is None else ()
    page = there.size // (len(there) or 1) if pages else there.size
    if mapped and there.nbytes > SMALL:
        values: Array = there
    else:
        check_room(path, there.size, page, there.dtype.itemsize)
        values = np.array(there)
    return ImageFile(values, pages, axis, "NPY", has_transparency(values, axis))


def _channel_axis(shape: tuple[int, ...]) -> int | None:
    """Return the axis of channels: last or first, if short and the shortest."""
    for axis in (2, 0) if len(shape) == 3 else ():
        if shape[axis] == min(shape) and shape[axis] <= MAX_CHANNELS:
            return axis
    return None

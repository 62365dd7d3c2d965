"""PNG, JPEG and WebP files, by Pillow; deep PNG by imagecodecs."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.memory import MAX_DEFLATE_RATIO, check_declared_size
from discrepant.image.files.captured_log import listening
from discrepant.image.files.image_file import ImageFile
from discrepant.image.files.memory import check_room

# Pillow's names: modes without colours, all modes that are read, and the entries of
# ``info`` that are handed on.
GREY = {"1", "L", "I;16", "I;16B", "I"}
MODES = GREY | {"LA", "P", "PA", "RGB", "RGBA"}
CARRIED = ("icc_profile", "exif", "dpi", "xmp", "comment")
# Numbers and marks of the EXIF and PNG standards.
ORIENTATION = 274
# Values that one byte can stand for: of JPEG, 18 blocks of at least a bit each hold up
# to 32×32 pixels of three channels.
MOST_OF_A_BYTE = {"PNG": MAX_DEFLATE_RATIO, "JPEG": 1400}
EXIF_MARK = b"Exif\0\0"
PNG_MARK = b"\x89PNG\r\n\x1a\n"


def read_pillow(path: Path, kind: str) -> ImageFile:
    """Read a still picture, its palette and transparent colour put into channels."""
    from PIL import Image

    with _of_any_size(), Image.open(path) as file:
        _check_supported(path, kind, file)
        size = file.width * file.height * len(file.getbands())
        bits = min(_png_depth(path), 8) if kind == "PNG" else 8
        if kind in MOST_OF_A_BYTE:  # a byte of WebP may stand for a whole picture
            check_declared_size(path, size * bits // 8, MOST_OF_A_BYTE[kind])
        check_room(path, size, size, 2)
        file.load()
        # Of PNG Pillow reads colours of 16 bits as 8 bits, and ignores a grey that is
        # declared transparent; imagecodecs reads both.
        keyed = "transparency" in file.info
        coded = kind == "PNG" and file.mode not in ("P", "PA")
        if coded and (keyed or (file.mode not in GREY and _png_depth(path) == 16)):
            values = _decoded_png(path)
        elif file.mode in ("P", "PA"):
            clear = keyed or file.mode == "PA"
            values = np.array(file.convert("RGBA" if clear else "RGB"))
        else:
            values = np.array(file)
        extra = {name: file.info[name] for name in CARRIED if file.info.get(name)}
        if kind == "PNG":
            extra["text"] = dict(getattr(file, "text", {}))
        if "exif" in extra:  # WebP and PNG leave out the mark that JPEG wants
            extra["exif"] = EXIF_MARK + extra["exif"].removeprefix(EXIF_MARK)
        turned = _orientation(file)
    if values.dtype == np.int32:
        values = values.astype(np.uint16)
    axis = None if values.ndim == 2 else 2
    transparent = axis is not None and values.shape[2] in (2, 4)
    return ImageFile(values, (), axis, kind, transparent, turned, extra)


def write_pillow(path: Path, kind: str, picture: ImageFile, values: Array) -> None:
    """Write a still picture, without loss where the format allows it."""
    from PIL import Image

    if picture.channel_axis is not None:
        values = np.moveaxis(values, picture.channel_axis, -1)
        values = values[..., 0] if values.shape[2] == 1 else values
    if values.dtype == bool and (kind != "PNG" or values.ndim == 3):
        values = values.astype(np.uint8) * np.uint8(255)
    values = np.ascontiguousarray(values)
    options = _options(kind, picture)
    if values.dtype == np.uint16 and values.ndim == 3:
        path.write_bytes(_deep_png(values, options))
    else:
        Image.fromarray(values).save(path, kind, **options)


def is_deep(picture: ImageFile) -> bool:
    """Return whether it takes imagecodecs to write this as PNG: 16-bit colours."""
    return picture.values.dtype == np.uint16 and picture.channels > 1


def _check_supported(path: Path, kind: str, file: Any) -> None:
    if file.format != kind and not (kind == "JPEG" and file.format == "MPO"):
        raise InputError(f"{path} is not a {kind} file but {file.format}.")
    if file.mode not in MODES:
        raise InputError(f"{path}: images of mode {file.mode} are not supported.")
    frames = getattr(file, "n_frames", 1)
    if file.format == "MPO" and frames > 1:  # a photograph, and its previews or depths
        warnings.warn(
            f"{path} holds {frames} pictures; the first alone is restored.",
            stacklevel=2,
        )
    elif frames > 1:
        raise InputError(
            f"{path} holds {frames} frames, not one picture; save them as TIFF."
        )


def _orientation(file: Any) -> int:
    try:
        return int(file.getexif().get(ORIENTATION, 1))
    except Exception:  # broken EXIF is no reason to refuse a picture
        return 1


def _options(kind: str, picture: ImageFile) -> dict[str, Any]:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    extra = picture.extra
    options = {name: extra[name] for name in CARRIED if name in extra}
    if "iccprofile" in extra:  # of a TIFF file
        options["icc_profile"] = extra["iccprofile"]
    if picture.orientation != 1 and "exif" not in options:
        exif = Image.Exif()
        exif[ORIENTATION] = picture.orientation
        options["exif"] = exif.tobytes()
    if kind == "PNG" and extra.get("text"):
        info = PngInfo()
        for key, text in extra["text"].items():
            info.add_text(key, text)
        options["pnginfo"] = info
    elif kind == "JPEG":
        # Pillow's highest useful quality, and colours at the resolution of the greys.
        options |= {"quality": 95, "subsampling": 0}
    elif kind == "WEBP":
        options.pop("dpi", None)
        options |= {"lossless": True, "exact": True}  # also where nothing shows
    return options


@contextmanager
def _of_any_size() -> Iterator[None]:
    """Lift Pillow's limit on size: `check_room` refuses what does not fit."""
    from PIL import Image

    limit = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def _decoded_png(path: Path) -> Array:
    """Read a PNG file by imagecodecs, which only logs that pixels are damaged."""
    import imagecodecs

    with listening("imagecodecs", logging.WARNING) as heard:
        values: Array = imagecodecs.png_decode(path.read_bytes())
    damage = next((sentence for sentence in heard if "IDAT" in sentence), None)
    if damage is not None:
        raise ValueError(damage)
    return values


def _png_depth(path: Path) -> int:
    with path.open("rb") as file:
        return file.read(25)[24]


def _deep_png(values: Array, options: dict[str, Any]) -> bytes:
    """Return 16-bit colours as PNG, with the metadata that Pillow makes of options.

    imagecodecs writes the pixels, Pillow the metadata (to a picture of one pixel), and
    the chunks of both are put together.
    """
    import imagecodecs
    from PIL import Image

    small = BytesIO()
    Image.new("RGB", (1, 1)).save(small, "PNG", **options)
    head, *rest = _png_chunks(bytes(imagecodecs.png_encode(values)))
    critical = (b"IHDR", b"IDAT", b"IEND")
    kept = [c for c in _png_chunks(small.getvalue()) if c[4:8] not in critical]
    return PNG_MARK + b"".join([head, *kept, *rest])


def _png_chunks(content: bytes) -> Iterator[bytes]:
    """Yield the chunks of a PNG file, each with its length, name and checksum."""
    place = len(PNG_MARK)
    while place < len(content):
        end = place + 12 + int.from_bytes(content[place : place + 4], "big")
        yield content[place:end]
        place = end

"""Read and write PNG, JPEG and WebP by Pillow, and 16-bit PNG by imagecodecs."""

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
from discrepant.image.files.image_file import ImageFile
from discrepant.image.files.safe_reading import captured_log, check_restore_memory

# Pillow's modes of grey images without transparency.
GREY_MODES = {"1", "L", "I;16", "I;16B", "I"}
# Pillow's modes that are read.
SUPPORTED_MODES = GREY_MODES | {"LA", "P", "PA", "RGB", "RGBA"}
# Entries of Pillow's ``info`` that are written again.
KEPT_METADATA = ("icc_profile", "exif", "dpi", "xmp", "comment")
# Number of the EXIF tag for the orientation.
ORIENTATION = 274
# Bytes of values that one byte of a file can decode to, at most. In JPEG, 18 blocks of
# at least one bit each encode up to 32×32 pixels of three channels.
MAX_EXPANSION = {"PNG": MAX_DEFLATE_RATIO, "JPEG": 1400}
# First bytes of EXIF data in a JPEG file.
EXIF_HEADER = b"Exif\0\0"
# First bytes of a PNG file.
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def read_pillow(path: Path, kind: str) -> ImageFile:
    """Read a single image; a palette or transparent colour becomes channels."""
    from PIL import Image

    with _without_size_limit(), Image.open(path) as file:
        _check_supported(path, kind, file)
        size = file.width * file.height * len(file.getbands())
        bits = min(_png_depth(path), 8) if kind == "PNG" else 8
        if kind in MAX_EXPANSION:  # a byte of WebP may encode a whole image
            check_declared_size(path, size * bits // 8, MAX_EXPANSION[kind])
        check_restore_memory(path, size, size, 2)
        file.load()
        # Pillow reduces 16-bit colours in PNG to 8 bits, and ignores a grey value that
        # is declared transparent; imagecodecs reads both.
        has_transparent_colour = "transparency" in file.info
        direct = kind == "PNG" and file.mode not in ("P", "PA")
        coloured = file.mode not in GREY_MODES
        if direct and (has_transparent_colour or (coloured and _png_depth(path) == 16)):
            values = _decode_png(path)
        elif file.mode in ("P", "PA"):
            transparent = has_transparent_colour or file.mode == "PA"
            values = np.array(file.convert("RGBA" if transparent else "RGB"))
        else:
            values = np.array(file)
        extra = {name: file.info[name] for name in KEPT_METADATA if file.info.get(name)}
        if kind == "PNG":
            extra["text"] = dict(getattr(file, "text", {}))
        if "exif" in extra:  # WebP and PNG omit the header that JPEG needs
            extra["exif"] = EXIF_HEADER + extra["exif"].removeprefix(EXIF_HEADER)
        orientation = _orientation(file)
    if values.dtype == np.int32:
        values = values.astype(np.uint16)
    axis = None if values.ndim == 2 else 2
    transparent = axis is not None and values.shape[2] in (2, 4)
    return ImageFile(values, (), axis, kind, transparent, orientation, extra)


def write_pillow(path: Path, kind: str, image: ImageFile, values: Array) -> None:
    """Write a single image, without loss where the format allows it."""
    from PIL import Image

    if image.channel_axis is not None:
        values = np.moveaxis(values, image.channel_axis, -1)
        values = values[..., 0] if values.shape[2] == 1 else values
    if values.dtype == bool and (kind != "PNG" or values.ndim == 3):
        values = values.astype(np.uint8) * np.uint8(255)
    values = np.ascontiguousarray(values)
    options = _save_options(kind, image)
    if values.dtype == np.uint16 and values.ndim == 3:
        path.write_bytes(_encode_deep_png(values, options))
    else:
        Image.fromarray(values).save(path, kind, **options)


def is_deep(image: ImageFile) -> bool:
    """Return whether an image has 16-bit colours, which Pillow cannot write as PNG."""
    return image.values.dtype == np.uint16 and image.channels > 1


def _check_supported(path: Path, kind: str, file: Any) -> None:
    if file.format != kind and not (kind == "JPEG" and file.format == "MPO"):
        raise InputError(f"{path} is not a {kind} file but {file.format}.")
    if file.mode not in SUPPORTED_MODES:
        raise InputError(f"{path}: images of mode {file.mode} are not supported.")
    frames = getattr(file, "n_frames", 1)
    if (
        file.format == "MPO" and frames > 1
    ):  # a photograph and its previews or depth maps
        warnings.warn(
            f"{path} holds {frames} images; only the first is restored.",
            stacklevel=2,
        )
    elif frames > 1:
        raise InputError(
            f"{path} holds {frames} frames, not one image; save them as TIFF."
        )


def _orientation(file: Any) -> int:
    try:
        return int(file.getexif().get(ORIENTATION, 1))
    except Exception:  # broken EXIF is no reason to refuse an image
        return 1


def _save_options(kind: str, image: ImageFile) -> dict[str, Any]:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    extra = image.extra
    options = {name: extra[name] for name in KEPT_METADATA if name in extra}
    if "iccprofile" in extra:  # from a TIFF file
        options["icc_profile"] = extra["iccprofile"]
    if image.orientation != 1 and "exif" not in options:
        exif = Image.Exif()
        exif[ORIENTATION] = image.orientation
        options["exif"] = exif.tobytes()
    if kind == "PNG" and extra.get("text"):
        info = PngInfo()
        for key, text in extra["text"].items():
            info.add_text(key, text)
        options["pnginfo"] = info
    elif kind == "JPEG":
        # Pillow's highest useful quality, and chroma at the resolution of luma.
        options |= {"quality": 95, "subsampling": 0}
    elif kind == "WEBP":
        options.pop("dpi", None)
        # "exact" keeps the colours of fully transparent pixels.
        options |= {"lossless": True, "exact": True}
    return options


@contextmanager
def _without_size_limit() -> Iterator[None]:
    """Lift Pillow's limit on size: `check_restore_memory` checks it instead."""
    from PIL import Image

    limit = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def _decode_png(path: Path) -> Array:
    """Read a PNG file by imagecodecs, which reports damaged pixels only in its log."""
    import imagecodecs

    with captured_log("imagecodecs", logging.WARNING) as messages:
        values: Array = imagecodecs.png_decode(path.read_bytes())
    damage = next((message for message in messages if "IDAT" in message), None)
    if damage is not None:
        raise ValueError(damage)
    return values


def _png_depth(path: Path) -> int:
    with path.open("rb") as file:
        return file.read(25)[24]


def _encode_deep_png(values: Array, options: dict[str, Any]) -> bytes:
    """Return 16-bit colours as PNG, with the metadata of Pillow's options.

    imagecodecs encodes the pixels, Pillow the metadata (of an image of one pixel), and
    the chunks of both are joined.
    """
    import imagecodecs
    from PIL import Image

    one_pixel = BytesIO()
    Image.new("RGB", (1, 1)).save(one_pixel, "PNG", **options)
    header, *rest = _png_chunks(bytes(imagecodecs.png_encode(values)))
    critical = (b"IHDR", b"IDAT", b"IEND")
    metadata = [
        chunk
        for chunk in _png_chunks(one_pixel.getvalue())
        if chunk[4:8] not in critical
    ]
    return PNG_SIGNATURE + b"".join([header, *metadata, *rest])


def _png_chunks(content: bytes) -> Iterator[bytes]:
    """Yield the chunks of a PNG file, each with its length, name and checksum."""
    start = len(PNG_SIGNATURE)
    while start < len(content):
        end = start + 12 + int.from_bytes(content[start : start + 4], "big")
        yield content[start:end]
        start = end

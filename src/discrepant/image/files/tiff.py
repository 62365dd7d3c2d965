"""Read and write TIFF files with their pages, channels, colours and tags."""

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.memory import array_on_file
from discrepant.image.files.image_file import ImageFile, declares_frames
from discrepant.image.files.safe_reading import (
    MAX_UNMAPPED_BYTES,
    captured_log,
    check_restore_memory,
)

# Photometric interpretations of the TIFF standard.
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, YCBCR = 0, 1, 2, 3, 6
# Planar configuration in which the samples of a pixel are adjacent.
CONTIGUOUS = 1
# Meanings of an extra sample: unspecified, and two kinds of transparency.
UNSPECIFIED, PREMULTIPLIED, TRANSPARENCY = 0, 1, 2
# Number of the tag for the orientation, and of the data type of its value.
ORIENTATION, SHORT = 274, 3
# Compressions that are decoded to RGB.
JPEG = (6, 7)
# Compression written instead of a lossy one.
DEFLATE = 8
# Lossless compressions that can be written; any other becomes Deflate.
LOSSLESS = (1, 5, DEFLATE, 32773, 32946, 34925, 50000)
# Tags that are written as they were read: maker and author, XMP and IPTC, GeoTIFF,
# GDAL.
KEPT_TAGS = [271, 272, 306, 315, 33432, 700, 33723]
KEPT_TAGS += [33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113]
# Entries of ImageJ's and tifffile's metadata that follow from the values, and that
# tifffile writes itself.
DERIVED_METADATA = {"axes", "shape", "ImageJ", "images", "hyperstack"}
DERIVED_METADATA |= {"channels", "slices", "frames", "truncated"}
# Arguments of tifffile's ``write`` that are taken from the file that was read.
WRITE_OPTIONS = [
    "photometric",
    "planarconfig",
    "extrasamples",
    "compression",
    "predictor",
]
WRITE_OPTIONS += ["resolution", "resolutionunit", "iccprofile", "tile", "description"]
WRITE_OPTIONS += ["bitspersample"]
# Bytes of values above which a BigTIFF is written: a classic file addresses 2³² bytes,
# of which tifffile reserves 2²⁵ for tags.
MAX_CLASSIC_BYTES = 2**32 - 2**25


def read_tiff(path: Path, mapped: bool = False) -> ImageFile:
    """Read the pages of a TIFF file, which must have one size and kind.

    Reduced copies of the image, as in a pyramid, are left out. If the file is truncated
    or damaged, its readable pages are read and a warning counts them. With ``mapped``
    (see `formats.read`), the values of a large file are memory-mapped.
    """
    import tifffile

    with captured_log("tifffile") as messages, tifffile.TiffFile(path) as file:
        len(file.pages)  # follows the chain of pages, which may be broken or circular
        lost = _lost_pages(messages)
        series = _readable_pages(path, file) if lost else _only_series(path, file)
        try:
            axes, page_axes, channel_axis = _axes_of(path, series)
            values = _read_values(path, series, axes, page_axes, mapped)
            lost = lost or _lost_pages(messages)
        except (InputError, MemoryError):
            raise
        except Exception:  # readers raise anything on a broken page
            if lost or len(file.pages) == 1:
                raise
            lost, series = True, _readable_pages(path, file)
            axes, page_axes, channel_axis = _axes_of(path, series)
            values = _read_values(path, series, axes, page_axes, mapped)
        page = series.keyframe
        extra = _writer_metadata(file, series)
        orientation_tag = page.tags.get(ORIENTATION)
        colour_map = page.colormap
    if lost:
        count = math.prod(values.shape[k] for k in page_axes)
        warnings.warn(
            f"{path.name} is truncated or damaged: {count} of its pages can be read, "
            "and the others are lost.",
            stacklevel=3,
        )
    elif messages:
        warnings.warn(
            f"{path.name}: some of its tags cannot be read and are lost.", stacklevel=3
        )
    transparent = False
    if page.photometric == PALETTE:
        values = _apply_colour_map(values, colour_map)
        extra["photometric"] = RGB
    elif "S" in axes:
        samples = tuple(int(sample) for sample in page.extrasamples)
        last = samples[-1] if samples else UNSPECIFIED
        transparent = last in (PREMULTIPLIED, TRANSPARENCY)
        extra |= {"planarconfig": int(page.planarconfig), "extrasamples": samples}
    if page.photometric == WHITE_IS_ZERO:
        values = _invert_greys(values, extra.get("bitspersample"))
    extra["axes"] = axes
    return ImageFile(
        values,
        page_axes,
        channel_axis,
        "TIFF",
        transparent,
        1 if orientation_tag is None else int(orientation_tag.value),
        extra,
        incomplete=lost,
    )


def write_tiff(path: Path, image: ImageFile, values: Array) -> None:
    """Write values as TIFF, with the layout and tags of a TIFF that was read."""
    import tifffile

    extra = image.extra if image.format == "TIFF" else {}
    if not extra and values.shape[-1] == 1 and image.channel_axis == values.ndim - 1:
        values = values[..., 0]
        image = replace(image, values=values, channel_axis=None)
    layout = extra or _new_layout(image)
    bits = extra.get("bitspersample")
    if layout["photometric"] == WHITE_IS_ZERO:
        values = _invert_greys(values, bits)
    if bits:
        values = np.minimum(values, values.dtype.type(2**bits - 1))
    values = np.ascontiguousarray(values)
    options = {name: layout[name] for name in WRITE_OPTIONS if name in layout}
    options |= {
        "software": extra.get("software", False),
        "extratags": _extra_tags(image),
    }
    metadata = {**extra.get("metadata", {}), "axes": layout["axes"]}
    imagej = extra.get("kind") == "imagej" and _imagej_supports(image)
    with tifffile.TiffWriter(
        path,
        bigtiff=values.nbytes > MAX_CLASSIC_BYTES and not imagej,
        byteorder=extra.get("byteorder"),
        imagej=imagej,
    ) as file:
        if "descriptions" not in extra:
            file.write(values, metadata=metadata, **options)
            return
        pages = values.reshape(-1, *values.shape[-extra["page_ndim"] :])
        for index, text in zip(extra["order"], extra["descriptions"], strict=True):
            options["description"] = text.encode() or None
            file.write(pages[index], metadata=None, **options)


def _lost_pages(messages: list[str]) -> bool:
    """Return whether tifffile reports a broken or circular chain of pages."""
    return any("TiffPages" in message for message in messages)


def _readable_pages(path: Path, file: Any) -> Any:
    """Return the readable pages of a damaged file with the first page's shape."""
    import tifffile

    first = file.pages[0]
    readable: list[Any] = []
    for page in file.pages:
        if page.shape != first.shape or page.dtype != first.dtype:
            continue
        n_values = (len(readable) + 1) * page.size
        check_restore_memory(path, n_values, page.size, page.dtype.itemsize)
        try:
            page.asarray()
        except Exception:  # readers raise anything on a broken page
            continue
        readable.append(page)
    if not readable:
        raise InputError(
            f"{path} is truncated or damaged: none of its pages can be read."
        )
    n_contiguous = _count_contiguous_pages(path, file) if readable == [first] else 0
    count = max(len(readable), n_contiguous)
    shape, axes = first.shape, first.axes
    if count > 1:
        shape, axes = (count, *shape), "I" + axes
    return tifffile.TiffPageSeries(readable, shape, first.dtype, axes, kind="whole")


def _count_contiguous_pages(path: Path, file: Any) -> int:
    """Return how many pages follow the first one without tags of their own.

    ImageJ and tifffile write the values of all pages in one piece, and declare their
    number in the first page.
    """
    first = file.pages[0]
    declared = 0
    if first.is_imagej:
        declared = int((file.imagej_metadata or {}).get("images", 1))
    elif first.is_shaped:
        declared = math.prod(file.shaped_metadata[0]["shape"]) // max(first.size, 1)
    if not first.is_contiguous or declared < 2:
        return 1
    n_bytes = path.stat().st_size - first.dataoffsets[0]
    return min(declared, int(n_bytes // first.nbytes))


def _axes_of(path: Path, series: Any) -> tuple[str, tuple[int, ...], int | None]:
    """Return the axis letters, the axes that count pages, and the channel axis."""
    page, axes = series.keyframe, series.axes
    _check_colours(path, page)
    if page.photometric == PALETTE:
        axes += "S"
    channel_axis = next((axes.index(a) for a in "SC" if a in axes), None)
    page_axes = tuple(
        k for k, a in enumerate(axes) if a not in "YX" and k != channel_axis
    )
    return axes, page_axes, channel_axis


def _read_values(
    path: Path, series: Any, axes: str, page_axes: tuple[int, ...], mapped: bool
) -> Array:
    """Return the values of all pages, memory-mapped if they are frames and many."""
    page, size = series.keyframe, math.prod(series.shape)
    as_stored = page.photometric not in (PALETTE, WHITE_IS_ZERO)
    are_frames = mapped or declares_frames(series.kind, axes, page_axes)
    large = size * series.dtype.itemsize > MAX_UNMAPPED_BYTES
    if page_axes and are_frames and as_stored and large:
        out = array_on_file(series.shape, series.dtype)
        series.asarray(out=out)
        return out
    size *= 3 if page.photometric == PALETTE else 1
    n_pages = math.prod(series.shape[k] for k in page_axes)
    page_size = size // max(n_pages, 1)
    check_restore_memory(path, size, page_size, series.dtype.itemsize)
    values: Array = series.asarray()
    return values


def _only_series(path: Path, file: Any) -> Any:
    """Return the one image series of a file; raise an InputError if it has several."""
    series = [s for s in file.series if not s.keyframe.is_reduced] or file.series
    if not series:
        raise InputError(f"{path} holds no image.")
    if len(series) > 1:
        raise InputError(
            f"{path} holds {len(series)} images of different sizes or kinds; save "
            "each as a file of its own."
        )
    if series[0].is_multifile or any(page is None for page in series[0].pages):
        raise InputError(
            f"{path} is one part of an image in several files; save it as one file."
        )
    if not {"Y", "X"} <= set(series[0].axes):
        raise InputError(
            f"{path} holds axes {series[0].axes}, which are not those of an image."
        )
    return series[0]


def _check_colours(path: Path, page: Any) -> None:
    decoded = page.photometric == YCBCR and page.compression in JPEG
    palette = page.photometric == PALETTE and page.samplesperpixel == 1
    plain = page.photometric in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB)
    if not (plain or palette or decoded):
        kind = getattr(page.photometric, "name", page.photometric)
        raise InputError(
            f"{path} holds colours of kind {kind}, which are not supported; save it "
            "as RGB."
        )


def _writer_metadata(file: Any, series: Any) -> dict[str, Any]:
    """Return the metadata and layout that `write_tiff` needs beside the values."""
    page = series.keyframe
    tags = page.tags
    extra: dict[str, Any] = {
        "kind": series.kind,
        "photometric": RGB if page.photometric == YCBCR else int(page.photometric),
        "byteorder": file.byteorder,
        "software": page.software.encode() or False,
        "tags": [(*tags[c].astuple()[:4], False) for c in KEPT_TAGS if c in tags],
    }
    if "XResolution" in tags and "YResolution" in tags:
        sides = ("XResolution", "YResolution")
        extra["resolution"] = tuple(tags[side].value for side in sides)
        if "ResolutionUnit" in tags:
            extra["resolutionunit"] = int(tags["ResolutionUnit"].value)
    if "InterColorProfile" in tags:
        extra["iccprofile"] = tags["InterColorProfile"].value
    extra |= _packing(series)
    metadata: dict[str, Any] = {}
    if series.kind == "imagej":
        stored = file.imagej_metadata or {}
        metadata = {k: v if k == "Info" else _to_ascii(v) for k, v in stored.items()}
    elif series.kind == "shaped":
        metadata = (file.shaped_metadata or ({},))[0]
        if "shape" not in page.description[:8]:  # a description beside tifffile's own
            extra["description"] = page.description.encode()
    elif series.kind in ("uniform", "generic", "ome"):
        # Each page has its own description: pages are written in the file's order.
        order = np.argsort([page.index for page in series.pages], kind="stable")
        extra["order"] = order.tolist()
        pages = [series.pages[k].aspage() for k in extra["order"]]
        extra["descriptions"] = [page.description for page in pages]
        extra["page_ndim"] = page.ndim + (page.photometric == PALETTE)
    extra["metadata"] = {k: v for k, v in metadata.items() if k not in DERIVED_METADATA}
    return extra


def _packing(series: Any) -> dict[str, Any]:
    """Return how the values are stored: tiles, compression, bits per sample.

    ImageJ's files use none of these.
    """
    page = series.keyframe
    if series.kind == "imagej":
        return {}
    tile = {"tile": page.tile} if page.is_tiled else {}
    n_bits = 8 * page.dtype.itemsize
    packed = series.dtype.kind == "u" and page.bitspersample < n_bits
    if packed and page.photometric != PALETTE:
        return {**tile, "bitspersample": page.bitspersample}
    if page.compression not in LOSSLESS:
        return {**tile, "compression": DEFLATE}
    compression = int(page.compression)
    return {**tile, "compression": compression, "predictor": int(page.predictor)}


def _to_ascii(value: Any) -> Any:
    """Return a text with other characters than ASCII escaped, as ImageJ does."""
    if not isinstance(value, str):
        return value
    return "".join(c if c.isascii() else f"\\u{ord(c):04X}" for c in value)


def _new_layout(image: ImageFile) -> dict[str, Any]:
    """Return the layout of values that were not read from a TIFF file."""
    axes = ["Q"] * image.values.ndim
    for axis, name in zip(image.plane, "YX", strict=True):
        axes[axis] = name
    layout: dict[str, Any] = {"photometric": BLACK_IS_ZERO}
    channel = image.channel_axis
    if channel is not None and channel == image.values.ndim - 1:
        colours = image.channels - image.transparent
        base = 3 if colours == 3 else 1
        samples = [UNSPECIFIED] * (colours - base) + [TRANSPARENCY] * image.transparent
        layout["photometric"] = RGB if base == 3 else BLACK_IS_ZERO
        layout |= {"planarconfig": CONTIGUOUS, "extrasamples": samples}
        axes[channel] = "S"
    elif channel is not None:
        axes[channel] = "C"
    if "icc_profile" in image.extra:
        layout["iccprofile"] = image.extra["icc_profile"]
    return {**layout, "axes": "".join(axes)}


def _invert_greys(values: Array, bits: int | None) -> Array:
    """Return integers with black and white exchanged; floats are unchanged."""
    if values.dtype.kind == "f":
        return values
    ones = values.dtype.type(2**bits - 1) if bits else None
    inverted: Array = np.invert(values) if ones is None else values ^ ones
    return inverted


def _apply_colour_map(indices: Array, colour_map: Array) -> Array:
    """Return the colours of palette indices, channels last.

    A colour map holds 16 bits; if all its colours are 8-bit ones scaled by 256 or 257,
    the two customs, 8 bits are returned.
    """
    high_byte = colour_map >> 8
    if ((colour_map == high_byte << 8) | (colour_map == high_byte * 257)).all():
        colour_map = high_byte.astype(np.uint8)
    return np.moveaxis(colour_map[:, indices], 0, -1)


def _extra_tags(image: ImageFile) -> list[tuple[Any, ...]]:
    """Return the tags that tifffile would not write itself."""
    tags = list(image.extra.get("tags", []))
    if image.orientation != 1:
        tags.append((ORIENTATION, SHORT, 1, image.orientation, False))
    return tags


def _imagej_supports(image: ImageFile) -> bool:
    """Return whether ImageJ can read values of this dtype."""
    colours = image.extra["photometric"] == RGB
    allowed = (np.uint8,) if colours else (np.uint8, np.uint16, np.float32)
    return image.values.dtype in allowed

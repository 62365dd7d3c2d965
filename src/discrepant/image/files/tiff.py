"""TIFF files: pages, channels, colours and tags, kept as they were."""

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.memory import array_on_file
from discrepant.image.files.captured_log import listening
from discrepant.image.files.image_file import ImageFile, declares_frames
from discrepant.image.files.memory import SMALL, check_room

# Numbers of the TIFF standard.
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, YCBCR = 0, 1, 2, 3, 6
CONTIGUOUS = 1
UNSTATED, PREMULTIPLIED, TRANSPARENCY = 0, 1, 2  # what an extra sample is
ORIENTATION, SHORT = 274, 3
JPEG = (6, 7)  # decoded to RGB
# Compressions that lose nothing and can be written; any other becomes Deflate.
DEFLATE = 8
LOSSLESS = (1, 5, DEFLATE, 32773, 32946, 34925, 50000)
# Tags handed on as they are: maker and author, XMP and IPTC, GeoTIFF, GDAL.
CARRIED = [271, 272, 306, 315, 33432, 700, 33723]
CARRIED += [33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113]
# Entries of ImageJ's and tifffile's metadata that follow from the values, and that
# tifffile writes by itself.
LAYOUT = {"axes", "shape", "ImageJ", "images", "hyperstack"}
LAYOUT |= {"channels", "slices", "frames", "truncated"}
# Arguments of tifffile's ``write``.
OPTIONS = ["photometric", "planarconfig", "extrasamples", "compression", "predictor"]
OPTIONS += ["resolution", "resolutionunit", "iccprofile", "tile", "description"]
OPTIONS += ["bitspersample"]
# Bytes of values from which on a BigTIFF is written: a classic file addresses 2³²
# bytes, and tifffile too leaves 2²⁵ of them for tags.
LARGE = 2**32 - 2**25


def read_tiff(path: Path, mapped: bool = False) -> ImageFile:
    """Read the pages of a file; they must be of one size and kind.

    Smaller copies of the picture, as in a pyramid, are left out. Of a file that is cut
    short or damaged the pages that are whole are read, and it is said what is lost.
    With ``mapped``, see `formats.read`, pages go to a file one by one.
    """
    import tifffile

    with listening("tifffile") as heard, tifffile.TiffFile(path) as file:
        len(file.pages)  # looks for all of them, of which some may follow in a circle
        lost = _lost_pages(heard)
        series = _whole(path, file) if lost else _only_series(path, file)
        try:
            axes, paged, channel = _layout_of(path, series)
            values = _values(path, series, axes, paged, mapped)
            lost = lost or _lost_pages(heard)
        except (InputError, MemoryError):
            raise
        except Exception:  # readers raise anything on a broken page
            if lost or len(file.pages) == 1:
                raise
            lost, series = True, _whole(path, file)
            axes, paged, channel = _layout_of(path, series)
            values = _values(path, series, axes, paged, mapped)
        page = series.keyframe
        extra = _extra(file, series)
        orientation = page.tags.get(ORIENTATION)
        colours = page.colormap
    if lost:
        count = math.prod(values.shape[k] for k in paged)
        warnings.warn(
            f"{path.name} is cut short or damaged: {count} of its pages can be read, "
            "and the others are lost.",
            stacklevel=3,
        )
    elif heard:
        warnings.warn(
            f"{path.name}: some of its tags cannot be read, and are lost.", stacklevel=3
        )
    transparent = False
    if page.photometric == PALETTE:
        values = _coloured(values, colours)
        extra["photometric"] = RGB
    elif "S" in axes:
        samples = tuple(int(sample) for sample in page.extrasamples)
        last = samples[-1] if samples else UNSTATED
        transparent = last in (PREMULTIPLIED, TRANSPARENCY)
        extra |= {"planarconfig": int(page.planarconfig), "extrasamples": samples}
    if page.photometric == WHITE_IS_ZERO:
        values = _inverted(values, extra.get("bitspersample"))
    extra["axes"] = axes
    turned = 1 if orientation is None else int(orientation.value)
    parts = (values, paged, channel, "TIFF", transparent, turned, extra)
    return ImageFile(*parts, incomplete=lost)


def write_tiff(path: Path, picture: ImageFile, values: Array) -> None:
    """Write a file of the kind that was read, or a plain one."""
    import tifffile

    extra = picture.extra if picture.format == "TIFF" else {}
    if not extra and values.shape[-1] == 1 and picture.channel_axis == values.ndim - 1:
        values = values[..., 0]
        picture = replace(picture, values=values, channel_axis=None)
    layout = extra or _layout(picture)
    bits = extra.get("bitspersample")
    if layout["photometric"] == WHITE_IS_ZERO:
        values = _inverted(values, bits)
    if bits:
        values = np.minimum(values, values.dtype.type(2**bits - 1))
    values = np.ascontiguousarray(values)
    options = {name: layout[name] for name in OPTIONS if name in layout}
    options |= {"software": extra.get("software", False), "extratags": _tags(picture)}
    metadata = {**extra.get("metadata", {}), "axes": layout["axes"]}
    imagej = extra.get("kind") == "imagej" and _suits_imagej(picture)
    with tifffile.TiffWriter(
        path,
        bigtiff=values.nbytes > LARGE and not imagej,
        byteorder=extra.get("byteorder"),
        imagej=imagej,
    ) as file:
        if "descriptions" not in extra:
            file.write(values, metadata=metadata, **options)
            return
        pages = values.reshape(-1, *values.shape[-extra["page_ndim"] :])
        for number, text in zip(extra["order"], extra["descriptions"], strict=True):
            options["description"] = text.encode() or None
            file.write(pages[number], metadata=None, **options)


def _lost_pages(heard: list[str]) -> bool:
    """Whether a file lacks pages, or they follow each other in a circle."""
    return any("TiffPages" in sentence for sentence in heard)


def _whole(path: Path, file: Any) -> Any:
    """Return the pages of a damaged file that can be read, of the first one's kind."""
    import tifffile

    first = file.pages[0]
    whole: list[Any] = []
    for page in file.pages:
        if page.shape != first.shape or page.dtype != first.dtype:
            continue
        check_room(path, (len(whole) + 1) * page.size, page.size, page.dtype.itemsize)
        try:
            page.asarray()
        except Exception:  # readers raise anything on a broken page
            continue
        whole.append(page)
    if not whole:
        raise InputError(
            f"{path} is cut short or damaged: none of its pages can be read."
        )
    count = max(len(whole), _behind(path, file) if whole == [first] else 0)
    shape, axes = first.shape, first.axes
    if count > 1:
        shape, axes = (count, *shape), "I" + axes
    return tifffile.TiffPageSeries(whole, shape, first.dtype, axes, kind="whole")


def _behind(path: Path, file: Any) -> int:
    """Return how many pages lie behind each other although the file lost their tags.

    ImageJ and tifffile write all values first, and say with them how many there are.
    """
    first = file.pages[0]
    declared = 0
    if first.is_imagej:
        declared = int((file.imagej_metadata or {}).get("images", 1))
    elif first.is_shaped:
        declared = math.prod(file.shaped_metadata[0]["shape"]) // max(first.size, 1)
    if not first.is_contiguous or declared < 2:
        return 1
    left = path.stat().st_size - first.dataoffsets[0]
    return min(declared, int(left // first.nbytes))


def _layout_of(path: Path, series: Any) -> tuple[str, tuple[int, ...], int | None]:
    """Return the axes, which of them count pages, and which channels, if all fits."""
    page, axes = series.keyframe, series.axes
    _check_colours(path, page)
    if page.photometric == PALETTE:
        axes += "S"
    channel = next((axes.index(a) for a in "SC" if a in axes), None)
    paged = tuple(k for k, a in enumerate(axes) if a not in "YX" and k != channel)
    return axes, paged, channel


def _values(
    path: Path, series: Any, axes: str, paged: tuple[int, ...], mapped: bool
) -> Array:
    """Return the values of all pages, on file if they are frames and many."""
    page, size = series.keyframe, math.prod(series.shape)
    as_stored = page.photometric not in (PALETTE, WHITE_IS_ZERO)
    frames = mapped or declares_frames(series.kind, axes, paged)
    large = size * series.dtype.itemsize > SMALL
    if paged and frames and as_stored and large:
        out = array_on_file(series.shape, series.dtype)
        series.asarray(out=out)
        return out
    size *= 3 if page.photometric == PALETTE else 1
    pages = math.prod(series.shape[k] for k in paged)
    check_room(path, size, size // max(pages, 1), series.dtype.itemsize)
    found: Array = series.asarray()
    return found


def _only_series(path: Path, file: Any) -> Any:
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
        raise InputError(f"{path} holds axes {series[0].axes}, no image.")
    return series[0]


def _check_colours(path: Path, page: Any) -> None:
    decoded = page.photometric == YCBCR and page.compression in JPEG
    mapped = page.photometric == PALETTE and page.samplesperpixel == 1
    known = page.photometric in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB)
    if not (known or mapped or decoded):
        kind = getattr(page.photometric, "name", page.photometric)
        raise InputError(
            f"{path} holds colours of kind {kind}, which are not supported; save it "
            "as RGB."
        )


def _extra(file: Any, series: Any) -> dict[str, Any]:
    """Return what the writer needs beside the values."""
    page = series.keyframe
    tags = page.tags
    extra: dict[str, Any] = {
        "kind": series.kind,
        "photometric": RGB if page.photometric == YCBCR else int(page.photometric),
        "byteorder": file.byteorder,
        "software": page.software.encode() or False,
        "tags": [(*tags[c].astuple()[:4], False) for c in CARRIED if c in tags],
    }
    if "XResolution" in tags and "YResolution" in tags:
        sides = ("XResolution", "YResolution")
        extra["resolution"] = tuple(tags[side].value for side in sides)
        if "ResolutionUnit" in tags:
            extra["resolutionunit"] = int(tags["ResolutionUnit"].value)
    if "InterColorProfile" in tags:
        extra["iccprofile"] = tags["InterColorProfile"].value
    extra |= _packing(series)
    found: dict[str, Any] = {}
    if series.kind == "imagej":
        held = file.imagej_metadata or {}
        found = {k: v if k == "Info" else _escaped(v) for k, v in held.items()}
    elif series.kind == "shaped":
        found = (file.shaped_metadata or ({},))[0]
        if "shape" not in page.description[:8]:  # a text beside tifffile's own
            extra["description"] = page.description.encode()
    elif series.kind in ("uniform", "generic", "ome"):
        # Each page has its own description: pages are written in the file's order.
        order = np.argsort([page.index for page in series.pages], kind="stable")
        extra["order"] = order.tolist()
        pages = [series.pages[k].aspage() for k in extra["order"]]
        extra["descriptions"] = [page.description for page in pages]
        extra["page_ndim"] = page.ndim + (page.photometric == PALETTE)
    extra["metadata"] = {k: v for k, v in found.items() if k not in LAYOUT}
    return extra


def _packing(series: Any) -> dict[str, Any]:
    """Return how the values are packed: tiles, compression, bits.

    ImageJ's files have none of these.
    """
    page = series.keyframe
    if series.kind == "imagej":
        return {}
    tile = {"tile": page.tile} if page.is_tiled else {}
    short = series.dtype.kind == "u" and page.bitspersample < 8 * page.dtype.itemsize
    if short and page.photometric != PALETTE:
        return {**tile, "bitspersample": page.bitspersample}
    if page.compression not in LOSSLESS:
        return {**tile, "compression": DEFLATE}
    coded = {"compression": int(page.compression)}
    return {**tile, **coded, "predictor": int(page.predictor)}


def _escaped(value: Any) -> Any:
    """Return a text as ImageJ writes it where only ASCII may stand."""
    if not isinstance(value, str):
        return value
    return "".join(c if c.isascii() else f"\\u{ord(c):04X}" for c in value)


def _layout(picture: ImageFile) -> dict[str, Any]:
    """Return how to lay out values that came from no TIFF file."""
    axes = ["Q"] * picture.values.ndim
    for axis, name in zip(picture.plane, "YX", strict=True):
        axes[axis] = name
    layout: dict[str, Any] = {"photometric": BLACK_IS_ZERO}
    channel = picture.channel_axis
    if channel is not None and channel == picture.values.ndim - 1:
        colours = picture.channels - picture.transparent
        base = 3 if colours == 3 else 1
        samples = [UNSTATED] * (colours - base) + [TRANSPARENCY] * picture.transparent
        layout["photometric"] = RGB if base == 3 else BLACK_IS_ZERO
        layout |= {"planarconfig": CONTIGUOUS, "extrasamples": samples}
        axes[channel] = "S"
    elif channel is not None:
        axes[channel] = "C"
    if "icc_profile" in picture.extra:
        layout["iccprofile"] = picture.extra["icc_profile"]
    return {**layout, "axes": "".join(axes)}


def _inverted(values: Array, bits: int | None) -> Array:
    """Return integers with black and white exchanged; floats stay as they are."""
    if values.dtype.kind == "f":
        return values
    ones = values.dtype.type(2**bits - 1) if bits else None
    inverted: Array = np.invert(values) if ones is None else values ^ ones
    return inverted


def _coloured(indices: Array, colours: Array) -> Array:
    """Return the colours that a colour map gives, as the last axis.

    A map holds 16 bits; colours that have 8, in either of two customs, are given as 8.
    """
    high = colours >> 8
    if ((colours == high << 8) | (colours == high * 257)).all():
        colours = high.astype(np.uint8)
    return np.moveaxis(colours[:, indices], 0, -1)


def _tags(picture: ImageFile) -> list[tuple[Any, ...]]:
    """Return the tags that tifffile would not write by itself."""
    tags = list(picture.extra.get("tags", []))
    if picture.orientation != 1:
        tags.append((ORIENTATION, SHORT, 1, picture.orientation, False))
    return tags


def _suits_imagej(picture: ImageFile) -> bool:
    """Return whether ImageJ reads values of this kind."""
    colours = picture.extra["photometric"] == RGB
    allowed = (np.uint8,) if colours else (np.uint8, np.uint16, np.float32)
    return picture.values.dtype in allowed

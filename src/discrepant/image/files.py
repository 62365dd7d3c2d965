"""Image files: PNG, JPEG, TIFF, WebP and NPY, read and written with what they carry."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.errors import InputError
from discrepant.linalg import Array

FORMATS = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
    ".npy": "NPY",
}
_MODES = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "I;16", "I;16B", "I"}
_CHANNEL_LIMITS = {"PNG": (1, 2, 3, 4), "JPEG": (1, 3), "WEBP": (1, 3, 4)}


@dataclass(frozen=True, eq=False)
class Picture:
    """What a file holds: pages of one shape, and whatever came with them.

    Attributes
    ----------
    values : ndarray
        As stored in the file.
    page_axes : tuple of int
        The axes along which pages are counted; empty for a single image.
    channel_axis : int or None
        Where the channels are.
    extra : dict
        Metadata, for the writer of the same format.
    format : str
        One of the values of ``FORMATS``.
    """

    values: Array
    page_axes: tuple[int, ...]
    channel_axis: int | None
    format: str
    extra: dict[str, Any] = field(default_factory=dict)

    def pages(self) -> Iterator[tuple[tuple[Any, ...], Array]]:
        """Yield the index of each page and the page, its channels last."""
        counts = [self.values.shape[axis] for axis in self.page_axes]
        for place in np.ndindex(*counts):
            index: list[Any] = [slice(None)] * self.values.ndim
            for axis, k in zip(self.page_axes, place, strict=True):
                index[axis] = k
            page = self.values[tuple(index)]
            if self.channel_axis is not None:
                before = sum(axis < self.channel_axis for axis in self.page_axes)
                page = np.moveaxis(page, self.channel_axis - before, -1)
            yield tuple(index), page

    @property
    def channels(self) -> int:
        """How many channels a page has."""
        axis = self.channel_axis
        return 1 if axis is None else self.values.shape[axis]

    @property
    def n_pages(self) -> int:
        """How many pages there are."""
        return int(np.prod([self.values.shape[axis] for axis in self.page_axes]))

    def put(self, out: Array, index: tuple[Any, ...], page: Array) -> None:
        """Write a page, its channels last, to its place in ``out``."""
        if self.channel_axis is not None:
            before = sum(axis < self.channel_axis for axis in self.page_axes)
            page = np.moveaxis(page, -1, self.channel_axis - before)
        out[index] = page


def is_image(path: Path) -> bool:
    """Return whether the file's ending is that of an image."""
    return path.suffix.lower() in FORMATS


def read(path: Path) -> Picture:
    """Read an image file; what cannot be read is one sentence."""
    kind = _format(path)
    if not path.is_file():
        raise InputError(f"{path} is not a file.")
    try:
        if kind == "NPY":
            return _read_npy(path)
        if kind == "TIFF":
            return _read_tiff(path)
        return _read_pillow(path, kind)
    except InputError:
        raise
    except ModuleNotFoundError:
        raise InputError(
            "Image files need scikit-image: pip install 'discrepant[restore]'."
        ) from None
    except MemoryError:
        raise
    except Exception as error:  # readers raise anything on a broken file
        reason = str(error).split("\n")[0] or type(error).__name__
        raise InputError(f"{path} cannot be read as {kind}: {reason}.") from None


def check_fits(path: Path, picture: Picture) -> None:
    """Raise unless the format of this name can hold what the picture holds."""
    kind = _format(path)
    if kind in ("NPY", "TIFF"):
        return
    dtype, channels = picture.values.dtype, picture.channels
    if picture.page_axes:
        raise InputError(f"{path.name}: {kind} cannot hold several pages; use .tif.")
    if channels not in _CHANNEL_LIMITS[kind]:
        raise InputError(f"{path.name}: {kind} cannot hold {channels} channels.")
    wide = dtype == np.uint16 and kind == "PNG" and channels == 1
    if not (dtype in (np.uint8, np.bool_) or wide):
        raise InputError(f"{path.name}: {kind} cannot hold {dtype} values; use .tif.")


def write(path: Path, picture: Picture, values: Array) -> None:
    """Write values in place of the picture's, with its metadata where it can be."""
    check_fits(path, picture)
    kind = _format(path)
    if kind == "NPY":
        np.save(path, values)
    elif kind == "TIFF":
        _write_tiff(path, picture, values)
    else:
        _write_pillow(path, kind, picture, values)


def _format(path: Path) -> str:
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise InputError(
            f"{path.name}: the ending must be one of {', '.join(FORMATS)}."
        ) from None


def _read_npy(path: Path) -> Picture:
    values = np.load(path, allow_pickle=False)
    if values.ndim == 3:
        # Channels are the short axis: first or last.
        first = values.shape[0] < values.shape[2]
        return Picture(values, (), 0 if first else 2, "NPY")
    if values.ndim != 2:
        raise InputError(f"{path} holds an array of shape {values.shape}, no image.")
    return Picture(values, (), None, "NPY")


def _read_tiff(path: Path) -> Picture:
    import tifffile

    with tifffile.TiffFile(path) as file:
        series = file.series[0]
        values, axes = series.asarray(), series.axes
        page: Any = file.pages[0]
        extra: dict[str, Any] = {"axes": axes, "imagej": file.is_imagej}
        if file.is_imagej:
            kept = {"axes", "shape", "ImageJ", "images", "hyperstack"}
            found = file.imagej_metadata or {}
            kept |= {"channels", "slices", "frames", "Labels"}
            extra["metadata"] = {k: v for k, v in found.items() if k not in kept}
        elif page.description and not file.is_shaped:
            extra["description"] = page.description
        if "XResolution" in page.tags and "YResolution" in page.tags:
            extra["resolution"] = tuple(
                page.tags[name].value for name in ("XResolution", "YResolution")
            )
            if "ResolutionUnit" in page.tags:
                extra["resolutionunit"] = int(page.tags["ResolutionUnit"].value)
        if "InterColorProfile" in page.tags:
            extra["iccprofile"] = page.tags["InterColorProfile"].value
        extra["photometric"] = page.photometric.name.lower()
    channel = next((axes.index(a) for a in "SC" if a in axes), None)
    plane = [axes.index(a) for a in "YX" if a in axes]
    if len(plane) != 2:
        raise InputError(f"{path} holds axes {axes}, no image.")
    pages = tuple(k for k in range(values.ndim) if k not in (*plane, channel))
    return Picture(values, pages, channel, "TIFF", extra)


def _write_tiff(path: Path, picture: Picture, values: Array) -> None:
    import tifffile

    extra = picture.extra if picture.format == "TIFF" else {}
    options: dict[str, Any] = {}
    rgb = picture.channel_axis == values.ndim - 1 and picture.channels in (3, 4)
    options["photometric"] = "rgb" if rgb else "minisblack"
    for name in ("resolution", "resolutionunit", "iccprofile"):
        if name in extra:
            options[name] = extra[name]
    axes = extra.get("axes", "")
    if extra.get("imagej") and values.dtype in (np.uint8, np.uint16, np.float32):
        options["metadata"] = {**extra["metadata"], "axes": axes}
        tifffile.imwrite(path, values, imagej=True, **options)
        return
    if "description" in extra:
        options |= {"description": extra["description"], "metadata": None}
    elif axes and set(axes) <= set("TZCYXS"):
        options["metadata"] = {"axes": axes}
    tifffile.imwrite(path, values, **options)


def _read_pillow(path: Path, kind: str) -> Picture:
    from PIL import Image

    with Image.open(path) as file:
        if file.format != kind and not (kind == "JPEG" and file.format == "MPO"):
            raise InputError(f"{path} is not a {kind} file but {file.format}.")
        if file.mode not in _MODES:
            raise InputError(f"{path}: images of mode {file.mode} are not supported.")
        if kind == "PNG" and file.mode in ("RGB", "RGBA") and _png_depth(path) == 16:
            raise InputError(f"{path}: 16-bit colour PNG is not supported; use .tif.")
        extra = {
            name: file.info[name]
            for name in ("icc_profile", "exif", "dpi")
            if file.info.get(name)
        }
        if kind == "PNG":
            extra["text"] = dict(getattr(file, "text", {}))
        file.load()
        opaque = "transparency" not in file.info and file.mode != "PA"
        if file.mode in ("P", "PA"):
            values = np.array(file.convert("RGB" if opaque else "RGBA"))
        else:
            values = np.array(file)
    if values.dtype == np.int32:
        values = values.astype(np.uint16)
    return Picture(values, (), 2 if values.ndim == 3 else None, kind, extra)


def _png_depth(path: Path) -> int:
    with path.open("rb") as file:
        return file.read(25)[24]


def _write_pillow(path: Path, kind: str, picture: Picture, values: Array) -> None:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    if picture.channel_axis is not None:
        values = np.moveaxis(values, picture.channel_axis, -1)
        values = values[..., 0] if values.shape[2] == 1 else values
    if values.dtype == bool and kind != "PNG":
        values = values.astype(np.uint8) * np.uint8(255)
    extra = picture.extra if picture.format in ("PNG", "JPEG", "WEBP") else {}
    names = ("icc_profile", "exif", "dpi")
    options = {name: extra[name] for name in names if name in extra}
    if kind == "PNG" and extra.get("text"):
        info = PngInfo()
        for key, text in extra["text"].items():
            info.add_text(key, text)
        options["pnginfo"] = info
    elif kind == "JPEG":
        options |= {"quality": 95, "subsampling": 0}
    elif kind == "WEBP":
        options.pop("dpi", None)
        options["lossless"] = True
    Image.fromarray(np.ascontiguousarray(values)).save(path, kind, **options)

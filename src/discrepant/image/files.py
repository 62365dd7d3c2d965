"""Image files: PNG, JPEG, TIFF, WebP and NPY, read and written with what they carry."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.errors import InputError
from discrepant.image.arrays import has_alpha
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
GREY = {"1", "L", "I;16", "I;16B", "I"}
_MODES = GREY | {"LA", "P", "PA", "RGB", "RGBA"}
PNG_MARK = b"\x89PNG\r\n\x1a\n"
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
    format : str
        One of the values of ``FORMATS``.
    alpha : bool
        Whether the last channel is transparency.
    extra : dict
        Metadata, for the writer of the same format.
    """

    values: Array
    page_axes: tuple[int, ...]
    channel_axis: int | None
    format: str
    alpha: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def pages(self) -> Iterator[tuple[tuple[Any, ...], Array]]:
        """Yield the place of each page and the page: channels first, without alpha."""
        counts = [self.values.shape[axis] for axis in self.page_axes]
        for numbers in np.ndindex(*counts):
            index: list[Any] = [slice(None)] * self.values.ndim
            for axis, k in zip(self.page_axes, numbers, strict=True):
                index[axis] = k
            if self.channel_axis is not None:
                index[self.channel_axis] = slice(self.channels - self.alpha)
            place = tuple(index)
            yield place, self._channels_first(self.values[place])

    def put(self, out: Array, place: tuple[Any, ...], page: Array) -> None:
        """Write a page, its channels first, to its place in ``out``."""
        self._channels_first(out[place])[...] = page

    def _channels_first(self, page: Array) -> Array:
        if self.channel_axis is None:
            return page
        before = sum(axis < self.channel_axis for axis in self.page_axes)
        return np.moveaxis(page, self.channel_axis - before, 0)

    @property
    def channels(self) -> int:
        """How many channels a page has."""
        axis = self.channel_axis
        return 1 if axis is None else self.values.shape[axis]

    @property
    def n_pages(self) -> int:
        """How many pages there are."""
        return int(np.prod([self.values.shape[axis] for axis in self.page_axes]))


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
    wide = dtype == np.uint16 and kind == "PNG"
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
        axis = 0 if values.shape[0] < values.shape[2] else 2
        return Picture(values, (), axis, "NPY", has_alpha(values, axis))
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
        alpha = axes.endswith("S") and bool(page.extrasamples)
    channel = next((axes.index(a) for a in "SC" if a in axes), None)
    plane = [axes.index(a) for a in "YX" if a in axes]
    if len(plane) != 2:
        raise InputError(f"{path} holds axes {axes}, no image.")
    pages = tuple(k for k in range(values.ndim) if k not in (*plane, channel))
    return Picture(values, pages, channel, "TIFF", alpha, extra)


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
        elif kind == "PNG" and file.mode not in GREY and _png_depth(path) == 16:
            import imagecodecs  # Pillow halves the depth of colours

            values = imagecodecs.png_decode(path.read_bytes())
        else:
            values = np.array(file)
    if values.dtype == np.int32:
        values = values.astype(np.uint16)
    axis = None if values.ndim == 2 else 2
    alpha = axis is not None and values.shape[2] in (2, 4)
    return Picture(values, (), axis, kind, alpha, extra)


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
    values = np.ascontiguousarray(values)
    if values.dtype == np.uint16 and values.ndim == 3:
        path.write_bytes(_deep_png(values, options))
    else:
        Image.fromarray(values).save(path, kind, **options)


def _deep_png(values: Array, options: dict[str, Any]) -> bytes:
    """Return 16-bit colours as PNG, with the metadata that Pillow makes of options."""
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

"""ImageFile: the pixels, axes and metadata of an image file of any format."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discrepant.core.linalg import Array


@dataclass(frozen=True, eq=False)
class ImageFile:
    """Pixels, axes and metadata of an image file with pages of one shape.

    Attributes
    ----------
    values : ndarray
        The pixels as stored in the file, except that black is always the lowest value.
    page_axes : tuple of int
        The axes that count pages; empty for a single image.
    channel_axis : int or None
        The axis of the channels; None if there is none.
    format : str
        One of the values of `formats.FORMATS`.
    transparent : bool
        Whether the last channel is transparency, which is never restored.
    orientation : int
        Code of the rotation or reflection for upright display, 1 to 8 as in EXIF.
    extra : dict
        Metadata that the reader of this format passes to its writer.
    incomplete : bool
        Whether pages of the file could not be read.
    """

    values: Array
    page_axes: tuple[int, ...]
    channel_axis: int | None
    format: str
    transparent: bool = False
    orientation: int = 1
    extra: dict[str, Any] = field(default_factory=dict)
    incomplete: bool = False

    def pages(self) -> Iterator[tuple[tuple[Any, ...], Array]]:
        """Yield the index into ``values`` and the values of each page.

        Channels come first, and transparency is left out.
        """
        counts = [self.values.shape[axis] for axis in self.page_axes]
        for numbers in np.ndindex(*counts):
            index: list[Any] = list(self.without_transparency)
            for axis, k in zip(self.page_axes, numbers, strict=True):
                index[axis] = k
            page = tuple(index)
            yield page, self._channels_first(self.values[page])

    def put(self, out: Array, index: tuple[Any, ...], page: Array) -> None:
        """Write a page to ``out`` at the index that `pages` yielded for it."""
        self._channels_first(out[index])[...] = page

    def _channels_first(self, page: Array) -> Array:
        if self.channel_axis is None:
            return page
        before = sum(axis < self.channel_axis for axis in self.page_axes)
        return np.moveaxis(page, self.channel_axis - before, 0)

    @property
    def without_transparency(self) -> tuple[slice, ...]:
        """The index of all channels but transparency."""
        index = [slice(None)] * self.values.ndim
        if self.channel_axis is not None:
            index[self.channel_axis] = slice(self.channels - self.transparent)
        return tuple(index)

    @property
    def channels(self) -> int:
        """The number of channels of a page, transparency included."""
        axis = self.channel_axis
        return 1 if axis is None else self.values.shape[axis]

    @property
    def n_pages(self) -> int:
        """The number of pages."""
        return int(np.prod([self.values.shape[axis] for axis in self.page_axes]))

    @property
    def plane(self) -> tuple[int, int]:
        """The axes of rows and columns."""
        other = (*self.page_axes, self.channel_axis)
        rows, columns = (k for k in range(self.values.ndim) if k not in other)
        return rows, columns


def declares_frames(kind: str, axes: str, page_axes: tuple[int, ...]) -> bool:
    """Return whether OME or ImageJ metadata declare the pages as frames or slices."""
    return kind in ("ome", "imagej") and any(axes[k] in "TZ" for k in page_axes)


def upright(values: Array, orientation: int, plane: tuple[int, int]) -> Array:
    """Return values rotated for upright display; ``plane`` is (rows, columns)."""
    rows, columns = plane
    if orientation in (3, 4, 6, 7):
        values = np.flip(values, rows)
    if orientation in (2, 3, 7, 8):
        values = np.flip(values, columns)
    return values.swapaxes(rows, columns) if orientation in (5, 6, 7, 8) else values

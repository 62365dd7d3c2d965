"""What an image file holds, whatever its format."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discrepant.core.linalg import Array


@dataclass(frozen=True, eq=False)
class ImageFile:
    """What a file holds: pages of one shape, and whatever came with them.

    Attributes
    ----------
    values : ndarray
        As stored in the file, but black is always the lowest value.
    page_axes : tuple of int
        The axes along which pages are counted; empty for a single image.
    channel_axis : int or None
        Where the channels are.
    format : str
        One of the values of ``FORMATS``.
    transparent : bool
        Whether the last channel is transparency, which is never restored.
    orientation : int
        How the picture is to be turned to be seen upright, 1 to 8 as in EXIF and TIFF.
    extra : dict
        Metadata that the reader of this format found, for its writer.
    incomplete : bool
        Whether pages of the file are lost.
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
        """Yield each page with its index into ``values``.

        Its channels come first, and transparency is left out.
        """
        counts = [self.values.shape[axis] for axis in self.page_axes]
        for numbers in np.ndindex(*counts):
            index = list(self.colours)
            for axis, k in zip(self.page_axes, numbers, strict=True):
                index[axis] = k
            place = tuple(index)
            yield place, self._channels_first(self.values[place])

    def put(self, out: Array, place: tuple[Any, ...], page: Array) -> None:
        """Write a page to the index in ``out`` with which `pages` yielded it."""
        self._channels_first(out[place])[...] = page

    def _channels_first(self, page: Array) -> Array:
        if self.channel_axis is None:
            return page
        before = sum(axis < self.channel_axis for axis in self.page_axes)
        return np.moveaxis(page, self.channel_axis - before, 0)

    @property
    def colours(self) -> tuple[slice, ...]:
        """The index of all channels but transparency."""
        index = [slice(None)] * self.values.ndim
        if self.channel_axis is not None:
            index[self.channel_axis] = slice(self.channels - self.transparent)
        return tuple(index)

    @property
    def channels(self) -> int:
        """How many channels a page has."""
        axis = self.channel_axis
        return 1 if axis is None else self.values.shape[axis]

    @property
    def n_pages(self) -> int:
        """How many pages there are."""
        return int(np.prod([self.values.shape[axis] for axis in self.page_axes]))

    @property
    def plane(self) -> tuple[int, int]:
        """The axes of rows and columns."""
        other = (*self.page_axes, self.channel_axis)
        rows, columns = (k for k in range(self.values.ndim) if k not in other)
        return rows, columns


def declares_frames(kind: str, axes: str, page_axes: tuple[int, ...]) -> bool:
    """Return whether a file of this kind says that its pages are frames or slices."""
    return kind in ("ome", "imagej") and any(axes[k] in "TZ" for k in page_axes)


def upright(values: Array, orientation: int, plane: tuple[int, int]) -> Array:
    """Return values turned to be seen upright; ``plane`` is rows and columns."""
    rows, columns = plane
    if orientation in (3, 4, 6, 7):
        values = np.flip(values, rows)
    if orientation in (2, 3, 7, 8):
        values = np.flip(values, columns)
    return values.swapaxes(rows, columns) if orientation in (5, 6, 7, 8) else values

"""What the axes of a stack are: frames, channels, rows and columns, by their names."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.memory import array_on_file
from discrepant.image.arrays import array_of

CHANNELS = "CS"
FRAMES = "TZ"  # in this order: of a volume in time, each slice is a film


@dataclass(frozen=True)
class Axes:
    """Where the axes of a stack are.

    Attributes
    ----------
    rows, columns : int
        Of each frame.
    channels, frames : int or None
        Where there are some.
    others : tuple of int
        Axes along which nothing is compared: each is a stack by itself.
    samples : bool
        Whether the channels are colours, of which a fourth is transparency.
    """

    rows: int
    columns: int
    channels: int | None
    frames: int | None
    others: tuple[int, ...]
    samples: bool

    @classmethod
    def of(cls, names: str, shape: tuple[int, ...]) -> "Axes":
        """Read names as tifffile gives them, such as "TYX" or "TCYX"."""
        if not isinstance(names, str) or not names.isalpha():
            raise InputError(f'axes must be letters such as "TYX", got {names!r}.')
        names = names.upper()
        if len(names) != len(shape):
            raise InputError(
                f"axes {names!r} names {len(names)} axes, and the image has "
                f"{len(shape)}: its shape is {shape}."
            )
        if len(set(names)) < len(names):
            raise InputError(f"axes {names!r} names an axis twice.")
        if not {"Y", "X"} <= set(names):
            raise InputError(f"axes {names!r} must name the rows, Y, and columns, X.")
        if {"C", "S"} <= set(names):
            raise InputError(f"axes {names!r} names channels twice, by C and by S.")
        channels = next((names.index(a) for a in CHANNELS if a in names), None)
        frames = next((names.index(a) for a in FRAMES if a in names), None)
        rows, columns = names.index("Y"), names.index("X")
        named = (rows, columns, channels, frames)
        others = tuple(k for k in range(len(names)) if k not in named)
        return cls(rows, columns, channels, frames, others, "S" in names)

    @property
    def counted(self) -> tuple[int, ...]:
        """The axes that count frames, or stacks."""
        frames = () if self.frames is None else (self.frames,)
        return tuple(sorted((*self.others, *frames)))

    def frames_in(self, shape: tuple[int, ...]) -> int:
        """Return how many frames there are in all."""
        return math.prod(shape[k] for k in self.counted)

    @property
    def channels_left(self) -> int | None:
        """Where the channels are once frames are not counted any more."""
        if self.channels is None:
            return None
        return self.channels - sum(k < self.channels for k in self.counted)

    def without_count(self, mask: Any, shape: tuple[int, ...]) -> Array:
        """Return a mask of a stack of one frame as one of that frame."""
        return np.squeeze(self.spread(mask, shape), self.counted)

    def stacks(self, *arrays: Array) -> Iterator[tuple[Array, ...]]:
        """Yield views of shape (frames, rows, columns, channels) of arrays alike."""
        for index in np.ndindex(*(arrays[0].shape[k] for k in self.others)):
            yield tuple(self._view(array, index) for array in arrays)

    def _view(self, array: Array, index: tuple[int, ...]) -> Array:
        place: list[Any] = [slice(None)] * array.ndim
        for axis, k in zip(self.others, index, strict=True):
            place[axis] = slice(k, k + 1)
        wanted = (self.frames, self.rows, self.columns, self.channels)
        order = [*self.others, *(k for k in wanted if k is not None)]
        part: Array = array[tuple(place)].transpose(order)[(0,) * len(self.others)]
        if self.frames is None:
            part = part[None]
        return part[..., None] if self.channels is None else part

    def spread(self, mask: Any, shape: tuple[int, ...]) -> Array:
        """Return a mask as one of the stack's shape, without a copy of it.

        A mask is of that shape, of its rows and columns, or of all but its channels.
        """
        marks = array_of(mask, "The mask")
        if marks.dtype.kind not in "bui":
            raise InputError(f"mask holds bools, True where bad, not {marks.dtype}.")
        for left_out in ((), (self.channels,), self._all_but_pixels(shape)):
            kept = [k for k in range(len(shape)) if k not in left_out]
            if marks.shape == tuple(shape[k] for k in kept):
                gaps = tuple(k for k in range(len(shape)) if k not in kept)
                return np.broadcast_to(np.expand_dims(marks, gaps), shape)
        raise InputError(f"mask has shape {marks.shape}, the stack {shape}.")

    def _all_but_pixels(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        pixels = (self.rows, self.columns)
        return tuple(k for k in range(len(shape)) if k not in pixels)


def room(shape: tuple[int, ...], dtype: Any, mapped: bool) -> Array:
    """Return an array of zeros; in a file that vanishes, where the stack is in one."""
    if not mapped:
        return np.zeros(shape, dtype)
    return array_on_file(shape, dtype)

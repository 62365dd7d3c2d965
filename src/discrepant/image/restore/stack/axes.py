"""Axes of image stacks: given by letters such as "TCYX", or by xarray's dimensions."""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.memory import array_on_file
from discrepant.image.arrays import as_array
from discrepant.image.restore.result import ARRAYS

# Letters of channel axes: C for any channels, S for colour samples (tifffile's names).
CHANNEL_LETTERS = "CS"
# Letters of frame axes, the preferred one first: if a volume changes over time, each
# of its slices is restored as a sequence over time.
FRAME_LETTERS = "TZ"
# Names of dimensions, in lower case, from which the letter of an axis is derived.
DIMENSION_NAMES = {
    "T": ("t", "time", "frame", "frames"),
    "Z": ("z", "slice", "slices", "plane", "depth"),
    "C": ("c", "channel", "channels", "band", "bands", "wavelength", "rgb", "colour"),
    "Y": ("y", "row", "rows", "lat", "latitude", "height", "northing"),
    "X": ("x", "column", "columns", "col", "lon", "longitude", "width", "easting"),
}
LETTERS = {name: axis for axis, names in DIMENSION_NAMES.items() for name in names}
Restore = TypeVar("Restore", bound=Callable[..., Any])


@dataclass(frozen=True)
class Axes:
    """Positions of the axes of a stack of frames.

    Attributes
    ----------
    rows, columns : int
        The axes of the pixels of each frame.
    channels, frames : int or None
        The axes of channels and of frames; None if the stack has no such axis.
    independent_axes : tuple of int
        Axes along which frames are not compared: each index is a stack of its own.
    samples : bool
        Whether the channels are colour samples, of which a fourth is transparency.
    """

    rows: int
    columns: int
    channels: int | None
    frames: int | None
    independent_axes: tuple[int, ...]
    samples: bool

    @classmethod
    def of(cls, names: str, shape: tuple[int, ...]) -> "Axes":
        """Parse axis letters in tifffile's notation, such as "TYX" or "TCYX"."""
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
        channels = next((names.index(a) for a in CHANNEL_LETTERS if a in names), None)
        frames = next((names.index(a) for a in FRAME_LETTERS if a in names), None)
        rows, columns = names.index("Y"), names.index("X")
        named = (rows, columns, channels, frames)
        independent = tuple(k for k in range(len(names)) if k not in named)
        return cls(rows, columns, channels, frames, independent, "S" in names)

    @property
    def frame_axes(self) -> tuple[int, ...]:
        """The axes that count frames or independent stacks."""
        frames = () if self.frames is None else (self.frames,)
        return tuple(sorted((*self.independent_axes, *frames)))

    def n_frames_in(self, shape: tuple[int, ...]) -> int:
        """Return the number of frames of all stacks in an array of this shape."""
        return math.prod(shape[k] for k in self.frame_axes)

    @property
    def channel_axis_in_frame(self) -> int | None:
        """The axis of the channels of a single frame, without the frame axes."""
        if self.channels is None:
            return None
        return self.channels - sum(k < self.channels for k in self.frame_axes)

    def mask_of_single_frame(self, mask: Any, shape: tuple[int, ...]) -> Array:
        """Return the mask of a stack of one frame without the frame axes."""
        return np.squeeze(self.broadcast_mask(mask, shape), self.frame_axes)

    def stacks(self, *arrays: Array) -> Iterator[tuple[Array, ...]]:
        """Yield (frames, rows, columns, channels) views of arrays of the same shape."""
        counts = (arrays[0].shape[k] for k in self.independent_axes)
        for index in np.ndindex(*counts):
            yield tuple(self._view(array, index) for array in arrays)

    def _view(self, array: Array, index: tuple[int, ...]) -> Array:
        selection: list[Any] = [slice(None)] * array.ndim
        for axis, k in zip(self.independent_axes, index, strict=True):
            selection[axis] = slice(k, k + 1)
        kept_axes = (self.frames, self.rows, self.columns, self.channels)
        order = [*self.independent_axes, *(k for k in kept_axes if k is not None)]
        first = (0,) * len(self.independent_axes)
        view: Array = array[tuple(selection)].transpose(order)[first]
        if self.frames is None:
            view = view[None]
        return view[..., None] if self.channels is None else view

    def broadcast_mask(self, mask: Any, shape: tuple[int, ...]) -> Array:
        """Return a mask broadcast to the stack's shape, without a copy.

        The mask has the stack's shape, or that of its rows and columns, or that of all
        its axes but the channels.
        """
        mask = as_array(mask, "The mask")
        if mask.dtype.kind not in "bui":
            raise InputError(f"mask holds bools, True where bad, not {mask.dtype}.")
        for left_out in ((), (self.channels,), self._all_but_pixels(shape)):
            kept = [k for k in range(len(shape)) if k not in left_out]
            if mask.shape == tuple(shape[k] for k in kept):
                new_axes = tuple(k for k in range(len(shape)) if k not in kept)
                return np.broadcast_to(np.expand_dims(mask, new_axes), shape)
        raise InputError(f"mask has shape {mask.shape}, the stack {shape}.")

    def _all_but_pixels(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        pixels = (self.rows, self.columns)
        return tuple(k for k in range(len(shape)) if k not in pixels)


def allocate_like(shape: tuple[int, ...], dtype: Any, mapped: bool) -> Array:
    """Return an array of zeros, in memory or, if ``mapped``, in a temporary file."""
    if not mapped:
        return np.zeros(shape, dtype)
    return array_on_file(shape, dtype)


def accept_dataarray(restore: Restore) -> Restore:
    """Decorate a function of arrays so that it also takes and returns DataArrays.

    The names of the dimensions give the axes. Coordinates are kept. The image's
    attributes, such as its unit, are kept on the restored image and the corruption,
    which have that unit.
    """

    @functools.wraps(restore)
    def restore_dataarray(image: Any, **options: Any) -> Any:
        if not (hasattr(image, "dims") and hasattr(image, "coords")):
            return restore(image, **options)
        if not hasattr(image, "ndim"):
            raise InputError("Pass one variable of the Dataset: grid['name'].")
        if options.get("axes") is None and "channel_axis" not in options:
            options |= _axes_from_dimensions(image.dims)
        mask: Any = options.get("mask")
        if hasattr(mask, "dims") and set(mask.dims) <= set(image.dims):
            order = [dim for dim in image.dims if dim in mask.dims]
            options["mask"] = mask.transpose(*order).values
        result = restore(image.values, **options)
        labelled = {name: image.copy(data=getattr(result, name)) for name in ARRAYS}
        for name in ("mask", "probability", "suggestions"):
            labelled[name].attrs = {}
        return replace(result, **labelled)

    return restore_dataarray  # type: ignore[return-value]


def _axes_from_dimensions(dims: tuple[Any, ...]) -> dict[str, Any]:
    """Return ``channel_axis`` or ``axes`` if every dimension has a known name."""
    letters = [LETTERS.get(str(dim).lower(), "") for dim in dims]
    if len(dims) < 3 or "" in letters or len(set(letters)) < len(letters):
        return {}
    if not {"Y", "X"} <= set(letters):
        return {}
    if len(dims) == 3 and "C" in letters:
        return {"channel_axis": letters.index("C")}
    return {"axes": "".join(letters)}

"""Images that come as xarray: their axes by name, and the labels back on the results.

A DataArray knows the names of its dimensions, so that nobody need say which one counts
the frames and which one the channels.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from discrepant.core.errors import InputError
from discrepant.image.restore.result import ARRAYS

NAMES = {
    "T": ("t", "time", "frame", "frames"),
    "Z": ("z", "slice", "slices", "plane", "depth"),
    "C": ("c", "channel", "channels", "band", "bands", "wavelength", "rgb", "colour"),
    "Y": ("y", "row", "rows", "lat", "latitude", "height", "northing"),
    "X": ("x", "column", "columns", "col", "lon", "longitude", "width", "easting"),
}
LETTERS = {name: letter for letter, names in NAMES.items() for name in names}
Restore = TypeVar("Restore", bound=Callable[..., Any])


def labelled(restore: Restore) -> Restore:
    """Let a function of arrays take a DataArray, and hand back such.

    Coordinates are kept, and the attributes of the image, such as its unit, on what is
    in that unit: the restored image and the corruption.
    """

    @functools.wraps(restore)
    def restoring(image: Any, **asked: Any) -> Any:
        if not (hasattr(image, "dims") and hasattr(image, "coords")):
            return restore(image, **asked)
        if not hasattr(image, "ndim"):
            raise InputError("Pass one variable of the Dataset: grid['name'].")
        if asked.get("axes") is None and "channel_axis" not in asked:
            asked |= _named(image.dims)
        mask: Any = asked.get("mask")
        if hasattr(mask, "dims") and set(mask.dims) <= set(image.dims):
            order = [dim for dim in image.dims if dim in mask.dims]
            asked["mask"] = mask.transpose(*order).values
        found = restore(image.values, **asked)
        parts = {name: image.copy(data=getattr(found, name)) for name in ARRAYS}
        for name in ("mask", "probability", "suggestions"):
            parts[name].attrs = {}
        return replace(found, **parts)

    return restoring  # type: ignore[return-value]


def _named(dims: tuple[Any, ...]) -> dict[str, Any]:
    """Return what the names of dimensions say of the axes, if they say enough."""
    letters = [LETTERS.get(str(dim).lower(), "") for dim in dims]
    if len(dims) < 3 or "" in letters or len(set(letters)) < len(letters):
        return {}
    if not {"Y", "X"} <= set(letters):
        return {}
    if len(dims) == 3 and "C" in letters:
        return {"channel_axis": letters.index("C")}
    return {"axes": "".join(letters)}

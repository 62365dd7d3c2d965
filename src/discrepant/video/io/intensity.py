"""Conversion of frames of any type to grey levels of 0 to 255, and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.arrays import round_to_dtype
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array

MIN_SIDE = 8  # rows and columns: in smaller frames, pixels have too few neighbours
OUTLIER_FRACTION = 1e-3  # of the values, on either side, that may be outliers
OUTLIER_DISTANCE = 3.0  # distance of outliers, in ranges of the other values


@dataclass(frozen=True)
class IntensityScale:
    """The scale between the values of frames and grey levels of 0 to 255.

    Eight bits are taken as they are. Wider integers and floats are scaled by the range
    of the first frames without outliers: beside one hot pixel, everything else would be
    black. The model has no other unit.
    """

    shape: tuple[int, ...]  # of a frame
    dtype: np.dtype[Any]  # of a frame
    low: float  # value of grey level 0
    unit: float  # difference of values per grey level

    @classmethod
    def of(cls, first: list[Array]) -> "IntensityScale":
        """Return the scale of the first frames."""
        shape, dtype = first[0].shape, first[0].dtype
        if len(shape) not in (2, 3) or (
            len(shape) == 3 and shape[2] not in (1, 2, 3, 4)
        ):
            raise InputError(
                f"A frame must be (rows, columns) or (rows, columns, channels), with "
                f"up to four channels; got shape {shape}."
            )
        if min(shape[:2]) < MIN_SIDE:
            raise InputError(
                f"Frames of {_size(shape)} are too small; the least is "
                f"{MIN_SIDE}×{MIN_SIDE}."
            )
        if dtype == np.uint8:
            return cls(shape, dtype, 0.0, 1.0)
        if dtype.kind not in "iufb":
            raise InputError(f"Frames must hold numbers; got type {dtype}.")
        values = np.stack([f for f in first if f.shape == shape]).astype(np.float64)
        values = values[np.isfinite(values)]
        if not len(values):
            return cls(shape, dtype, 0.0, 1 / 255)
        quantiles = [0, OUTLIER_FRACTION, 1 - OUTLIER_FRACTION, 1]
        low, bottom, top, high = np.quantile(values, quantiles) / 255
        if top > bottom:
            reach = OUTLIER_DISTANCE * (top - bottom)
            low = low if low >= bottom - reach else bottom
            high = high if high <= top + reach else top
        low = min(low, 0.0)
        return cls(shape, dtype, float(255 * low), float(high - low) or 1 / 255)

    def to_grey(self, frame: Array, number: int, before: Array | None = None) -> Array:
        """Return a frame as (rows, columns, channels) in grey levels, uint8 or float32.

        Missing values (NaN) are those of the grey frame `before`.
        """
        if frame.shape != self.shape:
            raise InputError(size_change(self.shape, frame.shape, number))
        if frame.dtype == np.uint8 and self.dtype == np.uint8:
            values = np.ascontiguousarray(frame)
        else:
            with np.errstate(over="ignore"):  # beyond float32: missing
                values = (frame - self.low) / self.unit
                values = values.astype(np.float32, order="C")
        values = values.reshape(*self.shape[:2], -1)
        if values.dtype != np.uint8 and not np.isfinite(values).all():
            fill = np.zeros_like(values) if before is None else before
            values = np.where(np.isfinite(values), values, fill)
        return values

    def to_grey_frames(self, frames: list[Array]) -> list[Array]:
        """Return frames in grey levels; values missing at first are those of later."""
        before = None
        for number, frame in reversed([*enumerate(frames)]):
            before = self.to_grey(frame, number, before)
        grey = list[Array]()
        for number, frame in enumerate(frames):
            before = self.to_grey(frame, number, before)
            grey.append(before)
        return grey

    def from_grey(self, values: Array, never_observed: Array | None = None) -> Array:
        """Return grey levels in the type, shape and unit of the frames.

        Values that were never observed are missing (NaN).
        """
        if self.dtype == np.uint8:
            from discrepant.video.model.background_kernels import round_to_uint8

            levels = np.empty(self.shape, np.uint8)
            round_to_uint8(values.reshape(-1), levels.reshape(-1))
            return levels
        # In double precision: a unit may exceed the range of float32.
        scaled = values.reshape(self.shape).astype(np.float64) * self.unit + self.low
        if self.dtype.kind == "f":
            if never_observed is not None:
                scaled[never_observed] = np.nan
            return scaled.astype(self.dtype)
        if self.dtype.kind == "b":
            return np.asarray(scaled > 0.5)
        return round_to_dtype(scaled, self.dtype)


def size_change(
    one: tuple[int, ...], other: tuple[int, ...], number: int | None = None
) -> str:
    """Return the message that frames change their size."""
    where = "" if number is None else f" at frame {number}"
    return (
        f"The frames change their size{where}, from {_size(one)} to {_size(other)}; "
        "split the video there, or scale them to one size."
    )


def _size(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "a single value"

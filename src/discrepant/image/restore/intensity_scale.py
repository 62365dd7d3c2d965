"""Map values of any dtype and range to [0, 1] and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.arrays import round_to_dtype
from discrepant.core.linalg import Array

# Largest ratio of the spans of two channels that share one map. Channels of a
# photograph differ by less, channels in different units by far more.
MAX_SPAN_RATIO = 4.0
# Largest range of values, in spans, for a linear map. A linear map of a wider range
# would compress most values into a sixth of [0, 1] or less.
MAX_LINEAR_RANGE = 6.0
# Quantile at each end that the span of a channel leaves out: the span is the distance
# between the 5% and the 95% quantile.
SPAN_QUANTILE = 0.05
# Smallest fraction of the values that must lie strictly between the minimum and the
# maximum for these two to be left out of the span.
MIN_INNER_FRACTION = 0.01
# Number of possible values of a float: so many that two random values never coincide.
FLOAT_LEVELS = 2.0**20


@dataclass(frozen=True, eq=False)
class IntensityScale:
    """A monotone map of each channel's values to [0, 1].

    The map is linear unless a few values lie so far out that the others would be
    compressed (zingers, a 12-bit image with 16-bit impulses, bright spots on a dark
    background). Then it is the inverse hyperbolic sine, which is linear near
    ``asinh_centre`` and logarithmic beyond ``asinh_scale``. Channels with similar spans
    share one map.

    Attributes
    ----------
    dtype : dtype
        Dtype of the image.
    lowest, highest : ndarray of shape (channels,)
        Range of the valid values.
    asinh_centre, asinh_scale : ndarray of shape (channels,)
        Centre of the inverse hyperbolic sine and the distance from it at which the map
        becomes logarithmic; an infinite scale means a linear map.
    """

    dtype: np.dtype[Any]
    lowest: Array
    highest: Array
    asinh_centre: Array
    asinh_scale: Array

    @classmethod
    def fit(cls, values: Array, known_bad: Array) -> "IntensityScale":
        """Return the map for an image, from the values that are not known to be bad."""
        channels = range(values.shape[-1])
        # Small integers stay as they are: converted, a large image would take eight
        # times its memory.
        is_exact = values.dtype.kind in "ui" and values.dtype.itemsize <= 2
        valid = [values[..., c][~known_bad[..., c]] for c in channels]
        valid = valid if is_exact else [_to_double(v) for v in valid]
        maps = [
            _map_parameters(v) if v.size else (0.0, 1.0, 0.0, np.inf) for v in valid
        ]
        spans = np.array([_span(v) for v in valid if v.size])
        if spans.max() <= MAX_SPAN_RATIO * spans.min():
            maps = [_map_parameters(np.concatenate(valid))] * len(valid)
        return cls(values.dtype, *np.array(maps).T)

    @property
    def levels(self) -> float:
        """Number of different values that the dtype and the range allow."""
        if self.dtype.kind == "f":
            return FLOAT_LEVELS
        return float(max(2, np.max(self.highest - self.lowest) + 1))

    def _asinh(self, v: Array) -> Array:
        """Apply the inverse hyperbolic sine to the channels whose map is not linear."""
        compressed = np.arcsinh((v - self.asinh_centre) / self.asinh_scale)
        return np.where(np.isinf(self.asinh_scale), v, compressed)

    def _ends(self) -> tuple[Array, Array]:
        """Return the values after `_asinh` that become 0 and 1."""
        return self._asinh(self.lowest), self._asinh(self.highest)

    def to_unit(self, values: Array) -> Array:
        """Map values to [0, 1] in single precision; non-finite values become 0."""
        low, high = self._ends()
        v = self._asinh(_to_double(values))
        v = (v - low) / np.where(high > low, high - low, 1)
        unit: Array = np.clip(np.nan_to_num(v), 0, 1).astype(np.float32)
        return unit

    def from_unit(self, x: Array) -> Array:
        """Map values on [0, 1] back to the image's own dtype and range."""
        low, high = self._ends()
        v = np.clip(x.astype(np.float64), 0, 1) * (high - low) + low
        linear = np.isinf(self.asinh_scale)
        with np.errstate(invalid="ignore", over="ignore"):
            v = np.where(linear, v, np.sinh(v) * self.asinh_scale + self.asinh_centre)
        v = np.clip(v, self.lowest, self.highest)
        out: Array
        if self.dtype.kind == "b":
            out = v > 0.5
        elif self.dtype.kind in "ui":
            out = round_to_dtype(v, self.dtype)
        else:
            out = v.astype(self.dtype)
        return out


def _to_double(values: Array) -> Array:
    """Return values in double precision, clipped so that differences are finite."""
    double: Array = np.clip(values.astype(np.float64), -1e300, 1e300)
    return double


def _map_parameters(valid: Array) -> tuple[float, float, float, float]:
    """Return lowest and highest value, centre and scale of the inverse sine."""
    lowest, highest = float(valid.min()), float(valid.max())
    span = _span(valid)
    linear = highest - lowest <= MAX_LINEAR_RANGE * span or span == 0
    centre = float(np.median(_without_extremes(valid)))
    return lowest, highest, centre, np.inf if linear else span


def _span(valid: Array) -> float:
    """Return the distance between the outer quantiles of the values."""
    ends = (SPAN_QUANTILE, 1 - SPAN_QUANTILE)
    low, high = np.quantile(_without_extremes(valid), ends)
    return float(high - low)


def _without_extremes(valid: Array) -> Array:
    """Return the values strictly between minimum and maximum, unless they are few.

    Salt-and-pepper noise consists of the minimum and the maximum.
    """
    inner = valid[(valid > valid.min()) & (valid < valid.max())]
    return valid if inner.size < MIN_INNER_FRACTION * valid.size else inner

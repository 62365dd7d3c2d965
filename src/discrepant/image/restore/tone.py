"""Values of any dtype and range, on [0, 1] and back."""

from dataclasses import dataclass

import numpy as np

from discrepant.linalg import Array

ALIKE = 4.0  # ratio of spans up to which channels share a map
WIDE = 6.0  # spans beyond which a linear scale would crush most of the image


@dataclass(frozen=True, eq=False)
class Tone:
    """A monotone map of each channel's values to [0, 1].

    Linear, unless a few values lie so far out that the rest would be crushed (zingers,
    a 12-bit image with 16-bit impulses, bright spots on a dark ground): then the
    inverse hyperbolic sine, linear near ``middle`` and logarithmic beyond ``unit``.
    Channels of a like span, as those of a photograph, share one map.
    """

    dtype: np.dtype
    lowest: Array  # of each channel
    highest: Array
    middle: Array
    unit: Array  # infinite: linear

    @classmethod
    def of(cls, values: Array, bad: Array) -> "Tone":
        """Return the map for an image of which some values are known to be bad."""
        channels = range(values.shape[-1])
        good = [_wide(values[..., c][~bad[..., c]]) for c in channels]
        found = [_measures(g) if g.size else (0.0, 1.0, 0.0, np.inf) for g in good]
        spans = np.array([_span(g) for g in good if g.size])
        if spans.max() <= ALIKE * spans.min():
            found = [_measures(np.concatenate(good))] * len(good)
        return cls(values.dtype, *np.array(found).T)

    def _bend(self, v: Array) -> Array:
        bent = np.arcsinh((v - self.middle) / self.unit)
        return np.where(np.isinf(self.unit), v, bent)

    def _ends(self) -> tuple[Array, Array]:
        return self._bend(self.lowest), self._bend(self.highest)

    def forward(self, values: Array) -> Array:
        """Return values on [0, 1] in single precision; what is not finite becomes 0."""
        low, high = self._ends()
        v = self._bend(_wide(values))
        v = (v - low) / np.where(high > low, high - low, 1)
        return np.clip(np.nan_to_num(v), 0, 1).astype(np.float32)

    def backward(self, x: Array) -> Array:
        """Return values of the image's own dtype, within its range."""
        low, high = self._ends()
        v = np.clip(x.astype(np.float64), 0, 1) * (high - low) + low
        linear = np.isinf(self.unit)
        with np.errstate(invalid="ignore", over="ignore"):
            v = np.where(linear, v, np.sinh(v) * self.unit + self.middle)
        v = np.clip(v, self.lowest, self.highest)
        if self.dtype.kind == "b":
            return v > 0.5
        if self.dtype.kind in "ui":
            v = np.rint(v)
        return v.astype(self.dtype)


def _wide(values: Array) -> Array:
    """Return values in double precision, so that no difference of them overflows."""
    return np.clip(values.astype(np.float64), -1e300, 1e300)


def _measures(good: Array) -> tuple[float, float, float, float]:
    """Return the lowest and highest value, the middle, and the unit of the bend."""
    lowest, highest = float(good.min()), float(good.max())
    span = _span(good)
    linear = highest - lowest <= WIDE * span or span == 0
    middle = float(np.median(_inner(good)))
    return lowest, highest, middle, np.inf if linear else span


def _span(good: Array) -> float:
    """Return how far the values reach, extremes left out."""
    low, high = np.quantile(_inner(good), (0.05, 0.95))
    return float(high - low)


def _inner(good: Array) -> Array:
    inner = good[(good > good.min()) & (good < good.max())]
    return good if inner.size < 0.01 * good.size else inner  # nothing but extremes

"""Values of any dtype and range, on [0, 1] and back."""

from dataclasses import dataclass

import numpy as np

from discrepant.linalg import Array

WIDE = 6.0  # spans beyond which a linear scale would crush most of the image


@dataclass(frozen=True)
class Tone:
    """A monotone map of an image's values to [0, 1].

    Linear, unless a few values lie so far out that the rest would be crushed (zingers,
    a 12-bit image with 16-bit impulses, bright spots on a dark ground): then the
    inverse hyperbolic sine, linear near ``middle`` and logarithmic beyond ``unit``.
    """

    dtype: np.dtype
    lowest: float
    highest: float
    middle: float
    unit: float  # infinite: linear

    @classmethod
    def of(cls, values: Array, bad: Array) -> "Tone":
        """Return the map for an image of which some values are known to be bad."""
        good = values[~bad].astype(np.float64)
        lowest, highest = float(good.min()), float(good.max())
        inner = good[(good > lowest) & (good < highest)]
        if inner.size < 0.01 * good.size:
            inner = good  # nothing but extremes
        low, middle, high = np.quantile(inner, (0.05, 0.5, 0.95))
        span = float(high - low)
        linear = highest - lowest <= WIDE * span or span == 0
        return cls(
            values.dtype, lowest, highest, float(middle), np.inf if linear else span
        )

    def _bend(self, v: Array) -> Array:
        if np.isinf(self.unit):
            return v
        return np.arcsinh((v - self.middle) / self.unit)

    def _ends(self) -> tuple[float, float]:
        low, high = self._bend(np.array([self.lowest, self.highest]))
        return float(low), float(high)

    def forward(self, values: Array) -> Array:
        """Return values on [0, 1] in single precision; what is not finite becomes 0."""
        low, high = self._ends()
        v = self._bend(values.astype(np.float64))
        v = (v - low) / ((high - low) or 1.0)
        return np.clip(np.nan_to_num(v), 0, 1).astype(np.float32)

    def backward(self, x: Array) -> Array:
        """Return values of the image's own dtype, within its range."""
        low, high = self._ends()
        v = np.clip(x.astype(np.float64), 0, 1) * (high - low) + low
        if not np.isinf(self.unit):
            v = np.sinh(v) * self.unit + self.middle
        v = np.clip(v, self.lowest, self.highest)
        if self.dtype.kind == "b":
            return v > 0.5
        if self.dtype.kind in "ui":
            v = np.rint(v)
        return v.astype(self.dtype)

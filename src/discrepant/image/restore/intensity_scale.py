"""Values of any dtype and range, on [0, 1] and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.arrays import round_to_dtype
from discrepant.core.linalg import Array


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/restore.py --tuning` tries again.

    Attributes
    ----------
    alike : float
        Channels share a map if their spans differ by no more than this ratio, as those
        of a photograph do; channels of other units differ by far more.
    wide : float
        The range of values, in spans, beyond which a linear map would crush most of
        them into a sixth of [0, 1] or less.
    outside : float
        The span of a channel reaches over the values without this share at each end.
    fewest : float
        Share of the values that must lie strictly between the extremes for the extremes
        to be left out of the span.
    """

    alike: float = 4.0
    wide: float = 6.0
    outside: float = 0.05
    fewest: float = 0.01


TUNING = Tuning()
ANYTHING = 2.0**20  # values of a float: so many that chance hits none of them twice


@dataclass(frozen=True, eq=False)
class Tone:
    """A monotone map of each channel's values to [0, 1].

    Linear, unless a few values lie so far out that the rest would be crushed (zingers,
    a 12-bit image with 16-bit impulses, bright spots on a dark ground): then the
    inverse hyperbolic sine, linear near ``middle`` and logarithmic beyond ``unit``.
    Channels of a like span share one map.

    Attributes
    ----------
    dtype : dtype
        That of the image.
    lowest, highest : ndarray of shape (channels,)
        The range of the good values.
    middle, unit : ndarray of shape (channels,)
        Where the inverse hyperbolic sine has its centre, and how far from there it
        becomes logarithmic; an infinite unit means a linear map.
    """

    dtype: np.dtype[Any]
    lowest: Array
    highest: Array
    middle: Array
    unit: Array

    @classmethod
    def of(cls, values: Array, bad: Array) -> "Tone":
        """Return the map for an image of which some values are known to be bad."""
        channels = range(values.shape[-1])
        # Small integers as they are: a large image need not be held eight times over.
        exact = values.dtype.kind in "ui" and values.dtype.itemsize <= 2
        good = [values[..., c][~bad[..., c]] for c in channels]
        good = good if exact else [_wide(g) for g in good]
        found = [_measures(g) if g.size else (0.0, 1.0, 0.0, np.inf) for g in good]
        spans = np.array([_span(g) for g in good if g.size])
        if spans.max() <= TUNING.alike * spans.min():
            found = [_measures(np.concatenate(good))] * len(good)
        return cls(values.dtype, *np.array(found).T)

    @property
    def levels(self) -> float:
        """How many values there may be; a float may be anything."""
        if self.dtype.kind == "f":
            return ANYTHING
        return float(max(2, np.max(self.highest - self.lowest) + 1))

    def _bend(self, v: Array) -> Array:
        """Return values under the inverse hyperbolic sine, where it is asked for."""
        bent = np.arcsinh((v - self.middle) / self.unit)
        return np.where(np.isinf(self.unit), v, bent)

    def _ends(self) -> tuple[Array, Array]:
        """Return what becomes 0 and what becomes 1, bent."""
        return self._bend(self.lowest), self._bend(self.highest)

    def forward(self, values: Array) -> Array:
        """Return values on [0, 1] in single precision; what is not finite becomes 0."""
        low, high = self._ends()
        v = self._bend(_wide(values))
        v = (v - low) / np.where(high > low, high - low, 1)
        unit: Array = np.clip(np.nan_to_num(v), 0, 1).astype(np.float32)
        return unit

    def backward(self, x: Array) -> Array:
        """Return values of the image's own dtype, within its range."""
        low, high = self._ends()
        v = np.clip(x.astype(np.float64), 0, 1) * (high - low) + low
        linear = np.isinf(self.unit)
        with np.errstate(invalid="ignore", over="ignore"):
            v = np.where(linear, v, np.sinh(v) * self.unit + self.middle)
        v = np.clip(v, self.lowest, self.highest)
        out: Array
        if self.dtype.kind == "b":
            out = v > 0.5
        elif self.dtype.kind in "ui":
            out = round_to_dtype(v, self.dtype)
        else:
            out = v.astype(self.dtype)
        return out


def _wide(values: Array) -> Array:
    """Return values in double precision, so that no difference of them overflows."""
    wide: Array = np.clip(values.astype(np.float64), -1e300, 1e300)
    return wide


def _measures(good: Array) -> tuple[float, float, float, float]:
    """Return the lowest and highest value, the middle, and the unit of the bend."""
    lowest, highest = float(good.min()), float(good.max())
    span = _span(good)
    linear = highest - lowest <= TUNING.wide * span or span == 0
    middle = float(np.median(_inner(good)))
    return lowest, highest, middle, np.inf if linear else span


def _span(good: Array) -> float:
    """Return how far most of the values reach."""
    ends = (TUNING.outside, 1 - TUNING.outside)
    low, high = np.quantile(_inner(good), ends)
    return float(high - low)


def _inner(good: Array) -> Array:
    """Return the values strictly between the extremes, unless hardly any are.

    The extremes are what salt and pepper consist of.
    """
    inner = good[(good > good.min()) & (good < good.max())]
    return good if inner.size < TUNING.fewest * good.size else inner

"""Conversions between floating point and integer arrays, and evenly spaced samples."""

import math
from typing import Any

import numpy as np

from discrepant.core.linalg import Array


def round_to_dtype(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return floats rounded to an integer dtype and clipped to its range.

    The limits of 64-bit integers are not representable as floats, so that clipping to
    them before a cast would overflow. NaN becomes 0.
    """
    limits = np.iinfo(dtype)
    inside = (values > float(limits.min)) & (values < float(limits.max))
    out: Array = np.rint(np.where(inside, values, 0.0)).astype(dtype)
    out[values >= float(limits.max)] = limits.max
    out[values <= float(limits.min)] = limits.min
    return out


def to_uint8(image: Array, like: Array | None = None) -> Array:
    """Return an image in eight bits on the intensity scale of another; NaN is black.

    The scale is that of `like`, by default the image itself. That of uint8 and boolean
    images is their full range; that of all others runs from the 0.1% to the 99.9%
    quantile.
    """
    like = image if like is None else like
    low, high = 0.0, 255.0 if like.dtype == np.uint8 else 1.0
    if like.dtype not in (np.uint8, np.bool_):
        finite = like[np.isfinite(like)].astype(float)
        if finite.size:
            low, high = np.quantile(finite, (0.001, 0.999))
    scaled = (np.nan_to_num(image.astype(float), nan=low) - low) / ((high - low) or 1.0)
    return np.asarray(255 * np.clip(scaled, 0, 1), np.uint8)


def subsample(values: Array, limit: int = 1200) -> Array:
    """Return every k-th row and column, so that at most `limit` of each are left."""
    rows, columns = (max(1, -(-size // limit)) for size in values.shape[:2])
    return values[::rows, ::columns]


def even_sample(shape: tuple[int, ...], entries: int = 1 << 14) -> tuple[slice, ...]:
    """Return slices of evenly spaced rows and columns with about `entries` entries."""
    if math.prod(shape) <= entries:
        return tuple(slice(None) for _ in shape)
    per_axis = round(entries ** (1 / len(shape)))
    return tuple(slice(None, None, max(size // per_axis, 1)) for size in shape)

"""Conversions between floating point and integer arrays."""

from typing import Any

import numpy as np

from discrepant.core.linalg import Array


def round_to_dtype(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return floats rounded to an integer dtype, and clipped to its range.

    The ends of 64-bit integers are no floats: clipping to them before a cast would
    overflow. NaN becomes 0.
    """
    ends = np.iinfo(dtype)
    inside = (values > float(ends.min)) & (values < float(ends.max))
    out: Array = np.rint(np.where(inside, values, 0.0)).astype(dtype)
    out[values >= float(ends.max)] = ends.max
    out[values <= float(ends.min)] = ends.min
    return out

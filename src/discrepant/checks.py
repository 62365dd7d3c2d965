"""Checks at the door: what a caller passes in, looked at once, before any work.

Each check returns what it was given in the form that the solvers work with, or raises
`InputError` with one sentence. Nothing here knows of operators; data together with the
operator that they came through are checked in `discrepant.paper.observation`.
"""

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discrepant.errors import InputError


def real_array(values: ArrayLike) -> np.ndarray:
    """Return a floating array; integers and booleans become float64."""
    try:
        array = np.asarray(unmasked(values))
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"The data are not all numbers: {reason}.") from None
    if array.dtype.kind == "c":
        raise InputError(
            "Complex data are not supported; pass real and imaginary parts separately."
        )
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"The data are of type {array.dtype}; numbers are needed (drop or encode "
            "columns of text and dates)."
        )
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array


def unmasked(values: Any) -> Any:
    """Return a masked array as a plain one with NaN where it is masked."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    return values.filled(np.nan) if values.dtype.kind == "f" else values.data


def check_rates(alpha: float | str, step: float | str, init_scale: float) -> None:
    """Refuse rates that cannot work: all are positive; the first two may be "auto"."""
    for name, value in (("alpha", alpha), ("step", step), ("init_scale", init_scale)):
        if name != "init_scale" and isinstance(value, str) and value == "auto":
            continue
        if not isinstance(value, Real) or not (0 < value < math.inf):
            or_auto = "" if name == "init_scale" else ' or "auto"'
            raise InputError(
                f"{name} must be a positive number{or_auto}, got {value!r}."
            )


def check_square(shape: tuple[int, ...], psd: bool) -> None:
    """Refuse X ⪰ 0 where X is not square."""
    m, n = shape
    if psd and m != n:
        raise InputError(
            f"psd=True needs a square matrix, but this one is {m}×{n}; pass psd=False."
        )


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the choices."""
    if value in choices:
        return
    quoted = " or ".join(f'"{choice}"' for choice in choices)
    raise InputError(f"{name} must be {quoted}, got {value!r}.")

"""Checks at the door: what a caller passes in, looked at once, before any work.

Each check returns what it was given in the form that the solvers work with, or raises
`InputError` with one sentence. Nothing here knows of operators; data together with the
operator that they came through are checked in `discrepant.operators.observation`.
"""

import math
import os
import re
import reprlib
from collections.abc import Callable
from multiprocessing import current_process
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike

from discrepant.core.errors import InputError

MAX_QUOTED_CHARS = 80  # characters of what is quoted in a sentence
# Rates whose inverses and squares are numbers too.
RATES = (1e-100, 1e100)


def real_array(values: ArrayLike) -> np.ndarray:
    """Return a floating array; integers and booleans become float64."""
    try:
        array = np.asarray(masked_to_nan(values))
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"The data are not all numbers: {error_text(error)}."
        ) from None
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


def masked_to_nan(values: Any) -> Any:
    """Return a masked array as a plain one with NaN where it is masked."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    return values.filled(np.nan) if values.dtype.kind in "fO" else values.data


def check_mapped(values: np.ndarray) -> None:
    """Refuse a memory map whose file was cut: to read beyond its end is fatal.

    Whoever reads a map in pieces asks before each.
    """
    held: Any = values
    mapped = None
    while held is not None:
        mapped = held if isinstance(held, np.memmap) else mapped
        held = getattr(held, "base", None)
    path = getattr(mapped, "filename", None)
    if mapped is None or path is None or not os.path.exists(path):
        return
    there, needed = os.path.getsize(path), mapped.offset + mapped.nbytes
    if there < needed:
        raise InputError(
            f"{path} was cut short while it was in use; it has {there:,} bytes of "
            f"{needed:,}."
        )


def quote(value: object) -> str:
    """Return what was given, short enough to be quoted in a sentence."""
    try:
        text = " ".join(reprlib.repr(value).split())
    except Exception:  # a foreign object may fail even at this
        return f"a {type(value).__name__}"
    return text if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]}…"


def error_text(error: BaseException) -> str:
    """Return what went wrong as part of a sentence, without any dump of the data."""
    said = re.sub(r":\s*array=.*?(?=Reshape|$)", ". ", str(error), flags=re.DOTALL)
    said = re.sub(r"(?<=Complex data not supported)\n.*", "", said, flags=re.DOTALL)
    text = " ".join(said.split()).rstrip(".") or type(error).__name__
    return (
        text
        if len(text) <= 4 * MAX_QUOTED_CHARS
        else f"{text[: 4 * MAX_QUOTED_CHARS]}…"
    )


def check_number(
    name: str, value: Any, what: str, holds: Callable[[float], bool]
) -> float:
    """Return a finite number of which something holds; else it must be ``what``."""
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        try:
            number = float(value)
        except OverflowError:
            pass
    if not (math.isfinite(number) and holds(number)):
        raise InputError(f"{name} must be {what}, got {quote(value)}.")
    return number


def check_integer(
    name: str, value: Any, what: str, holds: Callable[[int], bool]
) -> int:
    """Return a whole number of which something holds; else it must be ``what``."""
    plain = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if not (plain and holds(int(value))):
        raise InputError(f"{name} must be {what}, got {quote(value)}.")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {quote(value)}.")
    return bool(value)


def check_fdr(fdr: Any) -> float:
    """Refuse a rate of false discoveries that is none."""
    return check_number(
        "fdr", fdr, "a number between 0 and 1", lambda rate: 0 < rate < 1
    )


def count_threads(n_jobs: Any) -> int:
    """Read a number of threads as joblib does, except that none given means all.

    In a process of a pool there is one: its siblings have the other cores.
    """
    what = "a whole number other than zero (−1 is all cores)"
    asked = -1 if n_jobs is None else n_jobs
    count = check_integer("n_jobs", asked, what, lambda jobs: jobs != 0)
    if count < 0 and current_process().daemon:
        return 1
    return int(effective_n_jobs(count))


def check_seed(random_state: Any) -> None:
    """Refuse what no generator of random numbers can be made of."""
    try:
        np.random.default_rng(random_state)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            "random_state must be a whole number of zero or more, a NumPy generator "
            f"or None, got {quote(random_state)}."
        ) from None


def check_callback(name: str, value: Any) -> None:
    """Refuse what cannot be called, unless it is None."""
    if value is not None and not callable(value):
        raise InputError(f"{name} must be a function or None, got {quote(value)}.")


def check_rates(alpha: float | str, step: float | str, init_scale: float) -> None:
    """Refuse rates that cannot work: all are positive; the first two may be "auto"."""
    low, high = RATES
    for name, value in (("alpha", alpha), ("step", step), ("init_scale", init_scale)):
        if name != "init_scale" and isinstance(value, str) and value == "auto":
            continue
        or_auto = "" if name == "init_scale" else ' or "auto"'
        check_number(
            name,
            value,
            f"a positive number{or_auto}",
            lambda rate: low <= rate <= high,
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
    if isinstance(value, str) and value in choices:
        return
    quoted = " or ".join(f'"{choice}"' for choice in choices)
    raise InputError(f"{name} must be {quoted}, got {quote(value)}.")

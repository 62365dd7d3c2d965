"""Validation of arguments, and how values are quoted in messages.

Each check returns its argument in the form that the solvers use, or raises `InputError`
with one sentence. Data that belong to an operator are validated together with it in
`discrepant.operators.observation`.
"""

import math
import os
import re
import reprlib
from collections.abc import Callable, Mapping
from multiprocessing import current_process
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike

from discrepant.core.errors import InputError

# Length in characters from which a quoted value is cut.
MAX_QUOTED_CHARS = 80
# Smallest and largest learning rate: inverses and squares stay finite and nonzero.
RATES = (1e-100, 1e100)


def real_array(values: ArrayLike) -> np.ndarray:
    """Return data as a floating point array; integers and booleans become float64."""
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
    """Return a masked array as a plain array with NaN at masked entries."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    return values.filled(np.nan) if values.dtype.kind in "fO" else values.data


def missing_values(data: np.ndarray) -> np.ndarray:
    """Return which values are missing (NaN); refuse infinite and unobserved data."""
    if data.ndim == 0 or data.size == 0:
        raise InputError(
            "The data are empty or a single number; an array of values is needed."
        )
    refuse_infinite(data)
    missing: np.ndarray = np.isnan(data)
    if missing.all():
        raise InputError("All values are missing; at least one must be observed.")
    return missing


def refuse_infinite(data: Any) -> None:
    """Refuse data with an infinite value."""
    if np.isinf(data).any():
        raise InputError(
            "The data contain infinite values; replace them by NaN to mark them as "
            "missing."
        )


def check_mapped(values: np.ndarray) -> None:
    """Refuse a memory map whose file was truncated.

    A read beyond the end of the file would end the process. Call this before the map,
    or a part of it, is read.
    """
    array: Any = values
    mapped = None
    while array is not None:
        mapped = array if isinstance(array, np.memmap) else mapped
        array = getattr(array, "base", None)
    path = getattr(mapped, "filename", None)
    if mapped is None or path is None or not os.path.exists(path):
        return
    size, needed = os.path.getsize(path), mapped.offset + mapped.nbytes
    if size < needed:
        raise InputError(
            f"{path} was cut short while it was in use; it has {size:,} bytes of "
            f"{needed:,}."
        )


def quote(value: object) -> str:
    """Return a value as text that is short enough to be quoted in a sentence."""
    try:
        text = " ".join(reprlib.repr(value).split())
    except Exception:  # the object's own __repr__ may fail
        return f"a {type(value).__name__}"
    return text if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]}…"


def error_text(error: BaseException) -> str:
    """Return the message of an error as part of a sentence, without printed data."""
    message = re.sub(r":\s*array=.*?(?=Reshape|$)", ". ", str(error), flags=re.DOTALL)
    message = re.sub(
        r"(?<=Complex data not supported)\n.*", "", message, flags=re.DOTALL
    )
    text = " ".join(message.split()).rstrip(".") or type(error).__name__
    return (
        text
        if len(text) <= 4 * MAX_QUOTED_CHARS
        else f"{text[: 4 * MAX_QUOTED_CHARS]}…"
    )


def check_number(
    name: str, value: Any, requirement: str, condition: Callable[[float], bool]
) -> float:
    """Return a finite number that satisfies a condition, or raise `InputError`.

    The message is "`name` must be `requirement`, got `value`."
    """
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        try:
            number = float(value)
        except OverflowError:
            pass
    if not (math.isfinite(number) and condition(number)):
        raise InputError(f"{name} must be {requirement}, got {quote(value)}.")
    return number


def check_integer(
    name: str, value: Any, requirement: str, condition: Callable[[int], bool]
) -> int:
    """Return an integer that satisfies a condition, or raise `InputError`.

    The message is "`name` must be `requirement`, got `value`."
    """
    is_integer = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if not (is_integer and condition(int(value))):
        raise InputError(f"{name} must be {requirement}, got {quote(value)}.")
    return int(value)


def check_count(name: str, value: Any) -> int:
    """Return a whole number from 1; refuse anything else."""
    return check_integer(name, value, "a whole number from 1", lambda count: count >= 1)


def check_flag(name: str, value: Any) -> bool:
    """Return a boolean; refuse anything but True and False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {quote(value)}.")
    return bool(value)


def check_fdr(fdr: Any) -> float:
    """Return a false discovery rate; refuse numbers outside (0, 1)."""
    return check_number(
        "fdr", fdr, "a number between 0 and 1", lambda rate: 0 < rate < 1
    )


def count_threads(n_jobs: Any) -> int:
    """Return the number of threads for `n_jobs` as joblib counts, with None for all.

    A worker process of a pool gets one thread: the other workers use the other cores.
    """
    requirement = "a whole number other than zero (−1 is all cores)"
    n_jobs = -1 if n_jobs is None else n_jobs
    count = check_integer("n_jobs", n_jobs, requirement, lambda jobs: jobs != 0)
    if count < 0 and current_process().daemon:
        return 1
    return int(effective_n_jobs(count))


def check_seed(random_state: Any) -> None:
    """Refuse a seed that NumPy's random generator does not accept."""
    try:
        np.random.default_rng(random_state)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            "random_state must be a whole number of zero or more, a NumPy generator "
            f"or None, got {quote(random_state)}."
        ) from None


def check_callback(name: str, value: Any) -> None:
    """Refuse a callback that is neither callable nor None."""
    if value is not None and not callable(value):
        raise InputError(f"{name} must be a function or None, got {quote(value)}.")


def check_rates(alpha: float | str, step: float | str, init_scale: float) -> None:
    """Refuse rates that are not positive; alpha and step may also be "auto"."""
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


def refuse_unused(
    given: Mapping[str, Any], defaults: Mapping[str, Any], why: str
) -> None:
    """Refuse parameters that the chosen solver does not use.

    `defaults` are those parameters, with the only value that they may have, and `why`
    is the rest of the sentence after the name of the parameter.
    """
    for name, default in defaults.items():
        value = given[name]
        if value is not default and (np.ndim(value) or value != default):
            raise InputError(f"{name} {why}, got {name}={quote(value)}.")

"""Checks of table files before they are read: names, declared sizes, read errors."""

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.memory import check_declared_size, check_memory
from discrepant.core.progress import StoppedError
from discrepant.core.validation import error_text


@contextmanager
def translate_read_errors(path: Path, formats: tuple[str, ...]) -> Iterator[None]:
    """Raise `InputError` with one sentence for any error while a file is read."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it.")
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if path.suffix.lower() not in formats:
        raise InputError(
            f"{path.name} has an unknown ending; known are {', '.join(formats)}."
        )
    try:
        yield
    except (InputError, StoppedError):
        raise
    except PermissionError:
        raise InputError(f"{path} cannot be read: permission denied.") from None
    except MemoryError:
        raise InputError(
            f"{path} cannot be read: it is too large for memory."
        ) from None
    except Exception as error:  # readers raise anything on a damaged file
        reason = error_text(error)
        if "pickle" in reason or "Python objects" in reason:
            reason = "it holds Python objects, which are never loaded"
        raise InputError(f"{path} cannot be read: {reason}.") from None


def array_name(path: Path, names: list[str], key: str | None) -> str:
    """Return ``key``, or the name of the only array of a file."""
    if key is None and len(names) != 1:
        raise InputError(
            f"{path.name} holds {len(names)} arrays ({', '.join(names)}); choose one "
            "with key=."
        )
    name = names[0] if key is None else key
    if name not in names:
        raise InputError(
            f"{path.name} has no array named {name!r}; it has {', '.join(names)}."
        )
    return name


def check_zip_size(path: Path, names: list[str], times: int = 2) -> None:
    """Raise `InputError` if members of a zip file declare more than it or memory holds.

    ``times`` is the number of copies of their content in memory.
    """
    with zipfile.ZipFile(path) as archive:
        declared = sum(
            info.file_size for info in archive.infolist() if info.filename in names
        )
        check_declared_size(path, declared)
        check_memory(path, times * declared)
        for name in names:
            if name.endswith(".npy") and name in archive.namelist():
                with archive.open(name) as file:
                    _check_header(path, file, archive.getinfo(name).file_size)


def _check_header(path: Path, file: IO[bytes], size: int) -> None:
    """Raise `ValueError` if an array is larger than its zip member."""
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(np.lib.format.read_magic(file))
    if read is None:
        raise ValueError("its array is of an unknown version")
    shape, _, dtype = read(file)
    declared = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and declared > size:
        raise ValueError(f"it declares {declared:,} bytes and holds {size:,}")

"""Where a run stands, in a file: plain arrays, replaced whole or not at all."""

import contextlib
import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError

Arrays = dict[str, np.ndarray]


def fingerprint(settings: dict[str, Any], *images: np.ndarray) -> str:
    """Return what tells this image and these settings from any other."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for image in images:
        digest.update(f"{image.dtype}{image.shape}".encode())
        digest.update(np.ascontiguousarray(image).tobytes())
    return digest.hexdigest()


def save(path: Path, mark: str, arrays: Arrays) -> str | None:
    """Write a checkpoint beside the last one, then put it in its place.

    Whatever goes wrong, a full disk above all, the last good one stays; the reason is
    returned so that the run can go on and say so.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            np.savez(file, allow_pickle=False, fingerprint=np.array(mark), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        return error.strerror or str(error)
    return None


def load(path: Path, mark: str) -> Arrays | None:
    """Read a checkpoint, if there is one; refuse that of another run."""
    if not path.exists():
        return None
    try:
        # Opened here, a file is closed even where NumPy cannot read it.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        found = str(arrays.pop("fingerprint"))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise InputError(
            f"{path} is not a checkpoint that can be read; remove it to start again."
        ) from None
    if found != mark:
        raise InputError(
            f"{path} is the checkpoint of another image or of other settings; choose "
            "another file, or remove it to start again."
        )
    return arrays

"""Checkpoints of a fit: plain arrays in a file that is replaced atomically."""

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
    """Return a hash of the settings and images, which identifies a run."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for image in images:
        digest.update(f"{image.dtype}{image.shape}".encode())
        digest.update(np.ascontiguousarray(image).tobytes())
    return digest.hexdigest()


def save(path: Path, run_fingerprint: str, arrays: Arrays) -> str | None:
    """Write a checkpoint to a temporary file, then replace the last one by it.

    If that fails, as on a full disk, the last good checkpoint is kept and the reason
    is returned, so that the run can continue and warn.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                fingerprint=np.array(run_fingerprint),
                **arrays,
            )
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        return error.strerror or str(error)
    return None


def load(path: Path, run_fingerprint: str) -> Arrays | None:
    """Read a checkpoint if it exists; raise an InputError if another run wrote it."""
    if not path.exists():
        return None
    try:
        # Opened here, so that the file is closed even if NumPy cannot read it.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        stored_fingerprint = str(arrays.pop("fingerprint"))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise InputError(
            f"{path} is not a checkpoint that can be read; remove it to start again."
        ) from None
    if stored_fingerprint != run_fingerprint:
        raise InputError(
            f"{path} is the checkpoint of another image or of other settings; choose "
            "another file, or remove it to start again."
        )
    return arrays

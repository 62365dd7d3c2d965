"""Results reach their folder whole or not at all, and overwrite nothing unasked."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discrepant.errors import InputError


@contextmanager
def staged(
    directory: Path,
    names: Sequence[str],
    *,
    overwrite: bool = False,
    keep: Path | None = None,
) -> Iterator[Path]:
    """Yield a scratch folder whose files move to ``directory`` once all is well.

    Parameters
    ----------
    directory : Path
        Where the results go; made if it is not there.
    names : sequence of str
        The files that will be written; checked before any work is done.
    overwrite : bool
        Whether files of these names may be replaced.
    keep : Path, optional
        A file that is never replaced: the input.
    """
    taken = [name for name in names if (directory / name).exists()]
    if keep is not None and any(_same(directory / name, keep) for name in taken):
        raise InputError(
            f"{keep} would be overwritten by its own result; choose another folder."
        )
    if taken and not overwrite:
        raise InputError(
            f"{directory / taken[0]} exists already; choose another folder or pass "
            "overwrite=True."
        )
    made = _first_missing(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".discrepant-", dir=directory))
    except OSError as error:
        raise InputError(
            f"{directory} cannot be written to: {error.strerror or error}."
        ) from None
    done = False
    try:
        yield scratch
        for path in sorted(scratch.iterdir()):
            os.replace(path, directory / path.name)
        done = True
    except OSError as error:
        if not _about_writing(error, directory):
            raise
        raise InputError(
            f"Writing to {directory} failed: {error.strerror or error}."
        ) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if not done and made is not None:
            _remove_if_empty(directory, made)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write readable JSON."""
    text = json.dumps(content, indent=2, ensure_ascii=False, default=float)
    path.write_text(text + "\n", encoding="utf-8")


def _about_writing(error: OSError, directory: Path) -> bool:
    """Whether the disk is full, or the file of the error lies in the folder."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
        return True
    names = (error.filename, error.filename2)
    return any(
        directory.absolute() in Path(os.fsdecode(name)).absolute().parents
        for name in names
        if isinstance(name, str | bytes | os.PathLike)
    )


def _same(first: Path, second: Path) -> bool:
    return second.exists() and first.samefile(second)


def _first_missing(directory: Path) -> Path | None:
    """Return the topmost folder that has to be made, if any."""
    missing = None
    for folder in (directory, *directory.parents):
        if folder.exists():
            break
        missing = folder
    return missing


def _remove_if_empty(directory: Path, top: Path) -> None:
    """Remove the folders that were made for nothing."""
    for folder in (directory, *directory.parents):
        try:
            folder.rmdir()
        except OSError:
            return
        if folder == top:
            return

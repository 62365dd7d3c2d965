"""Write results into a folder atomically: all files or none, nothing overwritten.

Results are written to a scratch folder inside the output folder and moved to their
places at the end. A lock protects the scratch folder while its run is alive. A scratch
folder without a lock was left by a killed run; the next run removes it.
"""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from discrepant import __version__
from discrepant.core.errors import InputError
from discrepant.core.validation import error_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

try:
    import fcntl
except ImportError:  # not on Windows, where an open file cannot be removed
    fcntl = None  # type: ignore[assignment]

# Prefix of the names of scratch folders.
SCRATCH = ".discrepant-"
# Names inside a scratch folder: its lock file, and the folder of replaced results.
LOCK, OLD = ".lock", ".old"
NOT_SAVED = ("folder", "files")  # fields of a report: for the caller only
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


@contextmanager
def atomic_output_folder(
    directory: Path,
    names: Sequence[str],
    *,
    folders: Sequence[str] = (),
    overwrite: bool = False,
    keep: Path | None = None,
) -> Iterator[Path]:
    """Yield a scratch folder whose content moves to ``directory`` on success.

    Parameters
    ----------
    directory : Path
        The output folder; created if it does not exist.
    names : sequence of str
        The files and folders that will be written; checked before the work begins.
    folders : sequence of str
        Those of them that are folders.
    overwrite : bool
        Whether files and folders of these names may be replaced. A folder is replaced
        as a whole, and only by a folder.
    keep : Path, optional
        A file or folder that is never replaced: the input.
    """
    with _describe_write_errors(directory, every_error=True):
        _check_free(directory, names, folders, overwrite, keep)
        created = [f for f in (directory, *directory.parents) if not f.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        _remove_stale_scratch(directory)
        scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=directory))
    lock: IO[bytes] | None = None
    done = False
    try:
        with _describe_write_errors(directory):
            lock = _locked(scratch)
            yield scratch
            _move(scratch, directory, overwrite)
        done = True
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if lock is not None:
            lock.close()
        if not done:
            with suppress(OSError):  # of folders that are no longer empty
                for folder in created:
                    folder.rmdir()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write indented JSON; bytes of file names that are not UTF-8 are escaped."""
    text = json.dumps(content, indent=2, ensure_ascii=False, default=float)
    path.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def write_summary(folder: Path, report: "DataclassInstance") -> None:
    """Write the fields of a report, and the version, to ``summary.json``."""
    fields = {k: value for k, value in asdict(report).items() if k not in NOT_SAVED}
    write_json(folder / "summary.json", {**fields, "version": __version__})


def _check_free(
    directory: Path,
    names: Sequence[str],
    folders: Sequence[str],
    overwrite: bool,
    keep: Path | None,
) -> None:
    taken = [name for name in names if os.path.lexists(directory / name)]
    for name in taken:
        if (directory / name).is_dir() and name not in folders:
            raise InputError(
                f"{directory / name} is a folder, and a file is to be written there; "
                "choose another place."
            )
    if keep is not None and any(_contains(directory / name, keep) for name in taken):
        raise InputError(
            f"{keep} would be overwritten by its own result; choose another folder."
        )
    if taken and not overwrite:
        raise InputError(_exists(directory / taken[0]))


def _exists(path: Path) -> str:
    return f"{path} exists already; choose another folder or pass overwrite=True."


def _move(scratch: Path, directory: Path, overwrite: bool) -> None:
    """Move all files and folders to their places, or none if one cannot be moved.

    Replaced files are kept until all new ones are in place.
    """
    paths = sorted(p for p in scratch.iterdir() if p.name not in (LOCK, OLD))
    old = scratch / OLD
    old.mkdir()
    placed: list[Path] = []
    try:
        for path in paths:
            target = directory / path.name
            if os.path.lexists(target):
                if not overwrite:  # written by another run meanwhile
                    raise InputError(_exists(target))
                # Files are replaced in one step, folders in two.
                (os.replace if path.is_dir() else _copy)(target, old / path.name)
            if overwrite:
                os.replace(path, target)
            else:
                _place(path, target)
            placed.append(target)
    except BaseException:
        for target in placed:
            if target.is_dir():
                shutil.rmtree(target)
            elif not os.path.lexists(old / target.name):
                target.unlink(missing_ok=True)
        for path in old.iterdir():
            target = directory / path.name
            if target in placed or not os.path.lexists(target):
                os.replace(path, target)
        raise


def _place(path: Path, target: Path) -> None:
    """Move a file to an unused name; of two runs at the same time, one succeeds."""
    try:
        os.link(path, target)
    except FileExistsError:
        raise InputError(_exists(target)) from None
    except OSError:  # the file system has no links
        os.replace(path, target)


def _copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@contextmanager
def _describe_write_errors(
    directory: Path, every_error: bool = False
) -> Iterator[None]:
    """Replace errors of writing to the folder by a sentence (`InputError`)."""
    try:
        yield
    except OSError as error:
        if not (every_error or _about_writing(error, directory)):
            raise
        if error.errno is None:  # how NumPy reports a full disk
            raise InputError(
                f"Writing to {directory} failed; its disk is full, or nearly so "
                f"({error_text(error)})."
            ) from None
        raise InputError(
            f"{directory} cannot be written to: {error.strerror or error}."
        ) from None


def _about_writing(error: OSError, directory: Path) -> bool:
    """Return whether the disk is full or the file of the error is in the folder."""
    if error.errno in FULL or "requested and" in str(error):
        return True
    names = (error.filename, error.filename2)
    return any(
        directory.absolute() in Path(os.fsdecode(name)).absolute().parents
        for name in names
        if isinstance(name, str | bytes | os.PathLike)
    )


def _locked(scratch: Path) -> IO[bytes] | None:
    """Lock a scratch folder; the lock file appears only once it is locked."""
    if fcntl is None:
        return None
    unlocked = scratch / f"{LOCK}-new"
    file = unlocked.open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # the file system has no locks
        file.close()
        unlocked.unlink()
        return None
    unlocked.rename(scratch / LOCK)
    return file


def _remove_stale_scratch(directory: Path) -> None:
    """Remove the scratch folders of killed runs."""
    for lock in directory.glob(f"{SCRATCH}*/{LOCK}") if fcntl is not None else ():
        try:
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # its run is alive, or the folder is gone
            continue


def _contains(path: Path, kept: Path) -> bool:
    """Return whether replacing `path` would remove the file or folder `kept`."""
    if not (path.exists() and kept.exists()):
        return False
    kept = kept.resolve()
    return any(path.samefile(parent) for parent in (kept, *kept.parents))

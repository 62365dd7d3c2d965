"""Numba's compiler, with a cache on disk that can do no harm.

What is compiled is kept beside the source, or wherever Numba may write, to be found by
the next run. A cache that is damaged, of another version or on a full disk must neither
end the work nor change it: each piece is kept with its checksum, and what does not
match is compiled again. Importing this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

import hashlib
import pickle
from typing import TYPE_CHECKING

import numba
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

__all__ = ["njit"]

DIGEST = hashlib.sha256().digest_size


def _njit(*, cache=True, **options):
    """Compile a function as `numba.njit` does, and keep what was compiled."""

    def compiled(function):
        found = numba.njit(**options)(function)
        if cache:
            try:
                found._cache = _Kept(function)
            except RuntimeError:  # there is nowhere to write to
                pass
        return found

    return compiled


if not TYPE_CHECKING:
    njit = _njit


class _Kept(FunctionCache):
    """What was compiled of one function."""

    def __init__(self, function):
        super().__init__(function)
        self._cache_file = _Checked(
            self._cache_path,
            self._impl.filename_base,
            self._impl.locator.get_source_stamp(),
        )

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError:  # a full disk, a folder that became read-only
            pass


class _Checked(IndexDataCacheFile):
    """The files of a cache: what cannot be read as it was written is not there."""

    def _load_index(self):
        try:
            return super()._load_index()
        except Exception:  # a damaged pickle raises anything
            return {}

    def _load_data(self, name):
        with open(self._data_path(name), "rb") as file:
            digest, data = file.read(DIGEST), file.read()
        if hashlib.sha256(data).digest() != digest:
            raise OSError(f"{name} is damaged")  # which Numba takes for absent
        return pickle.loads(data)

    def _save_data(self, name, data):
        data = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(data).digest() + data)

"""Numba's compiler, with a cache on disk that can do no harm.

What is compiled is kept beside the source, or wherever Numba may write, to be found by
the next run. A cache that is damaged, of another version or on a full disk must neither
end the work nor change it: each piece is kept with its checksum, and what does not
match is compiled again. Importing this module loads the compiler.

The first run of a machine compiles for a while; whoever listens is told, once.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

import hashlib
import pickle
import time
from typing import TYPE_CHECKING

import numba
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

from discrepant.core.progress import announce

__all__ = ["njit"]

DIGEST = hashlib.sha256().digest_size
PATIENCE = 1.5  # seconds of compiling that nobody needs to be told of


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


class _Clock:
    """How long has been compiled for; the first to notice that it is long says so."""

    began = spent = 0.0
    said = False

    @classmethod
    def start(cls):
        cls.look()
        cls.began = time.perf_counter()

    @classmethod
    def stop(cls):
        cls.spent += time.perf_counter() - cls.began
        cls.look()

    @classmethod
    def look(cls):
        if cls.spent > PATIENCE and not cls.said:
            cls.said = True
            announce(
                "Compiling for this machine, which takes up to a minute; the next run "
                "starts at once."
            )


class _Kept(FunctionCache):
    """What was compiled of one function."""

    def __init__(self, function):
        super().__init__(function)
        self._cache_file = _Checked(
            self._cache_path,
            self._impl.filename_base,
            self._impl.locator.get_source_stamp(),
        )

    def load_overload(self, sig, target_context):
        found = super().load_overload(sig, target_context)
        if found is None:
            _Clock.start()
        return found

    def save_overload(self, sig, data):
        _Clock.stop()
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

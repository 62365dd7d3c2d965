"""`njit`: Numba's, with a cache on disk that processes can share, and a notice.

Machine code is kept beside the source, or in the user's cache folder if that cannot be
written to, or in ``NUMBA_CACHE_DIR``. The first run on a machine compiles for a while,
which is announced once. Importing this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

import hashlib
import time
from typing import TYPE_CHECKING

import numba
from numba import njit
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile

from discrepant.core.progress import announce

__all__ = ["njit"]

PATIENCE = 1.5  # seconds of compiling before it is announced


def _njit(*, cache=True, **options):
    """Compile a function as `numba.njit` does, and keep the machine code."""

    def compiled(function):
        dispatcher = numba.njit(**options)(function)
        if cache:
            try:
                dispatcher._cache = _Cache(function)
            except RuntimeError:  # no folder can be written to
                pass
        return dispatcher

    return compiled


if not TYPE_CHECKING:
    njit = _njit


class _Cache(FunctionCache):
    """Numba's cache of one function, in `_Files`; a full disk is no error."""

    def __init__(self, function):
        super().__init__(function)
        self._cache_file = _Files(
            self._cache_path,
            self._impl.filename_base,
            self._impl.locator.get_source_stamp(),
        )

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError:
            pass


class _Files(IndexDataCacheFile):
    """One file for each signature, processor, and version of the source and of Numba.

    Numba numbers these files and keeps an index of them. Two processes that compile a
    function for different types at the same time write to the same number, and the
    index of one then leads to the machine code of the other: a third process loads code
    for the wrong types. With names that follow from the key no two keys share a file.
    """

    def load(self, key):
        """Return the compiled function, or None if there is no readable file."""
        try:
            stored_key, data = self._load_data(self._name(key))
        except Exception:  # a truncated pickle raises anything
            return None
        return data if stored_key == key else None

    def save(self, key, data):
        """Write the compiled function to its file, in one step."""
        self._save_data(self._name(key), (key, data))

    def _name(self, key):
        identity = repr((self._version, self._source_stamp, key))
        digest = hashlib.sha256(identity.encode()).hexdigest()[:24]
        return f"{self._index_name.removesuffix('.nbi')}.{digest}.nbc"


class _Notice(event.Listener):
    """Announce once that this package is being compiled, if it takes long."""

    def __init__(self):
        self.depth, self.began, self.spent, self.announced = 0, 0.0, 0.0, False

    def on_start(self, event):
        if self.depth == 0:
            self._announce(event)
            self.began = time.perf_counter()
        self.depth += 1  # a function compiles those that it calls

    def on_end(self, event):
        self.depth -= 1
        if self.depth == 0:
            self.spent += time.perf_counter() - self.began
            self._announce(event)

    def _announce(self, event):
        ours = event.data["dispatcher"].py_func.__module__.startswith("discrepant.")
        if ours and self.spent > PATIENCE and not self.announced:
            self.announced = True
            announce(
                "Compiling for this machine, which takes up to a minute; the next run "
                "starts at once."
            )


NOTICE = _Notice()
event.register("numba:compile", NOTICE)

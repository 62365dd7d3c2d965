"""`njit` of Numba with a disk cache that is safe for concurrent processes.

Machine code is stored beside the source, or in the user's cache folder if that cannot
be written to, or in ``NUMBA_CACHE_DIR``. The first run on a machine compiles for up to
a minute and announces this once. Importing this module loads the compiler.
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

# Seconds of compiling before it is announced: shorter waits need no explanation.
ANNOUNCE_AFTER = 1.5


def _njit(*, cache=True, **options):
    """Compile a function like `numba.njit`, and store the machine code on disk."""

    def compiled(function):
        dispatcher = numba.njit(**options)(function)
        if cache:
            try:
                dispatcher._cache = _SafeCache(function)
            except RuntimeError:  # no folder can be written to
                pass
        return dispatcher

    return compiled


if not TYPE_CHECKING:
    njit = _njit


class _SafeCache(FunctionCache):
    """Numba's cache of one function, with `_CacheFiles`; ignores a full disk."""

    def __init__(self, function):
        super().__init__(function)
        self._cache_file = _CacheFiles(
            self._cache_path,
            self._impl.filename_base,
            self._impl.locator.get_source_stamp(),
        )

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError:
            pass


class _CacheFiles(IndexDataCacheFile):
    """One cache file per signature, processor, version of the source and of Numba.

    Numba numbers these files and keeps an index of them. Two processes that compile a
    function for different types at the same time write to the same number, and the
    index of one then leads to the machine code of the other: a third process loads code
    for the wrong types. Here the name of a file is a hash of its key, so that different
    keys have different files.
    """

    def load(self, key):
        """Return the compiled function, or None if there is no readable file."""
        try:
            stored_key, data = self._load_data(self._name(key))
        except Exception:  # a truncated pickle raises anything
            return None
        return data if stored_key == key else None

    def save(self, key, data):
        """Write the compiled function to its file atomically."""
        self._save_data(self._name(key), (key, data))

    def _name(self, key):
        identity = repr((self._version, self._source_stamp, key))
        digest = hashlib.sha256(identity.encode()).hexdigest()[:24]
        return f"{self._index_name.removesuffix('.nbi')}.{digest}.nbc"


class _CompileNotice(event.Listener):
    """Announces once that this package is compiled, if that takes long."""

    def __init__(self):
        self.depth = 0  # compilations that are nested in each other
        self.started = 0.0  # time at which the outermost one started, in seconds
        self.seconds = 0.0  # total time of compilations so far
        self.announced = False

    def on_start(self, event):
        if self.depth == 0:
            self._announce(event)
            self.started = time.perf_counter()
        self.depth += 1  # compiling a function compiles the functions that it calls

    def on_end(self, event):
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.perf_counter() - self.started
            self._announce(event)

    def _announce(self, event):
        in_package = event.data["dispatcher"].py_func.__module__.startswith(
            "discrepant."
        )
        if in_package and self.seconds > ANNOUNCE_AFTER and not self.announced:
            self.announced = True
            announce(
                "Compiling for this machine, which takes up to a minute; the next run "
                "starts at once."
            )


COMPILE_NOTICE = _CompileNotice()
event.register("numba:compile", COMPILE_NOTICE)

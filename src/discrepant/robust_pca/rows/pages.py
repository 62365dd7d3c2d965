"""Memory that is a file: working arrays beyond a limit, and pages that are given back.

What is read of a memory map counts as memory of the process until the system wants it
back. Where the user has set a limit it is given back as soon as it has been read.
"""

import mmap
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.memory import array_on_file
from discrepant.core.robust_statistics import row_scales

STRETCH = 1 << 22  # bytes that are read of a map before they are given back
FEW = 8  # lines, likewise, where they are scattered: the system reads around them


def room_for(shape: tuple[int, ...], dtype: Any, limit: int | None) -> Array:
    """Return an array of zeros, on file if it takes more than the limit.

    Either costs nothing before it is written to: such pages are zero by themselves.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if limit is None or size <= limit:
        return np.zeros(shape, dtype)
    return array_on_file(shape, dtype).view(np.ndarray)


class Pages:
    """The pages of a map that an array lies on.

    Parameters
    ----------
    Z : ndarray
        C-contiguous; may be a view of a memory map.
    wide : bool
        Whether it is read along its second axis.
    limit : int or None
        Bytes of it that may be in memory; None is no limit.
    """

    def __init__(self, Z: Array, wide: bool, limit: int | None) -> None:
        over = limit is not None and Z.nbytes > limit
        self.map = _map_of(Z) if over and hasattr(mmap, "MADV_DONTNEED") else None
        self.start, self.stop, self.line = 0, Z.nbytes, 0 if wide else Z.strides[0]
        lines = Z.shape[1 if wide else 0]
        # Lines to read before they are given back; all of them if none are.
        self.stretch = max(lines, 1)
        if self.map is not None:
            whole = np.frombuffer(self.map, np.uint8)
            self.start = Z.ctypes.data - whole.ctypes.data
            self.stop += self.start
            self.stretch = max(STRETCH * lines // Z.nbytes, 1)

    def give_back(self, first: int, last: int) -> None:
        """Give back the pages of some lines; the file keeps what is on them."""
        if self.map is None:
            return
        start = self.start + first * self.line
        start -= start % mmap.PAGESIZE
        stop = self.start + last * self.line if self.line else self.stop
        self.map.madvise(mmap.MADV_DONTNEED, start, stop - start)

    def taken(self, Z: Array, which: Array, axis: int) -> Array:
        """Return some lines of the array along an axis, a few at a time."""
        if self.map is None:
            return np.take(Z, which, axis)
        shape = [*Z.shape]
        shape[axis] = len(which)
        found = np.empty(shape, Z.dtype)
        step = FEW if axis == 0 else max(STRETCH // Z.strides[0], 1)
        for start in range(0, shape[0], step):
            part = slice(start, start + step)
            found[part] = Z[which[part]] if axis == 0 else Z[part][:, which]
            self.give_back_all()
        return found

    def sizes(self, Z: Array, axis: int, entries: int) -> Array:
        """Return `row_scales` of the lines of the array along an axis."""
        count, length = Z.shape[axis], Z.shape[1 - axis]
        if self.map is None or count > length:
            Y, found = Z.T if axis else Z, []
            for start in range(0, count, min(self.stretch, max(count, 1))):
                found.append(row_scales(Y[start : start + self.stretch], entries))
                self.give_back_all()
            return np.concatenate([np.zeros(0), *found])
        which = np.arange(0, length, max(length // entries, 1))
        some = self.taken(Z, which, 1 - axis)
        return row_scales(some.T if axis else some, entries)

    def give_back_all(self) -> None:
        """Give back whatever has been read."""
        if self.map is not None:
            start = self.start - self.start % mmap.PAGESIZE
            self.map.madvise(mmap.MADV_DONTNEED, start, self.stop - start)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "map": None}


def _map_of(Z: Array) -> mmap.mmap | None:
    """Return the map that an array is a view of."""
    held: Any = Z
    while held is not None and not isinstance(held, mmap.mmap):
        held = held.obj if isinstance(held, memoryview) else getattr(held, "base", None)
    return held

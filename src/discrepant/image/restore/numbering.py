"""Numbers for equal keys, in time that grows with how many keys there are.

What `numpy.unique` does by sorting all keys is done by hashing here: a graphic has
millions of pixels, and few thousand surroundings.
"""

import numba
import numpy as np

from discrepant.linalg import Array


MANY = 0.25  # different keys, as a share of all, from which on sorting is as quick


def numbered(keys: Array) -> tuple[Array, Array]:
    """Return the different keys in order, and which of them each key is.

    Parameters
    ----------
    keys : ndarray of integers
        Of any shape; they are taken as they lie in memory.
    """
    flat = np.ascontiguousarray(keys).ravel()
    number = np.empty(flat.size, np.int32)
    bits = max(int(flat.size * 2 - 1).bit_length(), 4)
    seen = _first_come(flat.view(np.uint64), bits, number)
    if len(seen) > MANY * flat.size:  # sorting is as quick
        every, which = np.unique(flat, return_inverse=True)
        return every, which
    found = seen.view(flat.dtype)
    order = np.argsort(found, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return found[order], rank[number]


@numba.njit(cache=True, nogil=True)
def _first_come(keys: np.ndarray, bits: int, number: np.ndarray) -> np.ndarray:
    """Number keys as they come; return those that are different."""
    slots = np.zeros(1 << bits, np.int32)  # number + 1 of the key that lies there
    seen = np.empty(1024, np.uint64)
    count = 0
    last = np.uint64((1 << bits) - 1)
    away = np.uint64(64 - bits)
    for i in range(len(keys)):
        key = keys[i]
        at = (key * np.uint64(0x9E3779B97F4A7C15)) >> away
        while slots[at] and seen[slots[at] - 1] != key:
            at = (at + np.uint64(1)) & last
        if not slots[at]:
            if count > MANY * len(keys):
                break
            if count == len(seen):
                more = np.empty(2 * count, np.uint64)
                more[:count] = seen
                seen = more
            seen[count] = key
            count += 1
            slots[at] = count
        number[i] = slots[at] - 1
    return seen[:count].copy()

"""Numbers for equal keys, in time that grows with how many keys there are.

What `numpy.unique` does by sorting all keys is done by hashing here: a graphic has
millions of pixels, and few thousand surroundings.
"""

import numpy as np

from discrepant.core.linalg import Array

MANY = 0.25  # different keys, as a share of all, from which on sorting is as quick


def numbered(keys: Array) -> tuple[Array, Array]:
    """Return the different keys in order, and which of them each key is.

    Parameters
    ----------
    keys : ndarray of integers
        Of any shape; they are taken as they lie in memory.
    """
    from discrepant.image.restore.core.kernels import first_come

    flat = np.ascontiguousarray(keys).ravel()
    number = np.empty(flat.size, np.int32)
    bits = max(int(flat.size * 2 - 1).bit_length(), 4)
    seen = first_come(flat.view(np.uint64), bits, MANY, number)
    if len(seen) > MANY * flat.size:  # sorting is as quick
        every, which = np.unique(flat, return_inverse=True)
        return every, which
    found = seen.view(flat.dtype)
    order = np.argsort(found, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return found[order], rank[number]

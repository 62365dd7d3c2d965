"""Brightness and colour as JPEG keeps them: colour at half the rows and columns."""

import numpy as np

from discrepant.linalg import Array

# Brightness and the two colour differences from red, green and blue (ITU T.871).
TO_PLANES = np.array(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
)
TO_COLOURS = np.linalg.inv(TO_PLANES)
# How often values that were cut to the range are made anew, and how far each time: ten
# rounds leave as little error as a hundred; at 2 the steps would not converge.
CUT_ROUNDS, CUT_STEP = 10, 1.8


def halved(a: Array) -> Array:
    """Return the means over 2×2 pixels."""
    found: Array = (a[::2, ::2] + a[1::2, ::2] + a[::2, 1::2] + a[1::2, 1::2]) / 4
    return found


def doubled(a: Array) -> Array:
    """Double rows and columns as decoders do: 3/4 of the nearer, 1/4 of the next."""
    for axis in (0, 1):
        padded = np.pad(a, [(1, 1) if k == axis else (0, 0) for k in range(3)], "edge")
        before, after = (
            np.delete(padded, (-1, -2), axis),
            np.delete(padded, (0, 1), axis),
        )
        pair = np.stack([0.75 * a + 0.25 * before, 0.75 * a + 0.25 * after], axis + 1)
        shape = [2 * n if k == axis else n for k, n in enumerate(a.shape)]
        a = pair.reshape(shape)
    return a


def sampled(a: Array) -> Array:
    """Return what `doubled` made ``a`` of, nearly: its error fed back three times."""
    found = halved(a)
    for _ in range(3):
        found = found + halved(a - doubled(found))
    return found


def unclipped(y: Array) -> Array:
    """Return colours before they were cut to [0, 1].

    A decoder adds colour, known at half size, to brightness and cuts what is beyond.
    Of a cut value the other channels and the pixels around tell what it was.
    """
    low, high, out = y <= 0, y >= 1, y
    for _ in range(CUT_ROUNDS):
        planes = out @ TO_PLANES.T
        planes[..., 1:] = doubled(sampled(planes[..., 1:]))
        step = np.float32(CUT_STEP) * ((planes @ TO_COLOURS.T) - out)
        out = np.where(low, np.minimum(out + step, 0), y)
        out = np.where(high, np.maximum(out + step, 1), out).astype(np.float32)
    return out

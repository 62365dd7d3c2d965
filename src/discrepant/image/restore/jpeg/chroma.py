"""Brightness and colour as JPEG keeps them: colour at half the rows and columns."""

import numpy as np

from discrepant.core.linalg import Array

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
        own = 0.75 * a
        before, after = (0.25 * side for side in _beside(a, axis))
        shape = [2 * n if k == axis else n for k, n in enumerate(a.shape)]
        a = np.empty(shape, a.dtype)
        even, odd = (a[::2], a[1::2]) if axis == 0 else (a[:, ::2], a[:, 1::2])
        np.add(own, before, out=even)
        np.add(own, after, out=odd)
    return a


def sampled(a: Array) -> Array:
    """Return what `doubled` made ``a`` of, nearly: its error fed back three times."""
    means = halved(a)
    found = means
    for _ in range(3):
        found = found + means - _halved_again(found)
    return found


def _halved_again(a: Array) -> Array:
    """Return ``halved(doubled(a))``: 3/4 of each value, 1/8 of those on either side."""
    for axis in (0, 1):
        before, after = _beside(a, axis)
        a = 0.75 * a + 0.125 * (before + after)
    return a


def _beside(a: Array, axis: int) -> tuple[Array, Array]:
    """Return the values before and after each; beyond the border, those at it."""
    wide = np.pad(a, [(1, 1) if k == axis else (0, 0) for k in range(a.ndim)], "edge")
    return (wide[:-2], wide[2:]) if axis == 0 else (wide[:, :-2], wide[:, 2:])


def unclipped(y: Array) -> Array:
    """Return colours before they were cut to [0, 1].

    A decoder adds colour, known at half size, to brightness and cuts what is beyond.
    Of a cut value the other channels and the pixels around tell what it was.
    """
    low, high = y <= 0, y >= 1
    where = np.nonzero((low | high).any(axis=2))
    if not where[0].size:
        return y
    out, given, low, high = y.copy(), y[where], low[where], high[where]
    to_tint, to_colours = (
        m.T.astype(np.float32) for m in (TO_PLANES[1:], TO_COLOURS[:, 1:])
    )
    tint = y @ to_tint
    cut = given
    for _ in range(CUT_ROUNDS):
        # Only what is cut moves: brightness stays, colour becomes that of half size.
        moved = (doubled(sampled(tint))[where] - tint[where]) @ to_colours
        moved = cut + np.float32(CUT_STEP) * moved
        cut = np.where(low, np.minimum(moved, 0), given)
        cut = np.where(high, np.maximum(moved, 1), cut)
        tint[where] = cut @ to_tint
    out[where] = cut
    return out

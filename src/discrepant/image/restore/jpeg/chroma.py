"""Luma and chroma planes of JPEG, with chroma at half the rows and columns."""

import numpy as np

from discrepant.core.linalg import Array

# Matrix from red, green and blue to luma and the two chroma planes (ITU T.871).
TO_YCBCR = np.array(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
)
# Matrix from luma and chroma to red, green and blue.
TO_RGB = np.linalg.inv(TO_YCBCR)
# Iterations that estimate clipped values: ten leave as little error as a hundred.
UNCLIP_ITERATIONS = 10
# Step of these iterations, over-relaxed; they diverge from a step of 2.
UNCLIP_STEP = 1.8


def luma(values: Array) -> Array:
    """Return the luma plane, of shape (rows, columns), of a grey or colour image."""
    if values.shape[2] == 1:
        return values[..., 0].astype(np.float32)
    plane: Array = (values @ TO_YCBCR[0]).astype(np.float32)
    return plane


def downsample(a: Array) -> Array:
    """Return the means over 2×2 pixels."""
    means: Array = (a[::2, ::2] + a[1::2, ::2] + a[::2, 1::2] + a[1::2, 1::2]) / 4
    return means


def upsample(a: Array) -> Array:
    """Double rows and columns as decoders do, with weights 3/4 and 1/4."""
    for axis in (0, 1):
        nearer = 0.75 * a
        before, after = (0.25 * side for side in _neighbours(a, axis))
        shape = [2 * n if k == axis else n for k, n in enumerate(a.shape)]
        a = np.empty(shape, a.dtype)
        even, odd = (a[::2], a[1::2]) if axis == 0 else (a[:, ::2], a[:, 1::2])
        np.add(nearer, before, out=even)
        np.add(nearer, after, out=odd)
    return a


def invert_upsample(a: Array) -> Array:
    """Return an approximate inverse of `upsample`, by three iterative corrections."""
    means = downsample(a)
    inverse = means
    for _ in range(3):
        inverse = inverse + means - _downsample_of_upsampled(inverse)
    return inverse


def _downsample_of_upsampled(a: Array) -> Array:
    """Return ``downsample(upsample(a))``: 3/4 of a value, 1/8 of either neighbour."""
    for axis in (0, 1):
        before, after = _neighbours(a, axis)
        a = 0.75 * a + 0.125 * (before + after)
    return a


def _neighbours(a: Array, axis: int) -> tuple[Array, Array]:
    """Return the values before and after each along an axis; edges are repeated."""
    padded = np.pad(a, [(1, 1) if k == axis else (0, 0) for k in range(a.ndim)], "edge")
    if axis == 0:
        return padded[:-2], padded[2:]
    return padded[:, :-2], padded[:, 2:]


def undo_clipping(y: Array) -> Array:
    """Estimate the colours of an image on [0, 1] before the decoder clipped them.

    A decoder adds chroma of half size to luma and clips the sum to the range. A clipped
    value follows from the luma and from the chroma of the pixels around it.
    """
    low, high = y <= 0, y >= 1
    clipped = np.nonzero((low | high).any(axis=2))
    if not clipped[0].size:
        return y
    out, given, low, high = y.copy(), y[clipped], low[clipped], high[clipped]
    to_chroma, to_rgb = (m.T.astype(np.float32) for m in (TO_YCBCR[1:], TO_RGB[:, 1:]))
    chroma = y @ to_chroma
    values = given
    for _ in range(UNCLIP_ITERATIONS):
        # Only clipped values change: luma stays, chroma becomes that of half size.
        smooth = upsample(invert_upsample(chroma))
        change = (smooth[clipped] - chroma[clipped]) @ to_rgb
        proposed = values + np.float32(UNCLIP_STEP) * change
        values = np.where(low, np.minimum(proposed, 0), given)
        values = np.where(high, np.maximum(proposed, 1), values)
        chroma[clipped] = values @ to_chroma
    out[clipped] = values
    return out

"""Detect whether an image was corrupted before it was saved as JPEG.

JPEG cuts an image into blocks of 8×8 pixels and rounds the DCT coefficients of each
block to multiples of a quantisation step. If an image was corrupted before it was
saved, the blocks that contain corruption have such coefficients; if it was saved before
it was corrupted, only the other blocks have them.
"""

import numpy as np
from scipy.fft import dctn

from discrepant.core.linalg import Array
from discrepant.image.restore.jpeg.chroma import luma, undo_clipping

# Rows and columns of a block of JPEG.
BLOCK = 8
# Rows of an image whose blocks are transformed at a time.
ROWS_PER_STRIP = 64 * BLOCK
# Quantisation steps that the standard suggests for luma (ITU T.81, table K.1). Encoders
# multiply them by one factor, their "quality".
LUMINANCE_TABLE = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ]
)

# Largest order u + v of the frequencies tested for quantisation. At higher orders
# nearly all coefficients are 0, which carries no information about the step.
MAX_TESTED_ORDER = 6
# Largest quantisation step tried, in grey levels: that of quality 50 at these orders.
MAX_STEP = 64
# Coefficients beyond half a step that a frequency needs to be tested.
MIN_COEFFICIENTS = 20
# Standard deviations by which the mean cosine at the best step must exceed that of
# uniformly distributed coefficients. Each of the 27 frequencies × 62 steps exceeds it
# by chance with a probability of 1e-9.
MIN_STEP_Z = 6.0
# Fraction of the frequencies that must have a step. Of images saved after corruption at
# least 19% have one (per-channel salt-and-pepper at 30%, quality 90), of images saved
# before at most 7%.
MIN_QUANTISED_FRACTION = 0.1
# Largest ratio of a step to the standard's, times the common factor, at which the two
# agree. After corruption and saving all agree, within 1.2.
MAX_STEP_RATIO = 1.5
# Fraction of the steps that must agree. Of hot pixels on a saved photograph at most a
# third agree.
MIN_AGREEING_FRACTION = 0.7
# Smallest order of the high frequencies: an impulse has as much energy there as at low
# frequencies, and a photograph does not.
MIN_HIGH_ORDER = 9
# Largest order of the low frequencies.
MAX_LOW_ORDER = 4
# Smallest mean square of the high-frequency coefficients of a block with impulses, in
# squared grey levels.
MIN_HIGH_ENERGY = 9.0
# Smallest ratio of high-frequency to low-frequency energy of a block with impulses.
MIN_ENERGY_RATIO = 0.1
# Smallest fraction of blocks with impulses. Of 18 photographs saved at quality 75 to 98
# at most 0.48 of the blocks pass; with 5% of each channel corrupted before, at least
# 0.67.
MIN_IMPULSE_BLOCKS = 0.55
# Smallest median of the energy ratio over all blocks. On the same photographs the
# largest was 0.14, and the smallest after corruption 0.20.
MIN_MEDIAN_ENERGY_RATIO = 0.17
# Rows and columns in the middle of the image that are tested for quantisation: 2,304
# blocks suffice, and all would take longer than the rest of a fast restoration.
MAX_TESTED_SIDE = 384


def jpeg_rounding_std(values: Array, mask: Array) -> float | None:
    """Return the standard deviation of JPEG's rounding, in grey levels.

    None if the image was not saved as JPEG, or was corrupted afterwards.

    Parameters
    ----------
    values : ndarray of shape (rows, columns, channels)
        The input image, of 8 bits and one or three channels.
    mask : ndarray of bool
        Values classified as corrupted: only blocks that contain some are tested.
    """
    middle = tuple(
        slice(start := max(n - MAX_TESTED_SIDE, 0) // 32 * 16, start + MAX_TESTED_SIDE)
        for n in values.shape[:2]
    )
    values, mask = values[middle], mask[middle]
    corrupted = _blocks(np.max(mask, axis=2)).any(axis=(1, 2))
    plane = luma(values)
    if values.shape[2] > 1:
        even = tuple(slice(n - n % 2) for n in values.shape[:2])
        unclipped = undo_clipping(values[even].astype(np.float32) / 255)
        plane[even] = 255 * luma(unclipped)
    blocks = _blocks(plane)[corrupted]
    if len(blocks) < MIN_COEFFICIENTS:
        return None
    ratios, n_frequencies = _step_ratios(
        np.abs(dctn(blocks, axes=(1, 2), norm="ortho"))
    )
    if len(ratios) < MIN_QUANTISED_FRACTION * n_frequencies:
        return None
    factor = float(np.median(ratios))
    # Impulses of one height repeat a few coefficients, which are multiples of any step.
    agree = np.abs(np.log(np.divide(ratios, factor))) < np.log(MAX_STEP_RATIO)
    if agree.mean() < MIN_AGREEING_FRACTION:
        return None
    # Rounding to multiples of q has an error of variance q²/12.
    steps = np.maximum(np.rint(factor * LUMINANCE_TABLE), 1)
    return float(np.sqrt(np.mean(steps**2) / 12))


def blocks_with_flat_spectrum(values: Array) -> Array | None:
    """Return the pixels of the blocks that contain impulses; None if most do not."""
    parts = [
        _block_energies(values[k : k + ROWS_PER_STRIP])
        for k in range(0, len(values), ROWS_PER_STRIP)
    ]
    high, low = np.concatenate(parts, axis=1)
    has_impulses = (high > MIN_HIGH_ENERGY) & (high > MIN_ENERGY_RATIO * low)
    if not len(has_impulses) or has_impulses.mean() < MIN_IMPULSE_BLOCKS:
        return None
    if np.median(high / (low + 1)) < MIN_MEDIAN_ENERGY_RATIO:
        return None
    rows, columns = (n // BLOCK for n in values.shape[:2])
    out = np.zeros((*values.shape[:2], 1), bool)
    pixels = has_impulses.reshape(rows, columns).repeat(BLOCK, 0).repeat(BLOCK, 1)
    out[: rows * BLOCK, : columns * BLOCK, 0] = pixels
    return out


def _block_energies(values: Array) -> Array:
    """Return the mean squares of each block's high and low DCT coefficients."""
    square = dctn(_blocks(luma(values)), axes=(1, 2), norm="ortho") ** 2
    order = np.add.outer(np.arange(BLOCK), np.arange(BLOCK))
    high = square[:, order >= MIN_HIGH_ORDER].mean(axis=1)
    low = square[:, (order > 0) & (order <= MAX_LOW_ORDER)].mean(axis=1)
    return np.stack([high, low])


def _blocks(plane: Array) -> Array:
    """Return the complete blocks of a plane, of shape (count, 8, 8)."""
    rows, columns = (n // BLOCK for n in plane.shape)
    cut = plane[: rows * BLOCK, : columns * BLOCK]
    grid = cut.reshape(rows, BLOCK, columns, BLOCK).swapaxes(1, 2)
    return grid.reshape(-1, BLOCK, BLOCK)


def _step_ratios(coefficients: Array) -> tuple[list[float], int]:
    """Return the detected steps over the standard's, and how many were tested."""
    ratios, n_frequencies = [], 0
    for u in range(MAX_TESTED_ORDER + 1):
        for v in range(MAX_TESTED_ORDER + 1 - u):
            if u + v:
                n_frequencies += 1
                step = _quantisation_step(coefficients[:, u, v])
                if step is not None:
                    ratios.append(step / LUMINANCE_TABLE[u, v])
    return ratios, n_frequencies


def _quantisation_step(magnitudes: Array) -> float | None:
    """Return the step of which magnitudes of coefficients are multiples, if any."""
    best_z, best_step = MIN_STEP_Z, None
    magnitudes = np.sort(magnitudes)
    firsts = np.searchsorted(magnitudes, np.arange(MAX_STEP) / 2, "right")
    for step in range(2, MAX_STEP):
        beyond = magnitudes[firsts[step] :]
        if len(beyond) < MIN_COEFFICIENTS:
            break
        # The sum of n cosines of uniform angles has variance n/2.
        total = np.cos(beyond * (2 * np.pi / step)).sum()
        z = total / np.sqrt(len(beyond) / 2)
        if z > best_z:
            best_z, best_step = float(z), float(step)
    return best_step

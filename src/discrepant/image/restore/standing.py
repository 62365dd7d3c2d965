"""What the first attempt could not tell from the picture, on a smooth ground."""

from dataclasses import replace

import numpy as np

from discrepant.image.arrays import rounded
from discrepant.image.restore.outliers import outliers
from discrepant.image.restore.tiles import Mended
from discrepant.linalg import Array

# Share of corruption beyond which noise cannot be measured by a median of errors: each
# error has some twenty values in its prediction.
MUCH = 0.03


def with_outliers(
    found: Mended,
    values: Array,
    bad: Array,
    sensitivity: float,
    gain: float | None,
    read_noise: float,
) -> Mended:
    """Return what was found, and with it what stands out of the noise.

    Parameters
    ----------
    found : Mended
        The first attempt; what it replaced is taken as it was replaced.
    values, bad : ndarray of shape (rows, columns, channels)
        The image, and which of its values are known to be wrong.
    sensitivity, gain, read_noise : float
        See `outliers`.
    """
    kind = values.dtype.kind
    touched = found.mask | (found.values != values)  # after JPEG, blocks are
    if kind not in "uif" or not found.complete or touched.mean() > MUCH:
        return found
    out, mask = found.values.copy(), found.mask.copy()
    probability = found.probability.copy()
    for c in range(values.shape[2]):
        more = outliers(
            found.values[..., c],
            bad[..., c],
            whole=kind in "ui",
            sensitivity=sensitivity,
            gain=gain,
            read_noise=read_noise,
        )
        if more is None:
            continue
        low, high = values[..., c].min(), values[..., c].max()
        guess = np.clip(more.guess, low, high)
        whole = kind in "ui"
        guess = rounded(guess, values.dtype) if whole else guess.astype(values.dtype)
        out[..., c] = np.where(more.mask, guess, out[..., c])
        mask[..., c] |= more.mask
        probability[..., c] = np.maximum(probability[..., c], more.probability)
    return replace(found, values=out, mask=mask, probability=probability)

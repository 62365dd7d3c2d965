"""Noise taken off as well: asked for, not done by default.

How much there is follows from the flattest blocks of each brightness, where what is
left of a value after its neighbours is noise alone; light that is counted has a
variance that grows with brightness, electronics one that does not. Patches that look
alike then predict each value from the others (`patches`), and prediction and value are
weighed by their variances: the posterior mean of a Gaussian, twice, the second time
with look-alikes found in what the first has cleaned (as Lebrun, Buades, Morel; 2013).
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import convolve

from discrepant.core.linalg import Array
from discrepant.image.restore.core.similar_patches import (
    PatchSearch,
    predict_from_patches,
)
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.tiling import tiles

# What is left of a value after a plane and a saddle through its eight neighbours, with
# a variance of one for noise of one.
LEFT = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]]) / 6


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial on other photographs than the benchmark's.

    Attributes
    ----------
    block : int
        Rows and columns over which a variance is taken.
    bins : int
        Of brightness, at most.
    flattest : float
        Share of the blocks of a bin that are taken for flat.
    share : float
        Mean variance of those over that of noise: the least ones are least by chance
        too. Measured on pure noise.
    unit : float
        Noise is brought to this deviation, at which patches were tuned.
    rounding : float
        Noise, in steps of whole numbers, up to which there is next to none: rounding
        alone has 0.3.
    """

    block: int = 8
    bins: int = 8
    flattest: float = 0.15
    share: float = 0.58
    unit: float = 0.05
    rounding: float = 0.75


TUNING = Tuning()
SEARCH = PatchSearch(stride=2, count=100, reach=10)


def remove_noise(values: Array, detector: Detector) -> Array:
    """Return an image without its noise; as it is, where there is none.

    ``values`` has shape (rows, columns, channels), of any dtype but bool.
    """
    if values.dtype.kind not in "uif" or min(values.shape[:2]) < 2 * TUNING.block:
        return values
    whole = values.dtype.kind in "ui"
    y = np.nan_to_num(values.astype(np.float64))
    variance = np.stack(
        [noise_variance(y[..., c], detector) for c in range(y.shape[2])], axis=2
    )
    usual = float(np.sqrt(np.median(variance)))
    finest = TUNING.rounding if whole else 1e-6 * float(np.ptp(y))
    if not usual > finest:
        return values
    scale = TUNING.unit / usual
    out = np.empty_like(y)
    for place in tiles(*values.shape):
        cleaned = _cleaned(scale * y[place.padded], scale**2 * variance[place.padded])
        out[place.core] = cleaned[place.core_in_padded] / scale
    out = np.clip(out, y.min(), y.max())
    found: Array = (np.rint(out) if whole else out).astype(values.dtype)
    return np.where(detector.is_saturated(values), values, found)


def noise_variance(plane: Array, detector: Detector) -> Array:
    """Return the variance of the noise at each value of one channel."""
    if detector.gain is not None:
        gain = float(detector.gain)
        dark = (detector.read_noise / gain) ** 2
        found: Array = dark + np.maximum(convolve(plane, np.ones((3, 3)) / 9), 0) / gain
        return found
    block = TUNING.block
    rows, columns = (n // block * block for n in plane.shape)
    left = convolve(plane, LEFT, mode="mirror")[:rows, :columns] ** 2

    def over_blocks(a: Array) -> Array:
        shape = (rows // block, block, columns // block, block)
        mean: Array = a.reshape(shape).mean(axis=(1, 3)).ravel()
        return mean

    level, spread = over_blocks(plane[:rows, :columns]), over_blocks(left)
    order = np.argsort(level, kind="stable")
    levels, variances = [], []
    for part in np.array_split(order, min(TUNING.bins, max(len(order) // 50, 1))):
        flat = part[np.argsort(spread[part], kind="stable")]
        flat = flat[: max(int(TUNING.flattest * len(flat)), 1)]
        levels.append(float(level[flat].mean()))
        variances.append(float(spread[flat].mean()) / TUNING.share)
    line = _line(np.array(levels), np.array(variances))
    smooth = convolve(plane, np.ones((3, 3)) / 9, mode="mirror")
    return np.maximum(np.polyval(line, smooth), 0.5 * min(variances))


def _line(x: Array, y: Array) -> Array:
    """Return slope, 0 or more, and offset; variances that texture raised count less."""
    weight = np.ones_like(y)
    line = np.array([0.0, float(np.median(y))])
    for _ in range(5 if np.ptp(x) > 0 else 0):
        slope, offset = np.polyfit(x, y, 1, w=np.sqrt(weight))
        if slope < 0:
            slope, offset = 0.0, float(np.average(y, weights=weight))
        line = np.array([slope, offset])
        fit = np.maximum(np.polyval(line, x), 1e-300)
        weight = 1 / np.clip(y / fit, 0.5, 1e3) ** 4
    return line


def _cleaned(y: Array, variance: Array) -> Array:
    """Return the posterior mean of each value, in two passes."""
    noise = variance.astype(np.float32)
    seen = x = y.astype(np.float32)
    for known in (np.zeros_like(noise), noise):
        # At first the look-alikes have the noise in them, and so their covariance.
        guess, spread = predict_from_patches(x, seen, known, SEARCH)
        spread = spread - (noise - known)
        least = np.float32(0.02) * noise
        say = noise / (noise + np.maximum(spread, least))
        x = say * guess + (1 - say) * seen
    return x

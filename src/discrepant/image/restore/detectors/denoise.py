"""Remove noise from an image, on request.

The variance of the noise is measured in the flattest blocks of each brightness, where
the residual of a value after its neighbours is noise alone. It grows with brightness
for counted light and is constant for electronics. Similar patches predict each value
from the others, and the posterior mean combines prediction and value by their
variances. A second pass compares patches in the result of the first (as Lebrun, Buades,
Morel; 2013).
"""

import numpy as np
from scipy.ndimage import convolve

from discrepant.core.linalg import Array
from discrepant.image.restore.core.similar_patches import (
    PatchSearch,
    predict_from_patches,
)
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.tiling import tiles

# Filter whose output is the residual of a value after a plane and a saddle through its
# eight neighbours, with variance 1 for noise of variance 1.
RESIDUAL_FILTER = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]]) / 6
# Rows and columns of a block over which a variance is averaged.
BLOCK = 8
# Largest number of bins of brightness.
MAX_BINS = 8
# Fraction of the blocks of a bin that count as flat.
FLATTEST_FRACTION = 0.15
# Mean variance of these blocks over that of the noise, since the smallest variances are
# small by chance too; measured on white noise.
FLATTEST_VARIANCE_RATIO = 0.58
# Standard deviation to which the noise is scaled: patches were tuned at it.
SCALED_NOISE_STD = 0.05
# Noise of integer images, in steps of 1, up to which none is removed: rounding alone
# has 0.3.
MAX_ROUNDING_NOISE = 0.75
# Smallest variance of a prediction, as a fraction of that of the noise.
MIN_VARIANCE_FRACTION = 0.02
# Effort of the comparison of patches; chosen on other photographs than those of
# `benchmarks/images/denoise.py`.
SEARCH = PatchSearch(stride=2, count=100, reach=10)


def remove_noise(values: Array, detector: Detector) -> Array:
    """Return an image without its noise, or unchanged if it has none.

    ``values`` has shape (rows, columns, channels) and any dtype but bool.
    """
    if values.dtype.kind not in "uif" or min(values.shape[:2]) < 2 * BLOCK:
        return values
    is_integer = values.dtype.kind in "ui"
    y = np.nan_to_num(values.astype(np.float64))
    variance = np.stack(
        [noise_variance(y[..., c], detector) for c in range(y.shape[2])], axis=2
    )
    median_std = float(np.sqrt(np.median(variance)))
    min_std = MAX_ROUNDING_NOISE if is_integer else 1e-6 * float(np.ptp(y))
    if not median_std > min_std:
        return values
    scale = SCALED_NOISE_STD / median_std
    out = np.empty_like(y)
    for tile in tiles(*values.shape):
        scaled = scale * y[tile.padded]
        denoised = _denoise_tile(scaled, scale**2 * variance[tile.padded])
        out[tile.core] = denoised[tile.core_in_padded] / scale
    out = np.clip(out, y.min(), y.max())
    in_dtype: Array = (np.rint(out) if is_integer else out).astype(values.dtype)
    return np.where(detector.is_saturated(values), values, in_dtype)


def noise_variance(plane: Array, detector: Detector) -> Array:
    """Return the variance of the noise at each value of one channel."""
    if detector.gain is not None:
        gain = float(detector.gain)
        dark = (detector.read_noise / gain) ** 2
        level = convolve(plane, np.ones((3, 3)) / 9)
        variance: Array = dark + np.maximum(level, 0) / gain
        return variance
    rows, columns = (n // BLOCK * BLOCK for n in plane.shape)
    square = convolve(plane, RESIDUAL_FILTER, mode="mirror")[:rows, :columns] ** 2

    def block_means(a: Array) -> Array:
        shape = (rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
        means: Array = a.reshape(shape).mean(axis=(1, 3)).ravel()
        return means

    block_level, block_variance = (
        block_means(plane[:rows, :columns]),
        block_means(square),
    )
    order = np.argsort(block_level, kind="stable")
    levels, variances = [], []
    for bin_ in np.array_split(order, min(MAX_BINS, max(len(order) // 50, 1))):
        flattest = bin_[np.argsort(block_variance[bin_], kind="stable")]
        flattest = flattest[: max(int(FLATTEST_FRACTION * len(flattest)), 1)]
        levels.append(float(block_level[flattest].mean()))
        measured = float(block_variance[flattest].mean())
        variances.append(measured / FLATTEST_VARIANCE_RATIO)
    line = _robust_line(np.array(levels), np.array(variances))
    smooth = convolve(plane, np.ones((3, 3)) / 9, mode="mirror")
    return np.maximum(np.polyval(line, smooth), 0.5 * min(variances))


def _robust_line(x: Array, y: Array) -> Array:
    """Fit a line of slope 0 or more; y far above it, raised by texture, count less."""
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


def _denoise_tile(y: Array, variance: Array) -> Array:
    """Return the posterior mean of each value, in two passes."""
    noise = variance.astype(np.float32)
    observed = x = y.astype(np.float32)
    for accounted_noise in (np.zeros_like(noise), noise):
        # In the first pass similar patches, and so their covariance, contain noise.
        prediction, variance = predict_from_patches(
            x, observed, accounted_noise, SEARCH
        )
        variance = variance - (noise - accounted_noise)
        min_variance = np.float32(MIN_VARIANCE_FRACTION) * noise
        weight = noise / (noise + np.maximum(variance, min_variance))
        x = weight * prediction + (1 - weight) * observed
    return x

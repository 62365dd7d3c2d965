"""Compiled kernels of the fused batch norm, imported when the first layer runs."""

import numpy as np

from discrepant.core.jit import njit

# Sums may be reordered, so that they can be vectorised; NaN remains NaN.
_REORDER = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, nogil=True, fastmath=_REORDER)
def batch_norm_leaky_relu(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    eps: float,
    slope: float,
    margin: int,
    out: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
) -> None:
    """Apply batch norm, LeakyReLU and reflection padding, channel by channel.

    x has shape (C, H, W); out is larger by the margin (0 or 1) on each side; mean and
    scale (the inverse standard deviation) are stored for the gradient.
    """
    channels, height, width = x.shape
    zero = x.dtype.type(0)
    leak = x.dtype.type(slope)
    for c in range(channels):
        total = 0.0
        for i in range(height):
            row = zero
            for j in range(width):
                row += x[c, i, j]
            total += row
        centre = x.dtype.type(total / (height * width))
        total = 0.0
        for i in range(height):
            row = zero
            for j in range(width):
                deviation = x[c, i, j] - centre
                row += deviation * deviation
            total += row
        inverse = x.dtype.type(1 / np.sqrt(total / (height * width) + eps))
        mean[c], scale[c] = centre, inverse
        a = weight[c] * inverse
        b = bias[c] - centre * a
        for i in range(height):
            for j in range(width):
                value = a * x[c, i, j] + b
                out[c, i + margin, j + margin] = value if value > 0 else leak * value
        if margin:
            for i in range(1, height + 1):
                out[c, i, 0] = out[c, i, 2]
                out[c, i, width + 1] = out[c, i, width - 1]
            for j in range(width + 2):
                out[c, 0, j] = out[c, 2, j]
                out[c, height + 1, j] = out[c, height - 1, j]


@njit(cache=True, nogil=True, fastmath=_REORDER)
def batch_norm_leaky_relu_backward(
    grad: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    slope: float,
    margin: int,
    dx: np.ndarray,
    dweight: np.ndarray,
    dbias: np.ndarray,
) -> None:
    """Compute the gradient of `batch_norm_leaky_relu`."""
    channels, height, width = x.shape
    zero = x.dtype.type(0)
    one = x.dtype.type(1)
    leak = x.dtype.type(slope)
    for c in range(channels):
        for i in range(height):
            for j in range(width):
                dx[c, i, j] = grad[c, i + margin, j + margin]
        if margin:  # add the gradient of the reflected pixels
            for j in range(width):
                dx[c, 1, j] += grad[c, 0, j + 1]
                dx[c, height - 2, j] += grad[c, height + 1, j + 1]
            for k in range(height + 2):
                i = 1 if k == 0 else (height - 2 if k == height + 1 else k - 1)
                dx[c, i, 1] += grad[c, k, 0]
                dx[c, i, width - 2] += grad[c, k, width + 1]
        centre = mean[c]
        a = weight[c] * scale[c]
        b = bias[c] - centre * a
        grad_sum, weighted_sum = 0.0, 0.0
        for i in range(height):
            row, row_weighted = zero, zero
            for j in range(width):
                gate = one if a * x[c, i, j] + b > 0 else leak
                d = gate * dx[c, i, j]
                dx[c, i, j] = d
                row += d
                row_weighted += d * (x[c, i, j] - centre)
            grad_sum += row
            weighted_sum += row_weighted
        dbias[c] = grad_sum
        dweight[c] = weighted_sum * scale[c]
        pixels = height * width
        shift = x.dtype.type(grad_sum / pixels)
        tilt = x.dtype.type(weighted_sum / pixels) * scale[c] * scale[c]
        for i in range(height):
            for j in range(width):
                d = dx[c, i, j] - shift - tilt * (x[c, i, j] - centre)
                dx[c, i, j] = a * d

"""How likely each pixel of a picture lies under a mark, as a small network sees it.

Three levels of resolution, from half of the picture's own to an eighth: what a stroke
looks like is seen in the first, what it crosses and where it ends in the others. Its
weights were learned from photographs with marks drawn on them, and with writing, wires
and impulses that are none (``benchmarks/train_marks.py``).
"""

from collections.abc import Callable
from functools import cache
from importlib import resources

import numpy as np
from scipy.ndimage import maximum_filter1d, minimum_filter1d

from discrepant.linalg import Array

COARSEST = 8  # pixels of the picture to one of the coarsest level
THIN = 7  # pixels; what is thinner stands out
Layer = tuple[Array, Array]  # weights of shape (3 or 1, 3 or 1 × inputs, outputs), bias


def log_odds(y: Array) -> Array:
    """Return the logarithm of the odds that a pixel lies under a mark.

    Parameters
    ----------
    y : ndarray of shape (rows, columns, 3) or (rows, columns, 1)
        The picture on [0, 1], in single precision.
    """
    rows, columns, channels = y.shape
    edges = ((0, -rows % COARSEST), (0, -columns % COARSEST), (0, 0))
    layers = _layers()
    first = layers["fine in"] if channels == 3 else _grey(layers["fine in"])
    fine = _lit(_blocks(np.pad(seen(y), edges, mode="edge")), first)
    fine = _lit(fine, layers["fine"])
    middle = _lit(fine, layers["middle in"], step=2)
    middle += _lit(middle, layers["middle"])
    coarse = _lit(middle, layers["coarse in"], step=2)
    for name in ("coarse", "coarse again"):
        coarse += _lit(coarse, layers[name])
    middle += _finer(_convolved(coarse, layers["coarse out"]))
    middle += _lit(np.maximum(middle, 0), layers["middle again"])
    fine += _finer(_convolved(middle, layers["middle out"]))
    fine += _lit(np.maximum(fine, 0), layers["fine again"])
    whole = _pixels(_convolved(fine, layers["fine out"]))
    return whole[:rows, :columns]


def seen(y: Array) -> Array:
    """Return a picture, and by how much thin things in it are brighter and darker."""
    opened = _extreme(_extreme(y, minimum_filter1d), maximum_filter1d)
    closed = _extreme(_extreme(y, maximum_filter1d), minimum_filter1d)
    seen: Array = np.concatenate(
        [2 * y - 1, 2 * (y - opened), 2 * (closed - y)], axis=2
    )
    return seen


def _extreme(y: Array, along: Callable[..., Array]) -> Array:
    """Return the least or the largest values around."""
    return along(along(y, THIN, axis=0), THIN, axis=1)


@cache
def _layers() -> dict[str, Layer]:
    """Return the weights by the names of layers."""
    file = resources.files("discrepant.image.restore") / "mark_weights.npz"
    with file.open("rb") as stream, np.load(stream) as stored:
        names = [name for name in stored.files if not name.endswith(" bias")]
        return {
            name: (
                stored[name].astype(np.float32),
                stored[name + " bias"].astype(np.float32),
            )
            for name in names
        }


def _grey(layer: Layer) -> Layer:
    """Return the first layer for pictures of which all three colours are the same."""
    weights, bias = layer
    rows, inputs, outputs = weights.shape
    apart = weights.reshape(rows, inputs // 12, 3, 4, outputs)  # colours, 2×2 pixels
    return apart.sum(axis=2).reshape(rows, inputs // 3, outputs), bias


def _lit(x: Array, layer: Layer, step: int = 1) -> Array:
    """Return what a layer passes on: what is positive."""
    out = _convolved(x, layer, step)
    lit: Array = np.maximum(out, 0, out=out)
    return lit


def _convolved(x: Array, layer: Layer, step: int = 1) -> Array:
    """Convolve by 3×3 weights, or 1×1, with zeros around; every other pixel by step 2.

    The three columns of a window lie side by side in memory, so that each of its rows
    is one matrix product.
    """
    weights, bias = layer
    rows, columns, channels = x.shape
    if len(weights) == 1:
        mixed: Array = x.reshape(-1, channels) @ weights[0] + bias
        return mixed.reshape(rows, columns, -1)
    beside = np.zeros((rows + 2, columns // step, 3, channels), np.float32)
    beside[1:-1, :, 1] = x[:, ::step]
    if step == 1:
        beside[1:-1, 1:, 0] = x[:, :-1]
        beside[1:-1, :-1, 2] = x[:, 1:]
    else:
        beside[1:-1, 1:, 0] = x[:, 1:-1:2]
        beside[1:-1, :, 2] = x[:, 1::2]
    shape = (rows // step, columns // step, weights.shape[2])
    out = np.empty((shape[0] * shape[1], shape[2]), np.float32)
    part = np.empty_like(out)
    for k in range(3):
        lines = beside[k : k + rows : step].reshape(len(out), -1)
        np.matmul(lines, weights[k], out=part if k else out)
        out += part if k else bias
    return out.reshape(shape)


def _blocks(x: Array) -> Array:
    """Return each 2×2 pixels as one with four times as many channels."""
    rows, columns, channels = x.shape
    x = x.reshape(rows // 2, 2, columns // 2, 2, channels)
    return x.transpose(0, 2, 4, 1, 3).reshape(rows // 2, columns // 2, 4 * channels)


def _pixels(x: Array) -> Array:
    """Return four channels as 2×2 pixels."""
    rows, columns, _ = x.shape
    x = x.reshape(rows, columns, 2, 2).transpose(0, 2, 1, 3)
    return x.reshape(2 * rows, 2 * columns)


def _finer(x: Array) -> Array:
    """Return each pixel as 2×2."""
    return x.repeat(2, axis=0).repeat(2, axis=1)

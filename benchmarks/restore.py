"""How well and how fast images are restored, beside what people use today.

    python benchmarks/restore.py [--images DIR] [--names F16,Baboon] [--csv table.csv]
        [--large] [--units [512,12] [--before SRC]] [--tuning [ROOM]]

Every method sees the same corrupted image in the same run, and `restore` is told
nothing. The median filter is granted its best size in hindsight; "0/255 inpainted" is
told that corruption is exactly 0 or 255; DIP-ℓ1, the network under absolute values, is
granted the step of its best PSNR. At full size DIP-ℓ1 would take days, so a second
table repeats all methods on the middle of each image (``--middle``), with a network of
width 32. A cell is PSNR of the whole image / of the interior, without the outer 8
pixels, in dB. "steps" is the time of "best" in steps of the paper's network (width 128)
on an image of the same size; "changed" is the share of values that differ from the
input.

``--large`` restores 4000×3000 values of the first image, repeated, instead: time,
memory, and the error along the seams of the tiles against that elsewhere.

``--units`` measures time by one `scipy.ndimage.median_filter` of size 5 over all
channels of the same image, on one thread, in the same process: the first image's middle
512×512, and 4000×3000 of it, repeated, in colour and grey, under what "as fast as the
corruption is rare" means; and the peak memory of the whole process over the image in
single precision. ``--units 512`` leaves out what takes minutes. With ``--before``, the
``src`` folder of an earlier version, 50% is compared with that.

``--tuning`` halves and doubles each constant of `restore` in turn, on the middle 96×96
of each image, and prints by how many decibels the mean over the images changes under
each kind of corruption, and which share of the values of clean images is then changed.
With the name of a room (``detect``, ``patches``, …) only its constants are tried.

Without ``--images``, four photographs that come with scikit-learn, matplotlib and
scikit-image and that took no part in the making of `restore`.
"""

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
from record import recorded
from restore_cases import NOISES, corrupted, eight_bits, middle, photographs, timed
from restore_speed import large, units
from restore_tuning import tuning

from discrepant import restore
from discrepant.image import Settings, adaptive_median, dip_l1, inpaint_extremes, median
from discrepant.image.arrays import MARGIN, psnr
from discrepant.image.deep_image_prior.architecture import INPUT_CHANNELS, Network

PAPER = {
    ("F16", 0.1): 34.91,
    ("F16", 0.3): 34.39,
    ("F16", 0.5): 31.60,
    ("F16", 0.7): 26.99,
    ("Peppers", 0.5): 30.76,
    ("Baboon", 0.5): 21.38,
    ("kodim03", 0.5): 32.47,
}
COLUMNS = (
    "image, corruption",
    "paper",
    "median",
    "adaptive median",
    "0/255 inpainted",
    "DIP-ℓ1",
    "fast",
    "s",
    "best",
    "s",
    "steps",
    "changed",
)


def cases(name, levels):
    """Yield kind and level of the corruptions, and last none at all."""
    for kind in NOISES:
        for level in levels:
            yield kind, level
    if name in {key[0] for key in PAPER}:
        for paper_name, level in PAPER:
            if paper_name == name and level not in levels:
                yield "salt-and-pepper", level
    yield "nothing", 0.0


def step_seconds(shape):
    """Return the time of one step of the paper's network."""
    import torch

    network = Network(channels=shape[2], width=128)
    noise = torch.rand(1, INPUT_CHANNELS, *network.padded(*shape[:2]))

    def step():
        network.zero_grad()
        network(noise).square().mean().backward()

    step()  # the first one warms up
    return min(timed(step)[1] for _ in range(2))


def measure(truth, given, with_network, steps):
    """Return PSNR, interior PSNR, seconds and share changed of every method."""
    exact = truth / 255
    window = max((3, 5, 7, 9), key=lambda k: psnr(median(given, k), exact))
    methods = {
        "median": lambda: median(given, window),
        "adaptive median": lambda: adaptive_median(given),
        "0/255 inpainted": lambda: inpaint_extremes(given),
        "fast": lambda: restore(given, quality="fast").image / 255,
        "best": lambda: restore(given).image / 255,
    }
    if with_network:
        settings = Settings(width=32, optimiser="adam", rate=0.01, steps=steps)
        methods["DIP-ℓ1"] = lambda: (
            dip_l1(given, settings, truth=exact, every=10, device="cpu").best
        )
    found = {}
    for method, run in methods.items():
        image, seconds = timed(run)
        found[method] = {
            "psnr": psnr(image, exact),
            "interior": psnr(image, exact, MARGIN),
            "seconds": seconds,
            "changed": float(np.mean(eight_bits(image) != given)),
        }
    return found


def line(name, kind, level, found, step):
    """Return a row of the table."""
    what = kind if kind == "nothing" else f"{kind} {level:.0%}"
    cells = [f"{name}, {what}"]
    paper = PAPER.get((name, level)) if kind == "salt-and-pepper" else None
    cells.append("" if paper is None else f"{paper:.2f}")
    for method in COLUMNS[2:6]:
        cells.append(_dB(found[method]) if method in found else "")
    for method in ("fast", "best"):
        cells += [f"**{_dB(found[method])}**", f"{found[method]['seconds']:.1f}"]
    cells.append(f"{found['best']['seconds'] / step:.1f}")
    cells.append(f"{found['best']['changed']:.3%}" if kind == "nothing" else "")
    return f"| {' | '.join(cells)} |"


def _dB(score):
    return f"{score['psnr']:.2f} / {score['interior']:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=Path)
    parser.add_argument("--names", default="", help="Only these, with commas.")
    parser.add_argument("--levels", default="0.3,0.5")
    parser.add_argument("--middle", type=int, default=128, help="0: no second table.")
    parser.add_argument("--middle-steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--units", nargs="?", const="512,12", metavar="SIZES")
    parser.add_argument("--before", type=Path, metavar="SRC")
    parser.add_argument("--tuning", nargs="?", const="all", metavar="ROOM")
    options = parser.parse_args()
    levels = [float(level) for level in options.levels.split(",")]
    ramp = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
    for given in (ramp, corrupted(ramp, "random values", 0.3, 0)):
        restore(np.dstack([given] * 3))  # compile
    images = photographs(options.images, options.names.split(",") * bool(options.names))
    if options.units:
        first = [next(iter(images.values()))]
        units(first, options.units.split(","), options.seed, options.before)
        return
    if options.large:
        large(next(iter(images.values())), options.seed)
        return
    if options.tuning:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd constants make odd results
            tuning(images.values(), options.seed, options.tuning)
        return
    rows = []

    def show(name, truth, kind, level, with_network=False):
        given = corrupted(truth, kind, level, options.seed)
        found = measure(truth, given, with_network, options.middle_steps)
        print(line(name, kind, level, found, step_of[truth.shape]), flush=True)
        for method, score in found.items():
            case = {"image": name, "size": len(truth), "kind": kind, "level": level}
            rows.append({**case, "method": method, **score})

    shapes = {image.shape for image in images.values()}
    parts = {name: middle(image, options.middle) for name, image in images.items()}
    if options.middle:
        shapes |= {part.shape for part in parts.values()}
    step_of = {shape: step_seconds(shape) for shape in shapes}
    header = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"
    print(header)
    for name, truth in images.items():
        for kind, level in cases(name, levels):
            show(name, truth, kind, level)
    if options.middle:
        print(f"\nThe middle {options.middle}×{options.middle} of each:\n\n{header}")
        for name, truth in parts.items():
            for kind in NOISES:
                show(name, truth, kind, 0.5, with_network=True)
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    recorded(main)

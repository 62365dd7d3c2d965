"""PSNR and time of `restore` on photographs, compared with other methods.

    python benchmarks/images/photographs.py [--images DIR] [--names F16,Baboon]
        [--csv table.csv] [--large] [--units [512,12] [--before SRC]]
        [--constants [MODULE]]

All methods are applied to the same corrupted images in the same run; `restore` has no
parameters. The median filter has the size that gives its best PSNR. "0/255 inpainted"
knows that corruption is exactly 0 or 255. DIP-ℓ1, a deep image prior with absolute
loss, stops at the step of its best PSNR. At full size DIP-ℓ1 would take days, so a
second table repeats all methods on the centre of each image (``--centre``), with a
network of width 32. A cell is the PSNR of the whole image / of its interior, without
the outer 8 pixels, in dB. "steps" is the time of "best" in steps of the paper's network
(width 128) on an image of the same size; "changed" is the fraction of values that
differ from the input.

``--large`` restores 4000×3000 pixels of the first image, repeated: time, memory, and
the error along the seams of the tiles relative to that elsewhere.

``--units`` measures time in units of one `scipy.ndimage.median_filter` of size 5 over
all channels of the same image, on one thread, in the same process; and the peak memory
of the process relative to the image in single precision. The images are the central
512×512 pixels of the first image and 4000×3000 pixels of it, repeated, in colour and in
grey. ``--units 512`` leaves out the cases that take minutes. ``--before`` is the
``src`` folder of an earlier version, with which the case of 50% is compared.

``--constants`` halves and doubles each constant of `restore` in turn, on the central
96×96 pixels of each image. It prints the change of the mean PSNR for each kind of
corruption, and the fraction of values changed in clean images. With the name of a
module (``mixture``, ``similar_patches``, …) only its constants are changed.

Without ``--images``, the images are four photographs that come with scikit-learn,
matplotlib and scikit-image and that were not used in the development of `restore`.
"""

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
from constants import print_effects
from inputs import NOISES, centre, corrupted, photographs, timed, to_8_bits
from recording import recorded
from speed import print_large, print_units

from discrepant import restore
from discrepant.image import Settings, adaptive_median, dip_l1, inpaint_extremes, median
from discrepant.image.arrays import psnr
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
# Pixels whose neighbours are present on all sides.
INTERIOR = np.s_[8:-8, 8:-8]
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
    """Yield kind and level of the corruptions, and last no corruption."""
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

    step()  # warm up
    return min(timed(step)[1] for _ in range(2))


def measure(truth, given, with_network, steps):
    """Return PSNR, interior PSNR, seconds and changed fraction of every method."""
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
    scores = {}
    for method, run in methods.items():
        image, seconds = timed(run)
        scores[method] = {
            "psnr": psnr(image, exact),
            "interior": psnr(image[INTERIOR], exact[INTERIOR]),
            "seconds": seconds,
            "changed": float(np.mean(to_8_bits(image) != given)),
        }
    return scores


def line(name, kind, level, scores, step):
    """Return a row of the table."""
    corruption = kind if kind == "nothing" else f"{kind} {level:.0%}"
    cells = [f"{name}, {corruption}"]
    paper = PAPER.get((name, level)) if kind == "salt-and-pepper" else None
    cells.append("" if paper is None else f"{paper:.2f}")
    for method in COLUMNS[2:6]:
        cells.append(_dB(scores[method]) if method in scores else "")
    for method in ("fast", "best"):
        cells += [f"**{_dB(scores[method])}**", f"{scores[method]['seconds']:.1f}"]
    cells.append(f"{scores['best']['seconds'] / step:.1f}")
    cells.append(f"{scores['best']['changed']:.3%}" if kind == "nothing" else "")
    return f"| {' | '.join(cells)} |"


def _dB(score):
    return f"{score['psnr']:.2f} / {score['interior']:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=Path)
    parser.add_argument("--names", default="", help="Only these, with commas.")
    parser.add_argument("--levels", default="0.3,0.5")
    parser.add_argument("--centre", type=int, default=128, help="0: no second table.")
    parser.add_argument("--centre-steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--units", nargs="?", const="512,12", metavar="SIZES")
    parser.add_argument("--before", type=Path, metavar="SRC")
    parser.add_argument("--constants", nargs="?", const="all", metavar="MODULE")
    options = parser.parse_args()
    levels = [float(level) for level in options.levels.split(",")]
    ramp = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
    for given in (ramp, corrupted(ramp, "random values", 0.3, 0)):
        restore(np.dstack([given] * 3))  # compile
    images = photographs(options.images, options.names.split(",") * bool(options.names))
    if options.units:
        first = [next(iter(images.values()))]
        print_units(first, options.units.split(","), options.seed, options.before)
        return
    if options.large:
        print_large(next(iter(images.values())), options.seed)
        return
    if options.constants:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unusual constants give warnings
            print_effects(images.values(), options.seed, options.constants)
        return
    rows = []

    def show(name, truth, kind, level, with_network=False):
        given = corrupted(truth, kind, level, options.seed)
        scores = measure(truth, given, with_network, options.centre_steps)
        print(line(name, kind, level, scores, step_of[truth.shape]), flush=True)
        for method, score in scores.items():
            case = {"image": name, "size": len(truth), "kind": kind, "level": level}
            rows.append({**case, "method": method, **score})

    shapes = {image.shape for image in images.values()}
    parts = {name: centre(image, options.centre) for name, image in images.items()}
    if options.centre:
        shapes |= {part.shape for part in parts.values()}
    step_of = {shape: step_seconds(shape) for shape in shapes}
    header = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"
    print(header)
    for name, truth in images.items():
        for kind, level in cases(name, levels):
            show(name, truth, kind, level)
    if options.centre:
        print(f"\nThe central {options.centre}×{options.centre} of each:\n\n{header}")
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

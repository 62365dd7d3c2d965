"""Whether values with a corruption probability of 90% are corrupted in 9 of 10 cases.

    python benchmarks/images/calibration.py [--held-out] [--size 192] [--fast]
        [--only JPEG]

A row is one kind of corruption, over all photographs (or graphics). A cell is a bin of
the probability that `restore` gives: the mean probability, the corrupted fraction, and
the number of values. "error" is the mean of |probability − fraction| over the values
with a probability of at least 1%; "false flags" is the fraction of the mask that is not
corrupted. ``--held-out`` uses photographs and graphics that were not used in the
development of `restore`; ``--only`` selects the rows whose names contain a word.
"""

import argparse
import io
import warnings
from itertools import pairwise

import graphics
import numpy as np
from inputs import block_aligned_photographs
from PIL import Image
from recording import recorded

from discrepant import restore
from discrepant.image.corruptions import random_impulses, salt_and_pepper

# Bounds of the bins of the probability.
EDGES = (0.01, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99)


def impulses(make, fraction):
    """Return a function that corrupts a fraction of the values of an image."""

    def corrupt(truth, seed):
        values = make(truth / 255, fraction, random_state=seed)[0]
        given = np.rint(255 * values).astype(np.uint8)
        return given, given != truth

    return corrupt


def hot(fraction):
    """Return a function that makes pixels hot in all channels, by different amounts."""

    def corrupt(truth, seed):
        rng = np.random.default_rng(seed)
        given = truth.astype(int)
        hit = rng.random(truth.shape[:2]) < fraction
        given[hit] += rng.integers(20, 200, (int(hit.sum()), 1))
        given = np.minimum(given, 255).astype(np.uint8)
        return given, given != truth

    return corrupt


def jpeg(fraction, quality):
    """Return a function that corrupts grey values and saves them as JPEG."""

    def corrupt(truth, seed):
        grey = np.asarray(Image.fromarray(truth).convert("L"))
        values = salt_and_pepper(grey / 255, fraction, random_state=seed)[0]
        corrupted, file = np.rint(255 * values).astype(np.uint8), io.BytesIO()
        Image.fromarray(corrupted).save(file, "JPEG", quality=quality)
        return np.asarray(Image.open(file)), corrupted != grey

    return corrupt


KINDS = {
    **{
        f"{name} {fraction:.0%}": impulses(make, fraction)
        for name, make in (
            ("salt-and-pepper", salt_and_pepper),
            ("random values", random_impulses),
        )
        for fraction in (0.05, 0.3, 0.5)
    },
    "hot pixels 0.5%": hot(0.005),
    "JPEG 90 after 5%": jpeg(0.05, 90),
    "JPEG 75 after 30%": jpeg(0.3, 75),
}


def cells(probability, is_corrupt, mask):
    """Return the cells of a row, from probabilities, truth and mask of all values."""
    which = np.digitize(probability, EDGES)
    out, error = [], 0.0
    for number in range(len(EDGES) + 1):
        inside = which == number
        if not inside.any():
            out.append("")
            continue
        means = float(probability[inside].mean()), float(is_corrupt[inside].mean())
        error += number and abs(means[0] - means[1]) * inside.sum()
        out.append(f"{means[0]:.3f} → {means[1]:.3f} ({inside.sum()})")
    n_uncertain = max(int((which > 0).sum()), 1)
    false = (mask & ~is_corrupt).sum() / max(mask.sum(), 1)
    return [*out, f"{error / n_uncertain:.3f}", f"{false:.3%}"]


def print_table(photographs, drawings, quality, only=""):
    """Print probabilities against corrupted fractions for each kind of corruption.

    ``photographs`` and ``drawings`` are clean images by name; ``only`` is a part of the
    names of the kinds.
    """
    bounds = ["0", *map(str, EDGES), "1"]
    names = [f"{a} – {b}" for a, b in pairwise(bounds)]
    print(f"\n| probability → fraction | {' | '.join(names)} | error | false flags |")
    print("| --- |" + " --- |" * (len(names) + 2))
    kinds = {name: (corrupt, photographs) for name, corrupt in KINDS.items()}
    kinds["graphics, random values 5%"] = KINDS["random values 5%"], drawings
    kinds["graphics, salt-and-pepper 5%"] = KINDS["salt-and-pepper 5%"], drawings
    for name, (corrupt, images) in kinds.items():
        if only not in name:
            continue
        rows = []
        for seed, truth in enumerate(images.values()):
            given, is_corrupt = corrupt(truth, 100 + seed)
            result = restore(given, quality=quality)
            arrays = (result.probability, is_corrupt, result.mask)
            rows.append([array.ravel() for array in arrays])
        probability, is_corrupt, mask = (
            np.concatenate(a) for a in zip(*rows, strict=True)
        )
        print(
            f"| {name} | {' | '.join(cells(probability, is_corrupt, mask))} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--size", type=int, default=256, help="Pixels of each side.")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--only", default="", help="Part of the names of the rows.")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    drawings = graphics.kinds("fresh" if options.held_out else "development")
    of_8_bits = {k: v for k, v in drawings.items() if v.dtype == np.uint8}
    photographs = block_aligned_photographs(options.held_out, options.size)
    quality = "fast" if options.fast else "best"
    print_table(photographs, of_8_bits, quality, options.only)


if __name__ == "__main__":
    recorded(main)

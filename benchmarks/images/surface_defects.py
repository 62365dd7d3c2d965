"""PSNR and recall on synthetic scans with surface defects.

    python benchmarks/images/surface_defects.py [--held-out] [--size 256] [--fast]
        [--seeds 3] [--kinds text]

Dust, scratches, hairs, text and a date stamp, with edges blurred by half a pixel, under
noise of 6 grey levels; see `synthetic_scans`. A pixel is defective if a tenth of it is
covered; it is visible if the defect changes it by more than the noise. "Accepted" is a
second run with ``mask | suggestions`` as known bad. The median filter has its best size
of 3 and 5. ``--held-out`` uses photographs that were not used in the development of
`restore`.
"""

import argparse
import warnings

import numpy as np
from inputs import block_aligned_photographs, timed
from jpeg import best_median, decibels, to_grey
from recording import recorded
from synthetic_scans import KINDS, scan

from discrepant import restore

COLUMNS = (
    "scan",
    "given",
    "median",
    "restore",
    "defects replaced",
    "of visible",
    "others changed",
    "accepted",
    "defects replaced",
    "of visible",
    "others changed",
    "s",
)


def measure(truth, kind, seed, quality):
    """Return PSNR, recall and false positives of a scan; see `COLUMNS`."""
    given, covered, change = scan(truth, kind, seed)
    defective = covered > 0.1
    visible = defective & (change > kind.noise)
    result, seconds = timed(restore, given, quality=quality)
    accepted = restore(given, mask=result.mask | result.suggestions, quality=quality)

    def fractions(mask):
        mask = mask if mask.ndim == 2 else mask.any(axis=2)
        return mask[defective].mean(), mask[visible].mean(), mask[~defective].mean()

    return (
        decibels(given, truth),
        best_median(given, truth, sizes=(3, 5)),
        decibels(result.image, truth),
        *fractions(result.mask),
        decibels(accepted.image, truth),
        *fractions(accepted.mask),
        seconds,
    )


def table(photographs, kinds, n_seeds, quality):
    print("| " + " | ".join(COLUMNS) + " |")
    print("| --- " * len(COLUMNS) + "|")
    for name, kind in kinds.items():
        for colour in ("colour", "grey"):
            truths = [
                to_grey(p) if colour == "grey" else p for p in photographs.values()
            ]
            rows = [
                measure(truth, kind, seed, quality)
                for seed in range(n_seeds)
                for truth in truths
            ]
            _, median, restored, *_ = np.transpose(rows)
            mean = np.mean(rows, axis=0)
            print(
                f"| {name}, {colour} | {mean[0]:.1f} | {mean[1]:.1f} "
                f"| {mean[2]:.1f} (above in {np.mean(restored > median):.0%}) "
                f"| {mean[3]:.0%} | {mean[4]:.0%} | {mean[5]:.2%} "
                f"| {mean[6]:.1f} | {mean[7]:.0%} | {mean[8]:.0%} "
                f"| {mean[9]:.2%} | {mean[10]:.0f} |",
                flush=True,
            )


def print_clean(photographs, quality):
    """Print how many clean photographs are unchanged, and have suggestions."""
    fractions = []
    for image in photographs.values():
        for clean in (image, to_grey(image)):
            result = restore(clean, quality=quality)
            assert np.array_equal(result.image, clean) == (not result.mask.any())
            fractions.append((result.mask.mean(), result.suggestions.mean()))
    changed, suggested = np.transpose(fractions)
    print(
        f"\nClean: {np.mean(changed == 0):.0%} unchanged (must: all), suggestions in "
        f"{np.mean(suggested > 0):.0%} of them, at most {suggested.max():.2%} of one."
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=3, help="scans of each photograph")
    parser.add_argument("--kinds", default="", help="a word of the names of the scans")
    parser.add_argument("--fast", action="store_true")
    options = parser.parse_args()
    quality = "fast" if options.fast else "best"
    warnings.simplefilter("ignore")
    photographs = block_aligned_photographs(options.held_out, options.size)
    # Names with a comma are parts of another photograph.
    photographs = {name: p for name, p in photographs.items() if "," not in name}
    kinds = {name: kind for name, kind in KINDS.items() if options.kinds in name}
    table(photographs, kinds, options.seeds, quality)
    print_clean(photographs, quality)


if __name__ == "__main__":
    recorded(main)

"""Clean graphics must stay unchanged, and corrupted ones must be restored.

    python benchmarks/images/graphics.py [--half development|held-out|fresh|all]
        [--names text] [--quality fast] [--csv table.csv] [--pictures DIR]

Text, screens, line art, plots, maps, codes, dithers, halftones, pixel art, palettes,
binary and label images, phantoms: all are synthetic. There are three parts: `restore`
was developed on the first; the second was run now and then; the third was drawn last,
and nothing was chosen by it. The columns are the fraction of values changed in the
clean image; then, with 5% of the values replaced by random ones, the fraction of those
that is flagged, the fraction restored exactly, the fraction of the others that is
changed, and the warnings.

Random cells of one pixel cannot be restored: such an image passes if it is unchanged
and there is a warning.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import graphics_development
import graphics_fresh
import graphics_held_out
import numpy as np
from recording import recorded

from discrepant import restore

HALVES = {
    "development": graphics_development.KINDS,
    "held-out": graphics_held_out.KINDS,
    "fresh": graphics_fresh.KINDS,
}
FRACTION = 0.05  # of corrupted values


def kinds(half, names=()):
    """Return the images of one part, or of all, by name."""
    halves = HALVES.values() if half == "all" else [HALVES[half]]
    makers = {name: make for part in halves for name, make in part.items()}
    return {k: make() for k, make in makers.items() if not names or k in names}


def corrupted(image, fraction, seed=0):
    """Return an image with random values of its own range, and which differ."""
    rng = np.random.default_rng(seed)
    hit = rng.random(image.shape) < fraction
    if image.dtype == bool:
        values = rng.random(image.shape) < 0.5
    elif image.dtype.kind in "ui":
        top = max(255, int(image.max()))
        values = rng.integers(0, top + 1, image.shape)
    else:
        values = rng.uniform(image.min(), image.max(), image.shape)
    given = np.where(hit, values, image).astype(image.dtype)
    return given, given != image


def restored(image, quality):
    """Return the restoration, its seconds, and the first words of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        started = time.perf_counter()
        result = restore(image, quality=quality)
        seconds = time.perf_counter() - started
    return result, seconds, "; ".join(str(w.message)[:40] for w in caught)


def measure(image, quality, fraction=FRACTION):
    """Return the row of one image."""
    clean, seconds, warned = restored(image, quality)
    given, corrupt = corrupted(image, fraction)
    result, more_seconds, warned_again = restored(given, quality)
    changed = result.image != given
    return {
        "size": "×".join(map(str, image.shape)) + f" {image.dtype}",
        "changed": float(np.mean(clean.image != image)),
        "flagged": float(result.mask[corrupt].mean()),
        "exact": float((result.image == image)[corrupt].mean()),
        "others changed": float(changed[~corrupt].mean()),
        "seconds": seconds + more_seconds,
        "warned": " / ".join(filter(None, (warned, warned_again))),
    }, result.image


def passed(row):
    """Return whether clean values are kept, and corrupted ones flagged or warned of."""
    kept = row["changed"] <= 5e-4 and row["others changed"] <= 0.01
    return kept and (row["flagged"] >= 0.9 or bool(row["warned"]))


def stretched_to_8_bits(image):
    """Return an image with its range stretched to 8 bits, for viewing."""
    low, high = float(image.min()), float(image.max())
    return np.rint((image - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--half", choices=[*HALVES, "all"], default="development", help="Which kinds."
    )
    parser.add_argument("--names", default="", help="Only these, with commas.")
    parser.add_argument("--quality", default="fast")
    parser.add_argument("--fraction", type=float, default=FRACTION)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--pictures", type=Path, help="Where results are drawn.")
    options = parser.parse_args()
    ramp = np.add.outer(np.arange(48), np.arange(48)).astype(np.uint8)
    restore(np.dstack([ramp] * 3), quality="fast")  # compile
    images = kinds(options.half, options.names.split(",") * bool(options.names))
    print("| kind | size | changed | flagged | exact | others changed | s | | warned |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for name, image in images.items():
        row, image_restored = measure(image, options.quality, options.fraction)
        rows.append({"kind": name, **row})
        print(
            f"| {name} | {row['size']} | {row['changed']:.3%} | {row['flagged']:.1%} "
            f"| {row['exact']:.1%} | {row['others changed']:.3%} "
            f"| {row['seconds']:.1f} | "
            f"{'' if passed(row) else 'FAILED'} | {row['warned']} |",
            flush=True,
        )
        if options.pictures:
            from PIL import Image

            options.pictures.mkdir(exist_ok=True, parents=True)
            given = corrupted(image, options.fraction)[0]
            sides = [
                stretched_to_8_bits(part) for part in (image, given, image_restored)
            ]
            strip = np.concatenate(sides, axis=1)
            Image.fromarray(strip).save(options.pictures / f"{name}.png")
    print(f"\n{sum(map(passed, rows))} of {len(rows)} passed")
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    recorded(main)

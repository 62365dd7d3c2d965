"""Clean graphics must come back as they were, and corrupted ones must be mended.

    python benchmarks/graphics.py [--half development|kept|fresh|all] [--names text]
        [--quality fast] [--csv table.csv] [--pictures DIR]

Text, screens, line art, plots, maps, codes, dithers, halftones, pixel art, palettes,
binary and label images, phantoms: all are made here. The kinds stand in three parts:
by the first, `restore` was made; the second was looked at now and then; the third was
made last, and nothing was chosen by it. For each: the share of
values changed on the clean one; then, with 5% of the values replaced by random ones,
the share of those found and the share of the others touched; and what was warned of.

Of an image of random cells of one pixel nothing can be told: it counts as kept if it
comes back untouched with a warning.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import graphics_fresh
import graphics_kept
import graphics_made
import numpy as np
from record import recorded

from discrepant import restore

HALVES = {
    "development": graphics_made.KINDS,
    "kept": graphics_kept.KINDS,
    "fresh": graphics_fresh.KINDS,
}
SHARE = 0.05


def kinds(half, names=()):
    """Return the images of one part, or of all, by name."""
    halves = HALVES.values() if half == "all" else [HALVES[half]]
    makers = {name: make for part in halves for name, make in part.items()}
    return {k: make() for k, make in makers.items() if not names or k in names}


def spoiled(image, share, seed=0):
    """Return an image with random values of its own range, and where they differ."""
    rng = np.random.default_rng(seed)
    hit = rng.random(image.shape) < share
    if image.dtype == bool:
        values = rng.random(image.shape) < 0.5
    elif image.dtype.kind in "ui":
        top = max(255, int(image.max()))
        values = rng.integers(0, top + 1, image.shape)
    else:
        values = rng.uniform(image.min(), image.max(), image.shape)
    given = np.where(hit, values, image).astype(image.dtype)
    return given, given != image


def judged(image, quality):
    """Return the restoration, its seconds, and the first words of its warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        started = time.perf_counter()
        found = restore(image, quality=quality)
        seconds = time.perf_counter() - started
    return found, seconds, "; ".join(str(w.message)[:40] for w in said)


def measure(image, quality, share=SHARE):
    """Return the row of one image."""
    clean, seconds, said = judged(image, quality)
    given, hit = spoiled(image, share)
    mended, more, told = judged(given, quality)
    touched = mended.image != given
    return {
        "size": "×".join(map(str, image.shape)) + f" {image.dtype}",
        "changed": float(np.mean(clean.image != image)),
        "found": float(mended.mask[hit].mean()),
        "exact": float((mended.image == image)[hit].mean()),
        "touched": float(touched[~hit].mean()),
        "seconds": seconds + more,
        "warned": " / ".join(filter(None, (said, told))),
    }, mended.image


def passed(row):
    """Return whether a row is as it must be: kept and mended, or kept and warned of."""
    kept = row["changed"] <= 5e-4 and row["touched"] <= 0.01
    return kept and (row["found"] >= 0.9 or bool(row["warned"]))


def eight_bits(image):
    """Return an image for looking at."""
    low, high = float(image.min()), float(image.max())
    return np.rint((image - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--half", choices=[*HALVES, "all"], default="development", help="Which kinds."
    )
    parser.add_argument("--names", default="", help="Only these, with commas.")
    parser.add_argument("--quality", default="fast")
    parser.add_argument("--share", type=float, default=SHARE)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--pictures", type=Path, help="Where results are drawn.")
    options = parser.parse_args()
    ramp = np.add.outer(np.arange(48), np.arange(48)).astype(np.uint8)
    restore(np.dstack([ramp] * 3), quality="fast")  # compile
    images = kinds(options.half, options.names.split(",") * bool(options.names))
    print("| kind | size | changed | found | exact | touched | s | | warned |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for name, image in images.items():
        row, mended = measure(image, options.quality, options.share)
        rows.append({"kind": name, **row})
        print(
            f"| {name} | {row['size']} | {row['changed']:.3%} | {row['found']:.1%} | "
            f"{row['exact']:.1%} | {row['touched']:.3%} | {row['seconds']:.1f} | "
            f"{'' if passed(row) else 'FAILED'} | {row['warned']} |",
            flush=True,
        )
        if options.pictures:
            from PIL import Image

            options.pictures.mkdir(exist_ok=True, parents=True)
            given = spoiled(image, options.share)[0]
            sides = [eight_bits(part) for part in (image, given, mended)]
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

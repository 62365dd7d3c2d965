"""PSNR of images that were corrupted before they were saved as JPEG.

    python benchmarks/images/jpeg.py [--held-out] [--size 256] [--fast]

Salt-and-pepper, then JPEG at quality 90 and 75 as Pillow writes it. The median filter
has its best size of 3, 5 and 7 for each photograph. ``--held-out`` uses photographs
that were not used in the development of `restore`.
"""

import argparse
import io
import warnings

import numpy as np
from inputs import block_aligned_photographs, corrupted, timed
from PIL import Image
from recording import recorded
from scipy.ndimage import median_filter

from discrepant import restore
from discrepant.image.arrays import psnr

MEDIAN_SIZES = (3, 5, 7)


def saved_as_jpeg(image, quality):
    """Return an image after saving it as JPEG and reading it again."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def decibels(image, truth):
    return psnr(image / 255, truth / 255)


def best_median(given, truth, sizes=MEDIAN_SIZES):
    """Return the best PSNR of median filters of several sizes."""
    channels = (1,) * (given.ndim - 2)
    return max(decibels(median_filter(given, (k, k, *channels)), truth) for k in sizes)


def measure(truth, jpeg_quality, fraction, quality):
    """Return the PSNR of the best median and of `restore`, and its seconds."""
    impulses = corrupted(truth, "salt-and-pepper", fraction, 0)
    given = saved_as_jpeg(impulses, jpeg_quality)
    result, seconds = timed(restore, given, quality=quality)
    return best_median(given, truth), decibels(result.image, truth), seconds


def to_grey(image):
    return np.asarray(Image.fromarray(image).convert("L"))


def table(photographs, quality):
    print("| JPEG after salt-and-pepper | best median | restore | gain | worst | s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind in ("grey", "per channel"):
        truths = [to_grey(p) if kind == "grey" else p for p in photographs.values()]
        for jpeg_quality in (90, 75):
            for fraction in (0.05, 0.3):
                rows = [measure(t, jpeg_quality, fraction, quality) for t in truths]
                median, restored, seconds = np.transpose(rows)
                gain = restored - median
                print(
                    f"| {kind}, quality {jpeg_quality}, {fraction:.0%} "
                    f"| {median.mean():.1f} | {restored.mean():.1f} "
                    f"| {gain.mean():+.1f} (must: +3) | {gain.min():+.1f} (must: 0) "
                    f"| {seconds.mean():.0f} |",
                    flush=True,
                )


def count_unchanged(photographs, quality):
    """Return how many clean JPEG images are returned unchanged."""
    unchanged = 0
    for image in photographs.values():
        for jpeg_quality in (90, 75):
            given = saved_as_jpeg(image, jpeg_quality)
            unchanged += np.array_equal(restore(given, quality=quality).image, given)
    return unchanged


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--fast", action="store_true")
    options = parser.parse_args()
    quality = "fast" if options.fast else "best"
    warnings.simplefilter("ignore")
    photographs = block_aligned_photographs(options.held_out, options.size)
    table(photographs, quality)
    unchanged = count_unchanged(photographs, quality)
    print(f"\nClean JPEG: {unchanged} of {2 * len(photographs)} unchanged (must: all).")


if __name__ == "__main__":
    recorded(main)

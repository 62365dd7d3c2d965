"""What pictures that people have are spoiled by, and what must be reached.

    python benchmarks/marks.py [--only jpeg,scan,hot] [--kept] [--size 256] [--fast]

Photographs come with scikit-image, scikit-learn and matplotlib. Those for development
by default; with ``--kept`` others, which took no part in it. The middle ``size`` pixels
of each are taken, from a multiple of 16 on.

- ``jpeg``: salt-and-pepper, then JPEG at quality 90 and 75 as Pillow writes it. The
  median is granted its best size of 3, 5 and 7 for each photograph.
- ``scan``: dust, scratches, hairs, text and a date stamp, drawn with edges that are
  blurred by half a pixel, under noise of 6 grey levels; see `scans`. A pixel is marked
  if a tenth of it is covered; "seen" are those that marks change by more than the
  noise. With suggestions, ``mask | suggestions`` is given as known to be bad. The
  median is granted its best size of 3 and 5.
- ``hot``: single pixels 8 standard deviations above a smooth ground with Poisson noise.
"""

import argparse
import io
import time
import warnings
from pathlib import Path

import numpy as np
from PIL import Image
from record import recorded
from scans import KINDS, scan
from scipy.ndimage import median_filter

from discrepant import restore
from discrepant.image.corruptions import salt_and_pepper

MEDIANS = (3, 5, 7)


def photographs(kept, size):
    """Return colour photographs by name."""
    from skimage import data

    if kept:
        from matplotlib import cbook
        from sklearn.datasets import load_sample_image

        with cbook.get_sample_data("grace_hopper.jpg") as file:
            portrait = np.asarray(Image.open(Path(file.name)).convert("RGB"))
        found = {
            "china": load_sample_image("china.jpg"),
            "flower": load_sample_image("flower.jpg"),
            "grace_hopper": portrait,
            "motorcycle": data.stereo_motorcycle()[0],
            "ihc": data.immunohistochemistry(),
            "ihc, left": data.immunohistochemistry()[:, :300],
            "china, roof": load_sample_image("china.jpg")[:, 300:],
            "flower, left": load_sample_image("flower.jpg")[:, :300],
            "motorcycle, left": data.stereo_motorcycle()[0][:, :300],
            "portrait, top": portrait[:300],
        }
    else:
        found = {
            "astronaut": data.astronaut(),
            "chelsea": data.chelsea(),
            "coffee": data.coffee(),
            "rocket": data.rocket(),
            "retina": data.retina(),
        }
    return {name: middle(image[..., :3], size) for name, image in found.items()}


def middle(image, size):
    top, left = (max(0, n - size) // 2 // 16 * 16 for n in image.shape[:2])
    return np.ascontiguousarray(image[top : top + size, left : left + size])


def saved(image, quality):
    """Return an image as it comes back from a JPEG file."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def psnr(image, truth):
    error = image.astype(float) - truth
    return -10 * np.log10(max(np.mean(error**2), 1e-9) / 255**2)


def best_median(given, truth):
    window = (1,) * (given.ndim - 2)
    return max(psnr(median_filter(given, (k, k, *window)), truth) for k in MEDIANS)


def jpeg(arguments):
    print("| JPEG after salt-and-pepper | best median | restore | gain | least | s |")
    print("| --- | --- | --- | --- | --- | --- |")
    pictures = photographs(arguments.kept, arguments.size)
    for kind in ("grey", "per channel"):
        for quality in (90, 75):
            for share in (0.05, 0.3):
                rows = [
                    one_jpeg(image, kind, quality, share, arguments.quality)
                    for image in pictures.values()
                ]
                median, ours, seconds = np.transpose(rows)
                gain = ours - median
                print(
                    f"| {kind}, quality {quality}, {share:.0%} | {median.mean():.1f} "
                    f"| {ours.mean():.1f} | {gain.mean():+.1f} (must: +3) "
                    f"| {gain.min():+.1f} (must: 0) | {seconds.mean():.0f} |",
                    flush=True,
                )
    unchanged = 0
    for image in pictures.values():
        for quality in (90, 75):
            given = saved(image, quality)
            same = restore(given, quality=arguments.quality).image == given
            unchanged += bool(same.all())
    print(f"\nOnly saved: {unchanged} of {2 * len(pictures)} unchanged (must: all).")


def one_jpeg(image, kind, quality, share, how):
    truth = image
    if kind == "grey":
        truth = np.asarray(Image.fromarray(image).convert("L"))
    spoiled = salt_and_pepper(truth / 255, share, random_state=0)[0]
    given = saved(np.rint(255 * spoiled).astype(np.uint8), quality)
    started = time.perf_counter()
    out = restore(given, quality=how).image
    return best_median(given, truth), psnr(out, truth), time.perf_counter() - started


def scans_of_all(arguments):
    print(
        "\n| scan | given | median | restore | mended | of seen | others touched |",
        end="",
    )
    print(" with suggestions | mended | of seen | others touched | s |")
    print("| --- " * 12 + "|")
    pictures = photographs(arguments.kept, arguments.size)
    # Each photograph once, not parts of it too.
    pictures = {name: p for name, p in pictures.items() if "," not in name}
    kinds = {k: v for k, v in KINDS.items() if (arguments.kinds or "") in k}
    for name, kind in kinds.items():
        for colour in ("colour", "grey"):
            rows = [
                one_scan(grey(p) if colour == "grey" else p, kind, seed, arguments)
                for seed in range(arguments.seeds)
                for p in pictures.values()
            ]
            given, median, ours, *rest = np.transpose(rows)
            mended, seen, others, accepted, more, more_seen, more_others = rest[:7]
            print(
                f"| {name}, {colour} | {given.mean():.1f} | {median.mean():.1f} "
                f"| {ours.mean():.1f} (above in {np.mean(ours > median):.0%}) "
                f"| {mended.mean():.0%} | {seen.mean():.0%} | {others.mean():.2%} "
                f"| {accepted.mean():.1f} | {more.mean():.0%} | {more_seen.mean():.0%} "
                f"| {more_others.mean():.2%} | {rest[7].mean():.0f} |",
                flush=True,
            )
    suggested = []
    for image in pictures.values():
        for clean in (image, grey(image)):
            found = restore(clean, quality=arguments.quality)
            assert np.array_equal(found.image, clean) == (not found.mask.any())
            suggested.append((found.mask.mean(), found.suggestions.mean()))
    touched, suggested = np.transpose(suggested)
    print(
        f"\nClean: {np.mean(touched == 0):.0%} unchanged (must: all), suggestions in "
        f"{np.mean(suggested > 0):.0%} of them, at most {suggested.max():.2%} of one."
    )


def grey(image):
    return np.asarray(Image.fromarray(image).convert("L"))


def one_scan(truth, kind, seed, arguments):
    given, covered, change = scan(truth, kind, seed)
    marked = covered > 0.1
    seen = marked & (change > kind.noise)
    started = time.perf_counter()
    found = restore(given, quality=arguments.quality)
    seconds = time.perf_counter() - started
    accepted = restore(
        given, mask=found.mask | found.suggestions, quality=arguments.quality
    )
    window = (1,) * (given.ndim - 2)
    median = max(psnr(median_filter(given, (k, k, *window)), truth) for k in (3, 5))

    def counts(mask):
        mask = mask if mask.ndim == 2 else mask.any(axis=2)
        return mask[marked].mean(), mask[seen].mean(), mask[~marked].mean()

    return (
        *(psnr(given, truth), median, psnr(found.image, truth)),
        *counts(found.mask),
        psnr(accepted.image, truth),
        *counts(accepted.mask),
        seconds,
    )


def hot(arguments):
    print("\n| hot pixels of 8σ | recall | false discoveries | touched |")
    print("| --- | --- | --- | --- |")
    for level in (50, 200, 2000):
        for share in (0.0, 0.001, 0.01):
            print(one_hot(level, share, arguments.quality), flush=True)


def one_hot(level, share, how):
    rng = np.random.default_rng(0)
    i, j = np.mgrid[:256, :256] / 256
    ground = level * (1 + 0.5 * np.sin(3 * i) + 0.4 * j)
    mask = rng.random(ground.shape) < share
    given = rng.poisson(ground) + np.where(mask, 8 * np.sqrt(ground), 0)
    given = np.rint(given).astype(np.uint16)
    found = restore(given, quality=how)
    flagged = found.mask
    recall = flagged[mask].mean() if mask.any() else 1.0
    false = (flagged & ~mask).sum() / max(flagged.sum(), 1)
    return (
        f"| Poisson, mean {level}, {share:.1%} | {recall:.3f} (must: 0.9) "
        f"| {false:.4f} (must: ≤ 0.01) | {(flagged & ~mask).mean():.5%} |"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="jpeg,scan,hot")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=3, help="of the scans")
    parser.add_argument("--kinds", help="of the scans: words of their names")
    parser.add_argument("--fast", action="store_true")
    arguments = parser.parse_args()
    arguments.quality = "fast" if arguments.fast else "best"
    warnings.simplefilter("ignore")
    for name in arguments.only.split(","):
        tables = {"jpeg": jpeg, "scan": scans_of_all, "hot": hot}
        tables[name](arguments)


if __name__ == "__main__":
    recorded(main)

"""Whether what is said to be 90% likely to be corrupt is so in nine of ten cases.

    python benchmarks/marks.py --only calibration [--kept] [--size 192] [--fast]

A row is one kind of corruption, over all photographs (or graphics): of the values in
each bin of the probability that `restore` gives, the mean of what was said, the share
that is corrupt, and how many there are. "off" is the mean of |said − true| over the
values said at least 1%; "flagged false" is the share of the mask that is not corrupt.
"""

import io
from itertools import pairwise

import numpy as np
from PIL import Image

from discrepant import restore
from discrepant.image.corruptions import random_impulses, salt_and_pepper

EDGES = (0.01, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99)


def impulses(make, share):
    """Return a function that spoils a share of values after the last step."""

    def spoil(truth, seed):
        values = make(truth / 255, share, random_state=seed)[0]
        given = np.rint(255 * values).astype(np.uint8)
        return given, given != truth

    return spoil


def hot(share):
    """Return a function that makes pixels hot in all channels, by different amounts."""

    def spoil(truth, seed):
        rng = np.random.default_rng(seed)
        given = truth.astype(int)
        hit = rng.random(truth.shape[:2]) < share
        given[hit] += rng.integers(20, 200, (int(hit.sum()), 1))
        given = np.minimum(given, 255).astype(np.uint8)
        return given, given != truth

    return spoil


def jpeg(share, quality):
    """Return a function that spoils grey values and saves them as JPEG."""

    def spoil(truth, seed):
        grey = np.asarray(Image.fromarray(truth).convert("L"))
        values = salt_and_pepper(grey / 255, share, random_state=seed)[0]
        spoiled, file = np.rint(255 * values).astype(np.uint8), io.BytesIO()
        Image.fromarray(spoiled).save(file, "JPEG", quality=quality)
        return np.asarray(Image.open(file)), spoiled != grey

    return spoil


KINDS = {
    **{
        f"{name} {share:.0%}": impulses(make, share)
        for name, make in (
            ("salt-and-pepper", salt_and_pepper),
            ("random values", random_impulses),
        )
        for share in (0.05, 0.3, 0.5)
    },
    "hot pixels 0.5%": hot(0.005),
    "JPEG 90 after 5%": jpeg(0.05, 90),
    "JPEG 75 after 30%": jpeg(0.3, 75),
}


def cells(said, wrong, mask):
    """Return the cells of a row."""
    which = np.digitize(said, EDGES)
    out, off = [], 0.0
    for number in range(len(EDGES) + 1):
        inside = which == number
        if not inside.any():
            out.append("")
            continue
        means = float(said[inside].mean()), float(wrong[inside].mean())
        off += number and abs(means[0] - means[1]) * inside.sum()
        out.append(f"{means[0]:.3f} → {means[1]:.3f} ({inside.sum()})")
    doubted = max(int((which > 0).sum()), 1)
    false = (mask & ~wrong).sum() / max(mask.sum(), 1)
    return [*out, f"{off / doubted:.3f}", f"{false:.3%}"]


def table(pictures, graphics, quality, only=""):
    """Print how probabilities compare with the truth, kind by kind.

    ``pictures`` and ``graphics`` are clean images by name; ``only`` is a part of the
    names of the kinds to be shown.
    """
    bounds = ["0", *map(str, EDGES), "1"]
    names = [f"{a} – {b}" for a, b in pairwise(bounds)]
    print(f"\n| said → true | {' | '.join(names)} | off | flagged false |")
    print("| --- |" + " --- |" * (len(names) + 2))
    kinds = {name: (spoil, pictures) for name, spoil in KINDS.items()}
    kinds["graphics, random values 5%"] = KINDS["random values 5%"], graphics
    kinds["graphics, salt-and-pepper 5%"] = KINDS["salt-and-pepper 5%"], graphics
    for name, (spoil, images) in kinds.items():
        if only not in name:
            continue
        rows = []
        for seed, truth in enumerate(images.values()):
            given, wrong = spoil(truth, 100 + seed)
            found = restore(given, quality=quality)
            rows.append([a.ravel() for a in (found.probability, wrong, found.mask)])
        said, wrong, mask = (np.concatenate(a) for a in zip(*rows, strict=True))
        print(f"| {name} | {' | '.join(cells(said, wrong, mask))} |", flush=True)

"""Recall of hot pixels 8 standard deviations above a smooth background.

    python benchmarks/images/weak_outliers.py [--fast]

The background has Poisson noise.
"""

import argparse
import warnings

import numpy as np
from recording import recorded

from discrepant import restore


def measure(level, fraction, quality):
    """Return recall, false discovery rate, and the fraction of clean pixels flagged."""
    rng = np.random.default_rng(0)
    i, j = np.mgrid[:256, :256] / 256
    background = level * (1 + 0.5 * np.sin(3 * i) + 0.4 * j)
    hot = rng.random(background.shape) < fraction
    given = rng.poisson(background) + np.where(hot, 8 * np.sqrt(background), 0)
    flagged = restore(np.rint(given).astype(np.uint16), quality=quality).mask
    recall = flagged[hot].mean() if hot.any() else 1.0
    false = flagged & ~hot
    return recall, false.sum() / max(flagged.sum(), 1), false.mean()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fast", action="store_true")
    options = parser.parse_args()
    quality = "fast" if options.fast else "best"
    warnings.simplefilter("ignore")
    print("| hot pixels of 8σ | recall | false discoveries | clean pixels flagged |")
    print("| --- | --- | --- | --- |")
    for level in (50, 200, 2000):
        for fraction in (0.0, 0.001, 0.01):
            recall, false_discoveries, flagged = measure(level, fraction, quality)
            print(
                f"| Poisson, mean {level}, {fraction:.1%} | {recall:.3f} (must: 0.9) "
                f"| {false_discoveries:.4f} (must: ≤ 0.01) | {flagged:.5%} |",
                flush=True,
            )


if __name__ == "__main__":
    recorded(main)

"""F1 score of cosmic rays in synthetic star fields, against astroscrappy.

    python benchmarks/images/cosmic_rays.py

The fields are those of `synthetic_stars`, of other seeds than those used to choose the
constants. Columns: standard deviation of the point-spread function in pixels; for each
method the mean and the smallest F1, and the fraction of star peaks that are flagged.
astroscrappy gets the properties of the detector; `restore` runs with and without them.
"""

import argparse

import numpy as np
from recording import recorded
from synthetic_stars import GAIN, READ_NOISE, SATURATION, star_field

from discrepant import restore

SEEDS = range(2000, 2004)


def masks(image):
    """Return the mask of each method."""
    import astroscrappy

    detector = {"gain": GAIN, "read_noise": READ_NOISE, "saturation": SATURATION}
    peer, _ = astroscrappy.detect_cosmics(
        image.astype(np.float32),
        gain=GAIN,
        readnoise=READ_NOISE,
        satlevel=0.98 * SATURATION,
    )
    return {
        "restore, detector given": restore(image, **detector).mask,
        "restore": restore(image).mask,
        "astroscrappy, detector given": peer,
    }


def measure(psf_std, moffat):
    """Return F1, flagged star peaks and all star peaks of each field and method."""
    scores = {}
    for seed in SEEDS:
        field = star_field(seed, psf_std, moffat=moffat)
        for name, mask in masks(field.image).items():
            f1 = 2 * (mask & field.rays).sum() / (mask.sum() + field.rays.sum())
            flagged_peaks = (mask & field.peaks).sum()
            scores.setdefault(name, []).append((f1, flagged_peaks, field.peaks.sum()))
    return scores


def main():
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    print("PSF in pixels (standard deviation); F1, fraction of star peaks flagged")
    for moffat in (False, True):
        for psf_std in (0.85, 1.0, 1.5, 2.0):
            parts = []
            for name, scores in measure(psf_std, moffat).items():
                f1, flagged_peaks, peaks = np.array(scores).T
                parts.append(
                    f"{name} {f1.mean():.3f} (worst {f1.min():.3f}) "
                    f"{flagged_peaks.sum() / peaks.sum():.2%}"
                )
            profile = "Moffat" if moffat else "Gauss"
            print(f"{profile:7}{psf_std:4}: " + "; ".join(parts), flush=True)


if __name__ == "__main__":
    recorded(main)

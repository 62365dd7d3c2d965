"""What the first attempt could not tell from the picture, on a smooth ground."""

from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.arrays import round_to_dtype
from discrepant.core.linalg import Array
from discrepant.core.validation import check_number
from discrepant.image.restore.detectors.weak_outliers import (
    binary_exponent,
    detect_weak_outliers,
)
from discrepant.image.restore.tiling import Mended

# Share of corruption beyond which noise cannot be measured by a median of errors: each
# error has some twenty values in its prediction.
MUCH = 0.03


@dataclass(frozen=True)
class Detector:
    """What is known of the detector, and how sensitive to be; see `restore`."""

    sensitivity: float = 1.0
    gain: float | None = None
    read_noise: float = 0.0
    saturation: float | None = None

    def __post_init__(self) -> None:
        check_number(
            *("sensitivity", self.sensitivity, "a number above 0, up to 50"),
            lambda given: 0 < given <= 50,
        )
        if self.gain is not None:
            check_number(
                "gain", self.gain, "a positive number", lambda given: given > 0
            )
        check_number(
            "read_noise", self.read_noise, "0 or more", lambda given: given >= 0
        )
        if self.saturation is not None:
            check_number("saturation", self.saturation, "a number", lambda given: True)

    def full(self, values: Array) -> Array:
        """Return which values are saturated."""
        if self.saturation is None:
            return np.zeros(values.shape, bool)
        with np.errstate(invalid="ignore"):
            full: Array = values >= self.saturation
        return full

    def in_unit(self, exponent: int) -> "Detector":
        """Return the detector for values divided by ``2 ** exponent``."""
        if self.gain is None:
            return self
        return replace(self, gain=float(np.ldexp(self.gain, exponent)))

    def spared(self, found: Mended, values: Array, bad: Array) -> Mended:
        """Return what was found with saturated values as they were."""
        full = self.full(values) & ~bad
        if not full.any():
            return found
        return replace(
            found,
            values=np.where(full, values, found.values),
            mask=found.mask & ~full,
            probability=np.where(full, np.float32(0), found.probability),
        )


def with_outliers(
    found: Mended, values: Array, bad: Array, detector: Detector
) -> Mended:
    """Return what was found, and with it what stands out of the noise.

    Parameters
    ----------
    found : Mended
        The first attempt; what it replaced is taken as it was replaced.
    values, bad : ndarray of shape (rows, columns, channels)
        The image, and which of its values are known to be wrong.
    detector : Detector
        What is known of it.
    """
    kind = values.dtype.kind
    touched = found.mask | (found.values != values)  # after JPEG, blocks are
    if kind not in "uif" or not found.complete or touched.mean() > MUCH:
        return found
    out, mask, probability = found.values, found.mask, found.probability
    for c in range(values.shape[2]):
        plane, exponent = found.values[..., c].astype(np.float64), 0
        if kind == "f":  # whole numbers are in steps of 1, which say what noise is
            exponent = binary_exponent(plane)
        more = detect_weak_outliers(
            np.ldexp(plane, -exponent),
            bad[..., c],
            whole=kind in "ui",
            sensitivity=float(detector.sensitivity),
            gain=detector.in_unit(exponent).gain,
            read_noise=float(detector.read_noise),
        )
        if more is None:
            continue
        if out is found.values:  # only now, since most images are no smooth ground
            out, mask, probability = out.copy(), mask.copy(), probability.copy()
        low, high = values[..., c].min(), values[..., c].max()
        guess = np.clip(np.ldexp(more.guess, exponent), low, high)
        whole = kind in "ui"
        guess = (
            round_to_dtype(guess, values.dtype) if whole else guess.astype(values.dtype)
        )
        out[..., c] = np.where(more.mask, guess, out[..., c])
        mask[..., c] |= more.mask
        probability[..., c] = np.maximum(probability[..., c], more.probability)
    return replace(found, values=out, mask=mask, probability=probability)

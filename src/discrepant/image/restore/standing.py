"""What the first attempt could not tell from the picture, on a smooth ground."""

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np

from discrepant.errors import InputError
from discrepant.image.restore.outliers import outliers
from discrepant.image.restore.tiles import Mended
from discrepant.linalg import Array

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
        if not (isinstance(self.sensitivity, Real) and 0 < self.sensitivity <= 50):
            raise InputError(
                "sensitivity must be a number above 0, up to 50, got "
                f"{self.sensitivity!r}."
            )
        if self.gain is not None and not (
            isinstance(self.gain, Real) and self.gain > 0
        ):
            raise InputError(f"gain must be a positive number, got {self.gain!r}.")
        if not (isinstance(self.read_noise, Real) and self.read_noise >= 0):
            raise InputError(f"read_noise must be 0 or more, got {self.read_noise!r}.")
        if self.saturation is not None and not isinstance(self.saturation, Real):
            raise InputError(f"saturation must be a number, got {self.saturation!r}.")

    def full(self, values: Array) -> Array:
        """Return which values are saturated."""
        if self.saturation is None:
            return np.zeros(values.shape, bool)
        with np.errstate(invalid="ignore"):
            full: Array = values >= self.saturation
        return full

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
    if kind not in "uif" or not found.complete or found.mask.mean() > MUCH:
        return found
    out, mask = found.values.copy(), found.mask.copy()
    probability = found.probability.copy()
    for c in range(values.shape[2]):
        more = outliers(
            found.values[..., c],
            bad[..., c],
            whole=kind in "ui",
            sensitivity=float(detector.sensitivity),
            gain=detector.gain,
            read_noise=float(detector.read_noise),
        )
        if more is None:
            continue
        guess = np.rint(more.guess) if kind in "ui" else more.guess
        low, high = values[..., c].min(), values[..., c].max()
        guess = np.clip(guess, low, high).astype(values.dtype)
        out[..., c] = np.where(more.mask, guess, out[..., c])
        mask[..., c] |= more.mask
        probability[..., c] = np.maximum(probability[..., c], more.probability)
    return replace(found, values=out, mask=mask, probability=probability)

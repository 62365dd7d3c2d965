"""Properties of a detector that the user specifies: gain, read noise, saturation."""

from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.validation import check_number
from discrepant.image.restore.estimate import Estimate


@dataclass(frozen=True)
class Detector:
    """Gain, read noise and saturation of a detector, and the sensitivity of `restore`.

    Attributes
    ----------
    sensitivity : float
        Factor of the false discovery rate of 1% at which weak outliers are flagged.
    gain : float or None
        Electrons per count; None if unknown.
    read_noise : float
        Noise of a dark pixel, in electrons.
    saturation : float or None
        Count from which on a value is saturated; None if no value is.
    """

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

    def is_saturated(self, values: Array) -> Array:
        """Return which values are saturated."""
        if self.saturation is None:
            return np.zeros(values.shape, bool)
        with np.errstate(invalid="ignore"):
            saturated: Array = values >= self.saturation
        return saturated

    def in_unit(self, exponent: int) -> "Detector":
        """Return the detector for values divided by ``2 ** exponent``."""
        if self.gain is None:
            return self
        return replace(self, gain=float(np.ldexp(self.gain, exponent)))

    def keep_saturated(
        self, estimate: Estimate, values: Array, known_bad: Array
    ) -> Estimate:
        """Return an estimate in which saturated values are unchanged and not flagged.

        ``values`` is the input image; ``known_bad`` values are replaced even if
        they are saturated.
        """
        saturated = self.is_saturated(values) & ~known_bad
        if not saturated.any():
            return estimate
        return replace(
            estimate,
            image=np.where(saturated, values, estimate.image),
            mask=estimate.mask & ~saturated,
            probability=np.where(saturated, np.float32(0), estimate.probability),
        )

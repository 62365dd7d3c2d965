"""What `restore` hands back: the image, what was taken out of it, and how surely."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.arrays import to_uint8
from discrepant.core.display import DisplayMixin
from discrepant.core.linalg import Array
from discrepant.core.plotting import image_panels
from discrepant.core.results import History
from discrepant.image.arrays import MAX_CHANNELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARRAYS = ("image", "corruption", "mask", "probability", "suggestions")


@dataclass(frozen=True, eq=False, repr=False)
class Restoration(DisplayMixin):
    """A clean image, and what was taken out of it.

    Attributes
    ----------
    image : ndarray
        The restored image, of the shape, dtype and range of the input. Where ``mask``
        is False it is bit for bit the input, unless noise was to be taken off; only of
        an image that was spoiled before it was saved as JPEG, whole blocks are
        replaced, as the ringing is everywhere.
    corruption : ndarray
        Input minus restored image, zero where it was left as it was; signed.
    mask : ndarray of bool
        The values judged corrupted, or marked as bad.
    probability : ndarray
        The probability of each value being corrupted; after JPEG, which mixes them,
        that of any channel of its pixel.
    suggestions : ndarray of bool
        Values under what looks like dust, a scratch, a hair or writing on the picture,
        but may as well be a part of it: left as they are. To have them mended too, give
        ``mask | suggestions`` as the known-bad values of another `restore`.
    history : History
        One row a round: ``step``, ``seconds``, ``tile`` and the share ``corrupted``.
    complete : bool
        Whether all was done; False if it was stopped, or ran out of time.
    """

    image: Array
    corruption: Array
    mask: Array
    probability: Array
    suggestions: Array
    history: History
    complete: bool = True

    def shaped(self, shape: tuple[int, ...]) -> "Restoration":
        """Return the same with all arrays of another shape."""
        arrays = {name: getattr(self, name).reshape(shape) for name in ARRAYS}
        return replace(self, **arrays)

    def plot(self) -> "Figure":
        """Draw the image before and after, and what was judged corrupted.

        Of a stack, the picture with the most of it.
        """
        return image_panels(self._pictures())

    def _pictures(self) -> dict[str, Array]:
        before, after, mask = self._worst()
        marked = np.asarray(mask.any(axis=2) if mask.ndim == 3 else mask)
        return {
            "before": to_uint8(before, after),
            "after": to_uint8(after),
            "judged corrupted": to_uint8(marked),
        }

    def _worst(self) -> tuple[Array, Array, Array]:
        """Return the picture with the most corruption, before and after, and its mask.

        Three channels that stand last make a picture in colour; else it is one plane.
        """
        after, taken, mask = map(np.asarray, (self.image, self.corruption, self.mask))
        channels = after.shape[-1] if after.ndim > 2 else MAX_CHANNELS + 1
        within = after.shape[-3:] if channels <= MAX_CHANNELS else after.shape[-2:]
        after, taken, mask = (a.reshape(-1, *within) for a in (after, taken, mask))
        place = int(mask.reshape(len(mask), -1).sum(axis=1).argmax())
        part: tuple[Any, ...] = (place,)
        if channels <= MAX_CHANNELS:
            part = (place, ..., slice(3) if channels in (3, 4) else 0)
        with np.errstate(invalid="ignore"):  # the ends of 64 bits are no floats
            before = (after[part] + taken[part]).astype(after.dtype)
        return before, after[part], mask[part]

    def __str__(self) -> str:
        early = "" if self.complete else "; stopped early"
        return f"{self.mask.mean():.1%} of the values were judged corrupted{early}"

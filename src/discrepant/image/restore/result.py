"""The result of `restore`."""

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

# Attributes of a Restoration that are arrays of the input's shape.
ARRAYS = ("image", "corruption", "mask", "probability", "suggestions")


@dataclass(frozen=True, eq=False, repr=False)
class Restoration(DisplayMixin):
    """A restored image and the corruption that was removed from it.

    Attributes
    ----------
    image : ndarray
        The restored image, of the shape, dtype and range of the input. Where ``mask``
        is False it equals the input bit for bit, with two exceptions: with ``denoise``
        all values change, and if the image was corrupted before it was saved as JPEG,
        whole blocks are replaced, since compression spreads the corruption over them.
    corruption : ndarray
        Input minus restored image, of a signed dtype; zero where nothing was changed.
    mask : ndarray of bool
        True where a value is classified as corrupted or was marked as bad.
    probability : ndarray of float32
        Probability that each value is corrupted. After JPEG compression, which mixes
        the channels, it is the probability for any channel of the pixel.
    suggestions : ndarray of bool
        True under possible dust, scratches, hairs or writing that may as well belong to
        the picture; these values are unchanged. To replace them too, pass
        ``mask | suggestions`` as the ``mask`` of another `restore`.
    history : History
        One row per step: ``step``, ``seconds``, ``tile`` and the fraction
        ``corrupted``.
    complete : bool
        False if the time limit or the ``progress`` callback ended the work early.
    """

    image: Array
    corruption: Array
    mask: Array
    probability: Array
    suggestions: Array
    history: History
    complete: bool = True

    def reshaped(self, shape: tuple[int, ...]) -> "Restoration":
        """Return a copy whose arrays have another shape."""
        arrays = {name: getattr(self, name).reshape(shape) for name in ARRAYS}
        return replace(self, **arrays)

    def plot(self) -> "Figure":
        """Draw the image before and after, and which values were corrupted.

        For a stack, the frame with the most corrupted values is drawn.
        """
        return image_panels(self._pictures())

    def _pictures(self) -> dict[str, Array]:
        before, after, mask = self._most_corrupted_frame()
        pixels = np.asarray(mask.any(axis=2) if mask.ndim == 3 else mask)
        return {
            "before": to_uint8(before, after),
            "after": to_uint8(after),
            "corrupted": to_uint8(pixels),
        }

    def _most_corrupted_frame(self) -> tuple[Array, Array, Array]:
        """Return the frame with the most corruption: before, after, and its mask.

        Three channels in the last axis are drawn in colour; otherwise one channel is.
        """
        image, corruption, mask = map(
            np.asarray, (self.image, self.corruption, self.mask)
        )
        channels = image.shape[-1] if image.ndim > 2 else MAX_CHANNELS + 1
        has_channels = channels <= MAX_CHANNELS
        frame_shape = image.shape[-3:] if has_channels else image.shape[-2:]
        image, corruption, mask = (
            array.reshape(-1, *frame_shape) for array in (image, corruption, mask)
        )
        worst = int(mask.reshape(len(mask), -1).sum(axis=1).argmax())
        part: tuple[Any, ...] = (worst,)
        if has_channels:
            part = (worst, ..., slice(3) if channels in (3, 4) else 0)
        with np.errstate(invalid="ignore"):  # 64-bit extremes are not exact in floats
            before = (image[part] + corruption[part]).astype(image.dtype)
        return before, image[part], mask[part]

    def __str__(self) -> str:
        early = "" if self.complete else "; stopped early"
        return f"{self.mask.mean():.1%} of the values are corrupted{early}"

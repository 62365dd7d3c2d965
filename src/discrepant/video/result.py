"""Results of `separate`: `Frame` of a stream, `Separation` of a whole video."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
from scipy.ndimage import find_objects, label

from discrepant.core.arrays import to_uint8
from discrepant.core.display import DisplayMixin
from discrepant.core.linalg import Array
from discrepant.video.figures import plot_separation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from discrepant.video.model.separator import Separator


@dataclass(frozen=True)
class Frame:
    """One frame of a stream, separated.

    ``background`` is in the type and unit of the frames; ``foreground`` is boolean and
    ``probability`` float32, both of shape (rows, columns).
    """

    number: int
    image: Array
    background: Array
    foreground: Array
    probability: Array

    @property
    def boxes(self) -> Array:
        """Bounding boxes of the objects: x, y, width, height and area, one per row."""
        return bounding_boxes(self.foreground)


def bounding_boxes(mask: Array) -> Array:
    """Return x, y, width, height and area of each component of a mask, one per row."""
    labels, count = label(mask, np.ones((3, 3)))
    areas = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    boxes = [
        (x.start, y.start, x.stop - x.start, y.stop - y.start, area)
        for (y, x), area in zip(find_objects(labels), areas, strict=True)
    ]
    return np.array(boxes, np.int64).reshape(-1, 5)


class LazyFrames:
    """Images that are computed one at a time, on request.

    Behaves as a sequence; ``numpy.asarray`` computes them all.
    """

    def __init__(self, count: int, compute: Callable[[int], Array]) -> None:
        self._count, self._compute = count, compute

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, key: int) -> Array: ...
    @overload
    def __getitem__(self, key: slice) -> "LazyFrames": ...
    def __getitem__(self, key: int | slice) -> "Array | LazyFrames":
        numbers = range(self._count)[key]
        if isinstance(numbers, range):
            return LazyFrames(len(numbers), lambda k: self._compute(numbers[k]))
        return self._compute(numbers)

    def __iter__(self) -> Iterator[Array]:
        return map(self._compute, range(self._count))

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("These images are computed on request: a copy is needed.")
        return np.stack(list(self)).astype(dtype, copy=False)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True, repr=False)
class Separation(DisplayMixin):
    """A video separated into background and foreground.

    Attributes
    ----------
    background : LazyFrames
        The background of each frame, in the type, shape and unit of the frames;
        computed on request.
    foreground : ndarray of bool, (time, rows, columns)
        The pixels that show moving objects.
    probability : LazyFrames
        The probability that each pixel is foreground, float32.
    rank : int
        Rank of the background: its image and the largest number of patterns of change
        at a time.
    noise : ndarray of shape (rows, columns)
        Standard deviation of each pixel's noise, in the unit of the frames.
    notes : tuple of str
        Remarks on the result: a truncated file, a camera that moves.
    """

    background: LazyFrames = field(repr=False)
    foreground: Array = field(repr=False)
    probability: LazyFrames = field(repr=False)
    rank: int
    noise: Array = field(repr=False)
    notes: tuple[str, ...]
    _separator: "Separator" = field(repr=False, compare=False)

    def save(self, path: str | Path) -> None:
        """Write the background model, for `model` of `separate` on the same camera."""
        self._separator.save(path)

    @property
    def activity(self) -> Array:
        """Fraction of the pixels that are foreground, for each frame."""
        return np.asarray(self.foreground.mean(axis=(1, 2)))

    def plot(self) -> "Figure":
        """Draw background and foreground of the busiest frame, and the activity."""
        number, background, mask = self._busiest()
        return plot_separation(background, mask, number, self.activity)

    def _busiest(self) -> tuple[int, Array, Array]:
        """Return the busiest frame's number, its background and its mask in bytes."""
        number = int(self.activity.argmax())
        image = to_uint8(self.background[number])
        if image.ndim == 3:
            image = image[..., :3] if image.shape[2] >= 3 else image[..., 0]
        return number, image, to_uint8(self.foreground[number])

    def _notes(self) -> tuple[str, ...]:
        return self.notes

    def _pictures(self) -> dict[str, Array]:
        number, background, mask = self._busiest()
        return {f"background of frame {number}": background, "foreground": mask}

    def __str__(self) -> str:
        frames, rows, columns = self.foreground.shape
        return (
            f"{frames} frames of {columns}×{rows}: background of rank {self.rank}, "
            f"noise {np.median(self.noise):.3g}; foreground in "
            f"{np.count_nonzero(self.activity)} frames, "
            f"{self.activity.mean():.2%} of the pixels."
        )

"""Results of the stages of `restore`, before they become a `Restoration`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discrepant.core.linalg import Array
from discrepant.core.results import History

if TYPE_CHECKING:
    from discrepant.image.restore.defects.surface_defects import SurfaceDefects


@dataclass(frozen=True, eq=False)
class TileEstimate:
    """The restoration of one tile, with values scaled to [0, 1].

    Attributes
    ----------
    prediction : ndarray of shape (rows, columns, channels)
        Predicted clean value of every entry.
    clean_probability : ndarray
        Posterior probability that each value is clean.
    replaced : ndarray of bool
        Values to replace by their prediction.
    undetermined : bool
        True if corrupted values could not be identified; the tile is left unchanged.
    is_graphic : bool
        True if the tile was restored as a graphic (text, plot, drawing).
    defects : SurfaceDefects or None
        Surface defects of a photograph; None for a graphic.
    """

    prediction: Array
    clean_probability: Array
    replaced: Array
    undetermined: bool = False
    is_graphic: bool = False
    defects: "SurfaceDefects | None" = None


@dataclass(frozen=True, eq=False)
class Estimate:
    """The restoration of one image, in the image's own dtype and range.

    Attributes
    ----------
    image : ndarray of shape (rows, columns, channels)
        The image with corrupted values replaced.
    mask : ndarray of bool, of the same shape
        Values that are corrupted or known to be bad.
    probability : ndarray of float32
        Posterior probability that each value is corrupted.
    history : History
        One row per step; see `Restoration`.
    complete : bool
        False if the time limit or the caller ended the work early.
    undetermined : bool
        True if corrupted values could not be identified in some tile.
    is_graphic : bool
        True if some tile was restored as a graphic.
    defects, suggestions : ndarray of bool, of shape (rows, columns)
        Pixels under certain surface defects, and under possible ones.
    """

    image: Array
    mask: Array
    probability: Array
    history: History
    complete: bool
    undetermined: bool
    is_graphic: bool
    defects: Array
    suggestions: Array

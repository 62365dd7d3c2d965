"""Images for display: 8-bit pages, before/after panels, and a summary of the values."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from discrepant.core.arrays import to_uint8
from discrepant.core.linalg import Array
from discrepant.image.files.formats import write
from discrepant.image.files.image_file import ImageFile, upright

# Values of a file that are inspected for the summary, evenly spaced; enough for any.
MAX_SUMMARISED_VALUES = 10_000_000
# Magenta, a colour rare in photographs: marks the suggested pixels in a panel.
SUGGESTED_COLOUR = np.array([255, 0, 255], np.uint8)
# White pixels between two panels.
PANEL_GAP = 8


def describe_values(values: Array, mask: Array) -> str:
    """Summarise the corrupted values in a few words; return "" if there are none.

    Of a large file, a regular subsample of the values is inspected.
    """
    subsample = slice(None, None, -(-mask.size // MAX_SUMMARISED_VALUES))
    corrupted = values.ravel()[subsample][mask.ravel()[subsample]]
    if not corrupted.size:
        return ""
    if corrupted.dtype.kind == "f" and not np.isfinite(corrupted).any():
        return ", all missing"
    distinct, counts = np.unique(corrupted, return_counts=True)
    order = np.argsort(-counts)[:2]
    if counts[order[0]] > 0.9 * corrupted.size:
        return f", nearly all of them {distinct[order[0]]:g}"
    if counts[order].sum() > 0.9 * corrupted.size:
        low, high = sorted(distinct[order].tolist())
        return f", nearly all of them {low:g} or {high:g}"
    return ", of many sizes"


def write_side_by_side(
    path: Path, file: ImageFile, restored: Array, suggestions: Array
) -> None:
    """Write the first page before and after, and the suggestions if there are any."""
    panels = display_image(file, (file.values, restored))
    suggested: Array = display_image(file, [suggestions])[0] > 0
    if suggested.ndim == 3:
        suggested = np.asarray(suggested.any(axis=2))
    if suggested.any():
        panels = [p if p.ndim == 3 else np.stack([p] * 3, axis=2) for p in panels]
        panels.append(np.where(suggested[..., None], SUGGESTED_COLOUR, panels[1]))
    gap = np.full((len(panels[0]), PANEL_GAP, *panels[0].shape[2:]), 255, np.uint8)
    row = np.concatenate([p for panel in panels for p in (gap, panel)][1:], axis=1)
    write(path, ImageFile(row, (), 2 if row.ndim == 3 else None, "NPY"), row)


def display_image(file: ImageFile, versions: Sequence[Array]) -> list[Array]:
    """Return the first page of each version for display: upright, 8 bits, one scale.

    Parameters
    ----------
    file : ImageFile
        The file that the values belong to: gives their axes and orientation.
    versions : sequence of ndarray
        Values of the file's shape; the last of them sets the intensity scale of all.
    """
    pages = [next(replace(file, values=v).pages())[1] for v in versions]

    def to_display(page: Array) -> Array:
        page = upright(page, file.orientation, (-2, -1))
        if page.ndim == 3:
            page = np.moveaxis(page, 0, -1) if len(page) == 3 else page[0]
        return to_uint8(page, like=pages[-1])

    return [to_display(page) for page in pages]

"""Restored pictures for people to look at, and a few words about them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from discrepant.core.linalg import Array
from discrepant.image.files.formats import write
from discrepant.image.files.image_file import ImageFile, upright

ENOUGH = 10_000_000  # values that tell of which kind they are
SUGGESTED = np.array([255, 0, 255], np.uint8)  # drawn in magenta, rare in photographs


def describe_values(values: Array, mask: Array) -> str:
    """Say in a few words what the corrupted values are; nothing if there are none.

    Of a large file some, from all over it, are looked at.
    """
    every = slice(None, None, -(-mask.size // ENOUGH))
    wrong = values.ravel()[every][mask.ravel()[every]]
    if not wrong.size:
        return ""
    if wrong.dtype.kind == "f" and not np.isfinite(wrong).any():
        return ", all missing"
    found, counts = np.unique(wrong, return_counts=True)
    order = np.argsort(-counts)[:2]
    if counts[order[0]] > 0.9 * wrong.size:
        return f", nearly all of them {found[order[0]]:g}"
    if counts[order].sum() > 0.9 * wrong.size:
        low, high = sorted(found[order].tolist())
        return f", nearly all of them {low:g} or {high:g}"
    return ", of many sizes"


def write_beside(
    path: Path, picture: ImageFile, values: Array, suggestions: Array
) -> None:
    """Write the first page, before beside after, then what is suggested, if any."""
    panels = display_image(picture, (picture.values, values))
    drawn: Array = display_image(picture, [suggestions])[0] > 0
    if drawn.ndim == 3:
        drawn = np.asarray(drawn.any(axis=2))
    if drawn.any():
        panels = [p if p.ndim == 3 else np.stack([p] * 3, axis=2) for p in panels]
        panels.append(np.where(drawn[..., None], SUGGESTED, panels[1]))
    gap = np.full((len(panels[0]), 8, *panels[0].shape[2:]), 255, np.uint8)
    both = np.concatenate([p for panel in panels for p in (gap, panel)][1:], axis=1)
    write(path, ImageFile(both, (), 2 if both.ndim == 3 else None, "NPY"), both)


def display_image(picture: ImageFile, versions: Sequence[Array]) -> list[Array]:
    """Return the first page as it is seen: upright, in 8 bits, on one scale.

    Parameters
    ----------
    picture : Picture
        Says what the axes of the values are.
    versions : sequence of ndarray
        Values of the picture's shape; the last sets the scale of all.
    """
    pages = [next(replace(picture, values=v).pages())[1] for v in versions]
    last = pages[-1]
    finite = last[np.isfinite(last)].astype(float)
    low, high = np.quantile(finite, (0.001, 0.999)) if finite.size else (0.0, 1.0)
    if last.dtype == np.uint8:
        low, high = 0.0, 255.0
    elif last.dtype == np.bool_:
        low, high = 0.0, 1.0
    span = (high - low) or 1.0

    def shown(page: Array) -> Array:
        page = upright(page, picture.orientation, (-2, -1))
        if page.ndim == 3:
            page = np.moveaxis(page, 0, -1) if len(page) == 3 else page[0]
        scaled = (np.nan_to_num(page.astype(float), nan=low) - low) / span
        return np.asarray(255 * np.clip(scaled, 0, 1), np.uint8)

    return [shown(page) for page in pages]

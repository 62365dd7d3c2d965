"""Restore an uploaded image: a quick preview first, then the full image."""

import shlex
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.arrays import subsample
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Report, subrange
from discrepant.image.display import describe_values, display_image
from discrepant.image.files.formats import read, write
from discrepant.image.files.image_file import ImageFile, upright
from discrepant.image.restore.restore import restore
from discrepant.image.restore_files import (
    Options,
    mask_ending,
    restore_pages,
    write_mask,
)
from discrepant.server.jobs import JobResult, ShowPreviews, Upload

PREVIEW_PROGRESS = 0.1  # fraction of the progress bar for the preview
PREVIEW_SIDE = 256  # pixels of the preview's longer side; it takes a second or two
MASK_COLOUR = (214, 40, 72)  # red: corrupted values
SUGGESTION_COLOUR = (230, 160, 30)  # gold: possible defects, left unchanged


def restore_upload(
    upload: Upload,
    folder: Path,
    report: Report,
    show: ShowPreviews,
    *,
    fast: bool = False,
    painted: Path | None = None,
) -> JobResult:
    """Restore an uploaded image.

    Parameters
    ----------
    upload : Upload
        The image.
    folder : Path
        Folder for the results.
    report : callable
        Receives the progress; returns False to stop.
    show : callable
        Receives the names of previews.
    fast : bool
        Prefer speed to quality.
    painted : Path, optional
        A PNG of the size of the upright image, opaque at pixels that are known bad.
    """
    started = time.perf_counter()
    image = read(upload.path)
    known_bad = None if painted is None else _known_bad(painted, image)
    files = {name: folder / name for name in ("before.png", "after.png")}
    replace_image(files["before.png"], display_image(image, [image.values])[0])
    show({"before": "before.png"})
    if _write_preview(
        files["after.png"], image, painted, subrange(report, 0, PREVIEW_PROGRESS)
    ):
        show({"after": "after.png"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options = Options("fast" if fast else "best", known_bad)
        restored = restore_pages(
            image, options, subrange(report, PREVIEW_PROGRESS, 1), started
        )
    # Both versions are displayed on one intensity scale, that of the restored image.
    after = display_image(image, [image.values, restored.values])[1]
    replace_image(files["after.png"], after)
    layers = {"mask.png": (restored.mask, MASK_COLOUR)}
    if restored.suggestions.any():
        layers["suggestions.png"] = (restored.suggestions, SUGGESTION_COLOUR)
    for name, (mask, colour) in layers.items():
        files[name] = folder / name
        _write_layer(files[name], image, mask, colour)
    images = {name.split(".")[0]: name for name in files}
    result_file = f"result{upload.suffix}"
    mask_file = f"result-mask{mask_ending(image)}"
    downloads = {
        result_file: f"{upload.stem}-restored{upload.suffix}",
        mask_file: f"{upload.stem}-mask{mask_ending(image)}",
    }
    write(folder / result_file, image, restored.values)
    write_mask(folder / mask_file, image, restored.mask)
    if painted is not None and known_bad is not None:
        images["painted"] = "painted.png"  # to continue painting on the result
        files["painted.png"] = painted
        downloads["known.png"] = f"{upload.stem}-marks.png"
        write(folder / "known.png", known_bad, known_bad.values)
    files |= {name: folder / name for name in downloads}
    corrupted = float(restored.mask[image.without_transparency].mean())
    return JobResult(
        page_data={
            "headline": _headline(corrupted, image, restored.mask),
            "notes": list(dict.fromkeys(str(w.message) for w in caught)),
            "images": images,
            "downloads": [{"file": k, "as": v} for k, v in downloads.items()],
            "size": _displayed_size(image),
            "seconds": round(time.perf_counter() - started, 1),
            **_equivalent_code(
                upload, downloads[result_file], fast, downloads.get("known.png")
            ),
        },
        files=files,
    )


def _equivalent_code(
    upload: Upload, result: str, fast: bool, known_bad: str | None
) -> dict[str, str]:
    """Return the command and the line of Python that compute the same result."""
    command = ["discrepant", "restore", upload.name, "-o", result]
    reader = "numpy.load" if upload.suffix == ".npy" else "skimage.io.imread"
    arguments = [f"{reader}({upload.name!r})"]
    if fast:
        command.append("--fast")
        arguments.append('quality="fast"')
    if known_bad:
        command += ["--known-bad", known_bad]
        arguments.append(f"mask=skimage.io.imread({known_bad!r}) > 0")
    python = f"result = discrepant.restore({', '.join(arguments)})"
    return {"command": shlex.join(command), "python": python}


def _headline(corrupted: float, image: ImageFile, mask: Array) -> str:
    if not corrupted:
        return "No corrupted values found; the image is unchanged."
    kind = describe_values(image.values, mask)
    return f"{corrupted:.2%} of the values were corrupted{kind}, and were replaced."


def _displayed_size(image: ImageFile) -> list[int]:
    """Return width and height of the upright image."""
    rows, columns = (image.values.shape[axis] for axis in image.plane)
    rotated = image.orientation in (5, 6, 7, 8)
    return [rows, columns] if rotated else [columns, rows]


def _write_preview(
    path: Path, image: ImageFile, painted: Path | None, report: Report
) -> bool:
    """Restore every k-th row and column of a large image, in fast mode.

    Returns whether a preview was written: small images need none.
    """
    displayed = display_image(image, [image.values])[0]
    reduced = subsample(displayed, PREVIEW_SIDE)
    if reduced.shape == displayed.shape:
        return False
    known_bad = None if painted is None else subsample(_opaque(painted), PREVIEW_SIDE)
    # Errors and warnings come again from the full image.
    with warnings.catch_warnings(), suppress(InputError):
        warnings.simplefilter("ignore")
        axis = 2 if reduced.ndim == 3 else None
        preview = restore(
            reduced, quality="fast", mask=known_bad, channel_axis=axis, progress=report
        )
        replace_image(path, preview.image)
        return True
    return False


def _opaque(painted: Path) -> Array:
    """Return the mask of painted pixels, in the upright image."""
    pixels = read(painted).values
    opaque: Array = (pixels[..., -1] if pixels.ndim == 3 else pixels) > 127
    return opaque


def _known_bad(painted: Path, image: ImageFile) -> ImageFile:
    """Return the painted pixels as a mask in the orientation of the stored image."""
    opaque = _opaque(painted)
    rows, columns = (image.values.shape[axis] for axis in image.plane)
    pixels = np.arange(rows * columns).reshape(rows, columns)
    pixels = upright(pixels, image.orientation, (0, 1))
    if pixels.shape != opaque.shape:
        raise InputError("The painted mask and the image differ in size.")
    mask = np.zeros(rows * columns, np.uint8)
    mask[pixels.ravel()] = np.where(opaque.ravel(), 255, 0)
    return ImageFile(mask.reshape(rows, columns), (), None, "NPY")


def replace_image(path: Path, pixels: Array) -> None:
    """Write an image file atomically, as the previous one may be in transfer."""
    new = path.with_name(f"new-{path.name}")
    write(new, ImageFile(pixels, (), 2 if pixels.ndim == 3 else None, "NPY"), pixels)
    new.replace(path)


def _write_layer(path: Path, image: ImageFile, mask: Array, colour: Any) -> None:
    """Write a transparent image that is coloured where any channel is masked."""
    page = display_image(image, [mask])[0]
    masked = page.any(axis=2) if page.ndim == 3 else page > 0
    layer = np.zeros((*masked.shape, 4), np.uint8)
    layer[masked] = (*colour, 255)
    write(path, ImageFile(layer, (), 2, "NPY", transparent=True), layer)

"""A picture healed for the page: a glance at it first, then the whole."""

import shlex
import time
import warnings
from collections.abc import Sequence
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
from discrepant.server.job_result import Outcome, Show, Upload

GLANCE = 0.1  # share of the bar that the first look takes
SIDE = 256  # rows and columns of it, at most: a second or two, whatever the picture
RED = (214, 40, 72)  # what was judged wrong
GOLD = (230, 160, 30)  # what looks foreign and was left alone


def heal_picture(
    upload: Upload,
    folder: Path,
    report: Report,
    show: Show,
    *,
    fast: bool = False,
    marks: Path | None = None,
) -> Outcome:
    """Restore an uploaded picture.

    Parameters
    ----------
    upload : Upload
        The picture.
    folder : Path
        Where results go.
    report : callable
        Told of the progress; False ends the work.
    show : callable
        Told of pictures to look at meanwhile.
    fast : bool
        Whether seconds matter more than the last decibel.
    marks : Path, optional
        A PNG of the picture as it is seen, opaque where it was painted as bad.
    """
    started = time.perf_counter()
    picture = read(upload.path)
    bad = None if marks is None else _painted(marks, picture)
    files = {name: folder / name for name in ("before.png", "after.png")}
    _write_seen(files["before.png"], picture, [picture.values], 0)
    show({"before": "before.png"})
    if _glanced(files["after.png"], picture, marks, subrange(report, 0, GLANCE)):
        show({"after": "after.png"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options = Options("fast" if fast else "best", bad)
        found = restore_pages(picture, options, subrange(report, GLANCE, 1), started)
    _write_seen(files["after.png"], picture, [picture.values, found.values], 1)
    layers = {"mask.png": (found.mask, RED)}
    if found.suggestions.any():
        layers["suggestions.png"] = (found.suggestions, GOLD)
    for name, (where, colour) in layers.items():
        files[name] = folder / name
        _write_layer(files[name], picture, where, colour)
    pictures = {name.split(".")[0]: name for name in files}
    result, judged = f"result{upload.suffix}", f"judged{mask_ending(picture)}"
    downloads = {
        result: f"{upload.stem}-restored{upload.suffix}",
        judged: f"{upload.stem}-mask{mask_ending(picture)}",
    }
    write(folder / result, picture, found.values)
    write_mask(folder / judged, picture, found.mask)
    if marks is not None and bad is not None:
        pictures["marks"] = "painted.png"  # to go on painting where one was
        files["painted.png"] = marks
        downloads["known.png"] = f"{upload.stem}-marks.png"
        write(folder / "known.png", bad, bad.values)
    files |= {name: folder / name for name in downloads}
    corrupted = float(found.mask[picture.without_transparency].mean())
    return Outcome(
        facts={
            "headline": _headline(corrupted, picture, found.mask),
            "caveats": list(dict.fromkeys(str(w.message) for w in caught)),
            "pictures": pictures,
            "downloads": [{"file": k, "as": v} for k, v in downloads.items()],
            "size": _size(picture),
            "seconds": round(time.perf_counter() - started, 1),
            **_said(upload, downloads[result], fast, downloads.get("known.png")),
        },
        files=files,
    )


def _said(upload: Upload, result: str, fast: bool, marks: str | None) -> dict[str, str]:
    """Return the command and the line of Python that do the same."""
    command = ["discrepant", "restore", upload.name, "-o", result]
    reader = "numpy.load" if upload.suffix == ".npy" else "skimage.io.imread"
    given = [f"{reader}({upload.name!r})"]
    if fast:
        command.append("--fast")
        given.append('quality="fast"')
    if marks:
        command += ["--known-bad", marks]
        given.append(f"mask=skimage.io.imread({marks!r}) > 0")
    python = f"found = discrepant.restore({', '.join(given)})"
    return {"command": shlex.join(command), "python": python}


def _headline(corrupted: float, picture: ImageFile, mask: Array) -> str:
    if not corrupted:
        return "Nothing in this picture looks wrong: it is as it was, byte for byte."
    kind = describe_values(picture.values, mask)
    return f"{corrupted:.2%} of the values were judged wrong{kind}, and replaced."


def _size(picture: ImageFile) -> list[int]:
    """Return width and height as the picture is seen."""
    rows, columns = (picture.values.shape[axis] for axis in picture.plane)
    turned = picture.orientation in (5, 6, 7, 8)
    return [rows, columns] if turned else [columns, rows]


def _glanced(
    path: Path, picture: ImageFile, marks: Path | None, report: Report
) -> bool:
    """Write what every k-th row and column of a large picture is restored to, quickly.

    Returns whether it did: a small picture is done before one could look.
    """
    seen = display_image(picture, [picture.values])[0]
    few = subsample(seen, SIDE)
    if few.shape == seen.shape:
        return False
    bad = None if marks is None else subsample(_opaque(marks), SIDE)
    with warnings.catch_warnings(), suppress(InputError):  # said of the whole, if so
        warnings.simplefilter("ignore")
        axis = 2 if few.ndim == 3 else None
        found = restore(
            few, quality="fast", mask=bad, channel_axis=axis, progress=report
        )
        replace_shown(path, found.image)
        return True
    return False


def _opaque(marks: Path) -> Array:
    """Return where something was painted, as the picture is seen."""
    drawn = read(marks).values
    opaque: Array = (drawn[..., -1] if drawn.ndim == 3 else drawn) > 127
    return opaque


def _painted(marks: Path, picture: ImageFile) -> ImageFile:
    """Return what was painted on the upright picture as marks on the stored one."""
    opaque = _opaque(marks)
    rows, columns = (picture.values.shape[axis] for axis in picture.plane)
    places = np.arange(rows * columns).reshape(rows, columns)
    places = upright(places, picture.orientation, (0, 1))
    if places.shape != opaque.shape:
        raise InputError("What was painted is not of the size of the picture.")
    flat = np.zeros(rows * columns, np.uint8)
    flat[places.ravel()] = np.where(opaque.ravel(), 255, 0)
    return ImageFile(flat.reshape(rows, columns), (), None, "NPY")


def _write_seen(
    path: Path, picture: ImageFile, versions: Sequence[Array], which: int
) -> None:
    """Write one of several versions of the first page, all on the last one's scale."""
    replace_shown(path, display_image(picture, versions)[which])


def replace_shown(path: Path, image: Array) -> None:
    """Write a picture in the place of the last one, which may be on its way out."""
    fresh = path.with_name(f"fresh-{path.name}")
    write(fresh, ImageFile(image, (), 2 if image.ndim == 3 else None, "NPY"), image)
    fresh.replace(path)


def _write_layer(path: Path, picture: ImageFile, where: Array, colour: Any) -> None:
    """Write a see-through picture that is coloured where any channel is marked."""
    page = display_image(picture, [where])[0]
    marked = page.any(axis=2) if page.ndim == 3 else page > 0
    layer = np.zeros((*marked.shape, 4), np.uint8)
    layer[marked] = (*colour, 255)
    write(path, ImageFile(layer, (), 2, "NPY", transparent=True), layer)

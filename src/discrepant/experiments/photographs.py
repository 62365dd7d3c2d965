"""Photographs of the image figures: list, read, crop, encode as text."""

import base64
import io
from pathlib import Path

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.image.arrays import unit_image
from discrepant.image.files.formats import FORMATS, is_image, read

# Photographs that come with scikit-image.
SHIPPED = ("astronaut", "coffee", "chelsea")
# Photographs of the paper, in its order; they come first if a folder has them.
FIRST = ("F16", "Peppers", "Baboon", "kodim03")


def available(folder: str | None) -> dict[str, Path | None]:
    """Return the paths of images by name; None for those of scikit-image."""
    if folder is None:
        return dict.fromkeys(SHIPPED)
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"{folder} is not a folder.")
    files = sorted(path for path in root.iterdir() if is_image(path))
    if not files:
        raise InputError(f"{folder} holds no {', '.join(FORMATS)} file.")
    rank = {name: i for i, name in enumerate(FIRST)}
    files.sort(key=lambda path: rank.get(path.stem, len(rank)))
    paths: dict[str, Path | None] = {path.stem: path for path in files}
    if len(paths) < len(files):
        raise InputError(f"{folder} holds two files of one name.")
    return paths


def photograph(name: str, folder: str | None, size: int | None) -> Array:
    """Return an image on [0, 1]; with a size, its central square of that side."""
    path = available(folder)[name]
    if path is None:
        from skimage import data

        values = unit_image(getattr(data, name)())
    else:
        _, page = next(read(path).pages())
        try:
            values = unit_image(page if page.ndim == 2 else np.moveaxis(page, 0, -1))
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    if size is not None:
        top, left = (max(0, (side - size) // 2) for side in values.shape[:2])
        values = values[top : top + size, left : left + size]
    return values


def encode_image(image: Array) -> str:
    """Return an image in 8 bits as text, for JSON."""
    file = io.BytesIO()
    np.savez_compressed(file, np.round(255 * np.clip(image, 0, 1)).astype(np.uint8))
    return base64.b64encode(file.getvalue()).decode()


def decode_image(text: str) -> Array:
    """Return the image that `encode_image` encoded."""
    with np.load(io.BytesIO(base64.b64decode(text))) as file:
        image: Array = file["arr_0"]
    return image

"""Small pictures that tests of image files write, spoil and read again."""

import numpy as np

from discrepant.image.files.formats import read, write


def picture(shape=(24, 30, 3), dtype=np.uint8):
    i, j = np.mgrid[: shape[0], : shape[1]]
    values = 40 + 3 * i + 2 * j
    if len(shape) == 3:
        values = values[..., None] + 5 * np.arange(shape[2])
    return values.astype(dtype)


def spoiled(shape=(24, 30, 3), dtype=np.uint8):
    values = picture(shape, dtype)
    values[5, 7] = values[15, 22] = 255
    return values


def written_again(path, ending=None):
    """Read a file, write what was read, and return the new file."""
    found = read(path)
    out = path.with_name(f"again{ending or path.suffix}")
    write(out, found, found.values)
    return out


def exif(orientation):
    from PIL import Image

    held = Image.Exif()
    held[274] = orientation
    held[271] = "maker"
    return held.tobytes()

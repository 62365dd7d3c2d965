"""Small synthetic images for tests of image files."""

import numpy as np

from discrepant.image.files.formats import read, write


def ramp_image(shape=(24, 30, 3), dtype=np.uint8):
    """Return an image whose values increase with row, column and channel."""
    i, j = np.mgrid[: shape[0], : shape[1]]
    values = 40 + 3 * i + 2 * j
    if len(shape) == 3:
        values = values[..., None] + 5 * np.arange(shape[2])
    return values.astype(dtype)


def corrupted_image(shape=(24, 30, 3), dtype=np.uint8):
    """Return the ramp with two white pixels."""
    values = ramp_image(shape, dtype)
    values[5, 7] = values[15, 22] = 255
    return values


def read_and_rewrite(path, ending=None):
    """Read an image file, write it again, and return the path of the copy."""
    image = read(path)
    out = path.with_name(f"again{ending or path.suffix}")
    write(out, image, image.values)
    return out


def exif_bytes(orientation):
    """Return EXIF metadata with an orientation (1 to 8) and a maker."""
    from PIL import Image

    exif = Image.Exif()
    exif[274] = orientation
    exif[271] = "maker"
    return exif.tobytes()

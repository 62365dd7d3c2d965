"""Photographs and their corruption, shared by the image benchmarks."""

import time
from pathlib import Path

import numpy as np

from discrepant.image.corruptions import random_impulses, salt_and_pepper
from discrepant.image.files.formats import is_image, read

NOISES = {"salt-and-pepper": salt_and_pepper, "random values": random_impulses}


def to_8_bits(image):
    """Return an image on [0, 1] as 8-bit values."""
    return np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8)


def photographs(folder, names):
    """Return clean photographs by name, from a folder or from other packages.

    Those of other packages were not used in the development of `restore`.
    """
    if folder is None:
        from skimage import data
        from sklearn.datasets import load_sample_image

        images = {
            "china": load_sample_image("china.jpg"),
            "flower": load_sample_image("flower.jpg"),
            "grace_hopper": grace_hopper(),
            "motorcycle": data.stereo_motorcycle()[0],
        }
    else:
        files = sorted(path for path in folder.iterdir() if is_image(path))
        images = {path.stem: read(path).values for path in files}
    for name, image in images.items():
        if image.dtype != np.uint8 or image.ndim != 3:
            raise SystemExit(f"{name}: an 8-bit colour image is needed.")
    return {k: v[..., :3] for k, v in images.items() if not names or k in names}


def grace_hopper():
    """Return the portrait that comes with matplotlib."""
    from matplotlib import cbook

    with cbook.get_sample_data("grace_hopper.jpg") as file:
        return read(Path(file.name)).values


def block_aligned_photographs(held_out, size):
    """Return the centres of colour photographs, aligned to JPEG's blocks, by name.

    ``held_out`` selects photographs that were not used in the development of `restore`.
    """
    from skimage import data
    from sklearn.datasets import load_sample_image

    if held_out:
        china, flower = load_sample_image("china.jpg"), load_sample_image("flower.jpg")
        motorcycle, portrait = data.stereo_motorcycle()[0], grace_hopper()
        images = {
            "china": china,
            "flower": flower,
            "grace_hopper": portrait,
            "motorcycle": motorcycle,
            "ihc": data.immunohistochemistry(),
            "ihc, left": data.immunohistochemistry()[:, :300],
            "china, roof": china[:, 300:],
            "flower, left": flower[:, :300],
            "motorcycle, left": motorcycle[:, :300],
            "portrait, top": portrait[:300],
        }
    else:
        images = {
            "astronaut": data.astronaut(),
            "chelsea": data.chelsea(),
            "coffee": data.coffee(),
            "rocket": data.rocket(),
            "retina": data.retina(),
        }
    return {name: centre(image[..., :3], size, 16) for name, image in images.items()}


def centre(image, size, multiple=1):
    """Return the centre of an image; its corner is at a multiple of so many pixels."""
    top, left = (max(0, n - size) // 2 // multiple * multiple for n in image.shape[:2])
    return np.ascontiguousarray(image[top : top + size, left : left + size])


def corrupted(truth, kind, level, seed):
    """Return an 8-bit image with a fraction of its values corrupted."""
    if kind == "nothing":
        return truth
    return to_8_bits(NOISES[kind](truth / 255, level, random_state=seed)[0])


def timed(function, *args, **kwargs):
    """Return the result of a call and its seconds."""
    started = time.perf_counter()
    result = function(*args, **kwargs)
    return result, time.perf_counter() - started

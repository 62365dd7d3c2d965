"""Photographs and what they are spoiled by, for the benchmarks of `restore`."""

import time
from pathlib import Path

import numpy as np

from discrepant.image.corruptions import random_impulses, salt_and_pepper
from discrepant.image.files.formats import is_image, read

NOISES = {"salt-and-pepper": salt_and_pepper, "random values": random_impulses}


def eight_bits(image):
    return np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8)


def photographs(folder, names):
    """Return clean images by name: those of a folder, or those of other packages."""
    if folder is None:
        from matplotlib import cbook
        from skimage import data
        from sklearn.datasets import load_sample_image

        with cbook.get_sample_data("grace_hopper.jpg") as file:
            portrait = read(Path(file.name)).values
        found = {
            "china": load_sample_image("china.jpg"),
            "flower": load_sample_image("flower.jpg"),
            "grace_hopper": portrait,
            "motorcycle": data.stereo_motorcycle()[0],
        }
    else:
        files = sorted(path for path in folder.iterdir() if is_image(path))
        found = {path.stem: read(path).values for path in files}
    for name, image in found.items():
        if image.dtype != np.uint8 or image.ndim != 3:
            raise SystemExit(f"{name}: colour images of 8 bits are compared here.")
    return {k: v[..., :3] for k, v in found.items() if not names or k in names}


def middle(image, size):
    rows, columns = (max(0, n - size) // 2 for n in image.shape[:2])
    return image[rows : rows + size, columns : columns + size]


def corrupted(truth, kind, level, seed):
    if kind == "nothing":
        return truth
    return eight_bits(NOISES[kind](truth / 255, level, random_state=seed)[0])


def timed(function, *args, **kwargs):
    started = time.perf_counter()
    result = function(*args, **kwargs)
    return result, time.perf_counter() - started

"""
A pattern behind occluders
==========================

A woven pattern has low rank. Six objects hide parts of it, and one pixel in ten is
black or white. `discrepant.decompose` writes the image as a sum of three structures: a
matrix of low rank, tiles at four offsets for the objects, and single entries. Low rank
plus single entries, as in robust PCA, leaves the objects in the pattern.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from discrepant import decompose
from discrepant.structures import Entries, Tiles, Whole

rng = np.random.default_rng(1)
threads = rng.uniform(-1, 1, (2, 96, 2))
pattern = threads[0] @ threads[1].T
image, hidden = pattern.copy(), np.zeros(pattern.shape, bool)
for i, j in ((5, 8), (12, 62), (40, 30), (44, 74), (70, 6), (76, 50)):
    image[i : i + 12, j : j + 14] = rng.uniform(-2, 2)
    hidden[i : i + 12, j : j + 14] = True
salt = rng.random(image.shape) < 0.1
image[salt] = rng.choice([-2, 2], salt.sum())


def decibels(restored):
    error = np.mean((restored - pattern)[hidden] ** 2)
    return 10 * np.log10(np.ptp(pattern) ** 2 / error)


# %%
# Tiles 12×12 at four offsets; the weights follow from the shapes.
result = decompose(image, [Whole(), Tiles(12, 12, offsets=4), Entries()], tol=1e-5)
print(result)

# %%
# The alternative: single entries only. They explain the image as well, but leave the
# objects in the pattern. `decompose` warns where parts have more free parameters than
# there are pixels.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    alone = decompose(image, [Whole(), Entries()], tol=1e-5)
after, before = decibels(result["whole"]), decibels(alone["whole"])
print(f"behind the objects: {after:.1f} dB, {before:.1f} dB with entries only")

figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
panels = {
    "image": image,
    f"low rank ({after:.0f} dB)": result["whole"],
    "tiles": result["tiles"],
    f"entries only: low rank ({before:.0f} dB)": alone["whole"],
}
for ax, (title, values) in zip(axes, panels.items(), strict=True):
    ax.imshow(values, cmap="gray", vmin=-2, vmax=2, interpolation="nearest")
    ax.set(title=title, xticks=[], yticks=[])
figure.savefig("occluded_pattern.png")

"""
An image behind occluders
=========================

A tartan has low rank: it is a sum of products of stripes. Six objects hide parts of it,
and one pixel in ten is black or white. `discrepant.decompose` writes the image as a sum
of three structures: a matrix of low rank, tiles at four offsets for the objects, and
single entries. Low rank plus single entries leaves the objects in the image.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from discrepant import decompose
from discrepant.structures import Entries, Tiles, Whole

rng = np.random.default_rng(1)
pixels = np.arange(144)
tartan = np.full((144, 144), 0.5)
for period, height in ((12, 0.25), (16, -0.2), (18, 0.15)):
    stripes = [(pixels + rng.integers(period)) % period < period / 2 for _ in range(2)]
    tartan += height * np.outer(*stripes)
image, hidden = tartan.copy(), np.zeros(tartan.shape, bool)
for i, j in ((11, 16), (22, 90), (58, 47), (66, 112), (104, 13), (117, 78)):
    image[i : i + 12, j : j + 14] = rng.choice([0.1, 1.0])
    hidden[i : i + 12, j : j + 14] = True
salt = rng.random(image.shape) < 0.1
image[salt] = rng.choice([0, 1], salt.sum())


def decibels(restored):
    error = np.mean((restored - tartan)[hidden] ** 2)
    return 10 * np.log10(np.ptp(tartan) ** 2 / error)


# %%
# Tiles about as large as the objects, at four offsets; the weights follow from the
# shapes.
result = decompose(image, [Whole(), Tiles(16, 16, offsets=4), Entries()], tol=1e-5)
print(result)

# %%
# The alternative: single entries only. They explain the image as well, but leave the
# objects in it.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    alone = decompose(image, [Whole(), Entries()], tol=1e-4, max_iter=300)
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
    centre = 0.5 * (title != "tiles")
    ax.imshow(values, cmap="gray", vmin=centre - 0.6, vmax=centre + 0.6)
    ax.set(title=title, xticks=[], yticks=[])
figure.savefig("occluded_image.png")

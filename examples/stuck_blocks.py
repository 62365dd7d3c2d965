"""
Low rank, dense blocks and salt
===============================

A matrix of readings has low rank. Six blocks of sensors are wrong as a whole, and one
reading in twenty is wrong by itself. `discrepant.decompose` separates all three. Low
rank plus single entries, as in robust PCA, takes the dense blocks for low rank.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from discrepant import decompose
from discrepant.structures import Entries, Tiles, Whole

rng = np.random.default_rng(0)
X = rng.standard_normal((128, 4)) @ rng.standard_normal((4, 128))
blocks = np.zeros_like(X)
for k in rng.choice(64, 6, replace=False):
    i, j = 16 * (k // 8), 16 * (k % 8)
    block = np.outer(rng.uniform(1, 2, 16), rng.uniform(1, 2, 16))
    blocks[i : i + 16, j : j + 16] = 6 * block
salt = 5 * rng.standard_normal(X.shape) * (rng.random(X.shape) < 0.05)
readings = X + blocks + salt


def error(part):
    return np.linalg.norm(part - X) / np.linalg.norm(X)


# %%
# The blocks of sensors are tiles of 16×16; all weights follow from the shapes.
result = decompose(readings, [Whole(), Tiles(16, 16), Entries()])
print(result)

# %%
# The alternative: single entries only. It reaches the limit of passes and says so.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    alone = decompose(readings, [Whole(), Entries()], max_iter=300)
with_tiles, without = error(result["whole"]), error(alone["whole"])
print(f"error of the low rank: {with_tiles:.0e}; with entries only {without:.2f}")

figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
panels = {
    "readings": readings,
    f"low rank (error {with_tiles:.0e})": result["whole"],
    "tiles": result["tiles"],
    f"entries only: low rank (error {without:.1f})": alone["whole"],
}
for ax, (title, values) in zip(axes, panels.items(), strict=True):
    ax.imshow(values, cmap="RdBu", vmin=-12, vmax=12, interpolation="nearest")
    ax.set(title=title, xticks=[], yticks=[])
figure.savefig("stuck_blocks.png")

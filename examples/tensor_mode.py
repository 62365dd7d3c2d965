"""
A tensor of low rank in an unknown mode
=======================================

A tensor of sites × days × hours has low rank if it is unfolded along the days, which
the method is not given. One entry in ten is wrong. `discrepant.decompose` takes all
three unfoldings and finds the right one. Low rank along another mode fails.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from discrepant import decompose
from discrepant.structures import Entries, Unfolding

rng = np.random.default_rng(0)
sites, days, hours = 24, 30, 24
unfolded = rng.standard_normal((days, 2)) @ rng.standard_normal((2, sites * hours))
T = np.moveaxis(unfolded.reshape(days, sites, hours), 0, 1)
wrong = rng.random(T.shape) < 0.1
data = T + np.where(wrong, 5 * rng.standard_normal(T.shape), 0)


def error(part):
    return np.linalg.norm(part - T) / np.linalg.norm(T)


# %%
# List every mode; the weights follow from the shapes.
result = decompose(data, [Unfolding(0), Unfolding(1), Unfolding(2), Entries()])
modes = [result[f"mode {k}"] for k in range(3)]
sizes = [np.linalg.norm(mode) / np.linalg.norm(T) for mode in modes]
print(f"mode {np.argmax(sizes)} is in use")

# %%
# The alternative: low rank along one wrong mode.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    other = decompose(data, [Unfolding(0), Entries()], max_iter=300)
with_all, with_one = error(sum(modes)), error(other["mode 0"])
print(f"error {with_all:.0e} with all modes, {with_one:.2f} with the wrong one")

figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
hour = 12
panels = {
    "data (one hour)": data[..., hour],
    "truth": T[..., hour],
    f"all modes (error {with_all:.0e})": sum(modes)[..., hour],
    f"wrong mode (error {with_one:.1f})": other["mode 0"][..., hour],
}
for ax, (title, values) in zip(axes, panels.items(), strict=True):
    ax.imshow(values, cmap="RdBu", vmin=-4, vmax=4, interpolation="nearest")
    ax.set(title=title, xticks=[], yticks=[])
figure.savefig("tensor_mode.png")

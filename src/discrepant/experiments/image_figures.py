"""Figures 1b, 3, 4 and 5: images with salt-and-pepper noise, and overfitting.

The network φ(θ) is fitted to the corrupted image alone, with squared (DIP) or absolute
loss (DIP-ℓ1), and together with g∘g − h∘h. The first two approach the truth and then
overfit. Like the paper, the figures show them at the step of their best PSNR, which is
drawn as a circle in the learning curves.
"""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import missing_extra
from discrepant.core.linalg import Array
from discrepant.core.plotting import COLOURS, Figure, new_figure, styled
from discrepant.experiments.photographs import (
    available,
    decode_image,
    encode_image,
    photograph,
)
from discrepant.experiments.runner import (
    Outcome,
    Row,
    Runner,
    Table,
    as_table,
    markdown_table,
)
from discrepant.image.arrays import psnr
from discrepant.image.corruptions import salt_and_pepper

# Pixels whose neighbours are present on all sides.
INTERIOR = np.s_[8:-8, 8:-8]
METHODS = {"dip": "DIP", "dip-l1": "DIP-ℓ1", "double": "ours"}
# Colours of DIP, DIP-ℓ1 and this method.
CURVE_COLOURS = (COLOURS[2], COLOURS[1], COLOURS[0])
# Settings of an experiment that are settings of the network and its descent.
NETWORK_SETTINGS = "width optimiser rate corruption_rate start steps settling".split()


@dataclass(frozen=True)
class Config:
    """The reduced scale: small crops, a narrow network, Adam, fewer but larger steps.

    From `width` to `settling` the settings are those of `discrepant.image.Settings`,
    chosen by experiment: the corruption rate is 30 times the paper's, since there are
    50 times fewer steps.
    """

    figure: str  # "fig1b", "fig3", "fig4" or "fig5"
    images: str | None = None  # a folder; None: those that come with scikit-image
    fractions: tuple[float, ...] = (0.3, 0.5, 0.7)  # of corrupted values
    max_images: int = 3
    size: int | None = 96  # side of the central crop; None: the whole image
    width: int = 32
    optimiser: str = "adam"
    rate: float = 0.01
    corruption_rate: float = 0.075
    start: float = 1e-5
    steps: int = 3000
    settling: int = 600
    every: int = 25  # steps between two points of a learning curve
    # Whether Figure 5 shows every image at every fraction. The paper shows one image
    # at all fractions and all images at one fraction.
    crossed: bool = True
    together: bool = True  # whether runs are distributed over the cores

    @classmethod
    def quick(cls, figure: str, images: str | None = None) -> "Config":
        """Return settings that take about a minute: the first steps only."""
        return cls(
            figure,
            images,
            fractions=(0.5,),
            max_images=1,
            size=64,
            width=16,
            steps=300,
            settling=100,
        )

    @classmethod
    def paper(cls, figure: str, images: str | None = None) -> "Config":
        """Return the paper's settings: days on a CPU, hours on a GPU."""
        return cls(
            figure,
            images,
            fractions=(0.1, 0.3, 0.5, 0.7),
            max_images=4,
            size=None,
            width=192 if figure == "fig1b" else 128,
            optimiser="sgd",
            rate=1.0,
            corruption_rate=4 * 500 / (512 * 512 * 3),
            steps=150_000,
            settling=0,
            every=500,
            crossed=False,
            together=False,
        )

    def cases(self, names: list[str]) -> list[tuple[str, float]]:
        """Return the pairs of image and fraction that the figure shows."""
        middle = 0.5 if 0.5 in self.fractions else self.fractions[0]
        first, images = names[0], names[: self.max_images]
        all_images = [(name, middle) for name in images]
        all_fractions = [(first, fraction) for fraction in self.fractions]
        if self.crossed:
            both = [(name, fraction) for name in images for fraction in self.fractions]
        else:
            both = list(dict.fromkeys(all_images + all_fractions))
        return {
            "fig1b": all_images[:1],
            "fig3": all_images,
            "fig4": all_fractions,
            "fig5": both,
        }[self.figure]


def check_requirements(config: Config) -> list[tuple[str, float]]:
    """Return the cases after a check of packages and images that they need."""
    if any(find_spec(module) is None for module in ("torch", "skimage")):
        raise missing_extra("Images need PyTorch and scikit-image", "image")
    cases = config.cases(list(available(config.images)))
    for name in dict.fromkeys(name for name, _ in cases):
        photograph(name, config.images, config.size)
    return cases


def problem(
    name: str, fraction: float, config: Config, seed: int
) -> tuple[Array, Array]:
    """Return a clean and a corrupted image, the same for all methods."""
    truth = photograph(name, config.images, config.size)
    noise_seed = [seed, round(1000 * fraction), sum(name.encode())]
    return truth, salt_and_pepper(truth, fraction, random_state=noise_seed)[0]


def descent(
    image: str,
    fraction: float,
    method: str,
    config: Config,
    seed: int,
    folder: Path | None = None,
) -> Row:
    """Return the learning curve of one method on one image, and the restored image."""
    import torch

    from discrepant.image import Settings, dip, dip_l1, recover_image

    fit = {"dip": dip, "dip-l1": dip_l1, "double": recover_image}[method]
    settings = Settings(**{name: getattr(config, name) for name in NETWORK_SETTINGS})
    truth, observed = problem(image, fraction, config, seed)
    threads = torch.get_num_threads()
    if config.together:  # one run per core, with reproducible results
        torch.set_num_threads(1)
    try:
        result = fit(
            observed,
            settings,
            truth=truth,
            every=config.every,
            device="cpu" if config.together else "auto",
            random_state=seed,
            checkpoint=folder and folder / f"{image}-{fraction:g}-{method}.checkpoint",
        )
    finally:
        torch.set_num_threads(threads)
    chosen = result.image if method == "double" or result.best is None else result.best
    return {
        **{key: result.history[key].tolist() for key in ("step", "psnr", "loss")},
        "interior": psnr(result.image[INTERIOR], truth[INTERIOR]),
        "restored": encode_image(chosen),
    }


def run(config: Config, runner: Runner) -> Outcome:
    """Run every method on every case, one run per core."""
    cases = check_requirements(config)
    # The figures use each other's runs: settings that select cases are not in the hash.
    settings = replace(config, figure="", fractions=(), max_images=0, crossed=False)
    results = runner.map(
        descent,
        [
            {"image": image, "fraction": fraction, "method": method}
            for method in reversed(METHODS)  # the slowest first
            for image, fraction in cases
        ],
        settings,
        jobs=None if config.together else 1,
        keep=True,
        folder=runner.store(descent, settings, keep=True),
    )
    points = as_table(results)
    runs = points.groupby(["image", "fraction", "method"], sort=False).agg(
        last=("psnr", "last"),
        best=("psnr", "max"),
        interior=("interior", "first"),
        restored=("restored", "first"),
    )
    return Outcome(
        config,
        points.drop(columns=["interior", "restored"]),
        finding(runs),
        table(runs, config, runner.seed),
        extra={"runs": runs, "seed": runner.seed},
    )


def finding(runs: Table) -> str:
    """Return a sentence on the paper's claims: overfitting and order of methods."""
    last, best = (runs[key].unstack("method") for key in ("last", "best"))
    lost = (best["double"] - last["double"]).max()
    overfit = best["dip-l1"] - last["dip-l1"]
    ahead = last["double"] - best["dip-l1"]
    dip = best["dip-l1"] - best["dip"]
    return (
        f"Cases (image and fraction): {len(last)}. This method ends at most "
        f"{lost:.2f} dB below its own best, DIP-ℓ1 {_range(overfit)} dB below its "
        f"best; this method's last is {_range(ahead, '+')} dB against DIP-ℓ1's "
        f"best, which is {_range(dip, '+')} dB against DIP's best."
    )


def _range(values: Any, sign: str = "") -> str:
    low, high = values.min(), values.max()
    if len(values) == 1:
        return f"{low:{sign}.2f}"
    return f"{low:{sign}.2f} to {high:{sign}.2f}"


def table(runs: Table, config: Config, seed: int) -> str:
    """Return a Markdown table of the runs and of common filters, in dB."""
    from discrepant.image import adaptive_median, inpaint_extremes, median

    header = (
        *("image", "corrupted", "observed", "median, best window", "adaptive median"),
        *("0 and 1 inpainted (known)", "DIP, best", "DIP-ℓ1, best", "DIP-ℓ1, last"),
        *("ours, last", "ours, interior"),
    )
    rows = []
    for image, fraction in cases_of(runs):
        truth, observed = problem(image, fraction, config, seed)
        squares, absolute, ours = (runs.loc[image, fraction, m] for m in METHODS)
        numbers = (
            psnr(observed, truth),
            max(psnr(median(observed, size), truth) for size in (3, 5, 7)),
            psnr(adaptive_median(observed), truth),
            psnr(inpaint_extremes(observed), truth),
            *(squares["best"], absolute["best"], absolute["last"]),
            *(ours["last"], ours["interior"]),
        )
        rows.append([image, f"{fraction:.0%}", *(f"{value:.2f}" for value in numbers)])
    return markdown_table(header, rows)


def cases_of(runs: Table) -> list[tuple[str, float]]:
    """Return the pairs of image and fraction of the runs, in the figure's order."""
    return list(runs.index.droplevel("method").unique())


def plot(outcome: Outcome) -> Figure:
    """Draw the figure: images in 3 and 4, learning curves in 1b and 5."""
    shows_images = outcome.config.figure in ("fig3", "fig4")
    return pictures(outcome) if shows_images else curves(outcome)


@styled
def curves(outcome: Outcome) -> Figure:
    """Draw PSNR against steps, one panel per case; circles mark the best PSNR."""
    points, cases = outcome.points, cases_of(outcome.extra["runs"])
    columns = min(len(cases), 3)
    rows = -(-len(cases) // columns)
    size = (3.6 * columns, 2.9 * rows) if len(cases) > 1 else (6.4, 4.0)
    figure, axes = new_figure(columns, rows, squeeze=False, size=size)
    for ax in axes.flat[len(cases) :]:
        ax.set_visible(False)
    bottom = points["psnr"][points["step"] > 0].min() - 0.5
    of_run = points.groupby(["image", "fraction", "method"])
    for ax, (image, fraction) in zip(axes.flat, cases, strict=False):
        for (method, label), colour in zip(METHODS.items(), CURVE_COLOURS, strict=True):
            curve = of_run.get_group((image, fraction, method))
            ax.plot(curve["step"], curve["psnr"], color=colour, label=label, lw=1.5)
            if method != "double":
                best = curve.loc[curve["psnr"].idxmax()]
                ax.plot(best["step"], best["psnr"], "o", mfc="none", color=colour)
        ax.set(
            title=f"{image}, {fraction:.0%} corrupted", xlabel="step", ylabel="PSNR, dB"
        )
        ax.set_ylim(bottom=bottom)
    axes.flat[0].legend(loc="best")
    return figure


@styled
def pictures(outcome: Outcome) -> Figure:
    """Draw the images with their PSNR below, one row per case."""
    runs, seed = outcome.extra["runs"], outcome.extra["seed"]
    cases = cases_of(runs)
    titles = ["truth", "observed", "DIP, at its best", "DIP-ℓ1, at its best", "ours"]
    figure, axes = new_figure(
        len(titles), len(cases), squeeze=False, size=(10.5, 2.4 * len(cases) + 0.3)
    )
    for row, (name, fraction) in zip(axes, cases, strict=True):
        truth, observed = problem(name, fraction, outcome.config, seed)
        panels: list[tuple[Array, str]] = [
            (truth, f"{name}"),
            (observed, f"{fraction:.0%} corrupted: {psnr(observed, truth):.2f} dB"),
        ]
        for method in METHODS:
            run = runs.loc[name, fraction, method]
            note = f"best {run['best']:.2f} dB, last {run['last']:.2f}"
            if method == "double":
                note = f"{run['last']:.2f} dB at the end"
            panels.append((decode_image(run["restored"]), note))
        for ax, (image, note) in zip(row, panels, strict=True):
            if image.ndim == 3 and image.shape[2] != 3:
                image = image[..., 0]
            limits = {"vmin": 0, "vmax": 255 if image.dtype == np.uint8 else 1}
            colours = {"cmap": "gray"} if image.ndim == 2 else {}
            ax.imshow(image, interpolation="nearest", **limits, **colours)
            ax.set(xticks=[], yticks=[])
            ax.set_xlabel(note, fontsize=8)
            for spine in ax.spines.values():
                spine.set_visible(False)
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title)
    return figure

"""Figures 1b, 3, 4 and 5: images under salt-and-pepper noise, and who overfits.

The network φ(θ) is fitted to the corrupted image alone, under squares (DIP) or
absolute values (DIP-ℓ1), and together with g∘g − h∘h. The first two come near the
truth and pass it; the paper grants them the step of their best PSNR, a circle here.
"""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from discrepant.core.errors import missing_extra
from discrepant.core.linalg import Array
from discrepant.core.plotting import COLOURS, new_figure, styled
from discrepant.experiments.photographs import available, packed, photograph, unpacked
from discrepant.experiments.runner import Outcome, Row, Runner
from discrepant.image.arrays import MARGIN, psnr
from discrepant.image.corruptions import salt_and_pepper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = {"dip": "DIP", "dip-l1": "DIP-ℓ1", "double": "ours"}


@dataclass(frozen=True)
class Config:
    """The reduced scale: small crops, a narrow network, Adam, fewer and larger steps.

    Attributes
    ----------
    figure : {"fig1b", "fig3", "fig4", "fig5"}
        Which figure of the paper.
    images : str or None
        The folder of the images; None means those that come with scikit-image.
    shares : tuple of float
        The corrupted shares.
    most_images : int
        How many images are shown.
    size : int or None
        Side of the crop from the middle of each image; None means the whole image.
    width, optimiser, rate, corruption_rate, start, steps, settling
        Those of `discrepant.image.Settings`, by trial: a corruption rate 30 times the
        paper's, since there are 50 times fewer steps.
    every : int
        Steps between two points of a learning curve.
    crossed : bool
        Whether Figure 5 shows every image at every share, where the paper shows one
        image at all shares and all images at one share.
    together : bool
        Whether as many runs as there are cores go on at a time.
    """

    figure: str
    images: str | None = None
    shares: tuple[float, ...] = (0.3, 0.5, 0.7)
    most_images: int = 3
    size: int | None = 96
    width: int = 32
    optimiser: str = "adam"
    rate: float = 0.01
    corruption_rate: float = 0.075
    start: float = 1e-5
    steps: int = 3000
    settling: int = 600
    every: int = 25
    crossed: bool = True
    together: bool = True

    @classmethod
    def quick(cls, figure: str, images: str | None = None) -> "Config":
        """Return settings that take about a minute: the start of a run."""
        return cls(
            figure,
            images,
            shares=(0.5,),
            most_images=1,
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
            shares=(0.1, 0.3, 0.5, 0.7),
            most_images=4,
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

    @property
    def companions(self) -> tuple[str, ...]:
        """What goes with the figure: curves to the images, images to the curves."""
        return ("curves",) if self.figure in ("fig3", "fig4") else ("pictures",)

    def cases(self, names: list[str]) -> list[tuple[str, float]]:
        """Return the images and shares that the figure shows."""
        middle = 0.5 if 0.5 in self.shares else self.shares[0]
        first, many = names[0], names[: self.most_images]
        across = [(name, middle) for name in many]
        along = [(first, share) for share in self.shares]
        if self.crossed:
            both = [(name, share) for name in many for share in self.shares]
        else:
            both = across + [case for case in along if case not in across]
        return {"fig1b": across[:1], "fig3": across, "fig4": along, "fig5": both}[
            self.figure
        ]


def check(config: Config) -> list[tuple[str, float]]:
    """Return the cases, once all that they need is known to be there."""
    if any(find_spec(module) is None for module in ("torch", "skimage")):
        raise missing_extra("Images need PyTorch and scikit-image", "image")
    cases = config.cases(list(available(config.images)))
    for name in dict.fromkeys(name for name, _ in cases):
        photograph(name, config.images, config.size)
    return cases


def problem(name: str, share: float, config: Config, seed: int) -> tuple[Array, Array]:
    """Return a clean image and what was observed of it; all methods see the same."""
    truth = photograph(name, config.images, config.size)
    where = [seed, round(1000 * share), sum(name.encode())]
    return truth, salt_and_pepper(truth, share, random_state=where)[0]


def descent(
    name: str,
    share: float,
    method: str,
    config: Config,
    seed: int,
    beside: str | None = None,
    show: bool = False,
) -> Row:
    """Return the learning curve of one method on one image, and its images.

    Checkpoints are named after ``beside``.
    """
    import torch

    from discrepant.image import Settings, dip, dip_l1, recover_image

    fit = {"dip": dip, "dip-l1": dip_l1, "double": recover_image}[method]
    settings = Settings(
        width=config.width,
        optimiser=config.optimiser,
        rate=config.rate,
        corruption_rate=config.corruption_rate,
        start=config.start,
        steps=config.steps,
        settling=config.settling,
    )
    truth, observed = problem(name, share, config, seed)
    threads = torch.get_num_threads()
    if config.together:  # one run a core, and the same result however many cores
        torch.set_num_threads(1)
    try:
        found = fit(
            observed,
            settings,
            truth=truth,
            every=config.every,
            device="cpu" if config.together else "auto",
            random_state=seed,
            checkpoint=beside and f"{beside}.{name}-{share:g}-{method}.checkpoint",
            progress=show,
        )
    finally:
        torch.set_num_threads(threads)
    chosen = found.image if method == "double" or found.best is None else found.best
    return {
        "steps": found.history["step"].tolist(),
        "psnr": found.history["psnr"].tolist(),
        "loss": found.history["loss"].tolist(),
        "seconds": float(found.history["seconds"][-1]),
        "interior": psnr(found.image, truth, MARGIN),
        "image": packed(chosen),
    }


def run(config: Config, runner: Runner) -> Outcome:
    """Run every method on every case, as many at a time as there are cores."""
    cases = check(config)
    # What one figure has run the others need not run again.
    settings = replace(config, figure="", shares=(), most_images=0, crossed=False)
    journal = runner.journal("images", descent, settings)
    single = runner.jobs == 1 or not config.together
    tasks: list[Row] = [
        {"name": name, "share": share, "method": method, "seed": runner.seed}
        for method in reversed(METHODS)  # the longest first
        for name, share in cases
    ]
    # Of two bars only one can be shown; where runs are long, theirs tells more.
    bars = single and runner.progress is True
    mapper = replace(runner, progress=None if bars else runner.progress)
    results = mapper.map(
        descent,
        tasks,
        label="images",
        config=settings,
        jobs=1 if single else None,
        shared={
            "config": config,
            "beside": None if journal is None else str(journal.with_suffix("")),
            "show": bars,
        },
        keep=True,
    )
    rows = [
        {
            "image": result["name"],
            "share": result["share"],
            "method": result["method"],
            "step": step,
            "psnr": value,
            "loss": loss,
        }
        for result in results
        for step, value, loss in zip(
            result["steps"], result["psnr"], result["loss"], strict=True
        )
    ]
    scores = {(r["name"], r["share"], r["method"]): score(r) for r in results}
    pictures = {(r["name"], r["share"], r["method"]): r["image"] for r in results}
    return Outcome(
        config,
        rows,
        finding(scores),
        table=table(scores, cases, config, runner.seed),
        extra={"scores": scores, "pictures": pictures, "seed": runner.seed},
    )


def score(result: Row) -> Row:
    """Return last and best PSNR of a run."""
    values = np.array(result["psnr"])
    return {
        "last": float(values[-1]),
        "best": float(values.max()),
        "at": int(result["steps"][int(values.argmax())]),
        "interior": result["interior"],
        "seconds": result["seconds"],
    }


def finding(scores: dict[tuple[str, float, str], Row]) -> str:
    """Say in numbers whether the paper's claims hold here."""
    cases = sorted({key[:2] for key in scores})
    ours = [scores[*case, "double"] for case in cases]
    absolute = [scores[*case, "dip-l1"] for case in cases]
    squares = [scores[*case, "dip"] for case in cases]
    lost = max(o["best"] - o["last"] for o in ours)
    overfit = [a["best"] - a["last"] for a in absolute]
    ahead = [o["last"] - a["best"] for o, a in zip(ours, absolute, strict=True)]
    dip = [a["best"] - d["best"] for a, d in zip(absolute, squares, strict=True)]
    return (
        f"Images at shares tried: {len(cases)}. This method ends at most {lost:.2f} dB "
        f"below its own best, DIP-ℓ1 {_range(overfit)} dB below its best; this "
        f"method's last is {_range(ahead, '+')} dB against DIP-ℓ1's best, which is "
        f"{_range(dip, '+')} dB against DIP's best."
    )


def _range(values: list[float], sign: str = "") -> str:
    low, high = min(values), max(values)
    if len(values) == 1:
        return f"{low:{sign}.2f}"
    return f"{low:{sign}.2f} to {high:{sign}.2f}"


def table(
    scores: dict[tuple[str, float, str], Row],
    cases: list[tuple[str, float]],
    config: Config,
    seed: int,
) -> str:
    """Set the runs beside the filters that a user would pick instead."""
    from discrepant.image import adaptive_median, inpaint_extremes, median

    lines = [
        "| image | corrupted | observed | median, best window | adaptive median | "
        "0 and 1 inpainted (told) | DIP, best | DIP-ℓ1, best | DIP-ℓ1, last | "
        "ours, last | ours, interior |",
        "| --- |" + " --- |" * 10,
    ]
    for name, share in cases:
        truth, observed = problem(name, share, config, seed)
        numbers = [
            psnr(observed, truth),
            max(psnr(median(observed, size), truth) for size in (3, 5, 7)),
            psnr(adaptive_median(observed), truth),
            psnr(inpaint_extremes(observed), truth),
            scores[name, share, "dip"]["best"],
            scores[name, share, "dip-l1"]["best"],
            scores[name, share, "dip-l1"]["last"],
            scores[name, share, "double"]["last"],
            scores[name, share, "double"]["interior"],
        ]
        cells = " | ".join(f"{number:.2f}" for number in numbers)
        lines.append(f"| {name} | {share:.0%} | {cells} |")
    return "\n".join(lines)


def plot(outcome: Outcome) -> "Figure":
    """Draw the figure: images in 3 and 4, learning curves in 1b and 5."""
    (companion,) = outcome.config.companions
    return pictures(outcome) if companion == "curves" else curves(outcome)


@styled
def curves(outcome: Outcome) -> "Figure":
    """Draw PSNR against steps, one panel a case; a circle is a stop by an oracle."""
    cases = list(dict.fromkeys((r["image"], r["share"]) for r in outcome.rows))
    columns = min(len(cases), 3)
    rows = -(-len(cases) // columns)
    size = (3.6 * columns, 2.9 * rows) if len(cases) > 1 else (6.4, 4.0)
    figure, axes = new_figure(columns, rows, squeeze=False, size=size)
    for ax in axes.flat[len(cases) :]:
        ax.set_visible(False)
    for ax, (image, share) in zip(axes.flat, cases, strict=False):
        for (method, label), colour in zip(METHODS.items(), CURVE_COLOURS, strict=True):
            points = [
                (r["step"], r["psnr"])
                for r in outcome.rows
                if (r["image"], r["share"], r["method"]) == (image, share, method)
            ]
            steps, values = np.array(points).T
            ax.plot(steps, values, color=colour, label=label, lw=1.5)
            if method != "double":
                at = values.argmax()
                ax.plot(steps[at], values[at], "o", mfc="none", color=colour)
        ax.set(
            title=f"{image}, {share:.0%} corrupted", xlabel="step", ylabel="PSNR, dB"
        )
        bottom = min(r["psnr"] for r in outcome.rows if r["step"] > 0)
        ax.set_ylim(bottom=bottom - 0.5)
    axes.flat[0].legend(loc="best")
    return figure


CURVE_COLOURS = (COLOURS[2], COLOURS[1], COLOURS[0])


@styled
def pictures(outcome: Outcome) -> "Figure":
    """Draw the images with their PSNR beneath, one row a case."""
    config, extra = outcome.config, outcome.extra
    cases = list(dict.fromkeys((r["image"], r["share"]) for r in outcome.rows))
    titles = ["truth", "observed", "DIP, at its best", "DIP-ℓ1, at its best", "ours"]
    figure, axes = new_figure(
        len(titles), len(cases), squeeze=False, size=(10.5, 2.4 * len(cases) + 0.3)
    )
    for row, (name, share) in zip(axes, cases, strict=True):
        truth, observed = problem(name, share, config, extra["seed"])
        panels: list[tuple[np.ndarray, str]] = [
            (truth, f"{name}"),
            (observed, f"{share:.0%} corrupted: {psnr(observed, truth):.2f} dB"),
        ]
        for method in METHODS:
            scored = extra["scores"][name, share, method]
            panels.append(
                (
                    unpacked(extra["pictures"][name, share, method]),
                    f"{scored['last']:.2f} dB at the end"
                    if method == "double"
                    else f"best {scored['best']:.2f} dB, last {scored['last']:.2f}",
                )
            )
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

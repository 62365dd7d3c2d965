"""Pictures of matrices, and a house style for figures; matplotlib is loaded on use."""

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from discrepant.core.arrays import subsample
from discrepant.core.errors import missing_extra
from discrepant.core.linalg import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#222222"
APART = 10.0  # ratio of column sizes from which each has its own scale
COLOURS = ("#0b6e99", "#d1495b", "#edae49", "#3d8f5f", "#6c5b9e", "#7a7a7a")


STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "lines.linewidth": 2,
    "savefig.dpi": 150,
}

Draw = TypeVar("Draw", bound=Callable[..., Any])


def require_matplotlib() -> None:
    """Say that matplotlib is missing, where pictures will be drawn."""
    if find_spec("matplotlib") is None:
        raise missing_extra("Pictures need matplotlib", "plot")


def styled(draw: Draw) -> Draw:
    """Let a function draw in the house style, without changing anybody else's."""

    @functools.wraps(draw)
    def drawing(*args: Any, **kwargs: Any) -> Any:
        require_matplotlib()
        from matplotlib import rc_context

        with rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawing  # type: ignore[return-value]


def new_figure(
    columns: int = 1,
    rows: int = 1,
    *,
    size: tuple[float, float] | None = None,
    squeeze: bool = True,
) -> tuple["Figure", Any]:
    """Return a figure and its axes, touching no global state."""
    from matplotlib.figure import Figure

    size = size or (4.6 * columns, 3.6 * rows)
    figure = Figure(figsize=size, layout="constrained", dpi=150)
    return figure, figure.subplots(rows, columns, squeeze=squeeze)


@styled
def plot_decomposition(
    observed: Array,
    low_rank: Array,
    sparse: Array,
    truth: Array | None = None,
    *,
    by_column: bool | None = None,
) -> "Figure":
    """Draw observed, low-rank, sparse and, if known, true matrices side by side.

    With ``by_column``, each column is drawn from its own middle and in units of its
    own spread, for tables whose columns have units of their own; by default so where
    their sizes are far apart.
    """
    if by_column is None:
        by_column = _far_apart(low_rank)
    panels = {"observed": observed, "low-rank": low_rank, "sparse": sparse}
    if truth is not None:
        panels["truth"] = truth
    figure, axes = new_figure(len(panels), size=(3.2 * len(panels), 3.4))
    from matplotlib import colormaps

    colours = colormaps["RdBu_r"].with_extremes(bad="#b8b8b8")  # missing: grey
    panels = {title: subsample(values) for title, values in panels.items()}
    if by_column:
        middle = np.median(panels["low-rank"], axis=0)
        spread = np.std(panels["low-rank"], axis=0)
        spread = np.where(spread > 0, spread, np.abs(middle) + (middle == 0))
        panels = {
            title: (values - (0 if title == "sparse" else middle)) / spread
            for title, values in panels.items()
        }
    limit = float(np.quantile(np.abs(panels["low-rank"]), 0.995)) or 1.0
    for ax, (title, values) in zip(axes, panels.items(), strict=True):
        image = ax.imshow(values, cmap=colours, vmin=-limit, vmax=limit, aspect="auto")
        ax.set(title=title, xticks=[], yticks=[])
        for spine in ax.spines.values():
            spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.01)
    if by_column:
        bar.set_label("spreads of the column")
    return figure


def _far_apart(low_rank: Array) -> bool:
    """Tell whether the columns differ so much in size that one scale hides some."""
    values = subsample(low_rank).astype(np.float64)
    values = values / (np.abs(values).max(initial=0) or 1.0)  # squares of 1e200
    sizes = np.sqrt(np.mean(np.square(values), axis=0))
    sizes = sizes[sizes > 0]
    return bool(len(sizes)) and sizes.max() > APART * sizes.min()


@styled
def plot_measurements(low_rank: Array, sparse: Array, outliers: Array) -> "Figure":
    """Draw a matrix beside what was wrong in the measurements of it."""
    figure, (left, right) = new_figure(2, size=(8.4, 3.4))
    seen = np.abs(low_rank) if np.iscomplexobj(low_rank) else low_rank
    limit = float(np.abs(seen).max(initial=0)) or 1.0
    image = left.imshow(
        subsample(seen), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto"
    )
    left.set(title="low-rank", xticks=[], yticks=[])
    figure.colorbar(image, ax=left, shrink=0.8, pad=0.02)
    size, wrong = np.abs(sparse).ravel(), np.flatnonzero(outliers)
    right.vlines(wrong, 0, size[wrong], color=COLOURS[1], lw=1)
    right.set(
        title=f"{len(wrong):,} of {size.size:,} measurements are wrong",
        xlabel="measurement",
        ylabel="size of the corruption",
        xlim=(0, size.size),
    )
    right.set_ylim(bottom=0)
    return figure


@styled
def image_panels(panels: dict[str, Array]) -> "Figure":
    """Draw images side by side, each under its title."""
    figure, axes = new_figure(len(panels), size=(3.2 * len(panels), 3.4))
    for ax, (title, values) in zip(axes, panels.items(), strict=True):
        ax.imshow(values, cmap="gray", interpolation="nearest")
        ax.set(title=title, xticks=[], yticks=[])
        for spine in ax.spines.values():
            spine.set_visible(False)
    return figure

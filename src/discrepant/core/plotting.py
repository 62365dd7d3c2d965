"""Figures of matrices and measurements, and the style of all figures (matplotlib)."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from discrepant.core.arrays import subsample
from discrepant.core.linalg import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure
else:  # matplotlib is imported when a figure is drawn
    Figure = Any

# Colour of axes and text.
INK = "#222222"
# Ratio of the largest to the smallest column size from which each column is drawn on a
# scale of its own.
MAX_SIZE_RATIO = 10.0
# Colours of curves, in order.
COLOURS = ("#0b6e99", "#d1495b", "#edae49", "#3d8f5f", "#6c5b9e", "#7a7a7a")


# Settings of matplotlib for all figures.
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


def styled(draw: Draw) -> Draw:
    """Return a function that draws in the style of this package.

    The global settings of matplotlib stay unchanged.
    """

    @functools.wraps(draw)
    def drawing(*args: Any, **kwargs: Any) -> Any:
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
) -> tuple[Figure, Any]:
    """Return a new figure and its axes, without the global state of pyplot."""
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
) -> Figure:
    """Draw the observed, low-rank, sparse and, if given, true matrices side by side.

    `by_column` centres each column at its median and divides it by its standard
    deviation, for tables whose columns have different units. By default this is done if
    the column sizes differ by more than `MAX_SIZE_RATIO`.
    """
    if by_column is None:
        by_column = _sizes_differ(low_rank)
    panels = {"observed": observed, "low-rank": low_rank, "sparse": sparse}
    if truth is not None:
        panels["truth"] = truth
    figure, axes = new_figure(len(panels), size=(3.2 * len(panels), 3.4))
    from matplotlib import colormaps

    colours = colormaps["RdBu_r"].with_extremes(bad="#b8b8b8")  # missing: grey
    panels = {title: subsample(values) for title, values in panels.items()}
    if by_column:
        median = np.median(panels["low-rank"], axis=0)
        spread = np.std(panels["low-rank"], axis=0)
        spread = np.where(spread > 0, spread, np.abs(median) + (median == 0))
        panels = {
            title: (values - (0 if title == "sparse" else median)) / spread
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
        bar.set_label("standard deviations of the column")
    return figure


def _sizes_differ(low_rank: Array) -> bool:
    """Return whether column sizes differ so much that one scale would hide some."""
    values = subsample(low_rank).astype(np.float64)
    values = values / (
        np.abs(values).max(initial=0) or 1.0
    )  # squares must not overflow
    sizes = np.sqrt(np.mean(np.square(values), axis=0))
    sizes = sizes[sizes > 0]
    return bool(len(sizes)) and sizes.max() > MAX_SIZE_RATIO * sizes.min()


@styled
def plot_measurements(low_rank: Array, sparse: Array, outliers: Array) -> Figure:
    """Draw a recovered matrix and the corruption of its measurements."""
    figure, (left, right) = new_figure(2, size=(8.4, 3.4))
    values = np.abs(low_rank) if np.iscomplexobj(low_rank) else low_rank
    limit = float(np.abs(values).max(initial=0)) or 1.0
    image = left.imshow(
        subsample(values), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto"
    )
    left.set(title="low-rank", xticks=[], yticks=[])
    figure.colorbar(image, ax=left, shrink=0.8, pad=0.02)
    size, corrupt = np.abs(sparse).ravel(), np.flatnonzero(outliers)
    right.vlines(corrupt, 0, size[corrupt], color=COLOURS[1], lw=1)
    right.set(
        title=f"{len(corrupt):,} of {size.size:,} measurements are corrupt",
        xlabel="measurement",
        ylabel="size of the corruption",
        xlim=(0, size.size),
    )
    right.set_ylim(bottom=0)
    return figure


@styled
def image_panels(panels: dict[str, Array]) -> Figure:
    """Draw images side by side, each under its title."""
    figure, axes = new_figure(len(panels), size=(3.2 * len(panels), 3.4))
    for ax, (title, values) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        ax.imshow(values, cmap="gray", interpolation="nearest")
        ax.set(title=title, xticks=[], yticks=[])
        for spine in ax.spines.values():
            spine.set_visible(False)
    return figure

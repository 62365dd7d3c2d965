"""Figures of a result table (matplotlib): its cells, and one column over its rows."""

from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.plotting import COLOURS, INK, new_figure, styled
from discrepant.table.report.view import (
    MAX_LABELS,
    CellGrid,
    View,
    blended,
    limits,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours of values that are too high, too low, and missing.
HIGH, LOW, MISSING = "#c8334a", "#0b6e99", "#b4b4b4"
# Background of columns that are checked, and of others.
CHECKED, UNCHECKED = "#f3f3f0", "#ffffff"


@styled
def cell_map(result: Any) -> "Figure":
    """Draw a map of the rows and columns of a result table with its flagged cells.

    Cells are red where they are too high and blue where too low, darker where it is
    more probable; missing cells of checked columns are grey; an arrow marks rows that
    are wrong as a whole. In long tables each line stands for several rows: it is darker
    where more of its cells are flagged, and a single one is visible.
    """
    view = View(result)
    grid = view.cell_grid()
    lines, width = grid.strength.shape
    wide = float(np.clip(0.24 * width + 1.6, 5.0, 16.0))
    figure, ax = new_figure(size=(wide, 5.6))
    extent = (
        -0.5,
        width - 0.5,
        lines * grid.rows_per_line,
        0,
    )  # the last line may be short
    colours = _colours(grid, view.checked)
    ax.imshow(colours, aspect="auto", interpolation="nearest", extent=extent)
    ax.set_xlim(-0.5, width - 0.5)
    if len(grid.bad_lines):
        ax.plot(
            np.full(len(grid.bad_lines), 1.0),
            (grid.bad_lines + 0.5) * grid.rows_per_line,
            linestyle="",
            marker="<",
            markersize=5,
            color=COLOURS[2],
            transform=ax.get_yaxis_transform(),
            clip_on=False,
        )
    step = -(-width // MAX_LABELS)
    places = np.arange(0, width, step)
    texts = [shortened(view.names[place]) for place in places]
    long = width > 12 or sum(map(len, texts)) > 12 * wide
    ax.set_xticks(places)
    ax.set_xticklabels(
        texts,
        rotation=90 if long else 0,
        fontsize=9 if width <= 30 else 7,
        parse_math=False,
    )
    ax.tick_params(length=0)
    per_line = f" ({grid.rows_per_line:,} per line)" if grid.rows_per_line > 1 else ""
    ax.set_ylabel(f"row{per_line}")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    for spine in ax.spines.values():
        spine.set_visible(False)
    flagged = int(view.mask.sum())
    ax.set_title(f"{flagged:,} of {view.mask.size:,} cells flagged")
    _legend(figure, grid, all(view.checked))
    return figure


@styled
def before_after(
    result: Any, column: Any = None, *, place: int | None = None
) -> "Figure":
    """Draw a column: its values, expected values, and flagged cells.

    Parameters
    ----------
    result : CleanResult
        The result of `discrepant.clean`.
    column : label
        Which column. Of long tables the rows around its worst cell are drawn.
    place : int, optional
        The position of the column, instead of its label, which may repeat.
    """
    from matplotlib import dates

    view = View(result)
    if place is None:
        places = [i for i, name in enumerate(view.frame.columns) if name == column]
        if not places:
            raise InputError(f"There is no column {column!r} in the table.")
        place = places[0]
    if not view.checked[place]:
        raise InputError(
            f"Column {view.names[place]!r} was not checked: it has no expected values."
        )
    shown = view.window(place)
    values = view.values[shown, place]
    expected = view.expected[shown, place]
    flagged = view.mask[shown, place]
    half = view.halfwidth(place)
    timed = view.times(shown)
    x: Any = np.arange(len(shown)) + int(shown.min()) if timed is None else timed[1]
    x = np.asarray(x)
    figure, ax = new_figure(size=(8.4, 3.4))
    ax.vlines(x, expected - half, expected + half, color=LOW, alpha=0.18, lw=1.6)
    ax.plot(x, expected, linestyle="", marker="_", color=LOW, ms=3, label="expected")
    ax.plot(
        *(x[~flagged], values[~flagged]),
        linestyle="",
        marker=".",
        markersize=3,
        color=INK,
        label="original",
    )
    low, high, beyond = limits(values, expected, flagged)
    ax.set_ylim(low, high)
    for marker, here in (
        ("o", flagged & ~beyond),
        ("^", flagged & beyond & (values > high)),
        ("v", flagged & beyond & (values < low)),
    ):
        if not here.any():
            continue
        ax.plot(
            *(x[here], np.clip(values[here], low, high)),
            linestyle="",
            marker=marker,
            markersize=5,
            color=HIGH,
            clip_on=False,
            label="flagged" if marker == "o" else None,
        )
    name = view.names[place]
    ax.set_title(shortened(name, 60), parse_math=False)
    ax.set_xlabel("row" if timed is None else timed[0], parse_math=False)
    if timed is not None:
        calendar: Any = dates
        locator = calendar.AutoDateLocator()
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(calendar.ConciseDateFormatter(locator))
    ax.legend(ncols=3, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    return figure


def _colours(grid: CellGrid, checked: list[bool]) -> Array:
    """Return the colours of the cells; (lines, columns, 3)."""
    from matplotlib.colors import to_rgb

    background = np.where(
        np.array(checked)[:, None], to_rgb(CHECKED), to_rgb(UNCHECKED)
    )
    colours = np.broadcast_to(background, (*grid.strength.shape, 3))
    fraction = (grid.missing * checked)[..., None]
    colours = (1 - fraction) * colours + fraction * np.array(to_rgb(MISSING))
    hue = blended(grid.sign, to_rgb(LOW), to_rgb(HIGH))
    strength = grid.strength[..., None]
    return np.asarray((1 - strength) * colours + strength * hue)


def _legend(figure: "Figure", grid: CellGrid, all_checked: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(color=HIGH, label="too high"),
        Patch(color=LOW, label="too low"),
        Patch(color=MISSING, label="missing"),
        Patch(color=CHECKED, label="not flagged"),
    ]
    if not all_checked:
        handles.append(Patch(facecolor=UNCHECKED, edgecolor=MISSING, label="unchecked"))
    if len(grid.bad_lines):
        marker: Any = {"marker": "<", "linestyle": "", "color": COLOURS[2]}
        handles.append(Line2D([], [], label="row wrong as a whole", **marker))
    binned = grid.rows_per_line > 1
    note = "darker: more of its cells" if binned else "darker: more probable"
    figure.legend(
        handles=handles,
        title=f"Colour of a line ({note})" if binned else f"Colour of a cell ({note})",
        title_fontsize=8,
        loc="outside lower center",
        ncols=3,
        fontsize=8,
    )

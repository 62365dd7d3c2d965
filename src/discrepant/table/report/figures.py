"""Pictures of a cleaned table: its cells, and one column before and after."""

from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.plotting import COLOURS, INK, new_figure, styled
from discrepant.table.report.view import LABELS, Bins, View, blended, limits, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIGH, LOW, MISSING = "#c8334a", "#0b6e99", "#b4b4b4"
PAPER, ASIDE = "#f3f3f0", "#ffffff"


@styled
def cell_map(cleaned: Any) -> "Figure":
    """Draw the rows and columns of a cleaned table with its flagged cells.

    Cells are red where they are too high and blue where too low, the fuller the more
    probable; missing ones are grey; an arrow marks rows that are wrong from end to end.
    Rows of long tables share lines: a line then shows how many of its cells are
    flagged, on a scale on which a single one is seen.
    """
    view = View(cleaned)
    bins = view.bins()
    lines, width = bins.strength.shape
    wide = float(np.clip(0.24 * width + 1.6, 5.0, 16.0))
    figure, ax = new_figure(size=(wide, 5.6))
    extent = (-0.5, width - 0.5, lines * bins.rows, 0)  # the last line may be short
    colours = _colours(bins, view.modelled)
    ax.imshow(colours, aspect="auto", interpolation="nearest", extent=extent)
    ax.set_xlim(-0.5, width - 0.5)
    if len(bins.bad):
        ax.plot(
            np.full(len(bins.bad), 1.0),
            (bins.bad + 0.5) * bins.rows,
            linestyle="",
            marker="<",
            markersize=5,
            color=COLOURS[2],
            transform=ax.get_yaxis_transform(),
            clip_on=False,
        )
    step = -(-width // LABELS)
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
    each = f" ({bins.rows:,} a line)" if bins.rows > 1 else ""
    ax.set_ylabel(f"row{each}")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    for spine in ax.spines.values():
        spine.set_visible(False)
    flagged = int(view.mask.sum())
    ax.set_title(f"{flagged:,} of {view.mask.size:,} cells flagged")
    _legend(figure, bool(len(bins.bad)), bins.rows > 1)
    return figure


@styled
def before_after(cleaned: Any, column: Any) -> "Figure":
    """Draw a column: its values, what was expected, and the flagged cells.

    Parameters
    ----------
    cleaned : Cleaned
        What `discrepant.clean` returned.
    column : label
        Which column. Of long tables the rows around its worst cell are shown.
    """
    from matplotlib import dates

    view = View(cleaned)
    places = [i for i, name in enumerate(view.frame.columns) if name == column]
    if not places:
        raise InputError(f"There is no column {column!r} in the table.")
    if not view.modelled[places[0]]:
        raise InputError(f"Column {column!r} was set aside; nothing is expected of it.")
    place = places[0]
    shown = view.window(place)
    values = view.values(place)[shown]
    expected = view.part("expected", place)[shown]
    flagged = view.mask[shown, place]
    half = view.halfwidth(place)
    timed = view.times()
    if timed is None:
        x: Any = np.arange(shown.start, shown.stop)
    else:
        x = timed[1].to_numpy()[shown]
    figure, ax = new_figure(size=(8.4, 3.4))
    ax.vlines(x, expected - half, expected + half, color=LOW, alpha=0.18, lw=1.6)
    ax.plot(x, expected, linestyle="", marker="_", color=LOW, ms=3, label="expected")
    ax.plot(
        *(x[~flagged], values[~flagged]),
        linestyle="",
        marker=".",
        markersize=3,
        color=INK,
        label="as it was",
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
        ax.xaxis.set_major_formatter(
            calendar.ConciseDateFormatter(locator, show_offset=False)
        )
    ax.legend(ncols=3, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    return figure


def _colours(bins: Bins, modelled: list[bool]) -> Array:
    """Return the colours of the lines; (lines, columns, 3)."""
    from matplotlib.colors import to_rgb

    paper = np.where(np.array(modelled)[:, None], to_rgb(PAPER), to_rgb(ASIDE))
    colours = np.broadcast_to(paper, (*bins.strength.shape, 3))
    share = bins.missing[..., None]
    colours = (1 - share) * colours + share * np.array(to_rgb(MISSING))
    hue = blended(bins.sign, to_rgb(LOW), to_rgb(HIGH))
    strength = bins.strength[..., None]
    return np.asarray((1 - strength) * colours + strength * hue)


def _legend(figure: "Figure", rows: bool, binned: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(color=HIGH, label="too high"),
        Patch(color=LOW, label="too low"),
        Patch(color=MISSING, label="missing"),
        Patch(color=PAPER, label="not flagged"),
    ]
    if rows:
        marker: Any = {"marker": "<", "linestyle": "", "color": COLOURS[2]}
        handles.append(Line2D([], [], label="row wrong end to end", **marker))
    note = "fuller: a larger share" if binned else "fuller: more probable"
    figure.legend(
        handles=handles, title=note, loc="outside lower center", ncols=3, fontsize=8
    )

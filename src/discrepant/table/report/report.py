"""The HTML report of a result table, and its short form for notebooks (Jinja2)."""

import base64
import functools
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.display import card
from discrepant.core.errors import InputError
from discrepant.table.report.figures import before_after, cell_map
from discrepant.table.report.view import View, format_number, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Flagged cells that the report lists.
LISTED = 200
# Flagged cells that a notebook lists.
NOTEBOOK_LISTED = 8
# Rows with several flagged cells that the report lists.
LISTED_ROWS = 12
# Characters of a value that are shown.
CELL_LENGTH = 120


def write_report(result: Any, path: Any, *, title: str = "", rows: str = "") -> None:
    """Write one self-contained HTML page.

    Parameters
    ----------
    result : CleanResult
        The result of `discrepant.clean`.
    path : str or Path
        The page; an existing one is replaced.
    title : str
        The title of the page.
    rows : str
        The meaning of the row labels, if they need an explanation.
    """
    text = page(result, title=title, rows=rows)
    try:
        # Labels may hold lone surrogates, which no encoding can write.
        Path(path).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{path} cannot be written to: {error.strerror or error}."
        ) from None


def page(result: Any, *, title: str = "", rows: str = "") -> str:
    """Return the HTML page as text."""
    from discrepant import __version__

    view = View(result)
    template = _templates().get_template("report.html")
    return str(
        template.render(
            title=title or "Cleaned table",
            version=__version__,
            result=result,
            view=view,
            cell_map=embedded(cell_map(result), "Map of the flagged cells"),
            facts=_facts(view),
            columns=list(zip(result.columns, result.noise, strict=True)),
            worst_rows=_worst_rows(view),
            row_labels=rows,
            figures=[_column_figure(view, place) for place in view.worst_columns()],
            flags=result.flagged.head(LISTED).to_dict("records"),
        )
    )


def fragment(result: Any) -> str:
    """Return a short piece of HTML for notebooks: summary and first flags."""
    template = _templates().get_template("flags.html")
    flags = result.flagged.head(NOTEBOOK_LISTED).to_dict("records")
    more = len(result.flagged) - len(flags)
    body = template.module.flag_table(flags, more)
    return card(result.summary(), notes=result.caveats, body=str(body))


def embedded(figure: "Figure", description: str) -> str:
    """Return a figure as an HTML image that holds its own pixels."""
    from markupsafe import Markup

    file = io.BytesIO()
    with warnings.catch_warnings():
        # Characters that the font does not have are drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(file, format="png")
    data = base64.b64encode(file.getvalue()).decode()
    image = '<img alt="{}" src="data:image/png;base64,{}">'
    return str(Markup(image).format(description, data))


@functools.cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("discrepant.table.report")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True)
    environment.filters |= {"cell": _cell, "percent": _percent, "direction": _direction}
    return environment


def _cell(value: Any) -> str:
    """Return any value as short text on one line."""
    return shortened(" ".join(format_number(value).split()), CELL_LENGTH)


def _percent(fraction: float, digits: int = 0) -> str:
    return f"{100 * fraction:.{digits}f}%" if fraction == fraction else "–"


def _direction(flag: dict[str, Any]) -> str:
    """Return whether a flagged value is too "high", too "low", or neither ("")."""
    try:
        above = float(flag["value"]) > float(flag["expected"])
    except (TypeError, ValueError):
        return ""
    return "high" if above else "low"


def _facts(view: View) -> dict[str, str]:
    rows, width = view.mask.shape
    return {
        "rows": f"{rows:,}",
        "columns": f"{width:,}",
        "columns checked": f"{sum(view.checked):,}",
        "cells flagged": f"{int(view.mask.sum()):,}",
        "cells replaced": f"{int(np.asarray(view.result.replaced).sum()):,}",
        "rows wrong as a whole": f"{len(view.result.bad_rows):,}",
        "cells missing": f"{int(view.missing.sum()):,}",
        "shared patterns (rank)": f"{view.result.rank}",
        "order of the rows": view.result.order or "not used",
    }


def _worst_rows(view: View) -> list[tuple[str, int, str]]:
    """Return label, number of flags and flagged columns of the worst rows."""
    counts = view.mask.sum(axis=1)
    bad = set(view.bad_rows.tolist())
    rank = np.where(np.isin(np.arange(len(counts)), list(bad)), np.inf, counts)
    lines = []
    for row in np.argsort(-rank, kind="stable")[:LISTED_ROWS].tolist():
        if rank[row] < 2:
            break
        places = np.flatnonzero(view.mask[row])
        names = ", ".join(shortened(view.names[place]) for place in places[:8])
        more = f" and {len(places) - 8} more" if len(places) > 8 else ""
        text = "wrong as a whole" if row in bad else names + more
        lines.append((str(view.frame.index[row]), len(places), text))
    return lines


def _column_figure(view: View, place: int) -> tuple[str, str, str]:
    """Return name, image and caption of a column."""
    name, shown = view.names[place], len(view.window(place))
    caption = f"{int(view.mask[:, place].sum()):,} flagged"
    if shown < len(view.frame):
        caption += f"; {shown} rows around the worst cell"
    figure = before_after(view.result, place=place)
    figure.axes[0].set_title("", loc="left")  # the page has a heading
    image = embedded(figure, f"Before and after: {name}")
    return name, image, f"{caption}."

"""The HTML report of a result table, and its short form for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from discrepant.core.display import card
from discrepant.core.errors import InputError
from discrepant.table.report import svg
from discrepant.table.report.view import View, format_number, shortened

# Flagged cells that the report lists.
LISTED = 200
# Flagged cells that a notebook lists.
NOTEBOOK_LISTED = 8
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
    template = files("discrepant.table.report") / "templates" / "report.html"
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=escape(title or "Cleaned table"),
        version=escape(__version__),
        lead=escape(result.summary()),
        figures=_figures(view),
        caveats=_caveats(result.caveats),
        map=_map(view),
        columns=_columns(view),
        worst_rows=_worst_rows(view, rows),
        before_after=_before_after(view),
        flagged=_flagged(result, LISTED),
    )


def fragment(result: Any) -> str:
    """Return a short piece of HTML for notebooks: summary and first flags."""
    table = _flag_table(result, NOTEBOOK_LISTED)
    return card(result.summary(), notes=result.caveats, body=table)


def _table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    numeric: frozenset[int] = frozenset(),
) -> str:
    """Return an HTML table; cells are HTML, the first of a row is its header."""

    def css_class(place: int) -> str:
        long_text = heads[place] in ("note", "columns")
        name = "n" if place in numeric else "note" if long_text else ""
        return f' class="{name}"' if name else ""

    def cell(place: int, text: str) -> str:
        if not place:
            return f'<th scope="row"{css_class(place)}>{text}</th>'
        return f"<td{css_class(place)}>{text}</td>"

    head = "".join(
        f'<th scope="col"{css_class(place)}>{escape(name)}</th>'
        for place, name in enumerate(heads)
    )
    body = "".join(
        f"<tr>{''.join(cell(i, text) for i, text in enumerate(row))}</tr>"
        for row in rows
    )
    label = escape(caption, quote=True)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{label}">'
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _as_html(value: Any) -> str:
    """Return any value as short, escaped HTML."""
    return escape(shortened(" ".join(format_number(value).split()), CELL_LENGTH))


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2g}%" if part and whole else "–"


def _figures(view: View) -> str:
    result = view.result
    rows, width = view.mask.shape
    missing = sum(int(view.missing(column).sum()) for column in range(width))
    boxes = {
        "rows": f"{rows:,}",
        "columns": f"{width:,}",
        "columns checked": f"{sum(view.checked):,}",
        "cells flagged": f"{int(view.mask.sum()):,}",
        "rows wrong as a whole": f"{len(result.bad_rows):,}",
        "cells missing": f"{missing:,}",
        "shared patterns (rank)": f"{result.rank}",
        "order of the rows": escape(result.order or "not used"),
    }
    inside = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in boxes.items()
    )
    return f'<dl class="figures">{inside}</dl>'


def _caveats(caveats: Sequence[str]) -> str:
    if not caveats:
        return ""
    items = "".join(f"<li>{escape(str(caveat))}</li>" for caveat in caveats)
    return f'<h2>Before you rely on this</h2><ul class="caveats">{items}</ul>'


def _map(view: View) -> str:
    rows, width = view.mask.shape
    if not rows or not width:
        return ""
    per_line = view.cell_grid().rows_per_line
    darker = "darker where more probable"
    if per_line > 1:
        darker = f"each line is {per_line:,} rows; darker where more are flagged"
    bad = " ◂ marks rows that are wrong as a whole." if len(view.bad_rows) else ""
    keys = "".join(
        f'<span class="key" style="background:{_css(colour)}"></span>{name}'
        for name, colour in (
            ("too high", svg.HIGH),
            ("too low", svg.LOW),
            ("missing", svg.MISSING),
        )
    )
    return (
        "<h2>Where the flags are</h2><figure><div class='wide' role='region' "
        f"tabindex='0' aria-label='Cell map'>{svg.cell_map(view)}</div>"
        f"<figcaption>{keys} — {darker}.{bad}</figcaption></figure>"
    )


def _css(colour: tuple[int, int, int]) -> str:
    return f"rgb{colour}".replace(" ", "")


def _columns(view: View) -> str:
    """Return the table of columns, in their order."""
    result, count = view.result, len(view.frame)
    lines = []
    for column, noise in zip(result.columns, result.noise, strict=True):
        sentinels = ", ".join(format_number(value) for value in column.sentinels)
        note = str(column.note or "")
        if sentinels:
            note = f"{sentinels} read as missing. {note}".strip()
        lines.append(
            (
                _as_html(column.name),
                _as_html(column.role),
                _percent(column.missing, count),
                f"{column.flagged:,}",
                _explained(column.explained),
                _as_html(float(noise)),
                escape(note),
            )
        )
    heads = ("column", "role", "missing", "flagged", "explained", "noise", "note")
    caption = (
        "Explained: how much of this column the others predict. Noise: the usual size "
        "of the rest, in the column's unit."
    )
    table = _table(caption, heads, lines, frozenset({2, 3, 4, 5}))
    return f"<h2>Columns</h2>{table}"


def _explained(value: Any) -> str:
    if value is None or value != value:
        return "–"
    return f"{100 * float(value):.0f}%"


def _worst_rows(view: View, row_labels: str) -> str:
    """Return the rows with the most flagged cells."""
    counts = view.mask.sum(axis=1)
    bad = set(view.bad_rows.tolist())
    counts[list(bad)] = view.mask.shape[1] + 1  # first of all
    order = np.argsort(-counts, kind="stable")[:12]
    worst = [int(row) for row in order if counts[row] > 1]
    if not worst:
        return ""
    lines = []
    for row in worst:
        places = np.flatnonzero(view.mask[row])
        names = ", ".join(shortened(view.names[place]) for place in places[:8])
        more = f" and {len(places) - 8} more" if len(places) > 8 else ""
        lines.append(
            (
                _as_html(str(view.frame.index[row])),
                str(len(places)),
                "wrong as a whole" if row in bad else escape(names + more),
            )
        )
    caption = "Rows with several flagged cells, worst first"
    caption += f" (labels: {row_labels})." if row_labels else "."
    table = _table(caption, ("row", "flagged", "columns"), lines, frozenset({1}))
    return f"<h2>Worst rows</h2>{table}"


def _before_after(view: View) -> str:
    worst = view.worst_columns()
    if not worst:
        return ""
    figures = []
    for place in worst:
        count = int(view.mask[:, place].sum())
        shown = view.window(place)
        excerpt = ""
        if len(shown) < len(view.frame):
            excerpt = f"; {len(shown)} rows around the worst cell"
        figures.append(
            f"<figure><h3>{escape(view.names[place])}</h3><div class='wide' "
            f"role='region' tabindex='0' aria-label='Before and after'>"
            f"{svg.before_after(view, place)}</div><figcaption>{count:,} flagged"
            f"{excerpt}.</figcaption></figure>"
        )
    return (
        "<h2>Columns with the most flags</h2><p class='soft'>Dots are the "
        "original values, dashes the expected values with their 95% intervals; flagged "
        "cells are red, with a triangle where they lie beyond the figure.</p>"
        f"{''.join(figures)}"
    )


def _flagged(result: Any, count: int) -> str:
    return f"<h2>Flagged cells</h2>{_flag_table(result, count)}"


def _flag_table(result: Any, count: int) -> str:
    flagged = result.flagged
    if not len(flagged):
        return "<p>None.</p>"
    first = flagged.head(count)
    lines = []
    for row, column, value, expected, low, high, probability, kind in zip(
        *(
            first[name]
            for name in (
                *("row", "column", "value", "expected"),
                *("low", "high", "probability", "kind"),
            )
        ),
        strict=True,
    ):
        lines.append(
            (
                _as_html(str(row)),
                _as_html(column),
                _coloured(value, expected),
                _as_html(expected),
                f"{_as_html(low)} to {_as_html(high)}",
                _probability(probability),
                _as_html(kind),
            )
        )
    left = len(flagged) - len(first)
    caption = (
        "Most certain first. Probability: that the cell is wrong. Kind: level, it "
        "contradicts its row; spike, stuck or shift, it contradicts the cells before "
        "and after it."
    )
    heads = ("row", "column", "value", "expected", "interval", "probability", "kind")
    table = _table(caption, heads, lines, frozenset({2, 3, 4, 5}))
    return table + (f"<p>… and {left:,} more.</p>" if left else "")


def _coloured(value: Any, expected: Any) -> str:
    """Return a value with its direction, in words too for readers without colours."""
    try:
        above = float(value) > float(expected)
    except (TypeError, ValueError):
        return _as_html(value)
    if above:
        return f'<span class="high" title="too high">{_as_html(value)} ▲</span>'
    return f'<span class="low" title="too low">{_as_html(value)} ▼</span>'


def _probability(value: Any) -> str:
    if value is None or value != value:
        return "–"
    return "> 99.9%" if value > 0.9995 else f"{100 * float(value):.1f}%"

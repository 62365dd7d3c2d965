"""What was found in a table, as a page of its own and as a piece for notebooks."""

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
from discrepant.table.result import summary

LISTED = 200  # flagged cells that the page lists
FEW = 8  # and a notebook
CELL = 120  # characters of a value that are shown


def write_report(cleaned: Any, path: Any, *, title: str = "", rows: str = "") -> None:
    """Write one HTML page that needs nothing beside it.

    Parameters
    ----------
    cleaned : Cleaned
        What `discrepant.clean` returned.
    path : str or Path
        The page; replaced if it is there.
    title : str
        What stands above it.
    rows : str
        What the labels of the rows are, if that needs saying.
    """
    text = page(cleaned, title=title, rows=rows)
    try:
        # Labels may hold what no encoding can write: half of a surrogate pair.
        Path(path).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{path} cannot be written to: {error.strerror or error}."
        ) from None


def page(cleaned: Any, *, title: str = "", rows: str = "") -> str:
    """Return the whole page as text."""
    from discrepant import __version__

    view = View(cleaned)
    template = files("discrepant.table.report") / "templates" / "report.html"
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=escape(title or "A table, cleaned"),
        version=escape(__version__),
        lead=escape(summary(cleaned)),
        figures=_figures(view),
        caveats=_caveats(cleaned.caveats),
        map=_map(view),
        columns=_columns(view),
        worst_rows=_worst_rows(view, rows),
        before_after=_before_after(view),
        flagged=_flagged(cleaned, LISTED),
    )


def fragment(cleaned: Any) -> str:
    """Return a short piece of HTML for notebooks: what was found, the first flags."""
    table = _flag_table(cleaned, FEW)
    return card(summary(cleaned), notes=cleaned.caveats, body=table)


def _table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    numeric: frozenset[int] = frozenset(),
) -> str:
    """Return a table; cells are HTML already, the first of a row is its header."""

    def kind(place: int) -> str:
        words = heads[place] in ("note", "columns")
        name = "n" if place in numeric else "note" if words else ""
        return f' class="{name}"' if name else ""

    def cell(place: int, text: str) -> str:
        if not place:
            return f'<th scope="row"{kind(place)}>{text}</th>'
        return f"<td{kind(place)}>{text}</td>"

    head = "".join(
        f'<th scope="col"{kind(place)}>{escape(name)}</th>'
        for place, name in enumerate(heads)
    )
    body = "".join(
        f"<tr>{''.join(cell(i, text) for i, text in enumerate(row))}</tr>"
        for row in rows
    )
    said = escape(caption, quote=True)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{said}">'
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _shown(value: Any) -> str:
    """Return any value as short, harmless HTML."""
    return escape(shortened(" ".join(format_number(value).split()), CELL))


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2g}%" if part and whole else "–"


def _figures(view: View) -> str:
    cleaned = view.cleaned
    rows, width = view.mask.shape
    missing = sum(int(view.missing(column).sum()) for column in range(width))
    boxes = {
        "rows": f"{rows:,}",
        "columns": f"{width:,}",
        "columns looked into": f"{sum(view.modelled):,}",
        "cells flagged": f"{int(view.mask.sum()):,}",
        "rows wrong end to end": f"{len(cleaned.rows):,}",
        "cells missing": f"{missing:,}",
        "common causes (rank)": f"{cleaned.rank}",
    }
    inside = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in boxes.items()
    )
    return f'<dl class="figures">{inside}</dl>'


def _caveats(caveats: Sequence[str]) -> str:
    if not caveats:
        return ""
    items = "".join(f"<li>{escape(str(caveat))}</li>" for caveat in caveats)
    return f'<h2>Before you trust this</h2><ul class="caveats">{items}</ul>'


def _map(view: View) -> str:
    rows, width = view.mask.shape
    if not rows or not width:
        return ""
    each = view.bins().rows
    fuller = "the fuller, the more probable"
    if each > 1:
        fuller = f"each line is {each:,} rows; the fuller, the larger their share"
    bad = " ◂ marks rows wrong from end to end." if len(view.bad_rows) else ""
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
        f"<figcaption>{keys} — {fuller}.{bad}</figcaption></figure>"
    )


def _css(colour: tuple[int, int, int]) -> str:
    return f"rgb{colour}".replace(" ", "")


def _columns(view: View) -> str:
    """Return what was done to each column, in the order of the table."""
    cleaned, count = view.cleaned, len(view.frame)
    lines = []
    for report, noise in zip(cleaned.columns, cleaned.noise, strict=True):
        sentinels = ", ".join(format_number(value) for value in report.sentinels)
        note = str(report.note or "")
        if sentinels:
            note = f"{sentinels} taken for missing. {note}".strip()
        lines.append(
            (
                _shown(report.name),
                _shown(report.role),
                _percent(report.missing, count),
                f"{report.flagged:,}",
                _share(report.explained),
                _shown(float(noise)),
                escape(note),
            )
        )
    heads = ("column", "what it is", "missing", "flagged", "explained", "noise", "note")
    caption = (
        "Explained: the share of a column's spread that the others foretell. Noise: "
        "the usual size of what they do not, in the column's unit."
    )
    table = _table(caption, heads, lines, frozenset({2, 3, 4, 5}))
    return f"<h2>What was done to each column</h2>{table}"


def _share(value: Any) -> str:
    if value is None or value != value:
        return "–"
    return f"{100 * float(value):.0f}%"


def _worst_rows(view: View, said: str) -> str:
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
                _shown(str(view.frame.index[row])),
                str(len(places)),
                "wrong from end to end" if row in bad else escape(names + more),
            )
        )
    caption = "Rows with several flagged cells, worst first"
    caption += f" (labels: {said})." if said else "."
    table = _table(caption, ("row", "flagged", "columns"), lines, frozenset({1}))
    return f"<h2>Worst rows</h2>{table}"


def _before_after(view: View) -> str:
    worst = view.worst_columns()
    if not worst:
        return ""
    pictures = []
    for place in worst:
        count = int(view.mask[:, place].sum())
        shown = view.window(place)
        part = ""
        if shown.stop - shown.start < len(view.frame):
            part = f"; {shown.stop - shown.start} rows about the worst cell"
        pictures.append(
            f"<figure><h3>{escape(view.names[place])}</h3><div class='wide' "
            f"role='region' tabindex='0' aria-label='Before and after'>"
            f"{svg.before_after(view, place)}</div><figcaption>{count:,} flagged"
            f"{part}.</figcaption></figure>"
        )
    return (
        "<h2>The columns with most flags</h2><p class='soft'>Dots are the values as "
        "they were, dashes what was expected with the interval of right values; "
        "flagged cells are red, with a triangle where they lie beyond the picture.</p>"
        f"{''.join(pictures)}"
    )


def _flagged(cleaned: Any, most: int) -> str:
    return f"<h2>Flagged cells</h2>{_flag_table(cleaned, most)}"


def _flag_table(cleaned: Any, most: int) -> str:
    found = cleaned.flagged
    if not len(found):
        return "<p>None.</p>"
    first = found.head(most)
    lines = []
    for row, column, value, expected, low, high, chance in zip(
        *(
            first[name]
            for name in (
                *("row", "column", "value", "expected"),
                *("low", "high", "probability"),
            )
        ),
        strict=True,
    ):
        lines.append(
            (
                _shown(str(row)),
                _shown(column),
                _coloured(value, expected),
                _shown(expected),
                f"{_shown(low)} to {_shown(high)}",
                _chance(chance),
            )
        )
    left = len(found) - len(first)
    caption = "Worst first. Probability: that the cell is wrong."
    heads = ("row", "column", "value", "expected", "interval", "probability")
    table = _table(caption, heads, lines, frozenset({2, 3, 4, 5}))
    return table + (f"<p>… and {left:,} more.</p>" if left else "")


def _coloured(value: Any, expected: Any) -> str:
    """Return a value with its direction, in words for those who see no colours."""
    try:
        above = float(value) > float(expected)
    except (TypeError, ValueError):
        return _shown(value)
    if above:
        return f'<span class="high" title="too high">{_shown(value)} ▲</span>'
    return f'<span class="low" title="too low">{_shown(value)} ▼</span>'


def _chance(value: Any) -> str:
    if value is None or value != value:
        return "–"
    return "> 99.9%" if value > 0.9995 else f"{100 * float(value):.1f}%"

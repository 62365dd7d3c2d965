"""Figures of a cleaned table as SVG in the colours of the HTML report."""

import base64
import struct
import zlib
from html import escape
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.table.report.view import (
    MAX_LABELS,
    View,
    blended,
    format_number,
    limits,
    shortened,
)

# Colours of values that are too high, too low and missing, visible on white and black.
HIGH, LOW, MISSING = (214, 69, 88), (46, 134, 193), (150, 150, 150)


def png(pixels: Array) -> bytes:
    """Return RGBA pixels (height, width, 4) as a PNG file."""
    height, width, _ = pixels.shape
    lines = np.zeros(
        (height, 1 + 4 * width), np.uint8
    )  # each line begins with its filter
    lines[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        size, check = len(content), zlib.crc32(kind + content)
        return struct.pack(">I", size) + kind + content + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + chunk(b"IEND", b"")
    )


def cell_map(view: View) -> str:
    """Return the map of the cells: transparent where nothing is flagged or missing."""
    grid = view.cell_grid()
    lines, width = grid.strength.shape
    pixels = np.zeros((max(lines, 1), max(width, 1), 4), np.uint8)
    if lines and width:
        pixels[..., :3] = MISSING
        pixels[..., 3] = np.round(150 * grid.missing)
        here = grid.strength > 0
        pixels[here, :3] = np.round(blended(grid.sign, LOW, HIGH)[here])
        pixels[here, 3] = np.round(255 * grid.strength[here])
    image = base64.b64encode(png(pixels)).decode()
    column = float(np.clip(840 / max(width, 1), 9, 60))
    left, top, tall = 60.0, 12.0, 420.0
    wide = column * width
    step = -(-width // MAX_LABELS)
    labels = "".join(
        f'<text class="{"label" if view.checked[i] else "label unchecked"}" transform='
        f'"translate({left + (i + 0.5) * column + 3:.1f} {top + tall + 8:.0f}) '
        f'rotate(-60)">{escape(shortened(view.names[i]))}</text>'
        for i in range(0, width, step)
    )
    longest = max((len(shortened(name)) for name in view.names), default=0)
    below = 20 + 6.2 * longest  # height of slanted labels
    rows = view.mask.shape[0]
    ticks = "".join(
        f'<text x="{left - 6}" y="{top + fraction * tall + 4:.0f}" text-anchor="end">'
        f"{escape(_row_label(view, fraction))}</text>"
        for fraction in ((0, 0.5, 1) if rows > 2 else (0,))
    )
    marks = "".join(
        f'<path d="M{left + wide + 2:.1f} {top + (line + 0.5) * tall / lines:.1f}'
        'l7 -4v8z" class="mark"/>'
        for line in grid.bad_lines
    )
    description = (
        f"Map of {rows:,} rows and {width} columns with {int(view.mask.sum()):,} "
        "flagged cells."
    )
    size = f"{left + wide + 16:.0f} {top + tall + below:.0f}"
    return (
        f'<svg viewBox="0 0 {size}" role="img" '
        f'aria-label="{description}" style="min-width:{min(wide, 620):.0f}px">'
        f'<rect x="{left}" y="{top}" width="{wide:.1f}" height="{tall}" '
        'class="background"/>'
        f'<image x="{left}" y="{top}" width="{wide:.1f}" height="{tall}" '
        'preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{image}"/>{ticks}{labels}{marks}</svg>'
    )


def _row_label(view: View, fraction: float) -> str:
    rows = len(view.frame)
    label = view.frame.index[min(int(fraction * rows), rows - 1)]
    return shortened(" ".join(str(label).split()), 9)


def before_after(view: View, place: int) -> str:
    """Return the figure of a column: values, expected values and flagged cells."""
    shown = view.window(place)
    values = view.values(place)[shown]
    expected = view.expected(place)[shown]
    flagged = view.mask[shown, place]
    low, high, _ = limits(values, expected, flagged)
    half = view.halfwidth(place)
    wide, tall, left, top = 800.0, 220.0, 66.0, 10.0
    x, ends = _horizontal(view, shown)
    x = left + x * wide

    def up(v: Any) -> Any:
        return top + tall * (high - np.clip(v, low, high)) / (high - low)

    known = np.isfinite(expected)
    pairs = zip(
        x[known], up(expected[known] - half), up(expected[known] + half), strict=True
    )
    interval = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in pairs)
    middle = "".join(
        f"M{a - 1.6:.1f} {b:.1f}h3.2"
        for a, b in zip(x[known], up(expected[known]), strict=True)
    )
    plain = ~flagged & np.isfinite(values)
    dots = "".join(
        f"M{a:.1f} {b:.1f}h0" for a, b in zip(x[plain], up(values[plain]), strict=True)
    )
    marks = "".join(
        _flag(view, int(shown[i]), values[i], expected[i], x[i], low, high, up)
        for i in np.flatnonzero(flagged & np.isfinite(values))
    )
    ticks = "".join(
        f'<text x="{left - 8}" y="{up(v) + 4:.1f}" text-anchor="end">'
        f"{escape(format_number(float(v)))}</text>"
        f'<path class="rule" d="M{left} {up(v):.1f}h{wide}"/>'
        for v in _ticks(low, high)
    )
    description = (
        f"Column {view.names[place]}: {int(flagged.sum())} flagged cells among "
        f"{len(shown)} rows."
    )
    return (
        f'<svg viewBox="0 0 {left + wide + 16:.0f} {tall + 44:.0f}" role="img" '
        f'aria-label="{escape(description, quote=True)}" '
        f'style="min-width:520px">{ticks}<path class="interval" d="{interval}"/>'
        f'<path class="expected" d="{middle}"/>'
        f'<path class="value" d="{dots}"/>{marks}'
        f'<text x="{left}" y="{tall + 32:.0f}">{escape(ends[0])}</text>'
        f'<text x="{left + wide}" y="{tall + 32:.0f}" text-anchor="end">'
        f"{escape(ends[1])}</text></svg>"
    )


def _flag(
    view: View,
    row: int,
    value: float,
    expected: float,
    x: float,
    low: float,
    high: float,
    up: Any,
) -> str:
    """Return one flagged cell, with a line to its expected value and a tooltip."""
    label = " ".join(str(view.frame.index[row]).split())
    description = (
        f"row {label}: {format_number(value)}, expected {format_number(expected)}"
    )
    y = up(value)
    if low <= value <= high:
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    else:
        way = -7 if value > high else 7
        shape = f'<path d="M{x - 5:.1f} {y - way / 2:.1f}h10l-5 {way}z"/>'
    line = f'<path class="link" d="M{x:.1f} {y:.1f}V{up(expected):.1f}"/>'
    if not np.isfinite(expected):
        line = ""
    return f'<g class="flag">{line}{shape}<title>{escape(description)}</title></g>'


def _horizontal(view: View, shown: Array) -> tuple[Array, tuple[str, str]]:
    """Return horizontal positions from 0 to 1, and the labels of both ends."""
    import pandas as pd

    timed = view.times(shown)
    if timed is not None:
        moments = pd.DatetimeIndex(timed[1])
        since = np.asarray((moments - moments[0]).total_seconds(), float)
        if since[-1] > 0:
            first, last = (str(moments[k])[:16] for k in (0, -1))
            return since / since[-1], (f"{timed[0]}: {first}", last)
    index = view.frame.index
    ends = [
        shortened(" ".join(str(index[k]).split()), 30) for k in (shown[0], shown[-1])
    ]
    count = len(shown)
    return np.arange(count) / max(count - 1, 1), (f"row {ends[0]}", f"row {ends[1]}")


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers between two limits."""
    rough = (high - low) / 4
    unit = 10.0 ** np.floor(np.log10(rough))
    step = next((unit * k for k in (1, 2, 5) if unit * k >= rough), unit * 10)
    first = np.ceil(low / step)
    return [float(step * k) + 0.0 for k in np.arange(first, np.floor(high / step) + 1)]

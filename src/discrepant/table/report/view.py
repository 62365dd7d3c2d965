"""Data for the figures and the report: cells of a cleaned table by position.

Labels may repeat, so that rows and columns are addressed by their numbers.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.table.report.sentences import is_analysed
from discrepant.table.result import with_labels

# Lines of a cell map: each has at least a pixel, so that no flag is lost.
MAP_LINES = 240
# Rows in the figure of one column.
WINDOW = 300
# Columns up to which each has its label.
MAX_LABELS = 60
# Characters of a label.
LABEL_LENGTH = 22


@dataclass(frozen=True, eq=False)
class View:
    """A `CleanResult` with its cells addressed by position."""

    result: Any

    @cached_property
    def frame(self) -> Any:
        """The table as it was given."""
        return self.result.cells.parsed.frame

    @cached_property
    def names(self) -> list[str]:
        """The labels of the columns, as text on one line."""
        return [" ".join(str(name).split()) for name in self.frame.columns]

    @cached_property
    def mask(self) -> Array:
        """Which cells are flagged."""
        return np.asarray(self.result.mask, bool)

    @cached_property
    def flags(self) -> tuple[Array, Array, Array, Array]:
        """Rows, columns, signs of the error and probabilities of the flagged cells."""
        rows, columns = np.nonzero(self.mask)
        away = self.values[rows, columns] - self.expected[rows, columns]
        probability = self.probability[rows, columns]
        signs = np.nan_to_num(np.sign(away))
        return rows, columns, signs, np.nan_to_num(probability, nan=1.0)

    @cached_property
    def bad_rows(self) -> Array:
        """Positions of the rows that are wrong as a whole."""
        return np.asarray(self.result.row_numbers, int)

    @cached_property
    def checked(self) -> list[bool]:
        """Which columns were checked."""
        return is_analysed(self.result)

    @cached_property
    def values(self) -> Array:
        """The numeric columns as floats; NaN where a cell is missing or text."""
        parsed = self.result.cells.parsed
        values = np.array(with_labels(parsed, parsed.values, np.nan), float)
        for column, unparsed in parsed.unparsed.items():
            values[unparsed, column] = np.nan
        return values

    @cached_property
    def missing(self) -> Array:
        """Which cells are missing."""
        return np.asarray(self.frame.isna(), bool)

    @cached_property
    def expected(self) -> Array:
        """The expected value of each cell."""
        return np.asarray(self.result.expected, float)

    @cached_property
    def probability(self) -> Array:
        """Probability that each cell is wrong."""
        return np.asarray(self.result.probability, float)

    def halfwidth(self, column: int) -> float:
        """Return half of the usual 95% interval of a column."""
        flagged = self.result.flagged
        name = self.frame.columns[column]
        here = flagged[(flagged["column"] == name).to_numpy()]
        widths = (here["high"].to_numpy(float) - here["low"].to_numpy(float)) / 2
        widths = widths[np.isfinite(widths)]
        if len(widths):
            return float(np.median(widths))
        return 1.96 * float(self.result.noise.iloc[column])

    def worst_columns(self, count: int = 4) -> list[int]:
        """Return the columns with the most flags."""
        counts = self.mask.sum(axis=0)
        order = np.argsort(-counts, kind="stable")
        return [int(c) for c in order if counts[c]][:count]

    def times(self, rows: Array) -> tuple[str, Any] | None:
        """Return the name and values of the first column of dates that increases."""
        import pandas as pd

        for name, column in self.frame.items():
            if pd.api.types.is_datetime64_any_dtype(column):
                shown = column.iloc[rows]
                if shown.notna().all() and shown.is_monotonic_increasing:
                    return str(name), shown
        index = self.frame.index
        if isinstance(index, pd.DatetimeIndex):
            shown = index[rows]
            if shown.is_monotonic_increasing:
                return str(index.name or "time"), shown.to_series()
        return None

    def window(self, column: int) -> Array:
        """Return the rows to draw of a column, in the order that they were compared in.

        All rows, or those around its most certain flag.
        """
        rows = len(self.frame)
        sequence = self.result.row_sequence
        if sequence is None or self.frame.columns[column] not in set(
            self.result.ordered_columns
        ):
            sequence = np.arange(rows)
        if rows <= 2 * WINDOW:
            return np.asarray(sequence)
        flagged = np.flatnonzero(self.mask[:, column])
        probability = self.probability[flagged, column]
        middle = flagged[np.argmax(probability)] if len(flagged) else rows // 2
        place = int(np.flatnonzero(sequence == middle)[0])
        start = int(np.clip(place - WINDOW // 2, 0, rows - WINDOW))
        return np.asarray(sequence[start : start + WINDOW])

    def cell_grid(self) -> "CellGrid":
        """Return the cells binned into at most `MAP_LINES` lines."""
        rows, width = self.mask.shape
        rows_per_line = max(-(-rows // MAP_LINES), 1)
        lines = -(-rows // rows_per_line)
        line_of = np.arange(rows) // rows_per_line
        at, columns, signs, probabilities = self.flags
        place = line_of[at] * width + columns
        size = lines * width
        count = np.bincount(place, minlength=size).reshape(lines, width)
        total = np.bincount(place, signs, size).reshape(lines, width)
        largest = np.zeros(size)
        np.maximum.at(largest, place, probabilities)
        starts = np.arange(0, rows, rows_per_line)
        missing = np.add.reduceat(self.missing, starts, dtype=float)
        rows_in = np.bincount(line_of, minlength=lines)[:, None]
        if lines == rows:
            largest = largest.reshape(lines, width)
            strength = 0.35 + 0.65 * np.clip(2 * largest - 1, 0, 1)
        else:  # one flag among thousands is visible, and differs from several
            strength = 0.2 + 0.8 * (count / rows_in) ** 0.4
        return CellGrid(
            strength=np.where(count, strength, 0.0),
            sign=total / np.maximum(count, 1),
            missing=missing / rows_in,
            bad_lines=np.unique(line_of[self.bad_rows]),
            rows_per_line=rows_per_line,
        )


@dataclass(frozen=True, eq=False)
class CellGrid:
    """The cells of a table binned into lines of ``rows_per_line`` rows.

    ``strength`` is 0 where nothing is flagged and at least 0.2 where one cell is;
    ``sign`` is 1 where values are too high, −1 where too low, or between; ``missing``
    is the fraction of missing cells; ``bad_lines`` hold rows that are wrong as a whole.
    """

    strength: Array
    sign: Array
    missing: Array
    bad_lines: Array
    rows_per_line: int


def blended(sign: Array, low: Any, high: Any) -> Array:
    """Return the colours of signs from −1 to 1, interpolated; shape (…, 3)."""
    weight = (1 + sign[..., None]) / 2
    return np.asarray((1 - weight) * np.array(low) + weight * np.array(high))


def limits(
    values: Array, expected: Array, flagged: Array
) -> tuple[float, float, Array]:
    """Return the range to draw, and the values that lie beyond it.

    Errors may be a thousand times larger than other values, which must stay legible.
    """
    good = np.concatenate([values[~flagged], expected])
    good = good[np.isfinite(good)]
    low, high = (float(good.min()), float(good.max())) if len(good) else (0.0, 1.0)
    margin = (high - low) or abs(high) or 1.0
    wrong = values[flagged & np.isfinite(values)]
    lowest = max(min([low, *wrong]), low - margin)
    highest = min(max([high, *wrong]), high + margin)
    pad = 0.04 * (highest - lowest)
    bounds = lowest - pad, highest + pad
    with np.errstate(invalid="ignore"):
        beyond = (values < bounds[0]) | (values > bounds[1])
    return *bounds, beyond


def shortened(text: str, length: int = LABEL_LENGTH) -> str:
    """Cut a label that is too long."""
    return text if len(text) <= length else text[: length - 1] + "…"


def format_number(value: Any, digits: int = 4) -> str:
    """Return a value as short text; anything but a number unchanged."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        value = float(value)
        if value != value:
            return "–"
        if value and (abs(value) >= 1e7 or abs(value) < 1e-4):
            return f"{value:.{digits - 1}g}"
        decimals = max(digits - 1 - int(np.floor(np.log10(abs(value) or 1))), 0)
        text = f"{value:.{min(decimals, 6)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if value is None:
        return "–"
    return str(value)

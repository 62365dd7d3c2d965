"""What pictures and pages show of a cleaned table: its cells by their places.

``cleaned`` is what `discrepant.clean` returns; labels may come twice, so that all is
found by row and column numbers.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.table.columns.table_input import as_frame
from discrepant.table.columns.text_numbers import read
from discrepant.table.result import analysed

BINS = 240  # lines of a cell map: each has a pixel, so that none is lost
WINDOW = 300  # rows of a picture of one column
LABELS = 60  # columns up to which each has its label
LENGTH = 22  # characters of a label


def numbers_of(column: Any) -> Array:
    """Return a column as floating numbers, with NaN for all that is none."""
    import pandas as pd

    missing = column.isna().to_numpy()
    if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
        return read(column.to_numpy(dtype=object), missing).values
    if not pd.api.types.is_numeric_dtype(column):
        return np.full(len(column), np.nan)
    return np.asarray(column.to_numpy(dtype=float, na_value=np.nan))


@dataclass(frozen=True, eq=False)
class View:
    """A cleaned table, looked at."""

    cleaned: Any

    @cached_property
    def frame(self) -> Any:
        """The table as it was given."""
        return as_frame(self.cleaned.original)

    @cached_property
    def names(self) -> list[str]:
        """The labels of the columns, as text on one line."""
        return [" ".join(str(name).split()) for name in self.frame.columns]

    @cached_property
    def mask(self) -> Array:
        """Which cells are flagged."""
        return np.asarray(self.cleaned.mask, bool)

    @cached_property
    def flags(self) -> tuple[Array, Array, Array, Array]:
        """Rows, columns, signs of the error and probabilities of the flagged cells."""
        rows, columns = np.nonzero(self.mask)
        signs = np.zeros(len(rows))
        chances = np.ones(len(rows))
        for column in np.unique(columns):
            here = columns == column
            at = rows[here]
            expected = self.part("expected", int(column))[at]
            above = np.sign(self.values(int(column))[at] - expected)
            signs[here] = np.where(np.isnan(above), 0.0, above)
            chance = self.part("probability", int(column))[at]
            chances[here] = np.where(np.isnan(chance), 1.0, chance)
        return rows, columns, signs, chances

    @cached_property
    def bad_rows(self) -> Array:
        """The places of the rows that are wrong from end to end."""
        return np.asarray(self.cleaned.row_numbers, int)

    @cached_property
    def modelled(self) -> list[bool]:
        """Which columns were looked into."""
        return analysed(self.cleaned)

    @cached_property
    def probability(self) -> Any:
        """The chance that each cell is wrong, which is worked out once."""
        return self.cleaned.probability

    def values(self, column: int) -> Array:
        """Return a column as it was, as numbers."""
        return numbers_of(self.frame.iloc[:, column])

    def missing(self, column: int) -> Array:
        """Return which cells of a column are missing."""
        return np.asarray(self.frame.iloc[:, column].isna().to_numpy(), bool)

    def part(self, name: str, column: int) -> Array:
        """Return a column of ``expected`` or ``probability``."""
        held = self.probability if name == "probability" else self.cleaned.expected
        return np.asarray(held.iloc[:, column].to_numpy(dtype=float))

    def halfwidth(self, column: int) -> float:
        """Return half of the interval in which a right value is expected."""
        found = self.cleaned.flagged
        name = self.frame.columns[column]
        here = found[(found["column"] == name).to_numpy()]
        widths = (here["high"].to_numpy(float) - here["low"].to_numpy(float)) / 2
        widths = widths[np.isfinite(widths)]
        if len(widths):
            return float(np.median(widths))
        return 1.96 * float(self.cleaned.noise.iloc[column])

    def worst_columns(self, most: int = 4) -> list[int]:
        """Return the columns with the most flags, of those that were modelled."""
        counts = self.mask.sum(axis=0)
        order = np.argsort(-counts, kind="stable")
        return [int(c) for c in order if counts[c]][:most]

    def times(self) -> tuple[str, Any] | None:
        """Return the name and values of the first column of dates that rises."""
        import pandas as pd

        for name, column in self.frame.items():
            if pd.api.types.is_datetime64_any_dtype(column):
                if column.notna().all() and column.is_monotonic_increasing:
                    return str(name), column
        index = self.frame.index
        if isinstance(index, pd.DatetimeIndex) and index.is_monotonic_increasing:
            return str(index.name or "time"), index.to_series()
        return None

    def window(self, column: int) -> slice:
        """Return the rows to show of a column: all, or those about its worst flag."""
        rows = len(self.frame)
        if rows <= 2 * WINDOW:
            return slice(0, rows)
        chance = self.part("probability", column)
        flagged = np.flatnonzero(self.mask[:, column])
        middle = flagged[np.argmax(chance[flagged])] if len(flagged) else rows // 2
        start = int(np.clip(middle - WINDOW // 2, 0, rows - WINDOW))
        return slice(start, start + WINDOW)

    def bins(self) -> "Bins":
        """Return the cells gathered into at most `BINS` lines."""
        rows, width = self.mask.shape
        each = max(-(-rows // BINS), 1)
        lines = -(-rows // each)
        line_of = np.arange(rows) // each
        at, columns, signs, chances = self.flags
        place = line_of[at] * width + columns
        size = lines * width
        count = np.bincount(place, minlength=size).reshape(lines, width)
        total = np.bincount(place, signs, size).reshape(lines, width)
        chance = np.zeros(size)
        np.maximum.at(chance, place, chances)
        missing = np.stack(
            [
                np.bincount(line_of, self.missing(column), lines)
                for column in range(width)
            ],
            axis=1,
        )
        rows_in = np.bincount(line_of, minlength=lines)[:, None]
        if lines == rows:
            chance = chance.reshape(lines, width)
            strength = 0.35 + 0.65 * np.clip(2 * chance - 1, 0, 1)
        else:  # one flag among thousands must still be seen, and more be told from it
            strength = 0.2 + 0.8 * (count / rows_in) ** 0.4
        return Bins(
            strength=np.where(count, strength, 0.0),
            sign=total / np.maximum(count, 1),
            missing=missing / rows_in,
            bad=np.unique(line_of[self.bad_rows]),
            rows=each,
        )


@dataclass(frozen=True, eq=False)
class Bins:
    """A table in few enough lines to be drawn, each of ``rows`` rows.

    ``strength`` is 0 where nothing is flagged and at least 0.2 where one cell is;
    ``sign`` tells whether values are too high (1), too low (−1) or both, ``missing``
    which share is not there, and ``bad`` which lines hold rows wrong from end to end.
    """

    strength: Array
    sign: Array
    missing: Array
    bad: Array
    rows: int


def blended(sign: Array, low: Any, high: Any) -> Array:
    """Return the colours of signs from −1 to 1, between two; (…, 3)."""
    share = (1 + sign[..., None]) / 2
    return np.asarray((1 - share) * np.array(low) + share * np.array(high))


def limits(
    values: Array, expected: Array, flagged: Array
) -> tuple[float, float, Array]:
    """Return what range to show, and which values lie beyond it.

    Errors may be a thousand times larger than all else; what is right stays legible.
    """
    good = np.concatenate([values[~flagged], expected])
    good = good[np.isfinite(good)]
    low, high = (float(good.min()), float(good.max())) if len(good) else (0.0, 1.0)
    room = (high - low) or abs(high) or 1.0
    wrong = values[flagged & np.isfinite(values)]
    lowest = max(min([low, *wrong]), low - room)
    highest = min(max([high, *wrong]), high + room)
    pad = 0.04 * (highest - lowest)
    bounds = lowest - pad, highest + pad
    with np.errstate(invalid="ignore"):
        beyond = (values < bounds[0]) | (values > bounds[1])
    return *bounds, beyond


def shortened(text: str, most: int = LENGTH) -> str:
    """Cut a label that is too long."""
    return text if len(text) <= most else text[: most - 1] + "…"


def format_number(value: Any, digits: int = 4) -> str:
    """Write a value for a reader: numbers short, anything else as it is."""
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

"""What `clean` hands back: the table, what was wrong in it, and what to make of it."""

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.table.model.calibration import probability


@dataclass(frozen=True)
class ColumnReport:
    """What a column was taken for, and what was found in it.

    Attributes
    ----------
    name : object
        Its label.
    role : str
        "numbers", "few values", "booleans": judged, or heard of others; "identifier",
        "constant", "empty", "text", "dates", "durations", "categories", "other", "set
        aside": carried through untouched.
    sentinels : tuple of float
        Codes for missing values, such as −999.
    missing, flagged : int
        Number of cells.
    explained : float
        Share of its variance that the other columns explain; NaN where it is not
        modelled.
    note : str
        What else there is to say, in a sentence; often empty.
    """

    name: Any
    role: str
    sentinels: tuple[float, ...] = ()
    missing: int = 0
    flagged: int = 0
    explained: float = np.nan
    note: str = ""


@dataclass(frozen=True, eq=False)
class CleanResult:
    """A clean table, and what was wrong in it.

    Attributes
    ----------
    table : same type as the input
        Flagged cells are replaced by what they should be. Missing cells, and flagged
        codes for missing values such as −999, are imputed only with ``fill=True``. All
        other cells are bit for bit those of the input.
    flagged : DataFrame
        One line a flagged cell, surest first: ``row`` and ``column`` (labels),
        ``value``, ``expected``, ``low`` and ``high`` (a 95% interval of what it should
        be), ``score`` (log odds by the model) and ``probability`` (calibrated).
    mask : DataFrame of bool
        The flagged cells; shape and labels of the table.
    rows : Index
        Labels of the rows that are wrong from end to end.
    row_numbers : int array
        Positions of these rows, from 0: labels may repeat.
    noise : Series
        For each column, in its unit, the spread of a clean cell around what the others
        say of it; NaN where it is not modelled.
    rank : int
        Number of directions in which columns go together more than by chance.
    columns : tuple of ColumnReport
        One for each column.
    caveats : tuple of str
        What to know before trusting the result, in sentences.
    fdr : float
        The false discovery rate that was asked for.
    original : same type as the input
        The table as it was given.
    cells : Cells
        Keeps or works out ``expected``, ``scores`` and ``probability``, which are of
        the table's size. Beyond two million cells they are worked out when they are
        first asked for, from the original.
    """

    table: Any = field(repr=False)
    flagged: Any
    mask: Any = field(repr=False)
    rows: Any
    row_numbers: Any = field(repr=False)
    noise: Any
    rank: int
    columns: tuple[ColumnReport, ...]
    caveats: tuple[str, ...]
    fdr: float
    original: Any = field(repr=False)
    cells: Any = field(repr=False)

    @property
    def expected(self) -> Any:
        """What each cell should be; NaN in columns that are not modelled."""
        return self.cells.frame("expected")

    @property
    def scores(self) -> Any:
        """Log odds of each cell to be wrong, by the model.

        NaN where it is missing, and −50 where it was not judged.
        """
        return self.cells.frame("score")

    @property
    def probability(self) -> Any:
        """Chance that each cell is wrong, calibrated; NaN where it is missing."""
        scores = self.scores
        return type(scores)(
            probability(scores.to_numpy()), index=scores.index, columns=scores.columns
        )

    def plot(self) -> Any:
        """Draw the map of cells: which were flagged, and how surely."""
        return _later("figures").cell_map(self)

    def report(self, path: str | Path) -> Any:
        """Write one self-contained HTML page: what was found, and how sure it is."""
        return _later("report").write_report(self, path)

    def _repr_html_(self) -> str:
        return str(_later("report").fragment(self))

    def __str__(self) -> str:
        return " ".join([summary(self), *self.caveats[:1]])

    __repr__ = __str__


def summary(cleaned: Any) -> str:
    """Return how many cells of a cleaned table are flagged, in a sentence or two."""
    rows, width = np.shape(cleaned.mask)
    flagged = int(np.asarray(cleaned.mask).sum())
    columns = int(np.asarray(cleaned.mask).any(axis=0).sum())
    if not flagged:
        sentence = f"None of the {rows:,}×{width} cells stands out"
    else:
        share = 100 * flagged / max(rows * sum(analysed(cleaned)), 1)
        sentence = (
            f"{flagged:,} {'cell is' if flagged == 1 else 'cells are'} flagged "
            f"({share:.2g}% of the columns looked into), in {columns} of {width} "
            f"{'column' if width == 1 else 'columns'}"
        )
    sentence += f", at a false discovery rate of {100 * cleaned.fdr:g}%."
    bad = len(cleaned.rows)
    if bad:
        sentence += (
            f" {bad:,} {'row is' if bad == 1 else 'rows are'} wrong from end to end."
        )
    return sentence


def analysed(cleaned: Any) -> list[bool]:
    """Return for each column whether its cells were compared with others."""
    noise = np.asarray(cleaned.noise, float)
    return [
        bool(np.isfinite(size)) or report.flagged > 0
        for size, report in zip(noise, cleaned.columns, strict=True)
    ]


def _later(room: str) -> Any:
    """Load what draws and writes, which stands below this room, when it is needed."""
    return import_module(f"discrepant.table.report.{room}")

"""Numbers as people write them: "12,5", "1 234.5", "n/a" among them."""

import math
import re
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from discrepant.linalg import Array

MISSING = frozenset(
    "|na|n/a|#n/a|<na>|nan|-nan|null|none|-|--|?|.|missing|unknown|n.a.".split("|")
)
# Share of the cells with something in them that must read as numbers. Below it, a
# column of words and codes would be taken for numbers with errors.
MOST = 0.8
_MARKS = {
    mark: re.compile(
        rf"[+-]?(\d{{1,3}}([{group} ]\d{{3}})+|\d+)?([{mark}]\d*)?([eE][+-]?\d+)?"
    )
    for mark, group in ((".", ","), (",", "."))
}
_CODE = re.compile(r"[+-]?0\d+")  # digits that name something: 00123
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d\d?[./]\d\d?[./]\d{4}.*")


@dataclass(frozen=True)
class Writing:
    """How a column of text writes its numbers."""

    mark: str = "."
    places: int = 0

    def write(self, value: float) -> str:
        """Write a number as the column does."""
        return f"{value:.{self.places}f}".replace(".", self.mark)


@dataclass(frozen=True, eq=False)
class Readout:
    """A column of anything, read as numbers where most cells are."""

    values: Array  # NaN: missing, or not to be read
    unreadable: Array  # bool
    writing: Writing
    numeric: bool
    dates: bool


def parse(text: str, mark: str) -> float | None:
    """Read a number; NaN stands for a word for missing, None for anything else."""
    text = text.strip().replace("\u00a0", " ").replace("\u202f", " ")
    text = text.replace("\u2212", "-")
    if text.lower() in MISSING:
        return math.nan
    for one in (mark, "," if mark == "." else "."):
        if _MARKS[one].fullmatch(text) and any(c.isdigit() for c in text):
            plain = text.replace(" ", "").replace("," if one == "." else ".", "")
            return float(plain.replace(one, "."))
    return None


def mark_of(texts: list[str]) -> str:
    """Say whether a column's decimals stand after a point or a comma."""
    counts = {
        mark: sum(bool(pattern.fullmatch(text.strip())) for text in texts)
        for mark, pattern in _MARKS.items()
    }
    return "," if counts[","] > counts["."] else "."


def read(cells: Array, missing: Array, told: Writing | None = None) -> Readout:
    """Read a column of objects.

    Parameters
    ----------
    cells : array of objects
    missing : bool array
        Cells that hold nothing.
    told : Writing, optional
        How the column writes its numbers, where it was read before; it is then read
        as numbers whatever share of it can be.
    """
    texts = {cell for cell, gone in zip(cells, missing, strict=True)
             if not gone and isinstance(cell, str)}  # fmt: skip
    writing = told or _writing(sorted(texts))
    known = {text: parse(text, writing.mark) for text in texts}
    values = np.full(len(cells), np.nan)
    unreadable = np.zeros(len(cells), bool)
    codes = dates = 0
    for i, cell in enumerate(cells):
        if missing[i]:
            continue
        found = known[cell] if isinstance(cell, str) else _number(cell)
        if found is None:
            unreadable[i] = True
            dates += not isinstance(cell, str) and hasattr(cell, "year")
            dates += isinstance(cell, str) and bool(_DATE.fullmatch(cell.strip()))
        else:
            values[i] = found
            codes += isinstance(cell, str) and bool(_CODE.fullmatch(cell.strip()))
    readable = int(np.isfinite(values).sum())
    held = readable + int(unreadable.sum())
    numeric = told is not None or (
        readable > 0 and readable >= MOST * held and 2 * codes < readable
    )
    return Readout(values, unreadable, writing, numeric, 2 * dates > max(held, 1))


def _writing(texts: list[str]) -> Writing:
    mark = mark_of(texts)
    places = 0
    for text in texts:
        if _MARKS[mark].fullmatch(text.strip()) and mark in text:
            places = max(places, len(re.split("[eE]", text.strip())[0].split(mark)[1]))
    return Writing(mark, min(places, 15))


def _number(cell: Any) -> float | None:
    if isinstance(cell, Real | np.bool_) or type(cell).__name__ == "Decimal":
        try:
            return float(cell)
        except (OverflowError, ValueError):
            return None
    return None

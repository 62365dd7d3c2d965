"""Numbers as people write them: "12,5", "1 234.5", "$5.00", "70 kg", and "n/a"."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection
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
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d\d?[./]\d\d?[./]\d{4}.*")


# What stands around a number: a currency before it, a unit after it.
_PARTS = re.compile(
    r"\(?[+-]?(?P<before>[^\d\s.,()+-]{0,4} ?)[+-]?"
    r"(?P<number>[.,]?\d([\d., ]*\d)?[.,]?([eE][+-]?\d+)?)"
    r"(?P<after>( ?[^\d\s.,;:_#@&=+()-][^\d,;:_#@&=+()-]{0,11}[23]?)?)\)?"
)
_CURRENCIES = frozenset(
    "AUD BRL CAD CHF CNY CZK DKK EUR GBP HUF INR JPY KRW MXN NOK NZD PLN SEK SGD TRY "
    "USD ZAR".split()
)
# Share of a column's texts that must have the same unit. Where two are mixed (kg and
# lb, AM and PM) the rarer would be flagged for being what it is.
SAME_UNIT = 0.95
_CODE = re.compile(r"0\d+")  # digits that name something: 00123
_WIDE = (
    4  # digits of names that are all equally long, at least: hours and days have two
)


@dataclass(frozen=True)
class Writing:
    """How a column of text writes its numbers.

    Attributes
    ----------
    mark : {".", ","}
        What stands before the decimals.
    places : int
        How many decimals there are.
    before, after : str
        A currency, and a unit.
    group : str
        What stands between thousands.
    booked : bool
        Whether negative numbers stand in parentheses.
    """

    mark: str = "."
    places: int = 0
    before: str = ""
    after: str = ""
    group: str = ""
    booked: bool = False

    def read(self, text: str) -> float | None:
        """Read a number as `parse` does, with the column's unit or without one."""
        text = _tidy(text)
        booked = self.booked and text.startswith("(") and text.endswith(")")
        text = text[1:-1] if booked else text
        sign = text[:1] if text[:1] in ("+", "-") and self.before else ""
        number = text.removeprefix(sign).removesuffix(self.after.strip())
        found = parse(
            sign + number.removeprefix(self.before.strip()).strip(), self.mark
        )
        return -found if booked and found is not None else found

    def write(self, value: float) -> str:
        """Write a number as the column does."""
        text = f"{abs(value):,.{self.places}f}"
        signs = {",": self.group, ".": self.mark}
        text = self.before + "".join(signs.get(c, c) for c in text) + self.after
        if value >= 0 or not any(c in "123456789" for c in text):
            return text
        return f"({text})" if self.booked else f"-{text}"


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
    text = _tidy(text)
    if text.lower() in MISSING:
        return math.nan
    for one in (mark, "," if mark == "." else "."):
        if _MARKS[one].fullmatch(text) and any(c.isdigit() for c in text):
            plain = text.replace(" ", "").replace("," if one == "." else ".", "")
            return float(plain.replace(one, "."))
    return None


def _tidy(text: str) -> str:
    """Return a text with plain spaces and signs."""
    text = text.strip().replace("\u00a0", " ").replace("\u202f", " ")
    return text.replace("\u2212", "-")


def are_names(texts: Collection[str]) -> bool:
    """Say whether digits name something, as zip codes do, instead of counting it.

    Most begin with a zero, or some do and all are equally long.
    """
    codes = sum(bool(_CODE.fullmatch(text)) for text in texts)
    if 2 * codes > len(texts):
        return True
    lengths = Counter(len(text) for text in texts if text.isdecimal())
    if not codes or not lengths:
        return False
    length, count = lengths.most_common(1)[0]
    return length >= _WIDE and count == sum(lengths.values()) >= 0.98 * len(texts)


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
    known = {text: writing.read(text) for text in texts}
    values = np.full(len(cells), np.nan)
    unreadable = np.zeros(len(cells), bool)
    dates = 0
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
    readable = int(np.isfinite(values).sum())
    held = readable + int(unreadable.sum())
    numeric = told is not None or (
        readable > 0 and readable >= MOST * held and not are_names(texts)
    )
    return Readout(values, unreadable, writing, numeric, 2 * dates > max(held, 1))


def _writing(texts: list[str]) -> Writing:
    tidy = [_tidy(text) for text in texts]
    before, after = _around(tidy)
    found = [parts for parts in map(_PARTS.fullmatch, tidy) if parts]
    numbers = [parts["number"] for parts in found]
    mark = mark_of(numbers)
    places = 0
    for number in numbers:
        if _MARKS[mark].fullmatch(number) and mark in number:
            places = max(places, len(re.split("[eE]", number)[0].split(mark)[1]))
    grouped = Counter(_grouped(number, mark) for number in numbers)
    grouped.pop(None, None)
    group = grouped.most_common(1)[0][0] if grouped else None
    booked = any(text.startswith("(") and text.endswith(")") for text in tidy)
    return Writing(mark, min(places, 15), before, after, group or "", booked)


def _around(texts: list[str]) -> tuple[str, str]:
    """Return the currency before numbers and the unit after them that all share."""
    counts = Counter(
        (parts["before"], parts["after"])
        for parts in map(_PARTS.fullmatch, texts)
        if parts is not None
    )
    if not counts:
        return "", ""
    (before, after), count = counts.most_common(1)[0]
    held = sum(text.lower() not in MISSING for text in texts)
    if count < SAME_UNIT * held or not _is_currency(before.strip()):
        return "", ""
    return before, after


def _is_currency(text: str) -> bool:
    """Return whether a text is a currency, or nothing: others begin names (A12)."""
    signs = any(unicodedata.category(sign) == "Sc" for sign in text)
    return not text or signs or text.upper() in _CURRENCIES


def _grouped(number: str, mark: str) -> str | None:
    """Return what stands between thousands, None where there are none."""
    whole = re.split("[eE]", number)[0].split(mark)[0]
    if sum(c.isdigit() for c in whole) < 4:
        return None
    signs = [c for c in whole if not c.isdigit()]
    return signs[0] if signs else ""


def _number(cell: Any) -> float | None:
    if isinstance(cell, Real | np.bool_) or type(cell).__name__ == "Decimal":
        try:
            return float(cell)
        except (OverflowError, ValueError):
            return None
    return None

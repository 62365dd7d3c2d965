"""Numbers as people write them: "12,5", "1 234.5", "$5.00", "70 kg", and "n/a"."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from discrepant.core.linalg import Array

MISSING = frozenset(
    "|na|n/a|#n/a|<na>|nan|-nan|null|none|-|--|—|?|.|missing|unknown|n.a.".split("|")
)
# Share of the cells with something in them that must read as numbers. Below it, a
# column of words and codes would be taken for numbers with errors.
MOST = 0.8
# A thousand has no zero before it: the comma of 0,049 stands before decimals. There is
# a digit before any exponent: E26 is a name.
_MARKS = {
    mark: re.compile(
        r"[+-]?(?=[.,]?\d)"
        rf"([1-9]\d{{0,2}}(?P<group>[{group}' ])\d{{3}}((?P=group)\d{{3}})*|\d+)?"
        rf"([{mark}]\d*)?([eE][+-]?\d+)?"
    )
    for mark, group in ((".", ","), (",", "."))
}
_OTHER = {".": ",", ",": "."}
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d\d?[./]\d\d?[./]\d{4}.*")
# Thin spaces and those that do not break, minus, dash and apostrophe, each as a plain
# sign: places in a text stay what they are.
_PLAIN = str.maketrans("\u00a0\u202f\u2009\u2212\u2013\u2019", "   --'")
_MINUS = "-\u2212\u2013"
_SIDES = ("outer", "inner")  # of a currency

# What stands around a number: a currency before it, a unit after it.
_PARTS = re.compile(
    r"(?P<outer>[+(-]*)(?P<before>[^\d\s.,()+-]{0,4} ?)(?P<inner>[+(-]?)"
    r"(?P<number>[.,]?\d([\d., ']*\d)?[.,]?([eE][+-]?\d+)?)"
    r"(?P<after>( ?[^\d\s.,;:_#@&=+()-][^\d,;:_#@&=+()-]{0,11}[23]?)?)\)?"
)
_CURRENCIES = frozenset(
    "AUD BRL CAD CHF CNY CZK DKK EUR GBP HUF INR JPY KRW MXN NOK NZD PLN SEK SGD TRY "
    "USD ZAR".split()
)
# Share of a column's texts that must have the same unit. Where two are mixed (kg and
# lb, AM and PM) the rarer would be flagged for being what it is.
SAME_UNIT = 0.95
# Cells, and their share, from which another way of writing (<0.5, 12.3*, 5 lb) is a
# custom and no slip.
FEW, CUSTOM = 3, 0.01
_CODE = re.compile(r"0\d+")  # digits that name something: 00123
_WIDE = 4  # digits of names that are all equally long: hours and days have two


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
    minus : str
        What stands before them otherwise.
    inner : bool
        Whether parentheses and minus stand after the currency.
    form : {"f", "e", "E", "g", "G"}
        As in Python: decimals, powers of ten, or whichever is shorter.
    customs : frozenset of str
        Shapes of cells that are no such numbers, on purpose.
    """

    mark: str = "."
    places: int = 0
    before: str = ""
    after: str = ""
    group: str = ""
    booked: bool = False
    minus: str = "-"
    inner: bool = False
    form: str = "f"
    customs: frozenset[str] = frozenset()

    def read(self, text: str) -> float | None:
        """Read a number as `parse` does, with the column's unit or without one."""
        text = _tidy(text)
        booked = self.booked and "(" in text and text.endswith(")")
        if booked:
            text = text[:-1].replace("(", "", 1)
        before, after = _tidy(self.before), _tidy(self.after)
        sign = text[:1] if text[:1] in ("+", "-") and before else ""
        number = text.removeprefix(sign).removesuffix(after).removeprefix(before)
        found = parse(sign + number.strip(), self.mark)
        if not booked or found is None:
            return found
        return None if found < 0 else -found

    def write(self, value: float) -> str:
        """Write a number as the column does."""
        digits = format(abs(value), f",.{self.places}{self.form}")
        signs = {",": self.group, ".": self.mark}
        number = "".join(signs.get(c, c) for c in digits)
        below = value < 0 and any(c in "123456789" for c in digits)
        sign = ("(" if self.booked else self.minus) if below else ""
        first = (self.before, sign) if self.inner else (sign, self.before)
        return "".join([*first, number, self.after, ")" if sign == "(" else ""])


@dataclass(frozen=True, eq=False)
class Readout:
    """A column of anything, read as numbers where most cells are."""

    values: Array  # NaN: missing, or not to be read
    unreadable: Array  # bool
    foreign: Array  # bool: those among them that are so on purpose
    writing: Writing
    numeric: bool
    dates: bool


def parse(text: str, mark: str) -> float | None:
    """Read a number; NaN stands for a word for missing, None for anything else."""
    text = _tidy(text)
    if text.lower() in MISSING:
        return math.nan
    for one, other in ((mark, _OTHER[mark]), (_OTHER[mark], mark)):
        if _MARKS[one].fullmatch(text):
            found = float(
                "".join(c for c in text if c not in f" '{other}").replace(one, ".")
            )
            return found if math.isfinite(found) else None
    return None


def _tidy(text: str) -> str:
    """Return a text with plain spaces and signs."""
    return text.strip().translate(_PLAIN)


def _shape(text: str) -> str:
    """Return how a text with digits is written, whatever they are."""
    shape = re.sub(r"\d+", "0", _tidy(text))
    return shape if "0" in shape else ""


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
    shapes = [
        _shape(cell) if bad and isinstance(cell, str) else ""
        for cell, bad in zip(cells, unreadable, strict=True)
    ]
    if told is None:
        least = max(FEW, CUSTOM * held)
        common = {s for s, count in Counter(shapes).items() if s and count >= least}
        writing = replace(writing, customs=frozenset(common))
    foreign = np.array([shape in writing.customs for shape in shapes], bool)
    often = 2 * dates > max(held, 1)
    return Readout(values, unreadable, foreign, writing, numeric, often)


def _writing(texts: list[str]) -> Writing:
    """Learn how a column writes its numbers."""
    found = [
        (parts, text.strip())
        for text in texts
        if (parts := _PARTS.fullmatch(_tidy(text))) is not None
    ]
    held = sum(_tidy(text).lower() not in MISSING for text in texts)
    before, after = _around(found, held)
    numbers = [parts["number"] for parts, _ in found]
    mark = mark_of(numbers)
    form, places = _digits([n for n in numbers if _MARKS[mark].fullmatch(n)], mark)
    groups = [_grouped(text[slice(*p.span("number"))], mark) for p, text in found]
    signs = [c for p, text in found for c in text[: p.start("number")] if c in _MINUS]
    outer, inner = (Counter(p[name][:1] for p, _ in found) for name in _SIDES)
    return Writing(
        mark,
        min(places, 15),
        before,
        after,
        group=_most([group for group in groups if group is not None], ""),
        booked="(" in outer or "(" in inner,
        minus=_most(signs, "-"),
        inner=inner["("] + inner["-"] > outer["("] + outer["-"],
        form=form,
    )


def _most(found: list[str], otherwise: str) -> str:
    """Return what is found most often."""
    return Counter(found).most_common(1)[0][0] if found else otherwise


def _digits(numbers: list[str], mark: str) -> tuple[str, int]:
    """Return the form of numbers, and how many digits it is to have."""
    halves = [re.split("([eE])", number) for number in numbers]
    powers = [half for half in halves if len(half) > 1]
    plain = [half for half in halves if len(half) == 1]
    often = len(powers) > len(plain)
    if not often and len(powers) <= (1 - SAME_UNIT) * len(halves):
        return "f", max((len(n.partition(mark)[2]) for (n,) in plain), default=0)
    letter = powers[0][1]
    if often:
        return letter, max(len(half[0].partition(mark)[2]) for half in powers)
    digits = (sum(c.isdigit() for c in half[0].lstrip("0.,")) for half in halves)
    return {"e": "g", "E": "G"}[letter], max(*digits, 1)


def _around(found: list[tuple[re.Match[str], str]], held: int) -> tuple[str, str]:
    """Return the currency before numbers and the unit after them that all share."""
    pairs = [(parts["before"], parts["after"]) for parts, _ in found]
    if not pairs:
        return "", ""
    pair, count = Counter(pairs).most_common(1)[0]
    if count < SAME_UNIT * held or not _is_currency(pair[0].strip()):
        return "", ""
    same = [one for one, other in zip(found, pairs, strict=True) if other == pair]
    before, after = (
        _most([text[slice(*parts.span(name))] for parts, text in same], "")
        for name in ("before", "after")
    )
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

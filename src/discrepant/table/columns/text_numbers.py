"""Parse and format numbers written as text: "12,5", "1 234.5", "$5.00", "70 kg"."""

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

# Words for a missing value, in lower case.
MISSING_WORDS = frozenset(
    "|na|n/a|#n/a|<na>|nan|-nan|null|none|-|--|—|?|.|missing|unknown|n.a.".split("|")
)
# Fraction of the cells that are not missing which must parse as numbers. Below it, a
# column of words and codes would be taken for numbers with errors.
MIN_NUMERIC_FRACTION = 0.8
# Fraction of a column's texts that must have the same unit. Where two units are mixed
# (kg and lb, AM and PM) the rarer would otherwise be flagged.
SAME_UNIT_FRACTION = 0.95
# Number of cells from which another notation (<0.5, 12.3*, 5 lb) is intended.
MIN_PATTERN_CELLS = 3
# The same as a fraction of the cells.
MIN_PATTERN_FRACTION = 0.01
# Digits of codes that are all equally long: hours and days have two.
MIN_CODE_DIGITS = 4

# A group of thousands has no zero before it: the comma of 0,049 is a decimal mark.
# There is a digit before any exponent: E26 is a name.
_NUMBER_PATTERNS = {
    mark: re.compile(
        r"[+-]?(?=[.,]?\d)"
        rf"([1-9]\d{{0,2}}(?P<group>[{group}' ])\d{{3}}((?P=group)\d{{3}})*|\d+)?"
        rf"([{mark}]\d*)?([eE][+-]?\d+)?"
    )
    for mark, group in ((".", ","), (",", "."))
}
_OTHER_MARK = {".": ",", ",": "."}
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d\d?[./]\d\d?[./]\d{4}.*")
# Thin and non-breaking spaces, minus, dash and apostrophe, each as its ASCII character:
# positions in a text do not change.
_ASCII = str.maketrans("\u00a0\u202f\u2009\u2212\u2013\u2019", "   --'")
_MINUS_SIGNS = "-\u2212\u2013"

# A number with its sign and currency before it and its unit after it.
_PARTS = re.compile(
    r"[+-]?(?P<before>[^\d\s.,()+-]{0,4} ?)[+-]?"
    r"(?P<number>[.,]?\d([\d., ']*\d)?[.,]?([eE][+-]?\d+)?)"
    r"(?P<after>( ?[^\d\s.,;:_#@&=+()-][^\d,;:_#@&=+()-]{0,11}[23]?)?)"
)
_CURRENCIES = frozenset(
    "AUD BRL CAD CHF CNY CZK DKK EUR GBP HUF INR JPY KRW MXN NOK NZD PLN SEK SGD TRY "
    "USD ZAR".split()
)
_LEADING_ZERO = re.compile(r"0\d+")  # as in codes: 00123


@dataclass(frozen=True)
class NumberFormat:
    """The notation of the numbers in a column of text.

    Attributes
    ----------
    decimal_mark : {".", ","}
        The character before the decimals.
    decimals : int
        Number of decimals.
    prefix, suffix : str
        A currency, and a unit.
    thousands_mark : str
        The character between thousands.
    minus_sign : str
        The sign of negative numbers.
    format_code : {"f", "e", "E", "g", "G"}
        As in Python: decimals, powers of ten, or the shorter of the two.
    tolerated_patterns : frozenset of str
        Patterns of other notations that are intended (<0.5).
    """

    decimal_mark: str = "."
    decimals: int = 0
    prefix: str = ""
    suffix: str = ""
    thousands_mark: str = ""
    minus_sign: str = "-"
    format_code: str = "f"
    tolerated_patterns: frozenset[str] = frozenset()

    @classmethod
    def learn(cls, texts: list[str]) -> "NumberFormat":
        """Return the notation of a column's numbers."""
        matches = [
            (parts, text.strip())
            for text in texts
            if (parts := _PARTS.fullmatch(_normalise(text))) is not None
        ]
        not_missing = sum(
            _normalise(text).lower() not in MISSING_WORDS for text in texts
        )
        prefix, suffix = _common_unit(matches, not_missing)
        numbers = [parts["number"] for parts, _ in matches]
        mark = detect_decimal_mark(numbers)
        format_code, decimals = _detect_digits(
            [n for n in numbers if _NUMBER_PATTERNS[mark].fullmatch(n)], mark
        )
        thousands = [
            _thousands_mark(text[slice(*parts.span("number"))], mark)
            for parts, text in matches
        ]
        signs = [
            c
            for parts, text in matches
            for c in text[: parts.start("number")]
            if c in _MINUS_SIGNS
        ]
        return cls(
            mark,
            min(decimals, 15),
            prefix,
            suffix,
            thousands_mark=_most_common([m for m in thousands if m is not None], ""),
            minus_sign=_most_common(signs, "-"),
            format_code=format_code,
        )

    def parse(self, text: str) -> float | None:
        """Parse a number as `parse_number` does, with or without the column's unit."""
        text = _normalise(text)
        prefix, suffix = _normalise(self.prefix), _normalise(self.suffix)
        sign = text[:1] if text[:1] in ("+", "-") and prefix else ""
        number = text.removeprefix(sign).removesuffix(suffix).removeprefix(prefix)
        return parse_number(sign + number.strip(), self.decimal_mark)

    def format(self, value: float) -> str:
        """Return a number in the notation of the column."""
        digits = format(abs(value), f",.{self.decimals}{self.format_code}")
        marks = {",": self.thousands_mark, ".": self.decimal_mark}
        number = "".join(marks.get(c, c) for c in digits)
        negative = value < 0 and any(c in "123456789" for c in digits)
        sign = self.minus_sign if negative else ""
        return f"{sign}{self.prefix}{number}{self.suffix}"


@dataclass(frozen=True, eq=False)
class ParsedColumn:
    """The numbers of a column of arbitrary objects.

    Attributes
    ----------
    values : array
        NaN where a cell is missing or does not parse.
    unparsed : bool array
        Cells that do not parse.
    other_notation : bool array
        Those of them whose notation is intended.
    number_format : NumberFormat
    is_numeric, has_dates : bool
        Whether most cells are numbers, and whether most are dates.
    """

    values: Array
    unparsed: Array
    other_notation: Array
    number_format: NumberFormat
    is_numeric: bool
    has_dates: bool


def parse_number(text: str, decimal_mark: str) -> float | None:
    """Parse a number; NaN for a word for missing, None for any other text."""
    text = _normalise(text)
    if text.lower() in MISSING_WORDS:
        return math.nan
    other_mark = _OTHER_MARK[decimal_mark]
    for mark, other in ((decimal_mark, other_mark), (other_mark, decimal_mark)):
        if _NUMBER_PATTERNS[mark].fullmatch(text):
            value = float(
                "".join(c for c in text if c not in f" '{other}").replace(mark, ".")
            )
            return value if math.isfinite(value) else None
    return None


def decimal_marks(text: str) -> set[str]:
    """Return the decimal marks, "." and ",", with which a text is a number."""
    return {m for m, pattern in _NUMBER_PATTERNS.items() if pattern.fullmatch(text)}


def is_date(text: str) -> bool:
    """Return whether a text is a date in figures: 2024-01-31, 31.1.2024."""
    return bool(_DATE.fullmatch(text.strip()))


def _normalise(text: str) -> str:
    """Return a text with ASCII spaces and signs."""
    return text.strip().translate(_ASCII)


def _pattern(text: str) -> str:
    """Return the notation of a text with digits: "<0" for "<0.5" and "<12"."""
    pattern = re.sub(r"\d+", "0", _normalise(text))
    return pattern if "0" in pattern else ""


def is_code_column(texts: Collection[str]) -> bool:
    """Return whether digits are codes, such as postcodes, instead of numbers.

    Most begin with a zero, or some do and all are equally long.
    """
    codes = sum(bool(_LEADING_ZERO.fullmatch(text)) for text in texts)
    if 2 * codes > len(texts):
        return True
    lengths = Counter(len(text) for text in texts if text.isdecimal())
    if not codes or not lengths:
        return False
    length, count = lengths.most_common(1)[0]
    same = count == sum(lengths.values()) >= 0.98 * len(texts)
    return length >= MIN_CODE_DIGITS and same


def detect_decimal_mark(texts: list[str]) -> str:
    """Return the decimal mark, "." or ",", that more texts of a column agree with."""
    counts = {
        mark: sum(bool(pattern.fullmatch(text.strip())) for text in texts)
        for mark, pattern in _NUMBER_PATTERNS.items()
    }
    return "," if counts[","] > counts["."] else "."


def parse_column(
    cells: Array, missing: Array, known_format: NumberFormat | None = None
) -> ParsedColumn:
    """Parse a column of objects as numbers.

    Parameters
    ----------
    cells : array of objects
    missing : bool array
        Cells that hold nothing.
    known_format : NumberFormat, optional
        The notation, where the column was parsed before; it is then numeric whatever
        fraction of the cells parses.
    """
    texts = {cell for cell, gone in zip(cells, missing, strict=True)
             if not gone and isinstance(cell, str)}  # fmt: skip
    number_format = known_format or NumberFormat.learn(sorted(texts))
    parsed = {text: number_format.parse(text) for text in texts}
    values = np.full(len(cells), np.nan)
    unparsed = np.zeros(len(cells), bool)
    dates = 0
    for i, cell in enumerate(cells):
        if missing[i]:
            continue
        value = parsed[cell] if isinstance(cell, str) else _as_float(cell)
        if value is None:
            unparsed[i] = True
            dates += not isinstance(cell, str) and hasattr(cell, "year")
            dates += isinstance(cell, str) and is_date(cell)
        else:
            values[i] = value
    numeric = int(np.isfinite(values).sum())
    not_missing = numeric + int(unparsed.sum())
    is_numeric = known_format is not None or (
        numeric > 0
        and numeric >= MIN_NUMERIC_FRACTION * not_missing
        and not is_code_column(texts)
    )
    patterns = [
        _pattern(cell) if bad and isinstance(cell, str) else ""
        for cell, bad in zip(cells, unparsed, strict=True)
    ]
    if known_format is None:
        least = max(MIN_PATTERN_CELLS, MIN_PATTERN_FRACTION * not_missing)
        counts = Counter(patterns)
        common = {p for p, count in counts.items() if p and count >= least}
        number_format = replace(number_format, tolerated_patterns=frozenset(common))
    tolerated = number_format.tolerated_patterns
    other_notation = np.array([pattern in tolerated for pattern in patterns], bool)
    has_dates = 2 * dates > max(not_missing, 1)
    return ParsedColumn(
        values, unparsed, other_notation, number_format, is_numeric, has_dates
    )


def _most_common(texts: list[str], default: str) -> str:
    return Counter(texts).most_common(1)[0][0] if texts else default


def _detect_digits(numbers: list[str], mark: str) -> tuple[str, int]:
    """Return the format code of numbers, and the number of digits that it needs."""
    halves = [re.split("([eE])", number) for number in numbers]
    powers = [half for half in halves if len(half) > 1]
    plain = [half for half in halves if len(half) == 1]
    mostly_powers = len(powers) > len(plain)
    if not mostly_powers and len(powers) <= (1 - SAME_UNIT_FRACTION) * len(halves):
        return "f", max((len(n.partition(mark)[2]) for (n,) in plain), default=0)
    letter = powers[0][1]
    if mostly_powers:
        return letter, max(len(half[0].partition(mark)[2]) for half in powers)
    digits = (sum(c.isdigit() for c in half[0].lstrip("0.,")) for half in halves)
    return {"e": "g", "E": "G"}[letter], max(*digits, 1)


def _common_unit(
    matches: list[tuple[re.Match[str], str]], not_missing: int
) -> tuple[str, str]:
    """Return the currency before and the unit after the numbers of a column."""
    pairs = [(parts["before"], parts["after"]) for parts, _ in matches]
    if not pairs:
        return "", ""
    pair, count = Counter(pairs).most_common(1)[0]
    if count < SAME_UNIT_FRACTION * not_missing or not _is_currency(pair[0].strip()):
        return "", ""
    same = [match for match, other in zip(matches, pairs, strict=True) if other == pair]
    prefix, suffix = (
        _most_common([text[slice(*parts.span(name))] for parts, text in same], "")
        for name in ("before", "after")
    )
    return prefix, suffix


def _is_currency(text: str) -> bool:
    """Return whether a text is a currency, or empty: others begin names (A12)."""
    signs = any(unicodedata.category(sign) == "Sc" for sign in text)
    return not text or signs or text.upper() in _CURRENCIES


def _thousands_mark(number: str, mark: str) -> str | None:
    """Return the character between thousands, None for numbers below 1000."""
    whole = re.split("[eE]", number)[0].split(mark)[0]
    if sum(c.isdigit() for c in whole) < 4:
        return None
    marks = [c for c in whole if not c.isdigit()]
    return marks[0] if marks else ""


def _as_float(cell: Any) -> float | None:
    if isinstance(cell, Real | np.bool_) or type(cell).__name__ == "Decimal":
        try:
            return float(cell)
        except (OverflowError, ValueError):
            return None
    return None

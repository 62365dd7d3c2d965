"""Detect the dialect of a CSV file: separator, decimal mark, header and index."""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import TextIO

from discrepant.core.errors import InputError
from discrepant.core.validation import check_choice

# Characters beyond which a line cannot be one of a table.
LONGEST_LINE = 1 << 26
# Lines that the dialect is detected from.
PREVIEW_LINES = 20

# Words for a missing value, in lower case, and all spellings of them.
_WORDS = ("na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none")
MISSING_WORDS = ["", "NaN", "-NaN", *_WORDS, *map(str.upper, _WORDS), "Null", "None"]


@dataclass(frozen=True)
class CsvDialect:
    """The dialect of a CSV file, detected from its first lines.

    ``first`` holds the cells of the first line, ``before`` counts the blank lines
    above it, and ``width`` is the number of cells of the longest line in the preview.
    With ``grouped``, commas separate thousands.
    """

    separator: str
    decimal: str
    header: bool
    index: bool
    first: list[str]
    before: int
    width: int
    encoding: str = "utf-8-sig"
    grouped: bool = False

    def labels(self, path: Path, width: int) -> list[str]:
        """Return the label of each column, the index too; numbers without a header."""
        if not self.header:
            return [str(number) for number in range(1, width + 1)]
        first = self.first
        if len(first) == width - 1 and self.index:
            first = ["", *first]  # as R writes it: without a cell above the row labels
        if len(first) != width:
            raise InputError(
                f"{path.name} has {len(first)} labels in its first line but {width} "
                "columns below."
            )
        return first


def detect_dialect(
    path: Path,
    suffix: str,
    header: bool | None,
    index: bool | None,
    *,
    allow_text: bool = False,
    encoding: str = "utf-8-sig",
    decimal: str | None = None,
) -> CsvDialect:
    """Detect the dialect of a text file.

    Parameters
    ----------
    path, suffix
        The file and its suffix.
    header, index : bool, optional
        Whether the first line and column hold labels; by default detected.
    allow_text : bool
        Whether columns of text are part of the table. If so, a first column of text
        holds labels only if the cell above it is empty.
    encoding : str
        The encoding of the file.
    decimal : {".", ","}, optional
        The decimal mark; by default detected.
    """
    if decimal is not None:
        check_choice("decimal", decimal, (".", ","))
    with path.open(encoding=encoding, newline="") as file:
        raw = [line for line in (_line(file, path) for _ in range(30)) if line]
        head = [line for line in raw if line.strip()][:PREVIEW_LINES]
        if not head:
            raise InputError(f"{path.name} is empty.")
        separator = _separator(head[0], suffix)
        lines = list(csv.reader(head, delimiter=separator, skipinitialspace=allow_text))
        if all(len(line) == 1 for line in lines) and len(head[-1].split()) > 1:
            raise InputError(
                f"{path.name} has no commas, semicolons, tabs or bars between its "
                "cells; save it with one of them."
            )
        mark, grouped = decimal or ".", False
        if separator != ",":
            later = (line.rstrip("\r\n").split(separator) for line in file)
            mark, grouped = _marks(chain(lines, later), decimal, path)
    first, body = lines[0], lines[1:]
    corner_labels = _has_corner(first, body, mark)
    numeric_labels = not corner_labels and _has_numeric_labels(
        first, body, mark, path, header
    )
    if header is None:
        header = (
            corner_labels
            or numeric_labels
            or (
                _is_header(first, body, mark, path)
                if allow_text
                else any(not is_number(cell, mark) for cell in first[1:] or first)
            )
        )
    if index is None:
        below = [line[0] for line in lines[header:]]
        words = sum(not is_number(cell, mark) for cell in below)
        texts = not allow_text and 2 * words >= max(len(below), 1)
        index = (
            header and (corner_labels or (numeric_labels and not allow_text))
        ) or texts
    if len(lines) <= header:
        raise InputError(f"{path.name} holds no rows below its labels.")
    return CsvDialect(
        separator,
        mark,
        header,
        index,
        first,
        raw.index(head[0]),
        max(map(len, lines)),
        encoding,
        grouped,
    )


def is_number(cell: str, decimal: str) -> bool:
    """Return whether a cell is a number or a word for a missing one."""
    text = cell.strip()
    if text.lower() in {"", *_WORDS} or (decimal == "." and _GROUPED.fullmatch(text)):
        return True
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return True


def split_record(record: str, separator: str) -> list[str]:
    """Split a record into its cells, with their quotes and spaces."""
    if '"' not in record:
        return record.split(separator)
    ends, _ = separator_positions(record, separator, False)
    starts = [0, *(end + 1 for end in ends)]
    return [record[a:b] for a, b in zip(starts, [*ends, len(record)], strict=True)]


def separator_positions(
    line: str, separator: str, quoted: bool
) -> tuple[list[int], bool]:
    """Return the positions of separators in a line, and whether a quote stays open.

    ``quoted``: the line begins inside a quoted cell. A quote opens only at the start of
    a cell, after spaces.
    """
    ends: list[int] = []
    place = 0
    while True:
        if not quoted:
            while line[place : place + 1] == " ":
                place += 1
            if line[place : place + 1] == '"':
                quoted, place = True, place + 1
        while quoted:
            place = line.find('"', place)
            if place < 0:
                return ends, True
            quoted = (
                line[place + 1 : place + 2] == '"'
            )  # two quotes are one of the text
            place += 2 if quoted else 1
        place = line.find(separator, place)
        if place < 0:
            return ends, False
        ends.append(place)
        place += 1


def _separator(line: str, suffix: str) -> str:
    if suffix == ".tsv":
        return "\t"

    def cells(mark: str) -> int:  # csv.reader refuses a long line that has no mark
        return len(split_record(line, mark))

    return max(",;\t|", key=cells)  # on a tie the comma, which comes first


def _line(file: TextIO, path: Path) -> str:
    line = file.readline(LONGEST_LINE)
    if len(line) == LONGEST_LINE:
        raise InputError(f"{path.name} has a line too long for a table.")
    return line


# A comma that is a decimal mark for certain: not three digits after it, or no thousands
# before it.
_DECIMAL = re.compile(r"[+-]?(\d*,(\d{1,2}|\d{4,})|0\d*,\d+|\d{4,},\d+|\d*,\d+[eE].*)")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_WHOLE = re.compile(r"-?\d+")
_POINT = re.compile(r"[+-]?\d*\.(\d{1,2}|\d{4,})([eE][+-]?\d+)?")


def _marks(
    lines: Iterable[list[str]], decimal: str | None, path: Path
) -> tuple[str, bool]:
    """Distinguish decimal commas from thousands separators; 1,234 may be either.

    Returns the decimal mark, and whether commas separate thousands.
    """
    ambiguous = ""
    for cell in (cell.strip(' "') for line in lines for cell in line):
        if "," in cell and _DECIMAL.fullmatch(cell):
            return decimal or ",", False
        if _GROUPED.fullmatch(cell):
            if decimal == ",":
                return decimal, False
            if decimal == "." or "." in cell or cell.count(",") > 1:
                return ".", True
            ambiguous = ambiguous or cell
        elif ambiguous and _POINT.fullmatch(cell):
            return ".", True
    if ambiguous:
        plain = ambiguous.replace(",", "")
        raise InputError(
            f"{path.name} holds {ambiguous}, which may be "
            f"{ambiguous.replace(',', '.')} or {plain}; choose with decimal=: a comma, "
            "or a point."
        )
    return decimal or ".", False


def has_header(
    first: list[str], body: list[list[str]], decimal: str, path: Path
) -> bool:
    """Return whether the first line holds labels; columns may be of any type."""
    return (
        _has_corner(first, body, decimal)
        or _has_numeric_labels(first, body, decimal, path, None)
        or _is_header(first, body, decimal, path)
    )


def _is_header(
    first: list[str], body: list[list[str]], decimal: str, path: Path
) -> bool:
    """Return whether the first line holds labels, where columns may be of text.

    It does if it has a word above numbers, or words alone of which none recurs below,
    or if it has numbers as labels (see `_is_row_of_labels`).
    """
    words = [not is_number(cell, decimal) for cell in first]
    columns = [
        [line[place].strip() for line in body if len(line) > place]
        for place in range(len(first))
    ]
    for word, below in zip(words, columns, strict=True):
        numbers = sum(bool(cell) and is_number(cell, decimal) for cell in below)
        if word and numbers > len(below) / 2:
            return True
    if all(words):
        return not {cell for line in body for cell in line} & set(first)
    return _is_row_of_labels([cell.strip() for cell in first], columns, decimal, path)


def _is_row_of_labels(
    first: list[str], columns: list[list[str]], decimal: str, path: Path
) -> bool:
    """Return whether numbers of the first line are labels, such as years.

    Labels are whole numbers that all differ, and the words beside them do not recur
    below. They only grow or only fall, as hardly any row below does, in equal steps or
    outside the range of their columns; or the words are written unlike those below.
    Raises `InputError` where all numbers are out of range and nothing else decides.
    """
    texts = [
        2 * sum(not is_number(cell, decimal) for cell in below) > len(below)
        for below in columns
    ]
    if texts[0] and sum(texts) == 1:
        return False  # `_has_numeric_labels` has decided
    labels = [cell for cell, text in zip(first, texts, strict=True) if not text]
    if len(set(labels)) < len(labels) or not all(map(_WHOLE.fullmatch, labels)):
        return False
    words = [
        (cell, below)
        for cell, below, text in zip(first, columns, texts, strict=True)
        if text and cell
    ]
    if any(word in below for word, below in words):
        return False
    numbers = [below for below, text in zip(columns, texts, strict=True) if not text]
    rows = [_is_monotone(list(row), decimal) for row in zip(*numbers, strict=False)]
    outside = not any(map(_is_within, labels, numbers, [decimal] * len(labels)))
    if len(labels) > 2 and _is_monotone(labels, decimal) and 2 * sum(rows) <= len(rows):
        steps = {int(b) - int(a) for a, b in pairwise(labels)}
        if len(steps) == 1 or (words and outside):
            return True
    if words and all(
        2 * [_pattern(cell) for cell in below].count(_pattern(word)) < len(below)
        for word, below in words
    ):
        return True
    if words and outside:
        raise InputError(
            f"The first line of {path.name} ({', '.join(first[:3])}, …) may hold "
            "labels or values; choose with header=True or header=False."
        )
    return False


def _is_within(label: str, below: list[str], decimal: str) -> bool:
    """Return whether a number lies within the range of those of a column."""
    values = [
        float(cell.replace(decimal, "."))
        for cell in below
        if _is_value(cell, decimal) and cell and not _GROUPED.fullmatch(cell)
    ]
    return bool(values) and min(values) <= int(label) <= max(values)


def _has_numeric_labels(
    first: list[str],
    body: list[list[str]],
    decimal: str,
    path: Path,
    header: bool | None,
) -> bool:
    """Return whether the first line holds numbers as labels, by its first cell.

    The numbers all differ, none is missing, and the first cell is a word unlike those
    below it; or it is empty and there are words below. Where the first cell is written
    as those below it, the first line may be a row like any other: raises `InputError`
    if the numbers do not decide either.
    """
    corner, names = first[0].strip(), [cell.strip() for cell in first[1:]]
    below = [line[0].strip() for line in body if line]
    if not names or not below or header is not None or len(set(names)) < len(names):
        return False
    if not all(name and _is_value(name, decimal) for name in names):
        return False
    words = 2 * sum(not is_number(cell, decimal) for cell in below) >= len(below)
    if not corner:
        return words and all(below)
    if is_number(corner, decimal):
        return False
    shapes = [_pattern(cell) for cell in below]
    if not words or 2 * shapes.count(_pattern(corner)) < len(shapes):
        return True
    if len(names) == 1 or any(sign.isdigit() for sign in corner):  # r1 above r2
        return False
    rising = _is_monotone(names, decimal)
    rows = [_is_monotone([cell.strip() for cell in line[1:]], decimal) for line in body]
    if len(names) < 3 or rising == (2 * sum(rows) > len(rows)):
        raise InputError(
            f"The first line of {path.name} ({corner}, {names[0]}, …) may hold labels "
            "or values; choose with header=True or header=False."
        )
    return rising


def _is_value(cell: str, decimal: str) -> bool:
    return is_number(cell, decimal) and cell.lower() not in _WORDS


def _pattern(cell: str) -> str:
    """Return the pattern of a word: Aa for Spain, a9 for s12."""
    cell = re.sub(r"[^\W\d_]", lambda m: "A" if m[0].isupper() else "a", cell)
    return re.sub(r"(.)\1+", r"\1", re.sub(r"\d", "9", cell))


def _is_monotone(cells: list[str], decimal: str) -> bool:
    """Return whether numbers are strictly increasing or decreasing."""
    try:
        numbers = [float(cell.replace(decimal, ".")) for cell in cells]
    except ValueError:
        return False
    steps = [after - before for before, after in pairwise(numbers)]
    return all(step > 0 for step in steps) or all(step < 0 for step in steps)


def _has_corner(first: list[str], body: list[list[str]], decimal: str) -> bool:
    """Return whether the first line and column hold labels, by the first cell.

    It is empty and the column below is not, or (as R writes it) the first line is one
    cell short. Labels may be whole numbers, such as years, but all differ.
    """
    if body and all(len(line) == len(first) + 1 for line in body):
        return not all(is_number(cell, decimal) for cell in first)
    names = [cell.strip() for cell in first[1:]]
    return (
        bool(names and body)
        and not first[0].strip()
        and all(line[0].strip() for line in body)
        and all(
            re.fullmatch(r"-?\d+", name) or not is_number(name, decimal)
            for name in names
        )
        and (len(set(names)) == len(names) or any(not n.isdigit() for n in names))
    )

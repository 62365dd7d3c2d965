"""Read CSV files, and write them back with some of their cells changed."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.memory import check_memory
from discrepant.core.progress import Report, StoppedError
from discrepant.core.validation import check_choice
from discrepant.table.columns.text_numbers import (
    MISSING_WORDS,
    NumberFormat,
    decimal_marks,
    is_code_column,
    is_date,
    parse_number,
)

# Characters of a line beyond which a file is no table.
MAX_LINE = 1 << 20
# Lines, blank ones aside, from which separator, header and index are detected.
PREVIEW_LINES = 20
# Rows from which the notation of a column is detected.
NOTATION_ROWS = 5000
# Whole numbers that may be years.
YEARS = range(1000, 3000)

Changes = Mapping[int, Mapping[int, Any]]  # row → column → the new value


@dataclass(frozen=True)
class CsvDialect:
    """The notation of a CSV file.

    ``first`` holds the cells of the first line, ``before`` counts the blank lines
    above it, and ``width`` is the number of cells of the longest line in the preview.
    With ``grouped``, commas separate thousands. ``line_end`` ends a line.
    """

    separator: str
    decimal: str
    grouped: bool
    header: bool
    index: bool
    first: list[str]
    before: int
    width: int
    encoding: str
    line_end: str

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


def read_csv(
    path: Path,
    header: bool | None,
    index: bool | None,
    decimal: str | None,
    progress: Report | None,
) -> tuple[Any, CsvDialect]:
    """Return the table of a text file as a data frame, and its notation.

    Parameters
    ----------
    path : Path
    header, index : bool, optional
        Whether the first line and column hold labels; by default detected.
    decimal : {".", ","}, optional
        The decimal mark; by default detected.
    progress : callable, optional
        Receives ``(fraction, note)``.
    """
    import pandas as pd

    if decimal is not None:
        check_choice("decimal", decimal, (".", ","))
    dialect = _detect_dialect(path, header, index, decimal)
    with path.open("rb") as file:
        lines = sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 22), b""))
    check_memory(path, 16 * dialect.width * lines)
    labelled = int(dialect.index)
    missing: Any = _missing_words()
    if dialect.index:  # a label may well be "NA"
        missing = {i: missing for i in range(labelled, dialect.width)}
    notations = _preview(path, dialect, range(dialect.width))
    codes = [column for column, texts in notations.items() if is_code_column(texts)]
    report = progress or (lambda fraction, note: True)
    with path.open("rb") as file:
        reporting_file: Any = io.BufferedReader(
            _ReportingFile(file, path.stat().st_size, report), 1 << 20
        )
        try:
            frame = pd.read_csv(
                reporting_file,
                sep=dialect.separator,
                decimal=dialect.decimal,
                thousands="," if dialect.grouped else None,
                header=None,
                skiprows=dialect.before + 1 if dialect.header else 0,
                index_col=0 if dialect.index else None,
                dtype=dict.fromkeys([0] * labelled + codes, str),
                keep_default_na=False,
                na_values=missing,
                encoding=dialect.encoding,
                skipinitialspace=True,
                low_memory=False,
            )
        except pd.errors.ParserError as error:
            match = re.search(r"EOF inside string starting at row (\d+)", str(error))
            if match is None:
                raise
            above = (dialect.before + 1) * dialect.header
            raise _open_quote(path, int(match[1]) + 1 + above) from None
    frame.columns = dialect.labels(path, frame.shape[1] + labelled)[labelled:]
    if not dialect.index:
        frame.index = pd.RangeIndex(1, len(frame) + 1)
    frame.index.name = None
    return frame, dialect


def rewrite_csv(
    source: Path, target: Path, dialect: CsvDialect, changes: Changes
) -> None:
    """Copy a CSV file with new values in some cells; other cells keep their text.

    Quotes and blanks around cells are normalised.

    Parameters
    ----------
    source, target : Path
        The file, and the copy.
    dialect : CsvDialect
        Its notation.
    changes : mapping
        For each row (below the labels, from 0) and each column of the file (the row
        labels are one) the new value; None and NaN leave the cell empty. Numbers are
        written in the notation of their column.
    """
    columns = {column for row in changes.values() for column in row}
    texts = _preview(source, dialect, columns)
    formats = {column: NumberFormat.learn(sorted(t)) for column, t in texts.items()}
    left = len(changes)
    with (
        source.open(encoding=dialect.encoding, newline="") as file,
        target.open("w", encoding=dialect.encoding, newline="") as out,
    ):
        writer = csv.writer(
            out, delimiter=dialect.separator, lineterminator=dialect.line_end
        )
        for row, cells in _records(file, dialect):
            if row is not None and row in changes:
                for column, value in changes[row].items():
                    cells += [""] * (column + 1 - len(cells))  # a line may be short
                    number_format = formats.get(column, NumberFormat())
                    cells[column] = _text(value, number_format, texts[column])
                left -= 1
            writer.writerow(cells)
    if left:
        raise InputError(
            f"{source.name} changed while it was cleaned; its rows could not be "
            "located again."
        )


def has_header(first: list[str], body: list[list[str]], path: Path) -> bool:
    """Return whether the first line of a table holds labels.

    It does if it holds words and no number, or a word above numbers, or years above
    other numbers, or whole numbers beside an empty first cell. Words that recur below
    are values. Raises `InputError` where none of this decides.
    """
    kinds = [_kind(cell) for cell in first]
    columns = [[line[j] for line in body if len(line) > j] for j in range(len(first))]
    numeric = [2 * sum(_kind(c) == "number" for c in below) > len(below) > 0
               for below in columns]  # fmt: skip
    labels = [cell.strip() for cell, is_number in zip(first, numeric, strict=True)
              if is_number]  # fmt: skip
    if "number" not in kinds:
        return "word" in kinds
    if any(k == "word" and above for k, above in zip(kinds, numeric, strict=True)):
        return True
    if "date" in kinds:
        return False
    rest = [cell.strip() for cell in first[1:]]
    if not first[0].strip() and body and all(line[0].strip() for line in body):
        whole = not numeric[0] or all(cell.lstrip("-").isdecimal() for cell in rest)
        return all(rest) and len(set(rest)) == len(rest) and whole
    if len(labels) > 1 and _are_years(labels):
        years = [_are_years([line[j] for j, n in enumerate(numeric) if n and
                             len(line) > j]) for line in body]  # fmt: skip
        return not any(years)
    words = [j for j, kind in enumerate(kinds) if kind == "word"]
    if not words or any(first[j] in columns[j] for j in words):
        return False
    raise InputError(
        f"The first line of {path.name} ({', '.join(first[:3])}, …) may hold labels or "
        "values; choose with header=True or header=False."
    )


def _kind(cell: str) -> str:
    """Return whether a cell is a "number", a "date", "missing" or a "word"."""
    value = parse_number(cell, ".")
    if value is None:
        return "date" if is_date(cell) else "word"
    return "missing" if value != value else "number"


def _are_years(cells: list[str]) -> bool:
    """Return whether cells are years that only grow or only fall."""
    if not all(re.fullmatch(r"\s*\d{4}\s*", cell) for cell in cells):
        return False
    years = [int(cell) for cell in cells]
    steps = {(b > a) - (b < a) for a, b in pairwise(years)}
    return all(year in YEARS for year in years) and steps in ({1}, {-1})


def _detect_dialect(
    path: Path, header: bool | None, index: bool | None, decimal: str | None
) -> CsvDialect:
    encoding = _encoding(path)
    with path.open(encoding=encoding, newline="") as file:
        raw = [line for line in (_line(file, path) for _ in range(30)) if line]
        head = [line for line in raw if line.strip()][:PREVIEW_LINES]
        if not head:
            raise InputError(f"{path.name} is empty.")
        separator = _separator(head[0], path.suffix.lower())
        lines = _split(head, separator)
        if all(len(line) == 1 for line in lines) and len(head[-1].split()) > 1:
            raise InputError(
                f"{path.name} has no commas, semicolons, tabs or bars between its "
                "cells; save it with one of them."
            )
        mark, grouped = decimal or ".", False
        if separator != ",":
            later = (line.split(separator) for line in file if "," in line)
            cells = chain.from_iterable(chain(lines, later))
            mark, grouped = _decimal_mark(cells, decimal, path)
    first, body = lines[0], lines[1:]
    short = bool(body) and all(len(line) == len(first) + 1 for line in body)
    short = short and "word" in map(_kind, first)  # as R writes it
    if header is None:
        header = short or has_header(first, body, path)
    if index is None:
        corner = header and not first[0].strip() and len(first) > 1
        index = short or (corner and all(line[0].strip() for line in body))
    if len(lines) <= header:
        raise InputError(f"{path.name} holds no rows below its labels.")
    return CsvDialect(
        separator=separator,
        decimal=mark,
        grouped=grouped,
        header=header,
        index=index,
        first=first,
        before=raw.index(head[0]),
        width=max(map(len, lines)),
        encoding=encoding,
        line_end="\r\n" if head[0].endswith("\r\n") else "\n",
    )


def _encoding(path: Path) -> str:
    """Return the encoding of a text file; Latin-1 if it is not Unicode."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if b"\0" in start:
        raise InputError(f"{path} cannot be read: it is not a text file.")
    try:
        with path.open(encoding="utf-8") as text:
            while text.read(1 << 22):
                pass
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8-sig" if start.startswith(b"\xef\xbb\xbf") else "utf-8"


def _line(file: TextIO, path: Path) -> str:
    line = file.readline(MAX_LINE)
    if len(line) == MAX_LINE:
        raise InputError(f"{path.name} has a line too long for a table.")
    return line


def _separator(line: str, suffix: str) -> str:
    if suffix == ".tsv":
        return "\t"
    # On a tie the comma, which comes first.
    return max(",;\t|", key=lambda mark: len(_split([line], mark)[0]))


def _split(lines: list[str], separator: str) -> list[list[str]]:
    """Return the cells of lines; a line without quotes may be of any length."""
    if not any('"' in line for line in lines):
        return [line.rstrip("\r\n").split(separator) for line in lines]
    return list(csv.reader(lines, delimiter=separator, skipinitialspace=True))


def _decimal_mark(
    cells: Iterable[str], decimal: str | None, path: Path
) -> tuple[str, bool]:
    """Return the decimal mark, and whether commas separate thousands.

    1,234 may be either: the first cell with only one reading decides.
    """
    ambiguous = ""
    for cell in (cell.strip(' "\r\n') for cell in cells):
        marks = decimal_marks(cell)
        if marks == {","} and "," in cell:
            return decimal or ",", False
        if "," in cell and (marks == {"."} or (marks and decimal == ".")):
            return ".", True
        if marks == {"."} and "." in cell and ambiguous:
            return decimal or ".", True
        if len(marks) == 2 and "," in cell:
            ambiguous = ambiguous or cell
    if ambiguous and decimal is None:
        raise InputError(
            f"{path.name} holds {ambiguous}, which may be "
            f"{ambiguous.replace(',', '.')} or {ambiguous.replace(',', '')}; choose "
            "with decimal=: a comma, or a point."
        )
    return decimal or ".", False


def _missing_words() -> list[str]:
    """Return all spellings of the words for a missing value."""
    spellings = {(word, word.upper(), word.title()) for word in MISSING_WORDS}
    return sorted({"NaN", "-NaN", *chain.from_iterable(spellings)})


def _records(
    file: TextIO, dialect: CsvDialect
) -> Iterator[tuple[int | None, list[str]]]:
    """Yield the cells of each record; header and blank lines have no row."""
    row = -1 if dialect.header else 0
    reader = csv.reader(file, delimiter=dialect.separator, skipinitialspace=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if reader.line_num > line:
                raise _open_quote(Path(file.name), line) from None
            raise InputError(
                f"{file.name} cannot be read: {error} in line {line}."
            ) from None
        if not any(cell.strip() for cell in cells) and len(cells) < 2:
            yield None, cells
            continue
        yield (row if row >= 0 else None), cells
        row += 1


def _preview(
    source: Path, dialect: CsvDialect, columns: Iterable[int]
) -> dict[int, set[str]]:
    """Return the different texts of some columns in the first rows."""
    texts: dict[int, set[str]] = {column: set() for column in columns}
    if not texts:
        return {}
    with source.open(encoding=dialect.encoding, newline="") as file:
        for row, cells in islice(_records(file, dialect), NOTATION_ROWS):
            if row is not None:
                for column, seen in texts.items():
                    if column < len(cells):
                        seen.add(cells[column].strip())
    return texts


def _text(value: Any, number_format: NumberFormat, texts: set[str]) -> str:
    """Return a value in the notation of its column."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool | np.bool_):
        word = str(bool(value))
        spellings = (word.lower(), word.upper())
        return next((s for s in spellings if s in texts), word)
    if isinstance(value, int | float | np.integer | np.floating):
        return number_format.format(float(value))
    return str(value)


def _open_quote(path: Path, line: int) -> InputError:
    return InputError(
        f"{path.name} has a quote in line {line} that is never closed; close it, or "
        "remove it."
    )


class _ReportingFile(io.RawIOBase):
    """A file that reports how much of it has been read."""

    def __init__(self, file: IO[bytes], size: int, report: Report) -> None:
        self.file, self.size, self.report = file, size, report

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.file.read(len(buffer))
        buffer[: len(content)] = content
        if not self.report(self.file.tell() / max(self.size, 1), "reading"):
            raise StoppedError("stopped while reading")
        return len(content)

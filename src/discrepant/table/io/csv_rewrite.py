"""Copy a CSV file with some of its cells changed, and every other byte the same."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from discrepant.core.errors import InputError
from discrepant.table.columns.text_numbers import is_code_column
from discrepant.table.io.csv_dialect import (
    CsvDialect,
    separator_positions,
    split_record,
)

# Rows from which the notation of a column is detected.
PREVIEW_ROWS = 5000
# Decimals beyond which numbers are written in full precision.
MAX_DECIMALS = 10

Changes = Mapping[int, Mapping[int, Any]]  # row → column → the new value


def rewrite_csv(
    source: Path, target: Path, dialect: CsvDialect, changes: Changes
) -> None:
    """Copy a CSV file with new values in some cells.

    Parameters
    ----------
    source, target : Path
        The file, and the copy.
    dialect : CsvDialect
        Its dialect.
    changes : mapping
        For each row (below the labels, from 0) and each column of the file (the row
        labels are one) the new value; None and NaN leave the cell empty.
        Numbers are written with as many decimals as their column has.
    """
    columns = {column for row in changes.values() for column in row}
    styles = _styles(source, dialect, columns)
    plain = "utf-8" if dialect.encoding == "utf-8-sig" else dialect.encoding
    left = len(changes)
    with (
        source.open(encoding=plain, newline="") as file,
        target.open("w", encoding=plain, newline="") as out,
    ):
        for row, record in _records(file, dialect):
            if row is not None and row in changes:
                record = _changed(record, dialect, changes[row], styles)
                left -= 1
            out.write(record)
    if left:
        raise InputError(
            f"{source.name} changed while it was cleaned, or its quotes do not match; "
            "its rows could not be located again."
        )


def _records(file: TextIO, dialect: CsvDialect) -> Iterator[tuple[int | None, str]]:
    """Yield each record with its line ending; header and blank lines have no row.

    A record is a line, or several where a quoted cell holds line breaks.
    """
    blanks = " \r\n\t\ufeff".replace(dialect.separator, "")
    row = -1 if dialect.header else 0
    parts: list[str] = []
    first = 0  # line number at which the record begins
    for number, line in enumerate(file, 1):
        if not parts and '"' not in line:
            record = line
        else:
            first = first if parts else number
            _, quoted = separator_positions(line, dialect.separator, bool(parts))
            parts.append(line)
            if quoted:
                continue
            record = "".join(parts)
            parts = []
        if not record.strip(blanks):
            yield None, record
            continue
        yield (row if row >= 0 else None), record
        row += 1
    if parts:
        raise InputError(
            f"{Path(file.name).name} has a quote in line {first} that is never closed; "
            "close it, or remove it."
        )


def _changed(
    record: str, dialect: CsvDialect, new: Mapping[int, Any], styles: dict[int, str]
) -> str:
    """Return a record with new values in some of its cells."""
    body = record.rstrip("\r\n")
    ending = record[len(body) :]
    cells = split_record(body, dialect.separator)
    for column, value in new.items():
        cells += [""] * (column + 1 - len(cells))  # a line may be short
        mark, old = "", cells[column]
        if not column and old.startswith("\ufeff"):
            mark, old = "\ufeff", old[1:]
        text = _text(value, styles.get(column, ""), dialect.decimal)
        inner = old.strip(" ")
        before = old[: len(old) - len(old.lstrip(" "))]
        after = old[len(before) + len(inner) :]
        quoted = len(inner) > 1 and inner[0] == inner[-1] == '"'
        if quoted or any(sign in text for sign in (dialect.separator, '"', "\n", "\r")):
            text = '"' + text.replace('"', '""') + '"'
        cells[column] = mark + before + text + after
    return dialect.separator.join(cells) + ending


def code_columns(source: Path, dialect: CsvDialect) -> list[int]:
    """Return the columns whose digits are codes (00123)."""
    cells = _preview(source, dialect, range(dialect.width))
    return [column for column, texts in cells.items() if is_code_column(texts)]


def _styles(source: Path, dialect: CsvDialect, columns: set[int]) -> dict[int, str]:
    """Return the notation of each column: a number format, or the case of booleans."""
    cells_of = _preview(source, dialect, columns)
    return {
        column: _style(cells, dialect.decimal) for column, cells in cells_of.items()
    }


def _preview(
    source: Path, dialect: CsvDialect, columns: Iterable[int]
) -> dict[int, set[str]]:
    """Return the cells of some columns in the first rows, without quotes."""
    cells_of: dict[int, set[str]] = {column: set() for column in columns}
    if not cells_of:
        return {}
    with source.open(encoding=dialect.encoding, newline="") as file:
        for row, record in islice(_records(file, dialect), PREVIEW_ROWS):
            if row is None:
                continue
            cells = split_record(record.rstrip("\r\n"), dialect.separator)
            for column, texts in cells_of.items():
                if column < len(cells):
                    texts.add(cells[column].strip(' "'))
    return cells_of


def _style(cells: set[str], decimal: str) -> str:
    words = cells & {"true", "false", "TRUE", "FALSE"}
    if words:
        return "lower" if words & {"true", "false"} else "upper"
    number = re.compile(rf"[+-]?\d*(?:[{re.escape(decimal)}.,](\d*))?$")
    decimals = 0
    for cell in cells:
        match = number.match(cell)
        if match is None:
            if re.match(r"[+-]?[\d.,]+[eE]", cell):
                return ""  # powers of ten have no fixed number of decimals
            continue
        decimals = max(decimals, len(match[1] or ""))
    return f".{decimals}f" if decimals <= MAX_DECIMALS else ""


def _text(value: Any, style: str, decimal: str) -> str:
    """Return a value in the notation of its column."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool | np.bool_):
        word = str(bool(value))
        return {"lower": word.lower(), "upper": word.upper()}.get(style, word)
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        number = float(value)
        short = number.is_integer() and abs(number) < 1e15 and not style
        text = format(number, style or (".0f" if short else ".12g"))
        if not float(text):
            text = text.lstrip("-")
        return text.replace(".", decimal)
    return str(value)

"""A text file copied with some of its cells changed, and every other byte as it was."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from discrepant.core.errors import InputError
from discrepant.table.columns.text_numbers import are_names
from discrepant.table.io.csv_dialect import Layout, cell_ends, split

LOOKED_AT = 5000  # rows from which the way of writing a column is learned
DECIMALS = 10  # beyond so many, a number was written by a machine, in full

Changes = Mapping[int, Mapping[int, Any]]  # row → column → the new value


def copy_changed(source: Path, target: Path, laid: Layout, changes: Changes) -> None:
    """Copy a text file with other values in some cells.

    Parameters
    ----------
    source, target : Path
        The file, and the copy.
    laid : Layout
        How it is laid out.
    changes : mapping
        For each row (below the labels, from 0) and each column of the file (the row
        labels are one) the value that it is to hold; None and NaN leave it empty.
        Numbers are written with as many decimals as their column has.
    """
    columns = {column for row in changes.values() for column in row}
    styles = _styles(source, laid, columns)
    plain = "utf-8" if laid.encoding == "utf-8-sig" else laid.encoding
    left = len(changes)
    with (
        source.open(encoding=plain, newline="") as file,
        target.open("w", encoding=plain, newline="") as out,
    ):
        for row, record in _records(file, laid):
            if row is not None and row in changes:
                record = _changed(record, laid, changes[row], styles)
                left -= 1
            out.write(record)
    if left:
        raise InputError(
            f"{source.name} changed while it was worked on, or its quotes do not "
            "match; its rows were not found again."
        )


def _records(file: TextIO, laid: Layout) -> Iterator[tuple[int | None, str]]:
    """Yield each record with its line ending; labels and blank lines have no row.

    A record is a line, or several where a quoted cell holds line breaks.
    """
    blanks = " \r\n\t\ufeff".replace(laid.separator, "")
    row = -1 if laid.header else 0
    parts: list[str] = []
    first = 0  # line in which the record begins
    for number, line in enumerate(file, 1):
        if not parts and '"' not in line:
            record = line
        else:
            first = first if parts else number
            _, quoted = cell_ends(line, laid.separator, bool(parts))
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
    record: str, laid: Layout, new: Mapping[int, Any], styles: dict[int, str]
) -> str:
    """Return a record with other values in some of its cells."""
    body = record.rstrip("\r\n")
    ending = record[len(body) :]
    cells = split(body, laid.separator)
    for column, value in new.items():
        cells += [""] * (column + 1 - len(cells))  # a line may be short
        mark, old = "", cells[column]
        if not column and old.startswith("\ufeff"):
            mark, old = "\ufeff", old[1:]
        text = _text(value, styles.get(column, ""), laid.decimal)
        inner = old.strip(" ")
        before = old[: len(old) - len(old.lstrip(" "))]
        after = old[len(before) + len(inner) :]
        quoted = len(inner) > 1 and inner[0] == inner[-1] == '"'
        if quoted or any(sign in text for sign in (laid.separator, '"', "\n", "\r")):
            text = '"' + text.replace('"', '""') + '"'
        cells[column] = mark + before + text + after
    return laid.separator.join(cells) + ending


def coded_columns(source: Path, laid: Layout) -> list[int]:
    """Return the columns whose digits are names (00123)."""
    cells = _seen(source, laid, range(laid.width))
    return [column for column, texts in cells.items() if are_names(texts)]


def _styles(source: Path, laid: Layout, columns: set[int]) -> dict[int, str]:
    """Learn how each column writes its numbers: a format, or the case of its words."""
    seen = _seen(source, laid, columns)
    return {column: _style(cells, laid.decimal) for column, cells in seen.items()}


def _seen(source: Path, laid: Layout, columns: Iterable[int]) -> dict[int, set[str]]:
    """Return the cells of some columns in the first rows, without quotes."""
    seen: dict[int, set[str]] = {column: set() for column in columns}
    if not seen:
        return {}
    with source.open(encoding=laid.encoding, newline="") as file:
        for row, record in islice(_records(file, laid), LOOKED_AT):
            if row is None:
                continue
            cells = split(record.rstrip("\r\n"), laid.separator)
            for column, texts in seen.items():
                if column < len(cells):
                    texts.add(cells[column].strip(' "'))
    return seen


def _style(cells: set[str], decimal: str) -> str:
    words = cells & {"true", "false", "TRUE", "FALSE"}
    if words:
        return "lower" if words & {"true", "false"} else "upper"
    number = re.compile(rf"[+-]?\d*(?:[{re.escape(decimal)}.,](\d*))?$")
    decimals = 0
    for cell in cells:
        found = number.match(cell)
        if found is None:
            if re.match(r"[+-]?[\d.,]+[eE]", cell):
                return ""  # powers of ten: no number of decimals would do
            continue
        decimals = max(decimals, len(found[1] or ""))
    return f".{decimals}f" if decimals <= DECIMALS else ""


def _text(value: Any, style: str, decimal: str) -> str:
    """Write a value as its column does."""
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

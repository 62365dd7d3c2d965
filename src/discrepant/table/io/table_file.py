"""Read files of tables with columns of any type, and write them back with changes."""

import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from discrepant.core.errors import InputError, missing_extra
from discrepant.core.memory import check_memory
from discrepant.core.progress import Report, StoppedError
from discrepant.table.io.csv_dialect import MISSING_WORDS, detect_dialect, has_header
from discrepant.table.io.csv_rewrite import code_columns, rewrite_csv
from discrepant.table.io.numeric_file import (
    check_text_size,
    check_zip_size,
    read_npz,
    read_parquet,
    translate_read_errors,
)

FORMATS = (".csv", ".tsv", ".npy", ".npz", ".parquet", ".xlsx")
# Rows of a sheet from which its header is detected.
PREVIEW_ROWS = 20
# Time zone at the end of an ISO 8601 date.
ZONE = r"(Z|[+-]\d\d:?\d\d)"
DATE = re.compile(rf"\d{{4}}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?{ZONE}?)?$")


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table, and the function that writes it back in the same format.

    ``write(path, table)`` writes a table of the same shape and types in the format of
    the file; unchanged cells keep their text and style. ``rows`` explains the labels of
    the rows.
    """

    table: Any  # a DataFrame, or an array
    suffix: str
    rows: str
    write: Callable[[Path, Any], None]
    notes: tuple[str, ...] = ()


def read_table_file(
    path: Path,
    *,
    header: bool | None = None,
    index: bool | None = None,
    key: str | None = None,
    sheet: str | None = None,
    decimal: str | None = None,
    progress: Report | None = None,
) -> TableFile:
    """Read a table with columns of any type.

    Parameters
    ----------
    path : Path
        A file whose suffix is one of `FORMATS`.
    header, index : bool, optional
        Whether the first line of a text file or sheet holds column labels, and its
        first column row labels; by default detected.
    key : str, optional
        The name of the array in an NPZ file with several.
    sheet : str, optional
        The name of the sheet of a workbook; by default the first.
    decimal : {".", ","}, optional
        The decimal mark of a text file; by default detected.
    progress : callable, optional
        Receives ``(fraction, note)`` while a text file is read.
    """
    suffix = path.suffix.lower()
    with translate_read_errors(path, FORMATS):
        if suffix in (".npy", ".npz"):
            return _array(path, suffix, key)
        if suffix == ".parquet":
            frame = read_parquet(path)
            return TableFile(
                frame, suffix, "the index of the frame", lambda to, t: t.to_parquet(to)
            )
        if suffix == ".xlsx":
            return _workbook(path, sheet, header, index)
        return _text(path, suffix, header, index, decimal, progress)


def changed_cells(before: Any, after: Any, column: int) -> Any:
    """Return the rows in which a column of two frames differs."""
    old, new = before.iloc[:, column], after.iloc[:, column]
    if old is new:
        return np.zeros(0, int)
    missing = old.isna().to_numpy(), new.isna().to_numpy()
    same = (old.to_numpy() == new.to_numpy()) | (missing[0] & missing[1])
    return np.flatnonzero(~np.asarray(same, bool))


def _changes(before: Any, after: Any, offset: int) -> dict[int, dict[int, Any]]:
    """Return the new values by row and column, after ``offset`` index columns."""
    changes: dict[int, dict[int, Any]] = {}
    for column in range(before.shape[1]):
        rows = changed_cells(before, after, column)
        values = after.iloc[rows, column]
        missing = values.isna()
        for row, value, gone in zip(rows.tolist(), values, missing, strict=True):
            changes.setdefault(row, {})[column + offset] = None if gone else value
    return changes


def _array(path: Path, suffix: str, key: str | None) -> TableFile:
    if suffix == ".npz":
        table = read_npz(path, key)
        values = table.values

        def write(to: Path, cleaned: Any) -> None:
            table.write(to, cleaned)
    else:
        values = np.load(path, mmap_mode="r", allow_pickle=False)

        def write(to: Path, cleaned: Any) -> None:
            np.save(to, cleaned, allow_pickle=False)

    if values.ndim != 2:
        raise InputError(
            f"{path.name} holds a {values.ndim}-D array; a table (2-D) is needed."
        )
    if values.dtype.kind not in "fiub":
        raise InputError(
            f"{path.name} holds values of type {values.dtype}; real numbers are needed."
        )
    return TableFile(values, suffix, "counted from 0", write)


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


def _encoding(path: Path) -> str:
    """Return the encoding of a text file; Latin-1 if it is not Unicode."""
    with path.open("rb") as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            return "utf-16"
    try:
        with path.open(encoding="utf-8") as text:
            while text.read(1 << 22):
                pass
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8-sig"


def _text(
    path: Path,
    suffix: str,
    header: bool | None,
    index: bool | None,
    decimal: str | None,
    progress: Report | None,
) -> TableFile:
    import pandas as pd

    encoding = _encoding(path)
    with path.open("rb") as start:
        if encoding != "utf-16" and b"\0" in start.read(1 << 16):
            raise InputError(f"{path} cannot be read: it is not a text file.")
    dialect = detect_dialect(
        *(path, suffix, header, index),
        allow_text=True,
        encoding=encoding,
        decimal=decimal,
    )
    check_text_size(path, dialect)
    labelled = int(dialect.index)
    missing: Any = MISSING_WORDS
    if dialect.index:  # a label may well be "NA"
        missing = {i: MISSING_WORDS for i in range(labelled, dialect.width)}
    names = [0] * labelled + code_columns(path, dialect)
    report = progress or (lambda fraction, note: True)
    with path.open("rb") as file:
        reporting_file: Any = io.BufferedReader(
            _ReportingFile(file, path.stat().st_size, report), 1 << 20
        )
        frame = pd.read_csv(
            reporting_file,
            sep=dialect.separator,
            decimal=dialect.decimal,
            header=None,
            skiprows=dialect.before + 1 if dialect.header else 0,
            index_col=0 if dialect.index else None,
            dtype={column: str for column in names},
            keep_default_na=False,
            na_values=missing,
            encoding=dialect.encoding,
            skipinitialspace=True,
            low_memory=False,
        )
    frame.columns = dialect.labels(path, frame.shape[1] + labelled)[labelled:]
    if not dialect.index:
        frame.index = pd.RangeIndex(1, len(frame) + 1)
    frame.index.name = None
    frame = parse_iso_dates(frame)
    notes: tuple[str, ...] = ()
    if encoding == "latin-1":
        notes = (f"{path.name} is not UTF-8; its text was read as Latin-1.",)

    def write(to: Path, cleaned: Any) -> None:
        rewrite_csv(path, to, dialect, _changes(frame, cleaned, labelled))

    below = " below the labels" if dialect.header else ""
    rows = "the first column" if dialect.index else f"counted from 1{below}"
    return TableFile(frame, suffix, rows, write, notes)


def parse_iso_dates(frame: Any) -> Any:
    """Return a frame with columns of ISO 8601 dates converted to datetimes."""
    import pandas as pd

    new = {}
    for place in range(frame.shape[1]):
        column = frame.iloc[:, place]
        if not (column.dtype == object or isinstance(column.dtype, pd.StringDtype)):
            continue
        some = column.dropna().iloc[:50]
        if not len(some) or not all(
            isinstance(cell, str) and DATE.match(cell.strip()) for cell in some
        ):
            continue
        try:
            new[place] = pd.to_datetime(column, format="ISO8601", utc=_zoned(some))
        except (ValueError, TypeError):
            continue  # a later cell is no date: the column remains text
    if not new:
        return frame
    columns = [new.get(i, frame.iloc[:, i]) for i in range(frame.shape[1])]
    return pd.concat(columns, axis=1).set_axis(frame.columns, axis=1)


def _zoned(cells: Any) -> bool:
    return any(re.search(f"{ZONE}$", cell[10:]) for cell in cells)


def _workbook(
    path: Path, sheet: str | None, header: bool | None, index: bool | None
) -> TableFile:
    """Read one sheet of a workbook; formulas have their last computed values."""
    import pandas as pd

    openpyxl = _openpyxl()
    with zipfile.ZipFile(path) as archive:
        check_zip_size(path, archive.namelist(), times=10)
    try:
        book = openpyxl.load_workbook(path, data_only=True, read_only=True)
    except KeyError as error:
        raise ValueError(f"it is not a workbook ({error.args[0]})") from None
    names = book.sheetnames
    if sheet is not None and sheet not in names:
        raise InputError(
            f"{path.name} has no sheet named {sheet!r}; it has {', '.join(names)}."
        )
    name = sheet or names[0]
    page = book[name]
    page.reset_dimensions()  # the declared ones may be wrong
    cells = [list(row) for row in page.iter_rows(values_only=True)]
    book.close()
    while cells and not any(_full(cell) for cell in cells[-1]):
        cells.pop()
    width = max(
        (i + 1 for row in cells for i, cell in enumerate(row) if _full(cell)), default=0
    )
    if not width:
        raise InputError(f"{path.name} is empty.")
    check_memory(path, 24 * width * len(cells))
    cells = [(row + [None] * width)[:width] for row in cells]
    above = sum(1 for _ in _leading_blanks(cells))
    first = cells[above]
    if header is None:
        texts = [
            ["" if cell is None else str(cell) for cell in row]
            for row in cells[above : above + PREVIEW_ROWS]
        ]
        header = all(isinstance(cell, str) for cell in first if _full(cell)) or (
            has_header(texts[0], texts[1:], ".", path)
        )
    index = bool(index)
    body = cells[above + header :]
    if not body:
        raise InputError(f"{path.name} holds no rows below its labels.")
    labels = [
        str(cell) if header and _full(cell) else str(place)
        for place, cell in enumerate(first, 1)
    ]
    frame = pd.DataFrame(
        [[_value(cell) for cell in row] for row in body], columns=range(width)
    ).infer_objects()
    frame.columns = labels
    top = above + header + 1  # row number of the first row in the sheet
    frame.index = pd.RangeIndex(top, top + len(frame))
    labelled = int(index)
    if index:
        frame = frame.set_axis(frame.iloc[:, 0].astype(str), axis=0).iloc[:, 1:]
        frame.index.name = None

    def write(to: Path, cleaned: Any) -> None:
        workbook = openpyxl.load_workbook(path)  # with formulas and styles
        for row, new in _changes(frame, cleaned, labelled).items():
            for column, value in new.items():
                plain = value.item() if isinstance(value, np.generic) else value
                workbook[name].cell(top + row, column + 1).value = plain
        workbook.save(to)

    rows = "the first column" if index else f"those of the sheet {name}"
    return TableFile(frame, ".xlsx", rows, write)


def _leading_blanks(cells: list[list[Any]]) -> Any:
    for row in cells:
        if any(_full(cell) for cell in row):
            return
        yield row


def _full(cell: Any) -> bool:
    return cell is not None and cell != ""


def _value(cell: Any) -> Any:
    return None if isinstance(cell, str) and cell.strip() in MISSING_WORDS else cell


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError:
        raise missing_extra("Reading Excel files needs openpyxl", "excel") from None
    return openpyxl

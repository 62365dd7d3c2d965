"""Tables of any columns in files: read for `clean`, written back with cells changed."""

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
from discrepant.table.io.csv_dialect import MISSING, has_labels, layout_of
from discrepant.table.io.csv_rewrite import coded_columns, copy_changed
from discrepant.table.io.numeric_file import (
    check_cells,
    check_members,
    read_npz,
    read_parquet,
    reading,
)

FORMATS = (".csv", ".tsv", ".npy", ".npz", ".parquet", ".xlsx")
SEEN = 20  # rows of a sheet that tell whether the first holds labels
ZONE = r"(Z|[+-]\d\d:?\d\d)"
DATE = re.compile(rf"\d{{4}}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?{ZONE}?)?$")


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table as `clean` takes it, and the way back into a file of its kind.

    ``write(path, table)`` writes another table of the same shape and types in the
    format of the file; cells that are as they were keep their text and their looks.
    ``rows`` says in words what the labels of the rows are.
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
    """Read a table whose columns may be of any type.

    Parameters
    ----------
    path : Path
        A file whose ending is one of `FORMATS`.
    header, index : bool, optional
        Whether the first line of a text file or sheet holds column labels, and its
        first column row labels; found out by itself if not said.
    key : str, optional
        Which array of an NPZ file is meant.
    sheet : str, optional
        Which sheet of a workbook is meant; the first, if not said.
    decimal : {".", ","}, optional
        What stands before the decimals in a text file; found out by itself if not said.
    progress : callable, optional
        Told ``(share, note)`` while a text file is read.
    """
    suffix = path.suffix.lower()
    with reading(path, FORMATS):
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
    """Return where a column of two frames of one shape differs."""
    old, new = before.iloc[:, column], after.iloc[:, column]
    if old is new:
        return np.zeros(0, int)
    missing = old.isna().to_numpy(), new.isna().to_numpy()
    same = (old.to_numpy() == new.to_numpy()) | (missing[0] & missing[1])
    return np.flatnonzero(~np.asarray(same, bool))


def _changes(before: Any, after: Any, offset: int) -> dict[int, dict[int, Any]]:
    """Return the new values by row and column; ``offset`` columns stand before."""
    found: dict[int, dict[int, Any]] = {}
    for column in range(before.shape[1]):
        rows = changed_cells(before, after, column)
        values = after.iloc[rows, column]
        missing = values.isna()
        for row, value, gone in zip(rows.tolist(), values, missing, strict=True):
            found.setdefault(row, {})[column + offset] = None if gone else value
    return found


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


class _Watched(io.RawIOBase):
    """A file that tells how much of it has been read."""

    def __init__(self, file: IO[bytes], size: int, report: Report) -> None:
        self.file, self.size, self.report = file, size, report

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self.file.read(len(buffer))
        buffer[: len(found)] = found
        if not self.report(self.file.tell() / max(self.size, 1), "reading"):
            raise StoppedError("stopped while reading")
        return len(found)


def _encoding(path: Path) -> str:
    """Return UTF-8 where the file is, and else what reads any bytes and keeps them."""
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
    laid = layout_of(
        *(path, suffix, header, index), mixed=True, encoding=encoding, decimal=decimal
    )
    check_cells(path, laid)
    labelled = int(laid.index)
    missing: Any = MISSING
    if laid.index:  # a label may well be "NA"
        missing = {i: MISSING for i in range(labelled, laid.width)}
    names = [0] * labelled + coded_columns(path, laid)
    report = progress or (lambda share, note: True)
    with path.open("rb") as file:
        watched: Any = io.BufferedReader(
            _Watched(file, path.stat().st_size, report), 1 << 20
        )
        frame = pd.read_csv(
            watched,
            sep=laid.separator,
            decimal=laid.decimal,
            header=None,
            skiprows=laid.before + 1 if laid.header else 0,
            index_col=0 if laid.index else None,
            dtype={column: str for column in names},
            keep_default_na=False,
            na_values=missing,
            encoding=laid.encoding,
            skipinitialspace=True,
            low_memory=False,
        )
    frame.columns = laid.labels(path, frame.shape[1] + labelled)[labelled:]
    if not laid.index:
        frame.index = pd.RangeIndex(1, len(frame) + 1)
    frame.index.name = None
    frame = dated(frame)
    notes: tuple[str, ...] = ()
    if encoding == "latin-1":
        notes = (f"{path.name} is not UTF-8; its text was read as Latin-1.",)

    def write(to: Path, cleaned: Any) -> None:
        copy_changed(path, to, laid, _changes(frame, cleaned, labelled))

    below = " below the labels" if laid.header else ""
    rows = "the first column" if laid.index else f"counted from 1{below}"
    return TableFile(frame, suffix, rows, write, notes)


def dated(frame: Any) -> Any:
    """Return a frame whose columns of ISO dates, written as text, are dates."""
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
            continue  # a later cell is no date: it stays text
    if not new:
        return frame
    columns = [new.get(i, frame.iloc[:, i]) for i in range(frame.shape[1])]
    return pd.concat(columns, axis=1).set_axis(frame.columns, axis=1)


def _zoned(cells: Any) -> bool:
    return any(re.search(f"{ZONE}$", cell[10:]) for cell in cells)


def _workbook(
    path: Path, sheet: str | None, header: bool | None, index: bool | None
) -> TableFile:
    """Read one sheet; the values of formulas are those that were last computed."""
    import pandas as pd

    openpyxl = _openpyxl()
    with zipfile.ZipFile(path) as archive:
        check_members(path, archive.namelist(), times=10)
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
    page.reset_dimensions()  # which a file may declare as it likes
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
            for row in cells[above : above + SEEN]
        ]
        header = all(isinstance(cell, str) for cell in first if _full(cell)) or (
            has_labels(texts[0], texts[1:], ".", path)
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
    top = above + header + 1  # the sheet's own number of the first row
    frame.index = pd.RangeIndex(top, top + len(frame))
    labelled = int(index)
    if index:
        frame = frame.set_axis(frame.iloc[:, 0].astype(str), axis=0).iloc[:, 1:]
        frame.index.name = None

    def write(to: Path, cleaned: Any) -> None:
        whole = openpyxl.load_workbook(path)  # with formulas and looks
        for row, new in _changes(frame, cleaned, labelled).items():
            for column, value in new.items():
                plain = value.item() if isinstance(value, np.generic) else value
                whole[name].cell(top + row, column + 1).value = plain
        whole.save(to)

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
    return None if isinstance(cell, str) and cell.strip() in MISSING else cell


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError:
        raise missing_extra("Reading Excel files needs openpyxl", "excel") from None
    return openpyxl

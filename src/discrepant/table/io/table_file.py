"""Read files of tables, and write them back in the same format."""

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError, missing_extra
from discrepant.core.linalg import Array
from discrepant.core.memory import check_memory
from discrepant.core.progress import Report
from discrepant.table.columns.text_numbers import MISSING_WORDS
from discrepant.table.io.csv_file import (
    PREVIEW_LINES,
    CsvDialect,
    has_header,
    read_csv,
    rewrite_csv,
)
from discrepant.table.io.file_checks import (
    array_name,
    check_zip_size,
    translate_read_errors,
)

# Time zone at the end of an ISO 8601 date.
ZONE = r"(Z|[+-]\d\d:?\d\d)"
DATE = re.compile(rf"\d{{4}}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?{ZONE}?)?$")


@dataclass(frozen=True, eq=False)
class TableFile:
    """The table in a file, and the functions that write tables in the same format.

    Attributes
    ----------
    path : Path
    table : DataFrame or array
    rows : str
        The meaning of the row labels.
    header, index : bool
        Whether the first line holds column labels, and the first column row labels.
    write : callable
        ``write(path, table)`` writes a table of the same shape and types in the format
        of the file; unchanged cells keep their text and style.
    notes : tuple of str
        What to know about how the file was read.
    key : str
        Name of the array inside an NPZ file.
    dialect : CsvDialect or None
        The notation of a text file.
    """

    path: Path
    table: Any
    rows: str
    write: Callable[[Path, Any], None] = field(repr=False)
    header: bool = False
    index: bool = False
    notes: tuple[str, ...] = ()
    key: str = ""
    dialect: CsvDialect | None = None

    @property
    def suffix(self) -> str:
        """The ending of the file, in lower case."""
        return self.path.suffix.lower()

    @property
    def labels(self) -> str:
        """Where the labels are: "first line", "first column", both, or "none"."""
        places = {"first line": self.header, "first column": self.index}
        return ", ".join(place for place, used in places.items() if used) or "none"

    def numeric_values(self) -> Array:
        """Return the table as an array; raise `InputError` at a cell of text."""
        import pandas as pd

        if not hasattr(self.table, "columns"):
            return np.asarray(self.table)
        for label, column in self.table.items():
            if pd.api.types.is_complex_dtype(column):
                raise InputError(
                    f"Column {label!r} of {self.path.name} is complex; real numbers "
                    "are needed."
                )
            if not pd.api.types.is_numeric_dtype(column):
                words = pd.to_numeric(column, errors="coerce").isna() & column.notna()
                row = int(np.argmax(words.to_numpy()))
                raise InputError(
                    f"Column {label!r} of {self.path.name} holds "
                    f"{str(column.iloc[row])!r} in row {row + 1}, which is not a "
                    "number; correct it or drop the column (or pass index=True if the "
                    "first column holds labels)."
                )
        single = {str(kind).lower() for kind in self.table.dtypes} == {"float32"}
        dtype = np.float32 if single else np.float64
        return np.asarray(self.table.to_numpy(dtype=dtype, na_value=np.nan))

    def write_values(self, path: Path, values: Array) -> None:
        """Write numbers of the shape of the table, with its labels and format."""
        import pandas as pd

        if self.dialect is None and not hasattr(self.table, "columns"):
            self.write(path, values)
            return
        labels = {"index": self.table.index, "columns": self.table.columns}
        frame = pd.DataFrame(values, **labels)
        if self.dialect is None:
            frame.to_parquet(path)
            return
        corner = self.dialect.first[0] if self.header and self.index else ""
        if self.index:  # pandas leaves out an empty cell above the row labels
            frame.insert(0, corner, self.table.index, allow_duplicates=True)
        frame.to_csv(
            path,
            sep=self.dialect.separator,
            decimal=self.dialect.decimal,
            header=self.header,
            index=False,
        )


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
        first column row labels. By default the first line does if it holds words and no
        number, a word above numbers, or years; the first column does if the cell above
        it is empty.
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
        if suffix in (".csv", ".tsv"):
            return _read_text(path, header, index, decimal, progress)
        if suffix == ".xlsx":
            return _read_workbook(path, sheet, header, index)
        return READERS[suffix](path, key)


def read_matrix_file(
    path: Path, *, index: bool | None = None, **options: Any
) -> TableFile:
    """Read a table of numbers, as `read_table_file` does.

    By default a first column of text holds row labels.
    """
    file = read_table_file(path, index=index, **options)
    if index is None and file.dialect is not None and not file.index:
        import pandas as pd

        first = file.table.iloc[:, 0]
        if not pd.api.types.is_numeric_dtype(first) and file.table.shape[1] > 1:
            words = pd.to_numeric(first, errors="coerce").isna()
            if words.mean() >= 0.5:
                return read_table_file(path, index=True, **options)
    return file


def _read_text(
    path: Path,
    header: bool | None,
    index: bool | None,
    decimal: str | None,
    progress: Report | None,
) -> TableFile:
    frame, dialect = read_csv(path, header, index, decimal, progress)
    frame = parse_iso_dates(frame)
    notes: tuple[str, ...] = ()
    if dialect.encoding == "latin-1":
        notes = (f"{path.name} is not UTF-8; its text was read as Latin-1.",)

    def write(to: Path, cleaned: Any) -> None:
        rewrite_csv(path, to, dialect, _changes(frame, cleaned, int(dialect.index)))

    below = " below the labels" if dialect.header else ""
    rows = "the first column" if dialect.index else f"counted from 1{below}"
    return TableFile(
        path,
        frame,
        rows,
        write,
        header=dialect.header,
        index=dialect.index,
        notes=notes,
        dialect=dialect,
    )


def _read_npy(path: Path, key: str | None) -> TableFile:
    values = np.load(path, mmap_mode="r", allow_pickle=False)

    def write(to: Path, cleaned: Any) -> None:
        np.save(to, cleaned, allow_pickle=False)

    return TableFile(path, _as_matrix(path, values), "counted from 0", write)


def _read_npz(path: Path, key: str | None) -> TableFile:
    # numpy.load leaves a file open if it is no zip file.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        name = array_name(path, archive.files, key)
        check_zip_size(path, [f"{name}.npy"])
        values = _as_matrix(path, archive[name])

    def write(to: Path, cleaned: Any) -> None:
        # numpy.savez gives some names another meaning.
        with (
            zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open(f"{name}.npy", "w", force_zip64=True) as file,
        ):
            np.lib.format.write_array(file, np.asarray(cleaned), allow_pickle=False)

    return TableFile(path, values, "counted from 0", write, key=name)


def _read_parquet(path: Path, key: str | None) -> TableFile:
    import pandas as pd

    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("Reading Parquet needs pyarrow", "parquet") from None
    try:
        declared = pyarrow.parquet.read_metadata(path)
        check_memory(path, 16 * declared.num_rows * declared.num_columns)
        frame = pd.read_parquet(path)
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from None
    return TableFile(
        path, frame, "the index of the frame", lambda to, t: t.to_parquet(to)
    )


READERS = {".npy": _read_npy, ".npz": _read_npz, ".parquet": _read_parquet}
FORMATS = (".csv", ".tsv", *READERS, ".xlsx")


def _as_matrix(path: Path, values: Array) -> Array:
    if values.ndim != 2:
        raise InputError(
            f"{path.name} holds a {values.ndim}-D array; a table (2-D) is needed."
        )
    if values.dtype.kind not in "fiub":
        raise InputError(
            f"{path.name} holds values of type {values.dtype}; real numbers are needed."
        )
    return values


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
        zoned = any(re.search(f"{ZONE}$", cell[10:]) for cell in some)
        try:
            new[place] = pd.to_datetime(column, format="ISO8601", utc=zoned)
        except (ValueError, TypeError):
            continue  # a later cell is no date: the column remains text
    if not new:
        return frame
    columns = [new.get(i, frame.iloc[:, i]) for i in range(frame.shape[1])]
    return pd.concat(columns, axis=1).set_axis(frame.columns, axis=1)


def _read_workbook(
    path: Path, sheet: str | None, header: bool | None, index: bool | None
) -> TableFile:
    """Read one sheet of a workbook; formulas have their last computed values."""
    import pandas as pd

    try:
        import openpyxl
    except ImportError:
        raise missing_extra("Reading Excel files needs openpyxl", "excel") from None
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
    full = [[cell not in (None, "") for cell in row] for row in cells]
    used = [i for i, row in enumerate(full) if any(row)]
    if not used:
        raise InputError(f"{path.name} is empty.")
    above = used[0]
    width = max(j + 1 for row in full for j, is_full in enumerate(row) if is_full)
    check_memory(path, 24 * width * len(cells))
    cells = [(row + [None] * width)[:width] for row in cells[above : used[-1] + 1]]
    first = ["" if cell is None else str(cell) for cell in cells[0]]
    if header is None:
        texts = [
            ["" if cell is None else str(cell) for cell in row]
            for row in cells[1 : PREVIEW_LINES + 1]
        ]
        header = has_header(first, texts, path)
    body = cells[int(header) :]
    if not body:
        raise InputError(f"{path.name} holds no rows below its labels.")
    frame = pd.DataFrame(
        [[_value(cell) for cell in row] for row in body], columns=range(width)
    ).infer_objects()
    frame.columns = [
        label if header and label else str(place)
        for place, label in enumerate(first, 1)
    ]
    top = above + header + 1  # row number of the first row in the sheet
    frame.index = pd.RangeIndex(top, top + len(frame))
    index = bool(index)
    if index:
        frame = frame.set_axis(frame.iloc[:, 0].astype(str), axis=0).iloc[:, 1:]
        frame.index.name = None

    def write(to: Path, cleaned: Any) -> None:
        workbook = openpyxl.load_workbook(path)  # with formulas and styles
        for row, new in _changes(frame, cleaned, int(index)).items():
            for column, value in new.items():
                plain = value.item() if isinstance(value, np.generic) else value
                workbook[name].cell(top + row, column + 1).value = plain
        workbook.save(to)

    rows = "the first column" if index else f"those of the sheet {name}"
    return TableFile(path, frame, rows, write, header=header, index=index)


def _value(cell: Any) -> Any:
    missing = isinstance(cell, str) and cell.strip().lower() in MISSING_WORDS
    return None if missing else cell

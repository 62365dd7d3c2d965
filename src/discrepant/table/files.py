"""Tables in files: CSV, NPY, NPZ and Parquet, with their labels kept."""

import csv
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.errors import InputError
from discrepant.linalg import Array

FORMATS = (".csv", ".tsv", ".npy", ".npz", ".parquet")
_WORDS = ("na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none")
MISSING = ["", "NaN", "-NaN", *_WORDS, *map(str.upper, _WORDS), "Null", "None"]


@dataclass(frozen=True, eq=False)
class Table:
    """The values of a file and whatever labels came with them."""

    values: Array
    suffix: str
    rows: Any = None  # a pandas Index, if the rows are labelled
    columns: list[Any] | None = None
    corner: str = ""  # the label above the row labels
    separator: str = ","
    decimal: str = "."
    key: str = "arr_0"  # name of the array inside an NPZ file

    @property
    def labels(self) -> str:
        """Where the labels were found."""
        places = {"first line": self.columns, "first column": self.rows}
        return ", ".join(k for k, v in places.items() if v is not None) or "none"

    def write(self, path: Path, values: Array) -> None:
        """Write other values of the same shape in the same format and labels."""
        if self.suffix == ".npy":
            np.save(path, values, allow_pickle=False)
        elif self.suffix == ".npz":
            # Not by numpy.savez, to which some names mean something else.
            with (
                zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
                archive.open(f"{self.key}.npy", "w", force_zip64=True) as file,
            ):
                np.lib.format.write_array(file, np.asarray(values), allow_pickle=False)
        else:
            self._write_frame(path, values)

    def _write_frame(self, path: Path, values: Array) -> None:
        import pandas as pd

        frame = pd.DataFrame(values, index=self.rows, columns=self.columns)
        if self.suffix == ".parquet":
            frame.to_parquet(path)
            return
        frame.to_csv(
            path,
            sep=self.separator,
            decimal=self.decimal,
            header=self.columns is not None,
            index=self.rows is not None,
            index_label=self.corner or False,
        )
        if self.columns is not None and self.rows is not None and not self.corner:
            # pandas leaves out the empty cell above the row labels.
            text = path.read_text(encoding="utf-8")
            path.write_text(self.separator + text, encoding="utf-8")


def read_table(
    path: Path,
    *,
    header: bool | None = None,
    index: bool | None = None,
    key: str | None = None,
) -> Table:
    """Read a table of numbers.

    Parameters
    ----------
    path : Path
        A file whose ending is one of `FORMATS`.
    header, index : bool, optional
        Whether the first line of a CSV file holds column labels, and its first column
        row labels; found out by itself if not said.
    key : str, optional
        Which array of an NPZ file is meant.
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it.")
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if suffix not in FORMATS:
        raise InputError(
            f"{path.name} has an unknown ending; known are {', '.join(FORMATS)}."
        )
    try:
        if suffix == ".npy":
            values = np.load(path, mmap_mode="r", allow_pickle=False)
            table = Table(values, suffix)
        elif suffix == ".npz":
            table = _read_npz(path, key)
        elif suffix == ".parquet":
            table = _read_parquet(path)
        else:
            table = _read_csv(path, suffix, header, index)
    except InputError:
        raise
    except PermissionError:
        raise InputError(f"{path} cannot be read: permission denied.") from None
    except (
        *(OSError, ValueError, EOFError, UnicodeError),
        *(zipfile.BadZipFile, csv.Error),
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in reason or "Python objects" in reason:
            reason = "it holds Python objects, which are never loaded"
        raise InputError(f"{path} cannot be read: {reason.rstrip('.')}.") from None
    if table.values.ndim != 2:
        raise InputError(
            f"{path.name} holds a {table.values.ndim}-D array; a table (2-D) is needed."
        )
    if table.values.dtype.kind not in "fiub":
        raise InputError(
            f"{path.name} holds values of type {table.values.dtype}; real numbers are "
            "needed."
        )
    return table


def _read_npz(path: Path, key: str | None) -> Table:
    with np.load(path, allow_pickle=False) as archive:
        names = archive.files
        if key is None and len(names) != 1:
            raise InputError(
                f"{path.name} holds {len(names)} arrays ({', '.join(names)}); "
                "say which with key=."
            )
        key = key or names[0]
        if key not in names:
            raise InputError(
                f"{path.name} has no array named {key!r}; it has {', '.join(names)}."
            )
        return Table(archive[key], ".npz", key=key)


def _read_parquet(path: Path) -> Table:
    import pandas as pd

    try:
        import pyarrow
    except ImportError:
        raise InputError(
            "Reading Parquet needs pyarrow: pip install 'discrepant[parquet]'."
        ) from None
    try:
        frame = pd.read_parquet(path)
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from None
    return Table(
        _numbers(frame, [str(name) for name in frame.columns], path),
        ".parquet",
        rows=frame.index,
        columns=list(frame.columns),
    )


def _read_csv(
    path: Path, suffix: str, header: bool | None, index: bool | None
) -> Table:
    import pandas as pd

    with path.open(encoding="utf-8-sig", newline="") as file:
        raw = [line for line in (file.readline() for _ in range(30)) if line]
    head = [line for line in raw if line.strip()][:20]
    if not head:
        raise InputError(f"{path.name} is empty.")
    separator = _separator(head[0], suffix)
    lines = list(csv.reader(head, delimiter=separator))
    if all(len(line) == 1 for line in lines) and len(head[-1].split()) > 1:
        raise InputError(
            f"{path.name} has no commas, semicolons, tabs or bars between its cells; "
            "save it with one of them."
        )
    comma = separator != "," and any(
        re.fullmatch(r"\s*[+-]?\d+,\d+\s*", cell) for line in lines for cell in line
    )
    decimal = "," if comma else "."
    first, body = lines[0], lines[1:]
    cornered = _is_cornered(first, body, decimal)
    if header is None:
        header = cornered or any(
            not _is_number(cell, decimal) for cell in first[1:] or first
        )
    if index is None:
        below = [line[0] for line in lines[header:]]
        words = sum(not _is_number(cell, decimal) for cell in below)
        index = (cornered and header) or 2 * words >= max(len(below), 1)
    if len(lines) <= header:
        raise InputError(f"{path.name} holds no rows below its labels.")
    missing: dict[Any, list[str]] = {
        i: MISSING for i in range(index, max(map(len, lines)))
    }
    frame = pd.read_csv(
        path,
        sep=separator,
        decimal=decimal,
        header=None,
        skiprows=raw.index(head[0]) + 1 if header else 0,
        index_col=0 if index else None,
        dtype={0: str} if index else None,
        # Of a row label, only that it is there is known: it may well be "NA".
        keep_default_na=False,
        na_values=missing,
        encoding="utf-8-sig",
        skipinitialspace=True,
    )
    width = frame.shape[1] + index
    if header and len(first) == width - 1 and index:
        first = ["", *first]  # as R writes it: no cell above the row labels
    if header and len(first) != width:
        raise InputError(
            f"{path.name} has {len(first)} labels in its first line but {width} "
            "columns below."
        )
    labels = [str(label) for label in (first if header else range(1, width + 1))]
    return Table(
        _numbers(frame, labels[int(index) :], path, decimal),
        suffix,
        rows=frame.index if index else None,
        columns=labels[int(index) :] if header else None,
        corner=labels[0] if header and index else "",
        separator=separator,
        decimal=decimal,
    )


def _separator(line: str, suffix: str) -> str:
    if suffix == ".tsv":
        return "\t"

    def cells(mark: str) -> int:
        return len(next(csv.reader([line], delimiter=mark)))

    return max(",;\t|", key=cells)  # on a tie the comma, which comes first


def _is_cornered(first: list[str], body: list[list[str]], decimal: str) -> bool:
    """Tell whether the first line and column hold labels by the corner between them.

    The corner is empty and the column below is not, or (as R writes it) the first line
    is one cell short. Labels may be whole numbers, such as years, but all differ.
    """
    if body and all(len(line) == len(first) + 1 for line in body):
        return not all(_is_number(cell, decimal) for cell in first)
    names = [cell.strip() for cell in first[1:]]
    return (
        bool(names and body)
        and not first[0].strip()
        and all(line[0].strip() for line in body)
        and all(
            re.fullmatch(r"-?\d+", name) or not _is_number(name, decimal)
            for name in names
        )
        and (len(set(names)) == len(names) or any(not n.isdigit() for n in names))
    )


def _is_number(cell: str, decimal: str) -> bool:
    """Tell whether a cell is a number or stands for a missing one."""
    text = cell.strip()
    if text.lower() in {"", *_WORDS}:
        return True
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return True


def _numbers(frame: Any, labels: list[str], path: Path, decimal: str = ".") -> Array:
    """Return the frame's values, naming the first column that is not of numbers."""
    import pandas as pd

    for label, (_, column) in zip(labels, frame.items(), strict=True):
        if not pd.api.types.is_numeric_dtype(column):
            row, text = next(
                (
                    (row, value)
                    for row, value in enumerate(column, 1)
                    if isinstance(value, str) and not _is_number(value, decimal)
                ),
                (1, column.iloc[0]),
            )
            raise InputError(
                f"Column {label!r} of {path.name} holds {str(text)!r} in row {row}, "
                "which is not a number; mend it or drop the column (or say with "
                "index=True that the first column holds labels)."
            )
        if pd.api.types.is_complex_dtype(column):
            raise InputError(
                f"Column {label!r} of {path.name} is complex; real numbers are needed."
            )
    kind = _common_dtype(frame)
    return np.asarray(frame.to_numpy(dtype=kind, na_value=np.nan))


def _common_dtype(frame: Any) -> np.dtype[Any]:
    """Keep float32 where all columns are; everything else is float64."""
    kinds = {str(kind).lower() for kind in frame.dtypes}
    return np.dtype(np.float32 if kinds == {"float32"} else np.float64)

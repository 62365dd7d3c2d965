"""Read and write files of numbers with their labels: CSV, NPY, NPZ and Parquet."""

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from discrepant.core.errors import InputError, missing_extra
from discrepant.core.linalg import Array
from discrepant.core.memory import check_declared_size, check_memory
from discrepant.core.progress import StoppedError
from discrepant.core.validation import error_text
from discrepant.table.io.csv_dialect import (
    MISSING_WORDS,
    CsvDialect,
    detect_dialect,
    is_number,
)

FORMATS = (".csv", ".tsv", ".npy", ".npz", ".parquet")


@dataclass(frozen=True, eq=False)
class Table:
    """The values of a file, and its labels."""

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
        """Where the labels are: "first line", "first column", both, or "none"."""
        places = {"first line": self.columns, "first column": self.rows}
        return ", ".join(k for k, v in places.items() if v is not None) or "none"

    def write(self, path: Path, values: Array) -> None:
        """Write values of the same shape with the same format and labels."""
        if self.suffix == ".npy":
            np.save(path, values, allow_pickle=False)
        elif self.suffix == ".npz":
            # numpy.savez gives some names another meaning.
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
    decimal: str | None = None,
) -> Table:
    """Read a table of numbers.

    Parameters
    ----------
    path : Path
        A file whose suffix is one of `FORMATS`.
    header, index : bool, optional
        Whether the first line of a CSV file holds column labels, and its first column
        row labels; by default detected.
    key : str, optional
        The name of the array in an NPZ file with several.
    decimal : {".", ","}, optional
        The decimal mark of a text file; by default detected.
    """
    suffix = path.suffix.lower()
    with translate_read_errors(path, FORMATS):
        if suffix == ".npy":
            values = np.load(path, mmap_mode="r", allow_pickle=False)
            table = Table(values, suffix)
        elif suffix == ".npz":
            table = read_npz(path, key)
        elif suffix == ".parquet":
            table = _read_parquet(path)
        else:
            table = _read_csv(path, suffix, header, index, decimal)
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


@contextmanager
def translate_read_errors(path: Path, formats: tuple[str, ...]) -> Iterator[None]:
    """Raise `InputError` with one sentence for any error while a file is read."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it.")
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if path.suffix.lower() not in formats:
        raise InputError(
            f"{path.name} has an unknown ending; known are {', '.join(formats)}."
        )
    try:
        yield
    except (InputError, StoppedError):
        raise
    except PermissionError:
        raise InputError(f"{path} cannot be read: permission denied.") from None
    except MemoryError:
        raise InputError(
            f"{path} cannot be read: it is too large for memory."
        ) from None
    except Exception as error:  # readers raise anything on a damaged file
        reason = error_text(error)
        if "pickle" in reason or "Python objects" in reason:
            reason = "it holds Python objects, which are never loaded"
        raise InputError(f"{path} cannot be read: {reason}.") from None


def read_npz(path: Path, key: str | None) -> Table:
    """Read the one array of an NPZ file, or the one that is named."""
    # numpy.load leaves a file open if it is no zip file.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        names = archive.files
        if key is None and len(names) != 1:
            raise InputError(
                f"{path.name} holds {len(names)} arrays ({', '.join(names)}); "
                "choose one with key=."
            )
        key = key or names[0]
        if key not in names:
            raise InputError(
                f"{path.name} has no array named {key!r}; it has {', '.join(names)}."
            )
        check_zip_size(path, [f"{key}.npy"])
        return Table(archive[key], ".npz", key=key)


def check_zip_size(path: Path, names: list[str], times: int = 2) -> None:
    """Raise `InputError` if members of a zip file declare more than it or memory holds.

    ``times`` is the number of copies of their content in memory.
    """
    with zipfile.ZipFile(path) as archive:
        declared = sum(
            info.file_size for info in archive.infolist() if info.filename in names
        )
        check_declared_size(path, declared)
        check_memory(path, times * declared)
        for name in names:
            if name.endswith(".npy") and name in archive.namelist():
                with archive.open(name) as file:
                    _check_header(path, file, archive.getinfo(name).file_size)


def _check_header(path: Path, file: IO[bytes], size: int) -> None:
    """Raise `ValueError` if an array is larger than its zip member."""
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(np.lib.format.read_magic(file))
    if read is None:
        raise ValueError("its array is of an unknown version")
    shape, _, dtype = read(file)
    declared = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and declared > size:
        raise ValueError(f"it declares {declared:,} bytes and holds {size:,}")


def check_text_size(path: Path, dialect: CsvDialect) -> None:
    """Raise `InputError` if the cells of a text file do not fit into memory."""
    with path.open("rb") as file:
        lines = sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 22), b""))
    check_memory(path, 16 * dialect.width * lines)


def read_parquet(path: Path) -> Any:
    """Read a Parquet file as a data frame."""
    import pandas as pd

    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("Reading Parquet needs pyarrow", "parquet") from None
    try:
        declared = pyarrow.parquet.read_metadata(path)
        cells = declared.num_rows * declared.num_columns
        check_memory(path, 16 * cells)
        return pd.read_parquet(path)
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from None


def _read_parquet(path: Path) -> Table:
    frame = read_parquet(path)
    return Table(
        _numbers(frame, [str(name) for name in frame.columns], path),
        ".parquet",
        rows=frame.index,
        columns=list(frame.columns),
    )


def _read_csv(
    path: Path,
    suffix: str,
    header: bool | None,
    index: bool | None,
    decimal: str | None,
) -> Table:
    import pandas as pd

    dialect = detect_dialect(path, suffix, header, index, decimal=decimal)
    check_text_size(path, dialect)
    labelled = int(dialect.index)
    # A row label may be "NA". (A dict takes pandas long with thousands of columns.)
    missing: Any = MISSING_WORDS
    if dialect.index:
        missing = {i: MISSING_WORDS for i in range(labelled, dialect.width)}
    frame = pd.read_csv(
        path,
        sep=dialect.separator,
        decimal=dialect.decimal,
        thousands="," if dialect.grouped else None,
        header=None,
        skiprows=dialect.before + 1 if dialect.header else 0,
        index_col=0 if dialect.index else None,
        dtype={0: str} if dialect.index else None,
        keep_default_na=False,
        na_values=missing,
        encoding=dialect.encoding,
        skipinitialspace=True,
    )
    labels = dialect.labels(path, frame.shape[1] + labelled)
    return Table(
        _numbers(frame, labels[labelled:], path, dialect.decimal),
        suffix,
        rows=frame.index if dialect.index else None,
        columns=labels[labelled:] if dialect.header else None,
        corner=labels[0] if dialect.header and dialect.index else "",
        separator=dialect.separator,
        decimal=dialect.decimal,
    )


def _numbers(frame: Any, labels: list[str], path: Path, decimal: str = ".") -> Array:
    """Return the frame's values; raise `InputError` at the first that is no number."""
    import pandas as pd

    for label, (_, column) in zip(labels, frame.items(), strict=True):
        if not pd.api.types.is_numeric_dtype(column):
            row, text = next(
                (
                    (row, value)
                    for row, value in enumerate(column, 1)
                    if isinstance(value, str) and not is_number(value, decimal)
                ),
                (1, column.iloc[0]),
            )
            raise InputError(
                f"Column {label!r} of {path.name} holds {str(text)!r} in row {row}, "
                "which is not a number; correct it or drop the column (or pass "
                "index=True if the first column holds labels)."
            )
        if pd.api.types.is_complex_dtype(column):
            raise InputError(
                f"Column {label!r} of {path.name} is complex; real numbers are needed."
            )
    kind = _common_dtype(frame)
    return np.asarray(frame.to_numpy(dtype=kind, na_value=np.nan))


def _common_dtype(frame: Any) -> np.dtype[Any]:
    """Return float32 if all columns are, else float64."""
    kinds = {str(kind).lower() for kind in frame.dtypes}
    return np.dtype(np.float32 if kinds == {"float32"} else np.float64)

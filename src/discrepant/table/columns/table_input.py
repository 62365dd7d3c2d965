"""Any table taken apart: columns of numbers, and the rest."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import error_text, masked_to_nan, quote
from discrepant.table.columns.labelled import frame_of, is_grid
from discrepant.table.columns.text_numbers import Readout, Writing, read

SAMPLE = 1000  # cells of text that are looked at before all are read
# Names of columns whose numbers name something, however often they repeat.
_CODED = re.compile(
    r"(^|[\W_])(id|ids|uuid|guid|ssn|isbn|ean|upc|fips|zip|plz|post(al)?[\W_]?code|"
    r"zip[\W_]?code|phone|telephone|tel|fax)([\W_]?(number|no|nr|code))?[\W_]?\d*$"
)
_NAMED = re.compile(r"(^|[\W_])(id|ids|uuid|guid|key|index|rownames?)$|^unnamed: 0$")


@dataclass(frozen=True)
class Field:
    """What a column holds by its type, before its values are looked at.

    Attributes
    ----------
    role : str
        "numbers" or "booleans", which are judged; "text", "dates", "durations",
        "categories", "other" or "set aside", which are carried through.
    writing : Writing or None
        How numbers are written, where they are written as text.
    named : bool
        Whether the column's name is that of an identifier of rows (index, key).
    coded : bool
        Whether it is that of identifiers or codes that may repeat (zip, customer_id).
    """

    role: str
    writing: Writing | None = None
    named: bool = False
    coded: bool = False

    @property
    def judged(self) -> bool:
        """Whether the column is one of numbers."""
        return self.role in ("numbers", "booleans")


@dataclass(frozen=True, eq=False)
class Sheet:
    """A table as a data frame, and its columns of numbers as one array.

    Attributes
    ----------
    given : object
        What was passed in.
    frame : DataFrame
        The same as a frame.
    fields : tuple of Field
        One for each column.
    values : array (n, k)
        The columns of numbers; NaN: missing or not to be read.
    unreadable : dict of int to bool array
        By column of the frame, cells of text in a column of numbers.
    foreign : dict of int to bool array
        Those among them that are so on purpose (<0.5): neither wrong nor missing.
    """

    given: Any
    frame: Any
    fields: tuple[Field, ...]
    values: Array
    unreadable: dict[int, Array]
    foreign: dict[int, Array]

    @property
    def judged(self) -> list[int]:
        """Positions of the columns of numbers."""
        return [j for j, field in enumerate(self.fields) if field.judged]


def open_sheet(
    table: Any,
    columns: Any = None,
    drop: Any = None,
    fields: tuple[Field, ...] | None = None,
) -> Sheet:
    """Take a table apart.

    Parameters
    ----------
    table : DataFrame, array, list of lists or polars frame
    columns, drop : label or list of labels, optional
        The only columns to judge, and columns not to judge.
    fields : tuple of Field, optional
        What the columns hold, where it is known from another table.
    """
    frame = as_frame(table)
    n, p = frame.shape
    if n == 0 or p == 0:
        raise InputError(f"The table is empty: it has {n} rows and {p} columns.")
    if n == 1 and fields is None:
        raise InputError("The table has one row (n_samples = 1); at least two needed.")
    aside = _aside(frame, columns, drop)
    known, arrays, unreadable, foreign = [], [], {}, {}
    plain = _plain(frame)
    for j in range(p):
        series = frame.iloc[:, j]
        told = fields[j] if fields is not None else None
        if (told is not None and not told.judged) or j in aside:
            known.append(told or Field("set aside"))
            continue
        field, values, found = _read(series, told)
        known.append(field)
        if not field.judged:
            continue
        if plain is None:
            arrays.append(values)
        if found is not None and found.unreadable.any():
            unreadable[j] = found.unreadable & ~found.foreign
            foreign[j] = found.foreign
            values[unreadable[j]] = np.inf  # surely wrong
    if plain is None or len(_kept(known)) < p:
        picked = arrays if plain is None else [plain[:, j] for j in _kept(known)]
        plain = np.column_stack(picked) if picked else np.zeros((n, 0))
    return Sheet(table, frame, tuple(known), plain, unreadable, foreign)


def _kept(fields: list[Field]) -> list[int]:
    return [j for j, field in enumerate(fields) if field.judged]


def _plain(frame: Any) -> Array | None:
    """Give the values of a frame that is all of one type of float, uncopied."""
    kinds = set(frame.dtypes)
    if kinds <= {np.dtype(np.float64)}:
        return np.asarray(frame.to_numpy())
    return None


def as_frame(table: Any) -> Any:
    """Give any table as a data frame."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table
    if type(table).__module__.split(".")[0] == "polars" and hasattr(table, "columns"):
        return _from_polars(table)
    if is_grid(table):
        return frame_of(table)
    if hasattr(table, "toarray"):
        raise InputError("The table is sparse; pass it as an array: table.toarray().")
    table = masked_to_nan(table)
    if isinstance(table, list | tuple):
        return _from_lists(table)
    if isinstance(table, dict):
        raise InputError(
            "A table is needed, got a dictionary; pass pandas.DataFrame(table)."
        )
    try:
        array = np.asarray(table)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"This cannot be read as a table: {error_text(error)}."
        ) from None
    if array.dtype.names is not None:
        raise InputError(
            "A structured array has fields instead of columns; pass "
            "pandas.DataFrame(table)."
        )
    if array.dtype.kind == "c":
        raise InputError(
            "Complex data not supported; pass real and imaginary parts separately."
        )
    if array.ndim != 2:
        raise InputError(
            f"A table of rows and columns is needed, got {array.ndim} dimension"
            f"{'s' * (array.ndim != 1)}. Reshape your data."
        )
    return pd.DataFrame(array, copy=False)


def _from_lists(table: Sequence[Any]) -> Any:
    import pandas as pd

    rows = list(table)
    if not rows or not all(isinstance(row, list | tuple | np.ndarray) for row in rows):
        raise InputError("A list of lists, one for each row, is needed.")
    if len({len(row) for row in rows}) != 1:
        raise InputError("The rows of the table differ in length.")
    return pd.DataFrame([list(row) for row in rows])


def _from_polars(table: Any) -> Any:
    import pandas as pd

    columns = []
    for name in table.columns:
        series = table[name]
        numeric = series.dtype.is_numeric() or series.dtype.is_temporal()
        cells = series.to_numpy() if numeric else series.to_list()
        columns.append(pd.Series(cells, name=name))
    return pd.concat(columns, axis=1) if columns else pd.DataFrame()


def _aside(frame: Any, columns: Any, drop: Any) -> set[int]:
    """Give the positions of the columns that are not to be judged."""
    found: set[int] = set()
    if columns is not None:
        found = set(range(frame.shape[1])) - positions(frame, columns, "columns")
    if drop is not None:
        found |= positions(frame, drop, "drop")
    if len(found) == frame.shape[1]:
        raise InputError("columns= and drop= leave no column to judge.")
    return found


def positions(frame: Any, labels: Any, parameter: str) -> set[int]:
    """Give the positions of the columns that have these labels."""
    names = list(frame.columns)
    single = isinstance(labels, str | tuple | int)
    wanted = [labels] if single and labels in names else labels
    if isinstance(wanted, str | int) or not hasattr(wanted, "__iter__"):
        wanted = [wanted]
    found = set()
    for label in wanted:
        at = [j for j, name in enumerate(names) if _same(name, label)]
        if not at:
            known = ", ".join(str(name) for name in names[:8])
            more = ", …" if len(names) > 8 else ""
            raise InputError(
                f"{parameter}= names {quote(label)}, which is no column of the table "
                f"({known}{more})."
            )
        found |= set(at)
    return found


def _same(name: Any, label: Any) -> bool:
    return bool(name == label or (isinstance(label, str) and str(name) == label))


def _read(series: Any, told: Field | None) -> tuple[Field, Array, Readout | None]:
    """Say what a column holds, and read its numbers."""
    import pandas as pd

    kind, types = series.dtype, pd.api.types
    nothing = np.zeros(0)
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", str(series.name).strip()).lower()
    named, coded = bool(_NAMED.search(name)), bool(_CODED.search(name))
    role = ""
    if isinstance(kind, pd.CategoricalDtype):
        role = "categories"
    elif types.is_bool_dtype(kind):
        role = "booleans"
    elif types.is_complex_dtype(kind):
        role = "other"
    elif types.is_numeric_dtype(kind):
        role = "numbers"
    elif types.is_datetime64_any_dtype(kind) or isinstance(kind, pd.PeriodDtype):
        role = "dates"
    elif types.is_timedelta64_dtype(kind):
        role = "durations"
    elif not (types.is_object_dtype(kind) or types.is_string_dtype(kind)):
        role = "other"
    if role in ("numbers", "booleans"):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        field = told or Field(role, named=named, coded=coded)
        return field, np.asarray(values), None
    if role and told is None:
        return Field(role), nothing, None
    found = _read_objects(series, told)
    if not found.numeric:
        empty = not found.unreadable.any() and not np.isfinite(found.values).any()
        other = "dates" if found.dates else "empty" if empty else "text"
        return Field(other), nothing, None
    texts = any(isinstance(cell, str) for cell in series.iloc[:SAMPLE])
    field = told or Field("numbers", found.writing if texts else None, named, coded)
    return field, found.values, found


def _read_objects(series: Any, told: Field | None) -> Readout:
    """Read cells of any type, a thousand of them first."""
    cells, missing = series.to_numpy(dtype=object), series.isna().to_numpy(dtype=bool)
    writing = None
    if told is not None:
        writing = told.writing or Writing()
    elif len(cells) > SAMPLE:
        some = np.linspace(0, len(cells) - 1, SAMPLE).astype(int)
        first = read(cells[some], missing[some])
        if not first.numeric:
            return first
    return read(cells, missing, writing)

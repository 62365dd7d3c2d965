"""Convert any table to a data frame and a float array of its numeric columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import error_text, masked_to_nan, quote
from discrepant.table.columns.text_numbers import (
    NumberFormat,
    ParsedColumn,
    parse_column,
)

# Cells of a text column that are parsed before all are.
PREVIEW_CELLS = 1000
# Magnitude beyond which the difference of two floats may overflow.
MAX_MAGNITUDE = 1e307
# Names of columns whose numbers are codes, however often they repeat.
_CODE_NAME = re.compile(
    r"(^|[\W_])(id|ids|uuid|guid|ssn|isbn|ean|upc|fips|zip|plz|post(al)?[\W_]?code|"
    r"zip[\W_]?code|phone|telephone|tel|fax)([\W_]?(number|no|nr|code))?[\W_]?\d*$"
)
# Names of columns whose numbers identify rows, if they all differ.
_ROW_ID_NAME = re.compile(
    r"(^|[\W_])(id|ids|uuid|guid|key|index|rownames?)$|^unnamed: 0$"
)


@dataclass(frozen=True)
class ColumnType:
    """The type of a column, by its dtype and its name.

    Attributes
    ----------
    role : str
        "numbers" or "booleans", which are analysed; "text", "dates", "durations",
        "categories", "other", "empty" or "set aside", which are returned unchanged.
    number_format : NumberFormat or None
        The notation of numbers that are written as text.
    name_suggests_row_id : bool
        Whether the column's name is that of a row identifier (index, key).
    name_suggests_code : bool
        Whether its name is that of codes that may repeat (zip, customer_id).
    """

    role: str
    number_format: NumberFormat | None = None
    name_suggests_row_id: bool = False
    name_suggests_code: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers or booleans."""
        return self.role in ("numbers", "booleans")


@dataclass(frozen=True, eq=False)
class ParsedTable:
    """A table as a data frame, and its numeric columns as one float array.

    Attributes
    ----------
    original : object
        The table as it was given.
    frame : DataFrame
        The same as a data frame.
    types : tuple of ColumnType
        One for each column.
    values : array (n, k)
        The numeric columns; NaN where a cell is missing, inf where it does not parse.
    unparsed : dict of int to bool array
        By position in the frame, cells of a numeric column that are no numbers.
    other_notation : dict of int to bool array
        By position, cells whose other notation is intended (<0.5); NaN in ``values``.
    """

    original: Any
    frame: Any
    types: tuple[ColumnType, ...]
    values: Array
    unparsed: dict[int, Array]
    other_notation: dict[int, Array]

    @property
    def numeric_positions(self) -> list[int]:
        """Positions of the numeric columns in the frame."""
        return _numeric_positions(self.types)


def parse_table(
    table: Any,
    columns: Any = None,
    drop: Any = None,
    known_types: tuple[ColumnType, ...] | None = None,
) -> ParsedTable:
    """Convert a table to a data frame and the float array of its numeric columns.

    Parameters
    ----------
    table : DataFrame, array, list of lists, polars frame or xarray
    columns, drop : label or list of labels, optional
        The only columns to analyse, and columns to leave out.
    known_types : tuple of ColumnType, optional
        The types of the columns, where they are known from another table.
    """
    frame = as_frame(table)
    n, p = frame.shape
    if n == 0 or p == 0:
        raise InputError(f"The table is empty: it has {n} rows and {p} columns.")
    if n == 1 and known_types is None:
        raise InputError("The table has one row (n_samples = 1); at least two needed.")
    excluded = _excluded_positions(frame, columns, drop)
    types, arrays, unparsed, other_notation = [], [], {}, {}
    shared = _float_values(frame)
    for j in range(p):
        known = known_types[j] if known_types is not None else None
        if (known is not None and not known.is_numeric) or j in excluded:
            types.append(known or ColumnType("set aside"))
            continue
        column_type, values, parsed = _parse_series(frame.iloc[:, j], known)
        types.append(column_type)
        if not column_type.is_numeric:
            continue
        if shared is None:
            arrays.append(values)
        if parsed is not None and parsed.unparsed.any():
            unparsed[j] = parsed.unparsed & ~parsed.other_notation
            other_notation[j] = parsed.other_notation
            values[unparsed[j]] = np.inf  # always flagged
    numeric = _numeric_positions(types)
    if shared is None or len(numeric) < p:
        chosen = arrays if shared is None else [shared[:, j] for j in numeric]
        shared = np.column_stack(chosen) if chosen else np.zeros((n, 0))
    return ParsedTable(table, frame, tuple(types), shared, unparsed, other_notation)


def check_has_numbers(parsed: ParsedTable) -> None:
    """Raise `InputError` for a table without any number to analyse."""
    positions = parsed.numeric_positions
    if not positions:
        roles = sorted({column_type.role for column_type in parsed.types})
        raise InputError(
            f"No column holds numbers ({', '.join(roles)} only): nothing can be "
            "checked."
        )
    if not np.isfinite(parsed.values).any():
        raise InputError("All values are missing; at least one must be observed.")
    for j, values in zip(positions, parsed.values.T, strict=True):
        if np.mean((np.abs(values) > MAX_MAGNITUDE) & np.isfinite(values)) > 0.25:
            raise InputError(
                f"Column {parsed.frame.columns[j]!r} holds values beyond "
                f"{MAX_MAGNITUDE:g}, whose differences overflow; divide it by a power "
                "of ten."
            )


def _numeric_positions(types: Sequence[ColumnType]) -> list[int]:
    return [j for j, column_type in enumerate(types) if column_type.is_numeric]


def _float_values(frame: Any) -> Array | None:
    """Return the values of a frame of float64 columns, without a copy."""
    if set(frame.dtypes) <= {np.dtype(np.float64)}:
        return np.asarray(frame.to_numpy())
    return None


def as_frame(table: Any) -> Any:
    """Return any table as a pandas DataFrame."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table
    if type(table).__module__.split(".")[0] == "polars" and hasattr(table, "columns"):
        return _from_polars(table)
    if is_xarray(table):
        return frame_from_xarray(table)
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


def is_xarray(table: Any) -> bool:
    """Return whether an object is a DataArray or a Dataset of xarray."""
    from_xarray = type(table).__module__.split(".")[0] == "xarray"
    return from_xarray and hasattr(table, "coords") and hasattr(table, "attrs")


def frame_from_xarray(grid: Any) -> Any:
    """Return a 2-D DataArray, or a Dataset, as a data frame.

    The variables of a Dataset are columns, and each point of the grid that they share
    is a row.
    """
    import pandas as pd

    if not hasattr(grid, "data_vars"):
        if grid.ndim != 2:
            raise InputError(
                f"A DataArray of rows and columns is needed, got {grid.ndim} dimension"
                f"{'s' * (grid.ndim != 1)}; name the dimension of its columns with "
                "grid.to_dataset(dim=…)."
            )
        index, columns = (grid.indexes.get(dim) for dim in grid.dims)
        return pd.DataFrame(grid.values, index=index, columns=columns, copy=False)
    dims = _common_dims(grid)
    indexes = [
        grid.indexes.get(dim, pd.RangeIndex(grid.sizes[dim], name=dim)) for dim in dims
    ]
    index = indexes[0] if len(dims) == 1 else pd.MultiIndex.from_product(indexes)
    cells = {
        name: variable.transpose(*dims).values.ravel()
        for name, variable in grid.data_vars.items()
    }
    return pd.DataFrame(cells, index=index)


def xarray_from_frame(grid: Any, frame: Any) -> Any:
    """Return a copy of a grid with the values of its frame (`frame_from_xarray`)."""
    if not hasattr(grid, "data_vars"):
        return grid.copy(data=frame.to_numpy().astype(grid.dtype, copy=False))
    dims = _common_dims(grid)
    shape = [grid.sizes[dim] for dim in dims]
    variables = {}
    for name, variable in grid.data_vars.items():
        values = np.asarray(frame[name], variable.dtype).reshape(shape)
        order = [dims.index(dim) for dim in variable.dims]
        variables[name] = variable.copy(data=values.transpose(order))
    return grid.assign(variables)


def _common_dims(grid: Any) -> tuple[Any, ...]:
    """Return the dimensions that all variables of a Dataset have."""
    sets = {frozenset(variable.dims) for variable in grid.data_vars.values()}
    if len(sets) != 1 or not next(iter(sets)):
        raise InputError(
            "The variables of a Dataset are the columns of a table, and must all have "
            "the same dimensions, at least one; choose some of them: grid[[…]]."
        )
    return tuple(next(iter(grid.data_vars.values())).dims)


def _excluded_positions(frame: Any, columns: Any, drop: Any) -> set[int]:
    """Return the positions of the columns that ``columns`` and ``drop`` leave out."""
    excluded: set[int] = set()
    if columns is not None:
        excluded = set(range(frame.shape[1])) - positions(frame, columns, "columns")
    if drop is not None:
        excluded |= positions(frame, drop, "drop")
    if len(excluded) == frame.shape[1]:
        raise InputError("columns= and drop= leave no column to check.")
    return excluded


def positions(frame: Any, labels: Any, parameter: str) -> set[int]:
    """Return the positions of the columns that have these labels."""
    names = list(frame.columns)
    single = isinstance(labels, str | tuple | int)
    wanted = [labels] if single and labels in names else labels
    if isinstance(wanted, str | int) or not hasattr(wanted, "__iter__"):
        wanted = [wanted]
    chosen = set()
    for label in wanted:
        at = [j for j, name in enumerate(names) if _same_label(name, label)]
        if not at:
            known = ", ".join(str(name) for name in names[:8])
            more = ", …" if len(names) > 8 else ""
            raise InputError(
                f"{parameter}= names {quote(label)}, which is no column of the table "
                f"({known}{more})."
            )
        chosen |= set(at)
    return chosen


def _same_label(name: Any, label: Any) -> bool:
    return bool(name == label or (isinstance(label, str) and str(name) == label))


def _parse_series(
    series: Any, known: ColumnType | None
) -> tuple[ColumnType, Array, ParsedColumn | None]:
    """Return the type of a column and its numbers."""
    import pandas as pd

    dtype, types = series.dtype, pd.api.types
    nothing = np.zeros(0)
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", str(series.name).strip()).lower()
    row_id, code = bool(_ROW_ID_NAME.search(name)), bool(_CODE_NAME.search(name))
    role = ""
    if isinstance(dtype, pd.CategoricalDtype):
        role = "categories"
    elif types.is_bool_dtype(dtype):
        role = "booleans"
    elif types.is_complex_dtype(dtype):
        role = "other"
    elif types.is_numeric_dtype(dtype):
        role = "numbers"
    elif types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        role = "dates"
    elif types.is_timedelta64_dtype(dtype):
        role = "durations"
    elif not (types.is_object_dtype(dtype) or types.is_string_dtype(dtype)):
        role = "other"
    if role in ("numbers", "booleans"):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return known or ColumnType(role, None, row_id, code), np.asarray(values), None
    if role and known is None:
        return ColumnType(role), nothing, None
    parsed = _parse_objects(series, known)
    if not parsed.is_numeric:
        empty = not parsed.unparsed.any() and not np.isfinite(parsed.values).any()
        role = "dates" if parsed.has_dates else "empty" if empty else "text"
        return ColumnType(role), nothing, None
    texts = any(isinstance(cell, str) for cell in series.iloc[:PREVIEW_CELLS])
    number_format = parsed.number_format if texts else None
    column_type = known or ColumnType("numbers", number_format, row_id, code)
    return column_type, parsed.values, parsed


def _parse_objects(series: Any, known: ColumnType | None) -> ParsedColumn:
    """Parse cells of any type; all of them only if a preview is numeric."""
    cells, missing = series.to_numpy(dtype=object), series.isna().to_numpy(dtype=bool)
    number_format = None
    if known is not None:
        number_format = known.number_format or NumberFormat()
    elif len(cells) > PREVIEW_CELLS:
        some = np.linspace(0, len(cells) - 1, PREVIEW_CELLS).astype(int)
        preview = parse_column(cells[some], missing[some])
        if not preview.is_numeric:
            return preview
    return parse_column(cells, missing, number_format)

"""Write replaced cells back into the original container, dtypes and notations."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from discrepant.core.arrays import round_to_dtype
from discrepant.core.linalg import Array
from discrepant.table.columns.table_input import (
    ColumnType,
    ParsedTable,
    is_xarray,
    xarray_from_frame,
)

# By numeric column: the rows that are replaced, and their new values.
Replacements = dict[int, tuple[Array, Array]]


def replace_cells(parsed: ParsedTable, cells: Array, new: Array) -> Any:
    """Return the original table with new numbers in some cells, all others unchanged.

    Parameters
    ----------
    parsed : ParsedTable
        The table.
    cells : int array (k, 2)
        Row and numeric column of each cell to replace.
    new : array (k,)
        The new values; rounded for columns of integers and booleans.
    """
    order = np.lexsort(cells.T)
    rows, columns = cells[order].T
    changed, starts = np.unique(columns, return_index=True)
    parts = zip(
        np.split(rows, starts[1:]), np.split(new[order], starts[1:]), strict=True
    )
    replacements: Replacements = dict(zip(changed.tolist(), parts, strict=False))
    original = parsed.original
    if isinstance(original, list | tuple):
        return _replace_in_lists(parsed, replacements)
    if type(original).__module__.split(".")[0] == "polars":
        return _replace_in_polars(parsed, replacements)
    if is_xarray(original):
        frame = _replace_in_frame(parsed, cells, new, replacements)
        return xarray_from_frame(original, frame)
    if not hasattr(original, "iloc"):
        return _replace_in_array(parsed, replacements)
    return _replace_in_frame(parsed, cells, new, replacements)


def _replace_in_frame(
    parsed: ParsedTable, cells: Array, new: Array, replacements: Replacements
) -> Any:
    import pandas as pd

    frame, positions = parsed.frame, parsed.numeric_positions
    if set(frame.dtypes) == {np.dtype(np.float64)} and len(positions) == len(
        parsed.types
    ):
        values = parsed.values.copy()
        values[tuple(cells.T)] = new
        labels = {"index": frame.index, "columns": frame.columns}
        cleaned = pd.DataFrame(values, **labels, copy=False)
        cleaned.attrs = dict(frame.attrs)
        return cleaned
    cleaned = frame.copy()
    for k, (rows, numbers) in replacements.items():
        j = positions[k]
        series = _replace_in_series(frame.iloc[:, j], parsed.types[j], rows, numbers)
        cleaned.isetitem(j, series)
    return cleaned


def _replace_in_series(
    series: Any, column_type: ColumnType, rows: Array, numbers: Array
) -> Any:
    import pandas as pd

    dtype = series.dtype
    if pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
        cells = series.to_numpy(dtype=object, copy=True)
        whole = _all_whole(cells)
        for i, number in zip(rows, numbers, strict=True):
            cells[i] = _like(cells[i], float(number), column_type, whole)
        return pd.Series(cells, index=series.index, dtype=dtype, name=series.name)
    numpy_dtype = getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype))
    fitted = as_type(numbers, np.dtype(numpy_dtype))
    if isinstance(dtype, pd.SparseDtype):
        dense = np.asarray(series.sparse.to_dense()).copy()
        dense[rows] = fitted
        return pd.Series(dense, index=series.index, name=series.name).astype(dtype)
    column = series.copy()
    column.iloc[rows] = fitted
    return column


def as_type(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Return numbers as a dtype: integers rounded and clipped to its range."""
    if dtype.kind == "b":
        return np.asarray(numbers >= 0.5)
    if dtype.kind in "iu":
        return round_to_dtype(numbers, dtype)
    return numbers.astype(dtype)


def _all_whole(cells: Array) -> bool:
    """Return whether all cells that are floats are whole numbers."""
    return not any(isinstance(cell, float) and not cell.is_integer() for cell in cells)


def _like(cell: Any, number: float, column_type: ColumnType, whole: bool) -> Any:
    """Return a number in the type and notation of the cell that it replaces."""
    if isinstance(cell, str) and column_type.number_format is not None:
        return column_type.number_format.format(number)
    if isinstance(cell, bool | np.bool_):
        return number >= 0.5
    if isinstance(cell, Decimal | Fraction):
        return type(cell)(repr(number))
    return round(number) if whole and isinstance(cell, int) else number


def _replace_in_array(parsed: ParsedTable, replacements: Replacements) -> Array:
    array, positions = np.asarray(parsed.original), parsed.numeric_positions
    if isinstance(parsed.original, np.ma.MaskedArray) or array.dtype.kind == "f":
        dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
        cleaned = np.array(parsed.frame.to_numpy(), dtype)
    elif array.dtype.kind in "iub":
        cleaned = array.copy()
    else:
        cleaned = parsed.frame.to_numpy(dtype=object, copy=True)
        for k, (rows, numbers) in replacements.items():
            j = positions[k]
            whole = _all_whole(cleaned[:, j])
            for i, number in zip(rows, numbers.tolist(), strict=True):
                cleaned[i, j] = _like(cleaned[i, j], number, parsed.types[j], whole)
        same = array.dtype == object
        return np.asarray(cleaned if same else cleaned.astype(array.dtype))
    for k, (rows, numbers) in replacements.items():
        cleaned[rows, positions[k]] = as_type(numbers, cleaned.dtype)
    return cleaned


def _replace_in_lists(parsed: ParsedTable, replacements: Replacements) -> list[Any]:
    cleaned = [list(row) for row in parsed.original]
    for k, (rows, numbers) in replacements.items():
        j = parsed.numeric_positions[k]
        column = np.array([None, *(row[j] for row in cleaned)], object)[1:]
        whole = _all_whole(column)
        for i, number in zip(rows, numbers.tolist(), strict=True):
            cleaned[i][j] = _like(cleaned[i][j], number, parsed.types[j], whole)
    return cleaned


def _replace_in_polars(parsed: ParsedTable, replacements: Replacements) -> Any:
    import polars

    table = parsed.original
    changed = []
    for k, (rows, numbers) in replacements.items():
        j = parsed.numeric_positions[k]
        series = table[table.columns[j]]
        cells = series.to_list()
        whole = series.dtype.is_integer()
        for i, number in zip(rows, numbers.tolist(), strict=True):
            if whole:
                cells[i] = round(number)
            else:
                cells[i] = _like(cells[i], number, parsed.types[j], False)
        changed.append(polars.Series(series.name, cells, dtype=series.dtype))
    return table.with_columns(changed)

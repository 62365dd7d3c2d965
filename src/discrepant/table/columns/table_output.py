"""Write replaced cells back into the original container, dtypes and notations."""

from decimal import Decimal
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


def replace_cells(parsed: ParsedTable, cells: Array, new: Array) -> Any:
    """Return the original table with new numbers in some cells, all others unchanged.

    A list of lists is returned as a data frame.

    Parameters
    ----------
    parsed : ParsedTable
        The table.
    cells : int array (k, 2)
        Row and numeric column of each cell to replace.
    new : array (k,)
        The new values; rounded for columns of integers and booleans.
    """
    original = parsed.original
    cleaned = _replace_in_frame(parsed, cells, new)
    if hasattr(original, "iloc") or isinstance(original, list | tuple):
        return cleaned
    if is_xarray(original):
        return xarray_from_frame(original, cleaned)
    if type(original).__module__.split(".")[0] == "polars":
        positions = np.array(parsed.numeric_positions, int)[cells[:, 1]]
        return _replace_in_polars(original, cleaned, cells[:, 0], positions)
    array = np.asarray(original)
    if isinstance(original, np.ma.MaskedArray) and array.dtype.kind != "f":
        return cleaned.to_numpy(dtype=float)
    values = cleaned.to_numpy(dtype=object if array.dtype.kind in "OUS" else None)
    return np.asarray(values).astype(array.dtype)


def _replace_in_frame(parsed: ParsedTable, cells: Array, new: Array) -> Any:
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
    for k in np.unique(cells[:, 1]).tolist():
        j, here = positions[k], cells[:, 1] == k
        series = _replace_in_series(
            frame.iloc[:, j], parsed.types[j], cells[here, 0], new[here]
        )
        cleaned.isetitem(j, series)
    return cleaned


def _replace_in_series(
    series: Any, column_type: ColumnType, rows: Array, numbers: Array
) -> Any:
    import pandas as pd

    dtype = series.dtype
    if pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
        cells = series.to_numpy(dtype=object, copy=True)
        whole = not any(isinstance(c, float) and not c.is_integer() for c in cells)
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


def _like(cell: Any, number: float, column_type: ColumnType, whole: bool) -> Any:
    """Return a number in the type and notation of the cell that it replaces."""
    if isinstance(cell, str) and column_type.number_format is not None:
        return column_type.number_format.format(number)
    if isinstance(cell, bool | np.bool_):
        return number >= 0.5
    if isinstance(cell, Decimal):
        return Decimal(repr(number))
    return round(number) if whole and isinstance(cell, int) else number


def _replace_in_polars(table: Any, cleaned: Any, rows: Array, columns: Array) -> Any:
    import polars

    changed = []
    for j in np.unique(columns).tolist():
        series = table[table.columns[j]]
        cells, whole = series.to_list(), series.dtype.is_integer()
        for i in rows[columns == j].tolist():
            value = cleaned.iat[i, j]
            cells[i] = round(float(value)) if whole else value
        changed.append(polars.Series(series.name, cells, dtype=series.dtype))
    return table.with_columns(changed)

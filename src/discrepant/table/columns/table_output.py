"""The same table with some cells replaced: same type, labels and types of columns."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from discrepant.core.arrays import round_to_dtype
from discrepant.core.linalg import Array
from discrepant.table.columns.labelled import grid_like, is_grid
from discrepant.table.columns.table_input import Field, Sheet

# By column of numbers: which rows are replaced, and by what.
Changes = dict[int, tuple[Array, Array]]


def rewrite(sheet: Sheet, cells: Array, new: Array) -> Any:
    """Give the table with other numbers in some cells, all else bit for bit the same.

    Parameters
    ----------
    sheet : Sheet
        The table.
    cells : int array (k, 2)
        Which cells are replaced, by row and column of numbers.
    new : array (k,)
        By what; whole numbers and booleans are rounded to.
    """
    order = np.lexsort(cells.T)
    rows, columns = cells[order].T
    found, begins = np.unique(columns, return_index=True)
    parts = zip(
        np.split(rows, begins[1:]), np.split(new[order], begins[1:]), strict=True
    )
    changes: Changes = dict(zip(found.tolist(), parts, strict=False))
    given = sheet.given
    if isinstance(given, list | tuple):
        return _lists(sheet, changes)
    if type(given).__module__.split(".")[0] == "polars":
        return _polars(sheet, changes)
    if is_grid(given):
        return grid_like(given, _frame(sheet, cells, new, changes))
    if not hasattr(given, "iloc"):
        return _array(sheet, changes)
    return _frame(sheet, cells, new, changes)


def _frame(sheet: Sheet, cells: Array, new: Array, changes: Changes) -> Any:
    import pandas as pd

    frame = sheet.frame
    if set(frame.dtypes) == {np.dtype(np.float64)} and len(sheet.judged) == len(
        sheet.fields
    ):
        values = sheet.values.copy()
        values[tuple(cells.T)] = new
        labels = {"index": frame.index, "columns": frame.columns}
        whole = pd.DataFrame(values, **labels, copy=False)
        whole.attrs = dict(frame.attrs)
        return whole
    out = frame.copy()
    for k, (rows, numbers) in changes.items():
        j = sheet.judged[k]
        out.isetitem(j, _column(frame.iloc[:, j], sheet.fields[j], rows, numbers))
    return out


def _column(series: Any, field: Field, rows: Array, numbers: Array) -> Any:
    """Give a column with some cells replaced."""
    import pandas as pd

    kind = series.dtype
    if pd.api.types.is_object_dtype(kind) or pd.api.types.is_string_dtype(kind):
        cells = series.to_numpy(dtype=object, copy=True)
        whole = _whole(cells)
        for i, number in zip(rows, numbers, strict=True):
            cells[i] = _like(cells[i], float(number), field, whole)
        return pd.Series(cells, index=series.index, dtype=kind, name=series.name)
    plain = getattr(kind, "numpy_dtype", getattr(kind, "subtype", kind))
    fitted = as_type(numbers, np.dtype(plain))
    if isinstance(kind, pd.SparseDtype):
        dense = np.asarray(series.sparse.to_dense()).copy()
        dense[rows] = fitted
        return pd.Series(dense, index=series.index, name=series.name).astype(kind)
    column = series.copy()
    column.iloc[rows] = fitted
    return column


def as_type(numbers: Array, kind: np.dtype[Any]) -> Array:
    """Give numbers as a type holds them: rounded and within its range."""
    if kind.kind == "b":
        return np.asarray(numbers >= 0.5)
    if kind.kind in "iu":
        return round_to_dtype(numbers, kind)
    return numbers.astype(kind)


def _whole(cells: Array) -> bool:
    """Say whether all cells that are numbers are whole ones."""
    return not any(isinstance(cell, float) and not cell.is_integer() for cell in cells)


def _like(cell: Any, number: float, field: Field, whole: bool) -> Any:
    """Write a number as the cell that it replaces was written."""
    if isinstance(cell, str) and field.writing is not None:
        return field.writing.write(number)
    if isinstance(cell, bool | np.bool_):
        return number >= 0.5
    if isinstance(cell, Decimal | Fraction):
        return type(cell)(repr(number))
    return round(number) if whole and isinstance(cell, int) else number


def _array(sheet: Sheet, changes: Changes) -> Array:
    array = np.asarray(sheet.given)
    if isinstance(sheet.given, np.ma.MaskedArray) or array.dtype.kind == "f":
        kind = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
        out = np.array(sheet.frame.to_numpy(), kind)
    elif array.dtype.kind in "iub":
        out = array.copy()
    else:
        out = sheet.frame.to_numpy(dtype=object, copy=True)
        for k, (rows, numbers) in changes.items():
            j = sheet.judged[k]
            whole = _whole(out[:, j])
            for i, number in zip(rows, numbers.tolist(), strict=True):
                out[i, j] = _like(out[i, j], number, sheet.fields[j], whole)
        return np.asarray(out if array.dtype == object else out.astype(array.dtype))
    for k, (rows, numbers) in changes.items():
        out[rows, sheet.judged[k]] = as_type(numbers, out.dtype)
    return out


def _lists(sheet: Sheet, changes: Changes) -> list[Any]:
    lines = [list(line) for line in sheet.given]
    for k, (rows, numbers) in changes.items():
        j = sheet.judged[k]
        column = np.array([None, *(line[j] for line in lines)], object)[1:]
        whole = _whole(column)
        for i, number in zip(rows, numbers.tolist(), strict=True):
            lines[i][j] = _like(lines[i][j], number, sheet.fields[j], whole)
    return lines


def _polars(sheet: Sheet, changes: Changes) -> Any:
    import polars

    table = sheet.given
    changed = []
    for k, (rows, numbers) in changes.items():
        j = sheet.judged[k]
        series = table[table.columns[j]]
        cells = series.to_list()
        whole = series.dtype.is_integer()
        for i, number in zip(rows, numbers.tolist(), strict=True):
            if whole:
                cells[i] = round(number)
            else:
                cells[i] = _like(cells[i], number, sheet.fields[j], False)
        changed.append(polars.Series(series.name, cells, dtype=series.dtype))
    return table.with_columns(changed)

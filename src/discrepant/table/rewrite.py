"""The same table with some cells replaced: same type, labels and types of columns."""

from typing import Any

import numpy as np

from discrepant.linalg import Array
from discrepant.table.sheet import Field, Sheet


def rewrite(sheet: Sheet, where: Array, new: Array) -> Any:
    """Give the table with other numbers in some cells, all else bit for bit the same.

    Parameters
    ----------
    sheet : Sheet
        The table.
    where : bool array (n, k)
        Which cells of the columns of numbers are replaced.
    new : array (n, k)
        By what; whole numbers and booleans are rounded to.
    """
    import pandas as pd

    given, frame = sheet.given, sheet.frame
    if isinstance(given, list | tuple):
        return _lists(sheet, where, new)
    if type(given).__module__.split(".")[0] == "polars":
        return _polars(sheet, where, new)
    if not isinstance(given, pd.DataFrame):
        return _array(sheet, where, new)
    if set(frame.dtypes) == {np.dtype(np.float64)} and len(sheet.judged) == len(
        sheet.fields
    ):
        values = np.where(where, new, sheet.values)
        labels = {"index": frame.index, "columns": frame.columns}
        whole = pd.DataFrame(values, **labels, copy=False)
        whole.attrs = dict(frame.attrs)
        return whole
    out = frame.copy()
    for k, j in enumerate(sheet.judged):
        rows = np.flatnonzero(where[:, k])
        if len(rows):
            out.isetitem(
                j, _column(frame.iloc[:, j], sheet.fields[j], rows, new[rows, k])
            )
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
        range_ = np.iinfo(kind)
        # The ends of 64-bit types are no floats: stay one step of a float inside.
        low, high = float(range_.min), np.nextafter(float(range_.max), 0)
        return np.clip(np.round(numbers), low, high).astype(kind)
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
    return round(number) if whole and isinstance(cell, int) else number


def _array(sheet: Sheet, where: Array, new: Array) -> Array:
    array = np.asarray(sheet.given)
    if isinstance(sheet.given, np.ma.MaskedArray) or array.dtype.kind == "f":
        kind = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
        out = np.array(sheet.frame.to_numpy(), kind)
    elif array.dtype.kind in "iub":
        out = array.copy()
    else:
        out = sheet.frame.to_numpy(dtype=object, copy=True)
        for k, j in enumerate(sheet.judged):
            whole = _whole(out[:, j])
            for i in np.flatnonzero(where[:, k]):
                cell, number = out[i, j], float(new[i, k])
                out[i, j] = _like(cell, number, sheet.fields[j], whole)
        return np.asarray(out if array.dtype == object else out.astype(array.dtype))
    for k, j in enumerate(sheet.judged):
        rows = where[:, k]
        out[rows, j] = as_type(new[rows, k], out.dtype)
    return out


def _lists(sheet: Sheet, where: Array, new: Array) -> list[Any]:
    rows = [list(row) for row in sheet.given]
    for k, j in enumerate(sheet.judged):
        column = np.array([None, *(row[j] for row in rows)], object)[1:]
        whole = _whole(column)
        for i in np.flatnonzero(where[:, k]):
            cell, number = rows[i][j], float(new[i, k])
            rows[i][j] = _like(cell, number, sheet.fields[j], whole)
    return rows


def _polars(sheet: Sheet, where: Array, new: Array) -> Any:
    import polars

    table = sheet.given
    changed = []
    for k, j in enumerate(sheet.judged):
        if not where[:, k].any():
            continue
        series = table[table.columns[j]]
        cells = series.to_list()
        whole = series.dtype.is_integer()
        for i in np.flatnonzero(where[:, k]):
            cell, number = cells[i], float(new[i, k])
            if whole:
                cells[i] = round(number)
            else:
                cells[i] = _like(cell, number, sheet.fields[j], False)
        changed.append(polars.Series(series.name, cells, dtype=series.dtype))
    return table.with_columns(changed)

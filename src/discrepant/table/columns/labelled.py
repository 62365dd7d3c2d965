"""Tables that come as xarray: taken as data frames, and given back as they came."""

from typing import Any

import numpy as np

from discrepant.core.errors import InputError


def is_grid(table: Any) -> bool:
    """Say whether something is a DataArray or a Dataset of xarray."""
    ours = type(table).__module__.split(".")[0] == "xarray"
    return ours and hasattr(table, "coords") and hasattr(table, "attrs")


def frame_of(grid: Any) -> Any:
    """Return a grid as a data frame.

    A DataArray has rows and columns. The variables of a Dataset are columns, and each
    point of the grid that they share is a row.
    """
    import pandas as pd

    if not hasattr(grid, "data_vars"):
        if grid.ndim != 2:
            raise InputError(
                f"A DataArray of rows and columns is needed, got {grid.ndim} dimension"
                f"{'s' * (grid.ndim != 1)}; grid.to_dataset(dim=…) says along which "
                "its columns lie."
            )
        index, columns = (grid.indexes.get(dim) for dim in grid.dims)
        return pd.DataFrame(grid.values, index=index, columns=columns, copy=False)
    dims = _dims(grid)
    indexes = [
        grid.indexes.get(dim, pd.RangeIndex(grid.sizes[dim], name=dim)) for dim in dims
    ]
    index = indexes[0] if len(dims) == 1 else pd.MultiIndex.from_product(indexes)
    cells = {
        name: variable.transpose(*dims).values.ravel()
        for name, variable in grid.data_vars.items()
    }
    return pd.DataFrame(cells, index=index)


def grid_like(grid: Any, frame: Any) -> Any:
    """Return the values of a frame in the place of those of the grid it was made of."""
    if not hasattr(grid, "data_vars"):
        return grid.copy(data=frame.to_numpy().astype(grid.dtype, copy=False))
    dims = _dims(grid)
    shape = [grid.sizes[dim] for dim in dims]
    fresh = {}
    for name, variable in grid.data_vars.items():
        values = np.asarray(frame[name], variable.dtype).reshape(shape)
        order = [dims.index(dim) for dim in variable.dims]
        fresh[name] = variable.copy(data=values.transpose(order))
    return grid.assign(fresh)


def _dims(grid: Any) -> tuple[Any, ...]:
    """Return the dimensions that all variables of a Dataset share."""
    found = {frozenset(variable.dims) for variable in grid.data_vars.values()}
    if len(found) != 1 or not next(iter(found)):
        raise InputError(
            "The variables of a Dataset are the columns of a table, and must all have "
            "the same dimensions, at least one; choose some of them: grid[[…]]."
        )
    return tuple(next(iter(grid.data_vars.values())).dims)

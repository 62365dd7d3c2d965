"""Row and column labels of pandas, polars and xarray data, and their dtypes."""

from dataclasses import dataclass, replace
from typing import Any

from discrepant.core.linalg import Array


@dataclass(frozen=True)
class FrameLabels:
    """Row and column labels of a pandas DataFrame."""

    index: Any
    columns: Any

    def frame(self, values: Array) -> Any:
        """Return values of the shape of the data as a data frame."""
        import pandas as pd

        return pd.DataFrame(values, index=self.index, columns=self.columns)

    def with_columns(self, names: Any) -> "FrameLabels":
        """Return the row labels with other column names."""
        return replace(self, columns=names)


@dataclass(frozen=True)
class PolarsLabels:
    """Column labels of a polars DataFrame; its rows have none."""

    columns: list[str] | None

    def frame(self, values: Array) -> Any:
        """Return values of the shape of the data as a data frame."""
        import polars as pl

        return pl.DataFrame(values, schema=self.columns)

    def with_columns(self, names: Any) -> "PolarsLabels":
        """Return other column names; polars numbers the columns if they have none."""
        return replace(self, columns=None if names is None else list(names))


@dataclass(frozen=True)
class GridLabels:
    """Dimensions, coordinates and attributes of an xarray DataArray."""

    kind: Any
    dims: tuple[Any, ...]
    coords: dict[str, Any]
    attrs: dict[str, Any]
    name: Any

    def frame(self, values: Array) -> Any:
        """Return values of the shape of the data with coordinates and attributes."""
        return self.kind(
            values, dims=self.dims, coords=self.coords, attrs=self.attrs, name=self.name
        )

    def with_columns(self, names: Any) -> "GridLabels":
        """Return the row coordinates with new columns: unnamed or with these names."""
        rows, columns = self.dims[0], "feature"
        coords = {k: v for k, v in self.coords.items() if set(v.dims) <= {rows}}
        if names is not None:
            coords[columns] = (columns, names)
        return replace(self, dims=(rows, columns), coords=coords)


Labels = FrameLabels | PolarsLabels | GridLabels


def labels_of(X: Any) -> Labels | None:
    """Return the labels of a pandas or polars frame or an xarray array, else None."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return FrameLabels(X.index, X.columns)
    if hasattr(X, "dims") and hasattr(X, "coords") and hasattr(X, "attrs"):
        coords = {str(name): coord.variable for name, coord in X.coords.items()}
        return GridLabels(type(X), X.dims, coords, dict(X.attrs), X.name)
    if type(X).__module__.split(".")[0] == "polars" and hasattr(X, "columns"):
        return PolarsLabels(list(X.columns))
    return None


def column_types(X: Any) -> list[Any]:
    """Return the dtypes of the columns of a frame, or the dtype of an array."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        return list(X.dtypes)
    return [getattr(X, "dtype", None)]


def container_kind(type_: Any) -> str:
    """Return NumPy's letter for a dtype; M for all temporal types of polars."""
    temporal = getattr(type_, "is_temporal", None)
    if callable(temporal):
        return "M" if temporal() else ""
    return str(getattr(type_, "kind", ""))

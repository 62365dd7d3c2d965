"""The labels of data: taken off at the door, put back on what comes out."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

from discrepant.core.linalg import Array


class Labels(Protocol):
    """What can be put back on an array of the shape of the data."""

    def frame(self, values: Array) -> Any:
        """Return values of the same shape, labelled as the data were."""
        ...

    def over(self, names: Any) -> "Labels":
        """Return the same labels of the rows over columns of other names."""
        ...


def labels_of(X: Any) -> Labels | None:
    """Return the labels of a data frame of pandas or polars, or of an xarray array.

    Anything else has none.
    """
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return FrameLabels(X.index, X.columns)
    if hasattr(X, "dims") and hasattr(X, "coords") and hasattr(X, "attrs"):
        coords = {str(name): coord.variable for name, coord in X.coords.items()}
        return GridLabels(type(X), X.dims, coords, dict(X.attrs), X.name)
    if type(X).__module__.split(".")[0] == "polars" and hasattr(X, "columns"):
        return PolarsLabels(list(X.columns))
    return None


@dataclass(frozen=True)
class FrameLabels:
    """Row and column labels of a pandas DataFrame."""

    index: Any
    columns: Any

    def frame(self, values: Array) -> Any:
        """Return values of the same shape as a data frame."""
        import pandas as pd

        return pd.DataFrame(values, index=self.index, columns=self.columns)

    def over(self, names: Any) -> "FrameLabels":
        """Return the same rows over other columns."""
        return replace(self, columns=names)


@dataclass(frozen=True)
class PolarsLabels:
    """Column labels of a polars DataFrame, which has none for its rows."""

    columns: list[str] | None

    def frame(self, values: Array) -> Any:
        """Return values of the same shape as a data frame."""
        import polars as pl

        return pl.DataFrame(values, schema=self.columns)

    def over(self, names: Any) -> "PolarsLabels":
        """Return other columns; polars numbers those that have no names."""
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
        """Return values of the same shape, with coordinates and attributes."""
        return self.kind(
            values, dims=self.dims, coords=self.coords, attrs=self.attrs, name=self.name
        )

    def over(self, names: Any) -> "GridLabels":
        """Return the rows' coordinates over columns that have none, or these names."""
        rows, columns = self.dims[0], "feature"
        kept = {k: v for k, v in self.coords.items() if set(v.dims) <= {rows}}
        if names is not None:
            kept[columns] = (columns, names)
        return replace(self, dims=(rows, columns), coords=kept)


def column_types(X: Any) -> list[Any]:
    """Return the types of the columns of a frame, or that of an array."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        return list(X.dtypes)
    return [getattr(X, "dtype", None)]


def container_kind(type_: Any) -> str:
    """Return NumPy's letter for a type; M for whatever polars calls temporal."""
    temporal = getattr(type_, "is_temporal", None)
    if callable(temporal):
        return "M" if temporal() else ""
    return str(getattr(type_, "kind", ""))

"""The labels of a table: taken off at the door, put back on what comes out."""

from dataclasses import dataclass
from typing import Any

from discrepant.linalg import Array


@dataclass(frozen=True)
class Labels:
    """Row and column labels of a data frame."""

    index: Any
    columns: Any

    @classmethod
    def of(cls, X: Any) -> "Labels | None":
        """Return the labels of a data frame, and nothing for anything else."""
        framed = hasattr(X, "iloc") and hasattr(X, "columns")
        return cls(X.index, X.columns) if framed else None

    def frame(self, values: Array) -> Any:
        """Return values of the same shape as a data frame."""
        import pandas as pd

        return pd.DataFrame(values, index=self.index, columns=self.columns)


def column_types(X: Any) -> list[Any]:
    """Return the types of the columns of a frame, or that of an array."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        return list(X.dtypes)
    return [getattr(X, "dtype", None)]


def kind_of(type_: Any) -> str:
    """Return NumPy's letter for a type; M for whatever polars calls temporal."""
    temporal = getattr(type_, "is_temporal", None)
    if callable(temporal):
        return "M" if temporal() else ""
    return str(getattr(type_, "kind", ""))

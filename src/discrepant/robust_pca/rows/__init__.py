"""Passes over the rows of m×n data: the only code that touches data of that size."""

from discrepant.robust_pca.rows.in_memory import Rows
from discrepant.robust_pca.rows.rows import open_rows

__all__ = ["Rows", "open_rows"]

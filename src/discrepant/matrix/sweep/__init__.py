"""The only code that touches m×n data: where the rows lie, and what runs over them."""

from discrepant.matrix.sweep.opening import open_rows
from discrepant.matrix.sweep.rows import Rows

__all__ = ["Rows", "open_rows"]

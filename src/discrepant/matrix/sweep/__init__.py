"""The only code that touches m×n data: where the rows lie, and what runs over them."""

from discrepant.matrix.sweep.rows import Rows, open_rows

__all__ = ["Rows", "open_rows"]

"""Rows of whatever holds a matrix."""

from typing import Any

from discrepant.robust_pca.rows.in_memory import Rows


def open_rows(
    Y: Any, *, n_jobs: int | None = None, memory_limit: int | None = None
) -> Rows:
    """Return the rows of an array in memory or of a memory map."""
    return Rows(Y, n_jobs=n_jobs, memory_limit=memory_limit)

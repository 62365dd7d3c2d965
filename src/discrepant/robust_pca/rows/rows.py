"""Rows of whatever holds a matrix."""

from typing import Any, cast

from discrepant.core.device_arrays import is_foreign
from discrepant.robust_pca.rows.device.rows import DeviceRows
from discrepant.robust_pca.rows.in_memory import Rows


def open_rows(
    Y: Any, *, n_jobs: int | None = None, memory_limit: int | None = None
) -> Rows:
    """Return the rows of what NumPy can see, or of what lies on a device."""
    if is_foreign(Y):
        away = DeviceRows(Y, n_jobs=n_jobs, memory_limit=memory_limit)
        return cast(Rows, away)  # solvers ask the same of both
    return Rows(Y, n_jobs=n_jobs, memory_limit=memory_limit)

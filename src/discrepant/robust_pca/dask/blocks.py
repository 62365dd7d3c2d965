"""One pass over one block of rows: the pure functions that Dask workers run.

Nothing is kept between two calls, so that a call can run on any worker and can be
repeated. Apart from the block itself, arguments and results are as narrow as the
factors. `ArrayRows` of the one block does the work.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import error_text, masked_to_nan
from discrepant.robust_pca.rows.in_memory import ArrayRows
from discrepant.robust_pca.rows.rows import Pass


def load(block: Any, dtype: str, transposed: bool, block_info: Any) -> Array:
    """Return a block of rows as a float array; an error names its rows.

    They are columns of the caller's array if it is transposed.
    """
    (start, stop), (_, columns) = block_info[None]["array-location"]
    name = f"{'columns' if transposed else 'rows'} {start} to {stop - 1}"
    try:
        Z = np.ascontiguousarray(masked_to_nan(block), dtype)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The block of {name} cannot be converted to numbers: {error_text(error)}."
        ) from None
    declared = (stop - start, columns)
    if Z.shape != declared:
        raise InputError(
            f"The block of {name} has the shape {Z.shape}, but the Dask array declares "
            f"{declared}."
        )
    return Z


def run_on_block(
    task: Callable[[ArrayRows, Any, Any], Any],
    Z: Array,
    block_data: Any,
    common_data: Any,
) -> Any:
    """Run a task, one of those below, on one block, with its own and common data."""
    with ArrayRows(Z, n_jobs=1, long_axis=0) as rows:
        return task(rows, block_data, common_data)


def preview(rows: ArrayRows, block_data: Any, common_data: Any) -> Any:
    """Scan the block; return some of its entries and a few whole rows."""
    (sampled, whole), columns = block_data, common_data
    scan = rows.run(Pass("scan", (0.0,))).tile_sums
    lines = rows.take(np.concatenate([sampled, whole]), 0).astype(rows.dtype)
    return scan, lines[: len(sampled), columns], lines[len(sampled) :]


def scales(rows: ArrayRows, block_data: Any, common_data: Any) -> Any:
    """Return the scale of each row."""
    return rows.scales(0, common_data).astype(np.float32)


def run(rows: ArrayRows, block_data: Any, common_data: Any) -> Any:
    """Run a kernel; the pass lacks what belongs to the rows of the block."""
    (U, left, row_values), pass_ = block_data, common_data
    if U is not None:
        pass_ = replace(pass_, low_rank=(U, pass_.low_rank[1]))
    if row_values is not None:
        pass_ = replace(pass_, line_values=(row_values, pass_.line_values[1]))
    out = rows.run(replace(pass_, left=left))
    return out._replace(right=out.right.astype(rows.dtype))


def regress(rows: ArrayRows, block_data: Any, common_data: Any) -> Any:
    """Regress some rows, or all, robustly on a row space."""
    indices = np.arange(rows.m) if block_data is None else block_data
    return rows.regress(indices, common_data)

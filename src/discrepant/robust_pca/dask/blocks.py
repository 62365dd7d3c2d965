"""A pass over one block of rows: a pure function of the block and of narrow factors.

This is what a Dask worker runs. Nothing is kept between two calls, so that a call may
be made anywhere and made again; what goes in beside the block, and what comes out, is
as narrow as the factors. The work itself is that of `Rows`, on the one block.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import error_text, masked_to_nan
from discrepant.robust_pca.rows.in_memory import Rows

COUNT = 1 << 16  # numbers below it, if whole, travel in two bytes


class Recipe:
    """How to compute a block: its own part of a Dask graph, carried along whole.

    Whoever runs the pass computes the block in the same breath, so that no block ever
    waits in memory or crosses the network.
    """

    def __init__(self, graph: dict[Any, Any], key: Any) -> None:
        self.graph, self.key = graph, key

    def __call__(self) -> Any:
        """Compute the block, in this thread."""
        import dask

        return dask.get(self.graph, self.key)


class Place(NamedTuple):
    """Where a block lies, and as what it is to be read."""

    start: int  # of its rows among those of the long axis
    stop: int
    columns: int
    dtype: str
    turned: bool  # whether these are columns of the caller's


def load(block: Any, place: Place) -> Array:
    """Return a block as floats, or say which one it is that cannot be had."""
    first, last = place.start, place.stop - 1
    name = f"{'columns' if place.turned else 'rows'} {first} to {last}"
    try:
        values = masked_to_nan(block() if isinstance(block, Recipe) else block)
        Z = np.ascontiguousarray(np.asarray(values), place.dtype)
    except Exception as error:  # whatever the user's own code raises
        kind = type(error).__name__
        said = error_text(error)
        why = said if said == kind else f"{kind}: {said}"
        raise InputError(f"The block of {name} cannot be computed: {why}.") from None
    declared = (place.stop - place.start, place.columns)
    if Z.shape != declared:
        raise InputError(
            f"The block of {name} has the shape {Z.shape}, and the Dask array declares "
            f"{declared}."
        )
    return Z


def run(what: str, block: Any, place: tuple[Any, ...], own: Any, shared: Any) -> Any:
    """Make one pass over one block.

    Parameters
    ----------
    what : str
        The pass; one of `PASSES`.
    block : Recipe or array
        The block, or how to compute it.
    place : tuple
        The fields of `Place`.
    own, shared
        What the pass is told of this block and of all of them.
    """
    at = Place(*place)
    rows = Rows(load(block, at), n_jobs=1, long=0)
    with rows:
        return PASSES[what](rows, own, shared)


def narrow(numbers: Array) -> Array:
    """Return numbers by row as they travel: counts in two bytes, sums in four.

    They are compared with each other and added up, so that seven digits are enough.
    """
    small = numbers.astype(np.uint16) if _in_range(numbers) else numbers
    if small.dtype == np.uint16 and np.array_equal(small, numbers):
        return small
    return numbers.astype(np.float32)


def _in_range(numbers: Array) -> bool:
    return bool(np.all((numbers >= 0) & (numbers < COUNT)))


def _look(rows: Rows, own: Any, shared: Any) -> Any:
    """Scan the block, and hand back some of its entries and a few whole rows."""
    (scattered, spread), columns = own, shared
    _, _, scanned = rows.sweep("scan", scalars=(0.0,))
    found = rows.lines(np.concatenate([scattered, spread]), 0).astype(rows.dtype)
    return scanned, found[: len(scattered), columns], found[len(scattered) :]


def _lines(rows: Rows, own: Any, shared: Any) -> Any:
    """Hand back some rows, or all rows at some columns."""
    which, axis = (own, 0) if shared is None else (shared, 1)
    return rows.lines(which, axis).astype(rows.dtype)


def _sizes(rows: Rows, own: Any, shared: Any) -> Any:
    """Return the usual size of each row."""
    return rows.line_sizes(0, shared).astype(np.float32)


def _sweep(rows: Rows, own: Any, shared: Any) -> Any:
    (U, left), (kernel, scalars, C, right, power) = own, shared
    low_rank = None if C is None else (U, C)
    P, B, results = rows.sweep(
        kernel,
        (),
        scalars,
        low_rank=low_rank,
        right=right,
        left=left,
        power=power,
    )
    return P.astype(rows.dtype), B, results


def _tally(rows: Rows, own: Any, shared: Any) -> Any:
    (U, side), (kernel, scalars, C, other, table, counts, bins, right) = own, shared
    found = rows.tally(
        kernel,
        scalars,
        low_rank=(U, C),
        sides=(side, other),
        table=table,
        counts=counts,
        bins=bins,
        right=right,
    )
    by_row = [narrow(line) for line in found.by_row]
    return found.P.astype(rows.dtype), found.B, by_row, found.by_column, found.histogram


def _regress(rows: Rows, own: Any, shared: Any) -> Any:
    which = np.arange(rows.m) if own is None else own
    C, *numbers = rows.regress(which, *shared)
    return C, *map(narrow, numbers)


PASSES: dict[str, Callable[[Rows, Any, Any], Any]] = {
    "look": _look,
    "lines": _lines,
    "sizes": _sizes,
    "sweep": _sweep,
    "tally": _tally,
    "regress": _regress,
}

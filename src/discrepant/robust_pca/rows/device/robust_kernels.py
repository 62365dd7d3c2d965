"""The passes of the three-part model for arrays on a device.

Each function is the twin of the one of that name in `robust_pca.rows.robust_kernels`,
which says what it is for. Beside some rows z of the data and L there, it is given the
numbers of these rows (., b) and of all columns (., n), and a table. It returns a
`Counted`.
"""

from typing import Any, NamedTuple

from discrepant.robust_pca.rows.device.kernels import Cells
from discrepant.robust_pca.rows.robust_kernels import BINS, COARSE, LAST, OUTSIDE, REACH

TOP = BINS - 0.5  # the middle of the last bin
LINES = BINS // COARSE  # bins of a line's own histogram


class Counted(NamedTuple):
    """What a block of rows comes to."""

    tile: Any
    by_row: list[Any]  # (b,) each
    by_column: list[Any]  # (n,) each
    histogram: Any = None
    written: Any = None  # rows of the first array, as they are to be


def robust_step(
    cells: Cells,
    row: int,
    z: Any,
    L: Any,
    rows: Any,
    columns: Any,
    table: Any,
    unit: float,
    omega: float,
    stride: float,
    stride_columns: float,
    own: float,
) -> Counted:
    """Let T = L + ω·w(z)·e, with T = L where Z is missing.

    Where histograms are those of rows, the stride is one.
    """
    xp = cells.xp
    (a, s, f), (inverse, std, off) = _lines(xp, rows), xp.unstack(columns)
    e = cells.filled(z, cells.clipped(z, unit) * (a * inverse) - L)
    t = xp.abs(e) * (s * std)
    g = xp.maximum(f * off, xp.ones_like(a))
    place = _place(cells, t, REACH * g)
    # Nothing pulls by more than a cell in the last bin.
    e = e * (LAST * g / xp.maximum(t, LAST * g))
    outside = xp.astype(t > OUTSIDE * g, z.dtype)
    some = slice((-row) % int(stride), None, int(stride))
    fine, lines = _histograms(cells, z[some, :], place[some, :], own)
    by_row, by_column = lines if own == 0 else [], lines if own == 1 else []
    r = _looked_up(cells, table, place) * e
    r2 = r * r
    return Counted(
        L + omega * r,
        [xp.sum(r2, axis=1), xp.sum(outside, axis=1), *by_row],
        [xp.sum(r2, axis=0), xp.sum(outside, axis=0), *by_column],
        fine,
    )


def left_out(
    cells: Cells,
    row: int,
    z: Any,
    L: Any,
    rows: Any,
    columns: Any,
    table: Any,
    unit: float,
    own: float,
) -> Counted:
    """Return z/(8 + z) of each cell as if it had been left out of the fit."""
    u = _left_out(cells, z, L, rows, columns, table, unit)
    fine, lines = _histograms(cells, z, _top(cells, BINS * u), own)
    return Counted(u, lines if own == 0 else [], lines if own == 1 else [], fine)


def cell_probability(
    cells: Cells,
    row: int,
    z: Any,
    L: Any,
    rows: Any,
    columns: Any,
    tables: Any,
    out: Any,
    unit: float,
) -> Counted:
    """Return the probability that each cell is corrupt; zero where Z is missing."""
    weights, corrupt = tables[: BINS + 1], tables[BINS + 1 :]
    u = _left_out(cells, z, L, rows, columns, weights, unit)
    chance = _looked_up(cells, corrupt, _top(cells, BINS * u))
    return Counted(u, [], [], written=cells.filled(z, chance))


def seen(
    cells: Cells,
    row: int,
    z: Any,
    L: Any,
    rows: Any,
    columns: Any,
    table: Any,
    unit: float,
) -> Counted:
    """Count the observed cells of each line."""
    xp = cells.xp
    there = xp.astype(cells.seen(z), z.dtype)
    return Counted(L, [xp.sum(there, axis=1)], [xp.sum(there, axis=0)])


def within(
    cells: Cells,
    row: int,
    z: Any,
    L: Any,
    rows: Any,
    columns: Any,
    table: Any,
    unit: float,
    zeta: float,
) -> Counted:
    """Count, by line, the cells with |Z − L| ≤ ζ and the observed ones."""
    xp, there = cells.xp, cells.seen(z)
    y = cells.filled(z, cells.clipped(z, unit))
    e = y - L
    inside = there & (xp.abs(e) <= zeta)
    parts = (
        xp.astype(inside, z.dtype),
        xp.astype(there, z.dtype),
        xp.where(inside, e * e, 0.0),
        y * y,
    )
    by_row, by_column = ([xp.sum(x, axis=axis) for x in parts] for axis in (1, 0))
    return Counted(L, by_row, by_column)


def _lines(xp: Any, rows: Any) -> tuple[Any, ...]:
    """Return the numbers of rows, each to be multiplied with those of columns."""
    return tuple(xp.expand_dims(x, axis=1) for x in xp.unstack(rows))


def _left_out(
    cells: Cells, z: Any, L: Any, rows: Any, columns: Any, table: Any, unit: float
) -> Any:
    """Return z/(8 + z) as left out; arbitrary where Z is missing."""
    xp = cells.xp
    (a, s), (inverse, scale) = _lines(xp, rows), xp.unstack(columns)
    std = s * scale  # 1/√(1 − h)
    e = cells.filled(z, cells.clipped(z, unit) * (a * inverse) - L)
    t = xp.abs(e) * std
    w = _looked_up(cells, table, _place(cells, t, REACH))
    keep = 1 / (std * std)  # 1 − h
    t = t * (keep + (1 - keep) * w)
    return t / (REACH + t)


def _place(cells: Cells, t: Any, reach: Any) -> Any:
    """Return where deviations lie among the bins."""
    return _top(cells, BINS * (t / (reach + t)))


def _top(cells: Cells, place: Any) -> Any:
    """Return places within the last bin; NaN, that of the infinite, is there too."""
    return cells.xp.where(place < TOP, place, TOP)


def _looked_up(cells: Cells, table: Any, place: Any) -> Any:
    """Interpolate in a table of the edges of bins."""
    xp, take = cells.xp, cells.place.take
    b = xp.astype(place, xp.int32)
    slope = table[1:] - table[:-1]
    rest = place - xp.astype(b, place.dtype)
    return take(table, b) + rest * take(slope, b)


def _histograms(cells: Cells, z: Any, place: Any, own: float) -> tuple[Any, list[Any]]:
    """Count cells by bin, all together, and by line of the axis `own`, if any.

    The latter are coarser, a list with the counts of each bin.
    """
    xp, counts, device = cells.xp, cells.place.counts, cells.place.device
    b = xp.astype(place, xp.int32)
    if not cells.complete:  # beyond the last bin, where they are not counted
        b = xp.where(cells.seen(z), b, BINS)
    fine = counts(b, BINS + 1)[:BINS]
    if own < 0:
        return fine, []
    number = z.shape[int(own)]
    line = xp.arange(number, dtype=xp.int32, device=device)
    line = xp.expand_dims(line, axis=1 - int(own))
    at = line * (LINES + 1) + b // COARSE
    lines = xp.reshape(counts(at, number * (LINES + 1)), (number, LINES + 1))
    return fine, list(xp.unstack(xp.astype(lines[:, :LINES], z.dtype), axis=1))

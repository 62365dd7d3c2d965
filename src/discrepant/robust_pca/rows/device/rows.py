"""Where rows live on a device, and the map and reduce over them.

`DeviceRows` is to an array of torch, CuPy or JAX what `Rows` is to one of NumPy, and
solvers ask the same of it. The data, and all that is laid out as they are, stay on
their device. What crosses to the host and back in a pass is narrow: factors of r
columns, a few numbers for each row and column, and sums.

Nothing is written to: a scratch array is a list of blocks (`Blocks`), and a pass puts
new blocks in the place of old ones. So it serves libraries whose arrays cannot be
changed, too.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discrepant.core.arrays import even_sample
from discrepant.core.device_arrays import parts_of, place_of
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.robust_statistics import row_scales
from discrepant.robust_pca.rows.device import (
    kernels,
)
from discrepant.robust_pca.rows.device import (
    regression_kernel as regression,
)
from discrepant.robust_pca.rows.device import (
    robust_kernels as robust,
)
from discrepant.robust_pca.rows.device.kernels import Cells
from discrepant.robust_pca.rows.lock import Held
from discrepant.robust_pca.rows.tiles import Fits, Tally

# Bytes of a block. A processor works within its cache; on an accelerator the dozen
# arrays of a kernel must fit beside the data, and be large enough to keep it busy.
HOST_BYTES, DEVICE_BYTES = 1 << 21, 1 << 25
LEAST_ROWS = 16


@dataclass
class Blocks:
    """An array laid out as the data, as blocks of the long axis; None: not yet set."""

    parts: list[Any]


class DeviceRows(Held):
    """An m×n array on a device, seen as blocks along its long axis.

    Parameters
    ----------
    Y : array of shape (., .)
        Of float64 or float32, of a library that `discrepant.core.device_arrays` knows.
    n_jobs : int, optional
        Threads of what is solved on the host: samples.
    memory_limit : int, optional
        Bytes that `scratch` may take; there is no file to put it in.
    """

    apart = ("place", "_cells")
    wide = False  # blocks are turned so that rows come first

    def __init__(
        self, Y: Any, *, n_jobs: int | None = None, memory_limit: int | None = None
    ) -> None:
        super().__init__()
        if len(Y.shape) != 2:
            raise InputError(f"A matrix (2-D) is needed, got {len(Y.shape)}-D data.")
        self._Y, self.place, self.n_jobs = Y, place_of(Y), n_jobs
        self.shape: tuple[int, int] = (int(Y.shape[0]), int(Y.shape[1]))
        self.turned = self.shape[1] > self.shape[0]
        self.m, self.n = max(self.shape), min(self.shape)
        self.size = self.m * self.n
        double = Y.dtype == self.place.xp.float64
        self.dtype = np.dtype(np.float64 if double else np.float32)
        nbytes = self.size * self.dtype.itemsize
        if memory_limit is not None and nbytes > memory_limit:
            raise InputError(
                f"memory_limit of {memory_limit:,} bytes is below the {nbytes:,} of "
                "the data, and what is on a device cannot be moved to a file; leave "
                "it out."
            )
        wanted = HOST_BYTES if self.place.on_host else DEVICE_BYTES
        height = max(wanted // max(self.n * self.dtype.itemsize, 1), LEAST_ROWS)
        self._parts = parts_of(self.m, height)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "place": place_of(state["_Y"])})

    # -- how the data lie ----------------------------------------------------------

    def as_given(self, X: Any) -> Any:
        """Return blocks as one array in the caller's orientation; an array as it is."""
        if not isinstance(X, Blocks):
            return X
        concat = self.place.xp.concat
        if self.turned:
            return concat([part.T for part in X.parts], axis=1)
        return concat(X.parts, axis=0)

    def turn(self, U: Array, V: Array) -> tuple[Array, Array]:
        """Turn factors from the blocks' orientation to the caller's, or back."""
        return (V, U) if self.turned else (U, V)

    def lies_like(self, other: Any) -> bool:
        """Whether both have the same shape, type and place."""
        return (
            isinstance(other, DeviceRows)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.place.xp is other.place.xp
            and self.place.device == other.place.device
        )

    # -- a look at the data --------------------------------------------------------

    def sample(self) -> Array:
        """Return evenly spread rows and columns (`even_sample` of the shape)."""
        return self.place.fetch(self._Y[even_sample(self.shape)])

    def entries(self, i: Array, j: Array) -> Array:
        """Return the entries at the given places, one for each pair (i, j)."""
        at = self.place.bring(i), self.place.bring(j)
        return self.place.fetch(self._Y[at])

    def lines(self, which: Array, axis: int) -> Array:
        """Return some rows (axis 0) or columns (1), of the long and the short axis."""
        along = 1 - axis if self.turned else axis
        found = self.place.xp.take(self._Y, self.place.bring(which), axis=along)
        lines = self.place.fetch(found)
        return np.asarray(lines.T if along else lines, np.float64)

    def line_sizes(self, axis: int, entries: int = 256) -> Array:
        """Return the usual size of each row (axis 0) or column of the caller's."""
        return row_scales(self._Y.T if axis else self._Y, entries)

    @cached_property
    def _cells(self) -> Cells:
        isnan, any_ = self.place.xp.isnan, self.place.xp.any
        missing = any(bool(any_(isnan(self._rows(self._Y, k)))) for k in self._range)
        return Cells(self.place, not missing)

    # -- work ----------------------------------------------------------------------

    def scratch(self, fill: float | None = None) -> Any:
        """Return an array laid out as the data, to be filled by a sweep."""
        if fill is None:
            return Blocks([None for _ in self._parts])
        full = self.place.xp.full
        shapes = [(part.stop - part.start, self.n) for part in self._parts]
        told = {"dtype": self._Y.dtype, "device": self.place.device}
        return Blocks([full(shape, fill, **told) for shape in shapes])

    def sweep(
        self,
        kernel: str,
        arrays: tuple[Any, ...] = (),
        scalars: tuple[float, ...] = (),
        *,
        low_rank: tuple[Array, Array] | None = None,
        right: Array | None = None,
        left: Array | None = None,
        power: bool = False,
    ) -> tuple[Array, Array, Array]:
        """Run a kernel of `device.kernels` over all blocks; as `Rows.sweep`."""
        xp, wide, run_kernel = (
            self.place.xp,
            self.place.widest,
            getattr(kernels, kernel),
        )
        numbers = [float(x) for x in scalars]
        tiles = _Products(self, right, left, power)
        factors = None if low_rank is None else [*map(self._narrow, low_rank)]
        results = []
        for k, part in enumerate(self._parts):
            z, others = self._rows(self._Y, k), [self._rows(X, k) for X in arrays]
            L = None if factors is None else self._low_rank(factors, part)
            tile, written, sums = run_kernel(self._cells, z, L, *others, *numbers)
            if written is not None:
                arrays[0].parts[k] = written
            if sums:
                results.append(xp.stack([xp.astype(x, wide) for x in sums]))
            tiles.add(tile, part)
        found = self._host(xp.stack(results)) if results else np.zeros((0, 0))
        return *tiles.fetched(), found

    def tally(
        self,
        kernel: str,
        scalars: tuple[float, ...],
        *,
        low_rank: tuple[Array, Array],
        sides: tuple[Array, Array],
        table: Array,
        counts: tuple[int, int] = (0, 0),
        bins: int = 0,
        arrays: tuple[Any, ...] = (),
        right: Array | None = None,
    ) -> Tally:
        """Run a kernel of `device.robust` over all blocks; as `Rows.tally`."""
        run_kernel, xp, wide = getattr(robust, kernel), self.place.xp, self.place.widest
        numbers = [float(x) for x in scalars]
        tiles = _Products(self, right, None, True)
        factors = [*map(self._narrow, low_rank)]
        by_rows, columns = map(self._narrow, sides)
        looked_up = self._narrow(table)
        by_row: list[Any] = []
        by_column: Any = 0
        histogram: Any = 0
        for k, part in enumerate(self._parts):
            found = run_kernel(
                self._cells,
                part.start,
                self._rows(self._Y, k),
                self._low_rank(factors, part),
                by_rows[:, part],
                columns,
                looked_up,
                *(self._rows(X, k) for X in arrays),
                *numbers,
            )
            if found.written is not None:
                arrays[0].parts[k] = found.written
            if counts[0]:
                by_row.append(xp.stack(found.by_row))
            if counts[1]:
                by_column = by_column + xp.astype(xp.stack(found.by_column), wide)
            if found.histogram is not None:
                histogram = histogram + found.histogram
            tiles.add(found.tile, part)
        return Tally(
            *tiles.fetched(),
            self._host(xp.concat(by_row, axis=1)) if by_row else np.zeros((0, self.m)),
            self._host(by_column) if counts[1] else np.zeros((0, self.n)),
            np.zeros(0) if found.histogram is None else self.place.fetch(histogram),
        )

    def regress(
        self,
        which: Array,
        at: Array,
        basis: Array,
        scale: Array,
        unit: float,
        noise: float = 0.0,
    ) -> Fits:
        """Fit some rows by a basis, by `device.regression`; as `Rows.regress`."""
        place, xp, wide = self.place, self.place.xp, self.place.widest
        X, weight = place.bring(basis.T, wide), place.bring(scale, wide)
        inverse = place.bring(np.linalg.inv(basis.T @ basis), wide)
        columns = None if len(at) == self.n else place.bring(at)
        k, r = len(which), basis.shape[1]
        found = Fits(np.empty((k, r)), np.empty(k), *np.empty((2, k), np.int64))
        wanted = HOST_BYTES if place.on_host else DEVICE_BYTES
        height = max(wanted // (8 * max(len(at), r * r, 1)), LEAST_ROWS)
        axis = 1 if self.turned else 0
        for part in parts_of(k, height):
            some = which[part]
            if some[-1] - some[0] == len(some) - 1:
                z = self._slice(self._Y, slice(int(some[0]), int(some[-1]) + 1))
            else:
                z = xp.take(self._Y, place.bring(some), axis=axis)
                z = z.T if self.turned else z
            z = z if columns is None else xp.take(z, columns, axis=1)
            seen = self._cells.seen(z)
            y = self._cells.filled(z, self._cells.clipped(z, unit))
            y = xp.astype(y, wide) * weight
            fits = regression.fit_rows(place, y, seen, X, inverse, float(noise))
            for array, values in zip(found, fits, strict=True):
                array[part] = place.fetch(values)
        return found

    # -- blocks --------------------------------------------------------------------

    @property
    def _range(self) -> range:
        return range(len(self._parts))

    def _rows(self, X: Any, k: int) -> Any:
        """Return block k of an array laid out as the data, rows first."""
        return X.parts[k] if isinstance(X, Blocks) else self._slice(X, self._parts[k])

    def _slice(self, X: Any, part: slice) -> Any:
        return X[:, part].T if self.turned else X[part, :]

    def _low_rank(self, factors: list[Any], part: slice) -> Any:
        """Return rows of U Cᵀ, in memory as those of the data are."""
        U, C = factors
        return (C @ U[part, :].T).T if self.turned else U[part, :] @ C.T

    def _narrow(self, factor: Array) -> Any:
        return self.place.bring(np.asarray(factor, self.dtype), self._Y.dtype)

    def _host(self, values: Any) -> Array:
        return self.place.fetch(values).astype(np.float64)


class _Products:
    """P_b = tile · right and B = Σ tileᵀ · left_b."""

    def __init__(
        self, rows: DeviceRows, right: Array | None, left: Array | None, power: bool
    ) -> None:
        self.rows, self.power = rows, power
        self.right = None if right is None else rows._narrow(right)
        self.left = None if left is None else rows._narrow(left)
        self.P: list[Any] = []
        self.B: Any = None

    def add(self, tile: Any, part: slice) -> None:
        """Multiply one tile; only the sum of products is kept in the widest type."""
        side = None if self.left is None else self.left[part, :]
        if self.right is not None:
            self.P.append(tile @ self.right)
            side = self.P[-1] if self.power else side
        if side is not None:
            place = self.rows.place
            B = place.xp.astype(tile.T @ side, place.widest)
            self.B = B if self.B is None else self.B + B

    def fetched(self) -> tuple[Array, Array]:
        """Return P and B, without columns where they were not asked for."""
        rows = self.rows
        P, B = np.zeros((rows.m, 0)), np.zeros((rows.n, 0))
        if self.P:
            P = rows._host(rows.place.xp.concat(self.P, axis=0))
        return P, B if self.B is None else rows._host(self.B)

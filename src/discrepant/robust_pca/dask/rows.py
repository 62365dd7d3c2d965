"""The rows of a Dask array: the same sweeps, each one pass of tasks over its blocks.

A task is a pure function of one block and of narrow factors (`blocks`); the truth is
here, on the side of who asked. What crosses the network in a pass are the rows of the
m×r factors that belong to a block, the n×r ones once a worker, and the like of them on
the way back. The array itself is never brought together.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from discrepant.core.arrays import even_sample
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.robust_pca.dask.blocks import Place, Recipe, run
from discrepant.robust_pca.dask.cluster import compute_tasks
from discrepant.robust_pca.rows.in_memory import Rows
from discrepant.robust_pca.rows.lock import Held
from discrepant.robust_pca.rows.tiles import Fits, Tally

# Bytes of a block: chunks that are smaller are read several at a time, up to a 64th of
# all (or few workers would have anything to do) and to 32 MiB, or to a 4,096th and to
# 256 MiB where that is more; a task takes some milliseconds beside its work. Chunks are
# cut only where whole rows of them are more than a gigabyte.
PART, LEAST, MOST, TASKS, LARGEST, CUT = 64, 1 << 20, 1 << 25, 4096, 1 << 28, 1 << 30
WHOLE = 1 << 28  # bytes that may be brought into memory where there is no other way
FEW = 64  # whole rows that are looked at
SHARED = 2.5  # how often a node of the graph is computed, if blocks are on their own


class LazyRows(Rows):
    """A Dask array of float64 or float32, seen as blocks along its long axis.

    Parameters
    ----------
    Y : dask.array.Array of shape (., .)
        Of known shape; numbers of any kind become float64, float32 stays.
    memory_limit : int, optional
        Bytes that may be brought into memory where there is no other way.
    """

    def __init__(self, Y: Any, *, memory_limit: int | None = None) -> None:
        Held.__init__(self)
        self._given = Y
        self.turned = Y.shape[1] > Y.shape[0]
        self.wide = False
        self.m, self.n = max(Y.shape), min(Y.shape)
        self.dtype = np.dtype(np.float32 if Y.dtype == np.float32 else np.float64)
        self.n_jobs = None
        self.most = WHOLE if memory_limit is None else memory_limit
        self._blocks, self._cuts = _blocks_of(Y.T if self.turned else Y, self.dtype)
        self._looked: tuple[Array, Array, Array] | None = None

    # Nothing but the lock is held here: BLAS is told where the blocks are.
    __enter__, __exit__, __setstate__ = Held.__enter__, Held.__exit__, Held.__setstate__

    # -- how the data lie ----------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(self.m * self.n)

    def lies_like(self, other: Rows) -> bool:
        """Whether both have the same shape and type."""
        alike = isinstance(other, LazyRows) and self.shape == other.shape
        return alike and self.dtype == other.dtype

    def as_given(self, X: Array) -> Array:
        """Turn an array whose rows are the long axis to the caller's orientation."""
        return X.T if self.turned else X

    @property
    def fits(self) -> bool:
        """Whether all of it may be brought into memory."""
        return self.size * self.dtype.itemsize <= self.most

    def whole(self) -> Rows:
        """Bring all of it into memory, where it fits."""
        if not self.fits:
            size = self.size * self.dtype.itemsize
            raise InputError(
                f"This takes the whole matrix at once, {size / 1e9:.3g} GB, and "
                f"{self.most / 1e9:.3g} GB may be brought into memory: raise "
                "memory_limit, or keep to the defaults of alpha, psd, polish, solver "
                "and noise, under which a sample of the rows is enough for most data."
            )
        parts = self._pass("lines", lambda part: None, np.arange(self.n))
        Z = np.concatenate([part.T for part in parts]) if parts else self._none()
        return Rows(self.as_given(np.ascontiguousarray(Z)))

    # -- a look at the data --------------------------------------------------------

    def sample(self) -> Array:
        """Return evenly spread rows and columns (`even_sample` of the shape)."""
        return self.as_given(self._look()[1])

    def entries(self, i: Array, j: Array) -> Array:
        """Return the entries at the given places, where all of it fits in memory."""
        return self.whole().entries(i, j)

    def lines(self, which: Array, axis: int) -> Array:
        """Return some rows (axis 0) or columns (1), of the long and the short axis."""
        if axis:
            found = self._pass("lines", lambda part: None, np.asarray(which))
            return np.concatenate(found, axis=1, dtype=np.float64)
        order = np.argsort(which, kind="stable")
        told = self._within(np.asarray(which)[order])
        some = [k for k, part in enumerate(told) if len(part)]
        found = self._pass("lines", lambda part: told[part], None, parts=some)
        lines = np.empty((len(which), self.n))
        lines[order] = np.concatenate(found) if found else self._none()
        return lines

    def line_sizes(self, axis: int, entries: int = 256) -> Array:
        """Return the usual size of each row (axis 0) or column of the caller's."""
        if (axis == 0) is self.turned:  # lines of the short axis, by a few entries
            return Rows(self._look()[2], n_jobs=1, long=0).line_sizes(1, entries)
        sizes = self._pass("sizes", lambda part: None, entries)
        return np.concatenate(sizes, dtype=np.float64)

    def _look(self) -> tuple[Array, Array, Array]:
        """Return the scan, some entries, and a few whole rows: one pass, once."""
        if self._looked is None:
            scattered, columns = even_sample(self.shape)
            if self.turned:
                scattered, columns = columns, scattered
            some = self._within(np.arange(self.m)[scattered])
            few = self._within(np.arange(0, self.m, max(self.m // FEW, 1)))
            found = self._pass("look", lambda part: (some[part], few[part]), columns)
            scan, entries, lines = map(np.concatenate, zip(*found, strict=True))
            self._looked = scan, entries, lines
        return self._looked

    # -- work ----------------------------------------------------------------------

    def sweep(
        self,
        kernel: str,
        arrays: tuple[Array, ...] = (),
        scalars: tuple[float, ...] = (),
        *,
        low_rank: tuple[Array, Array] | None = None,
        right: Array | None = None,
        left: Array | None = None,
        power: bool = False,
    ) -> tuple[Array, Array, Array]:
        """Run a kernel over all blocks; see `Rows.sweep`."""
        none = np.zeros((self.m, 0)), np.zeros((self.n, 0))
        if kernel == "scan":
            return *none, self._look()[0]
        if arrays:
            raise NotImplementedError("nothing of the size of a Dask array is kept")
        U, C = (None, None) if low_rank is None else map(self._narrow, low_rank)
        V, W = (None if X is None else self._narrow(X) for X in (right, left))

        def own(part: int) -> Any:
            at = slice(*self._cuts[part])
            return tuple(None if X is None else X[at] for X in (U, W))

        found = self._pass("sweep", own, (kernel, scalars, C, V, power))
        P, B, results = zip(*found, strict=True)
        together = np.concatenate(P, dtype=np.float64)
        return together, np.sum(B, axis=0), np.concatenate(results)

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
        arrays: tuple[Array, ...] = (),
        right: Array | None = None,
    ) -> Tally:
        """Run a kernel that also adds up by row and by column; see `Rows.tally`."""
        if arrays:
            raise NotImplementedError("nothing of the size of a Dask array is kept")
        U, C = map(self._narrow, low_rank)
        A, other = map(self._narrow, sides)
        V = None if right is None else self._narrow(right)

        def own(part: int) -> Any:
            at = slice(*self._cuts[part])
            return U[at], A[:, at]

        shared = (kernel, scalars, C, other, table, counts, bins, V)
        found = self._pass("tally", own, shared)
        P, B, by_row, by_column, histogram = zip(*found, strict=True)
        lines = [np.concatenate(line) for line in zip(*by_row, strict=True)]
        return Tally(
            np.concatenate(P, dtype=np.float64),
            np.sum(B, axis=0),
            np.array(lines, np.float64).reshape(counts[0], self.m),
            np.sum(by_column, axis=0),
            np.sum(histogram, axis=0),
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
        """Fit some rows by a basis; see `Rows.regress`."""
        every = len(which) == self.m
        told = [None] * len(self._cuts) if every else self._within(which)
        some = [k for k, rows in enumerate(told) if rows is None or len(rows)]
        shared = (at, basis, scale, unit, noise)
        found = self._pass("regress", lambda part: told[part], shared, parts=some)
        C, size, clean, observed = map(np.concatenate, zip(*found, strict=True))
        counts = (count.astype(np.int64) for count in (clean, observed))
        return Fits(C, size.astype(np.float64), *counts)

    # -- tasks ---------------------------------------------------------------------

    def _pass(
        self,
        what: str,
        own: Callable[[int], Any],
        shared: Any,
        parts: Any = None,
    ) -> list[Any]:
        """Make one pass over all blocks, or some, and return what each has given."""
        from dask import delayed

        told = delayed(_same, pure=False)(shared)  # is sent to a worker once
        task = delayed(run, pure=False)
        tasks = []
        for k in range(len(self._cuts)) if parts is None else parts:
            place = Place(*self._cuts[k], self.n, self.dtype.str, self.turned)
            tasks.append(task(what, self._blocks[k], tuple(place), own(k), told))
        return compute_tasks(tasks)

    def _within(self, which: Array) -> list[Array]:
        """Return which rows, in rising order, are in each block, counted from there."""
        ends = np.searchsorted(which, [stop for _, stop in self._cuts])
        parts = np.split(which, ends[:-1])
        return [p - start for p, (start, _) in zip(parts, self._cuts, strict=True)]

    def _none(self) -> Array:
        return np.empty((0, self.n), self.dtype)


def _same(shared: Any) -> Any:
    return shared


def _blocks_of(Z: Any, dtype: np.dtype[Any]) -> tuple[list[Any], list[tuple[int, int]]]:
    """Return blocks of whole rows, and where each begins and ends."""
    heights = _heights(Z.chunks[0], Z.shape[1] * dtype.itemsize)
    cut = not set(itertools.accumulate(heights)) <= set(
        itertools.accumulate(Z.chunks[0])
    )
    parts = Z.rechunk({0: heights, 1: -1}).to_delayed(optimize_graph=True).ravel()
    ends = list(itertools.accumulate(heights))
    cuts = list(zip([0, *ends[:-1]], ends, strict=True))
    recipes = None if cut else _recipes(list(parts))
    return list(parts) if recipes is None else recipes, cuts


def _heights(chunks: tuple[int, ...], row: int) -> tuple[int, ...]:
    """Return how many rows go into each block: those of some chunks together."""
    size = sum(chunks) * row
    wanted = max(min(max(size // PART, LEAST), MOST), min(size // TASKS, LARGEST))
    heights, height = [], 0
    for chunk in (chunk for chunk in chunks if chunk):
        if height and (height + chunk) * row > wanted:
            heights.append(height)
            height = 0
        height += chunk
    heights.append(height)
    most = max(CUT // max(row, 1), 1)
    pieces = (
        (most,) * (h // most) + ((h % most,) if h % most else ()) for h in heights
    )
    return tuple(itertools.chain.from_iterable(pieces))


def _recipes(parts: list[Any]) -> list[Any] | None:
    """Return blocks that compute themselves; None where they have much in common.

    So have those of an array that is held by a cluster already, and those from which,
    for example, the mean of all was taken: Dask itself serves these better.
    """
    from dask.optimization import cull

    graph = dict(parts[0].__dask_graph__())
    most, nodes, recipes = SHARED * len(graph), 0, []
    for part in parts:
        own, _ = cull(graph, [part.key])
        nodes += len(own)
        needed = {key for node in own.values() for key in _needs(node)}
        if nodes > most or not needed <= set(own):
            return None
        recipes.append(Recipe(own, part.key))
    return recipes


def _needs(node: Any) -> Any:
    return getattr(node, "dependencies", ())

"""Matrices in files, read and written by Dask a few blocks at a time.

A file is opened anew wherever a part of it is read: on a cluster its workers must see
it at the same path.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.robust_pca.dask.cluster import compute_tasks
from discrepant.table.io.numeric_file import reading

FORMATS = (".zarr", ".h5", ".hdf5", ".npy", ".parquet")
BLOCK = 1 << 25  # bytes of a block, where the file does not say
AT_A_TIME = 8  # blocks that are fetched together


def open_lazily(path: Path, key: str | None = None) -> tuple[Any, list[str] | None]:
    """Return the matrix of a file as a Dask array, and its column labels if any."""
    import dask.array as da

    suffix, labels = path.suffix.lower(), None
    if suffix == ".zarr":
        if not path.exists():
            raise InputError(f"{path} does not exist.")
        source: Any = ZarrFile(path, key)
    else:
        with reading(path, FORMATS):
            if suffix == ".parquet":
                source = ParquetFile(path)
                labels = source.labels
            else:
                source = NpyFile(path) if suffix == ".npy" else HDF5File(path, key)
    if len(source.shape) != 2 or np.dtype(source.dtype).kind not in "fiub":
        raise InputError(
            f"{path.name} holds {source.dtype} of shape {tuple(source.shape)}; a table "
            "(2-D) of real numbers is needed."
        )
    chunks = source.chunks or _chunks(source.shape, np.dtype(source.dtype).itemsize)
    return da.from_array(source, chunks=chunks, name=False, meta=_meta(source)), labels


def write_lazily(path: Path, array: Any, labels: list[str] | None) -> int:
    """Write a Dask array to a file, a few blocks at a time; returns its nonzeros."""
    array = array.rechunk({1: -1})
    blocks = array.to_delayed(optimize_graph=True).ravel()
    nonzero = row = 0
    with _sink(path, array, labels) as put:
        for first in range(0, len(blocks), AT_A_TIME):
            for block in compute_tasks(list(blocks[first : first + AT_A_TIME])):
                nonzero += int(np.count_nonzero(block))
                put(row, block)
                row += len(block)
    return nonzero


class NpyFile:
    """An NPY file, opened anew wherever a part of it is read."""

    chunks: Any = None
    shape: tuple[int, ...]
    dtype: Any

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        values = self._open()
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim

    def _open(self) -> Array:
        values: Array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return values

    def __getitem__(self, at: Any) -> Array:
        return np.asarray(self._open()[at])  # mapped: what is not looked at is not read


class HDF5File(NpyFile):
    """One array of an HDF5 file."""

    def __init__(self, path: Path, key: str | None) -> None:
        import h5py

        self.path, names = path.resolve(), []
        with h5py.File(self.path, "r") as file:
            file.visititems(
                lambda name, item: (
                    names.append(name) if isinstance(item, h5py.Dataset) else None
                )
            )
            self.key = _chosen(path, names, key)
            found = file[self.key]
            self.shape, self.dtype = found.shape, found.dtype
            self.ndim = len(found.shape)
            self.chunks = _several(found.chunks, found.shape, found.dtype.itemsize)

    def __getitem__(self, at: Any) -> Array:
        import h5py

        with h5py.File(self.path, "r") as file:
            return np.asarray(file[self.key][at])


class ZarrFile(NpyFile):
    """A Zarr array, or one of a group."""

    def __init__(self, path: Path, key: str | None) -> None:
        import zarr

        self.path, self.key = path.resolve(), key
        try:
            found = zarr.open(self.path, mode="r")
            if not isinstance(found, zarr.Array):
                names = [name for name, _ in found.arrays()]
                self.key = _chosen(path, names, key)
                found = found[self.key]
        except (OSError, KeyError, ValueError) as error:
            raise InputError(f"{path} cannot be read as Zarr: {error}.") from None
        self.shape, self.dtype, self.ndim = found.shape, found.dtype, found.ndim
        self.chunks = _several(found.chunks, found.shape, found.dtype.itemsize)

    def __getitem__(self, at: Any) -> Array:
        import zarr

        found = zarr.open(self.path, mode="r")
        found = found if isinstance(found, zarr.Array) else found[self.key]
        return np.asarray(found[at])


class ParquetFile(NpyFile):
    """A Parquet file of columns of numbers, in blocks of its row groups."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path = path.resolve()
        with pq.ParquetFile(self.path) as file:
            schema = file.schema_arrow
            drop = [n for n in schema.names if n.startswith("__index_level_")]
            self.labels = [n for n in schema.names if n not in drop]
            kinds = [schema.field(n).type.to_pandas_dtype() for n in self.labels]
            groups = [
                file.metadata.row_group(k).num_rows
                for k in range(file.metadata.num_row_groups)
            ]
        self.dtype = np.result_type(*kinds) if kinds else np.dtype(float)
        if self.dtype.kind != "f":
            self.dtype = np.dtype(np.float64)  # whole numbers may have gaps
        self.shape, self.ndim = (sum(groups), len(self.labels)), 2
        self.ends = np.cumsum(groups)
        self.chunks = (tuple(groups) or (0,), (len(self.labels),))

    def __getitem__(self, at: Any) -> Array:
        import pyarrow.parquet as pq

        rows, columns = at
        start, stop, _ = rows.indices(self.shape[0])
        first, last = np.searchsorted(self.ends, [start, stop - 1], side="right")
        before = int(self.ends[first - 1]) if first else 0
        with pq.ParquetFile(self.path) as file:
            groups = list(range(first, last + 1))
            table = file.read_row_groups(groups, columns=self.labels[columns])
        values = table.slice(start - before, stop - start).to_pandas()
        return np.asarray(values.to_numpy(self.dtype, na_value=np.nan))


@contextmanager
def _sink(path: Path, array: Any, labels: list[str] | None) -> Iterator[Any]:
    """Yield a function that writes some rows from a row on."""
    suffix, height = path.suffix, int(max(array.chunks[0]))
    if suffix == ".npy":
        mapped = np.lib.format.open_memmap(path, "w+", array.dtype, array.shape)
        yield lambda row, block: mapped.__setitem__(slice(row, row + len(block)), block)
        mapped.flush()
    elif suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = labels or [str(k) for k in range(array.shape[1])]
        schema = pa.schema([(name, pa.from_numpy_dtype(array.dtype)) for name in names])
        with pq.ParquetWriter(path, schema) as writer:
            yield lambda row, block: writer.write_table(
                pa.table(list(np.ascontiguousarray(block.T)), schema=schema)
            )
    elif suffix == ".zarr":
        import zarr

        chunks = (height, array.shape[1])
        made = zarr.create_array(
            path, shape=array.shape, dtype=array.dtype, chunks=chunks
        )
        yield lambda row, block: made.__setitem__(slice(row, row + len(block)), block)
    else:
        import h5py

        with h5py.File(path, "w") as file:
            made = file.create_dataset("data", array.shape, array.dtype, chunks=True)
            yield lambda row, block: made.__setitem__(
                slice(row, row + len(block)), block
            )


def _chosen(path: Path, names: list[str], key: str | None) -> str:
    """Return the one array of a file, or the one that is named."""
    if key is None and len(names) != 1:
        raise InputError(
            f"{path.name} holds {len(names)} arrays ({', '.join(names)}); say which "
            "with key=."
        )
    found = names[0] if key is None else key
    if found not in names:
        raise InputError(
            f"{path.name} has no array named {found!r}; it has {', '.join(names)}."
        )
    return found


def _several(chunks: Any, shape: Any, itemsize: int) -> Any:
    """Return blocks of whole rows made of several of a file's own chunks."""
    if not chunks or len(shape) != 2:
        return None
    rows = _chunks(shape, itemsize)[0]
    return (max(rows // chunks[0], 1) * chunks[0], shape[1])


def _chunks(shape: Any, itemsize: int) -> Any:
    row = max(int(np.prod(shape[1:])) * itemsize, 1)
    total = max(int(shape[0]) * row, 1)
    return (max(min(BLOCK, max(total // 16, 1)) // row, 1), *shape[1:])


def _meta(source: Any) -> Array:
    return np.empty((0,) * len(source.shape), source.dtype)

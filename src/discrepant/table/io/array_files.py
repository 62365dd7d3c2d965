"""Read and write matrices in files with Dask, a few blocks at a time.

Each read opens the file again, in the process that reads: the workers of a cluster
must have the file at the same path.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.robust_pca.dask.cluster import compute_tasks
from discrepant.table.io.file_checks import array_name, translate_read_errors

FORMATS = (".zarr", ".h5", ".hdf5", ".npy", ".parquet")
BLOCK_BYTES = 1 << 25  # size of a block if the file has no chunks of its own
BLOCKS_AT_ONCE = 8  # result blocks that are computed and fetched together


def open_dask_array(path: Path, key: str | None = None) -> tuple[Any, list[str] | None]:
    """Return the matrix in a file as a Dask array, and its column labels or None."""
    import dask.array as da

    suffix, labels = path.suffix.lower(), None
    if suffix == ".zarr":
        if not path.exists():
            raise InputError(f"{path} does not exist.")
        source: Any = ZarrFile(path, key)
    else:
        with translate_read_errors(path, FORMATS):
            if suffix == ".parquet":
                source = ParquetFile(path)
                labels = source.labels
            else:
                source = NpyFile(path) if suffix == ".npy" else HDF5File(path, key)
    if len(source.shape) != 2 or np.dtype(source.dtype).kind not in "fiub":
        raise InputError(
            f"{path.name} holds {source.dtype} of shape {tuple(source.shape)}; a "
            "matrix (2-D) of real numbers is needed."
        )
    itemsize = np.dtype(source.dtype).itemsize
    chunks = source.chunks or _block_shape(source.shape, itemsize)
    meta = np.empty((0,) * len(source.shape), source.dtype)
    return da.from_array(source, chunks=chunks, name=False, meta=meta), labels


def write_dask_array(path: Path, array: Any, labels: list[str] | None) -> int:
    """Write a Dask array to a file by blocks; return the number of nonzero entries."""
    array = array.rechunk({1: -1})
    blocks = array.to_delayed(optimize_graph=True).ravel()
    nonzero = row = 0
    with _open_writer(path, array, labels) as write_rows:
        for first in range(0, len(blocks), BLOCKS_AT_ONCE):
            for block in compute_tasks(list(blocks[first : first + BLOCKS_AT_ONCE])):
                nonzero += int(np.count_nonzero(block))
                write_rows(row, block)
                row += len(block)
    return nonzero


class NpyFile:
    """The array in an NPY file; each slice opens the file again."""

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
        return np.asarray(self._open()[at])  # memory-mapped: reads only this slice


class HDF5File(NpyFile):
    """One array in an HDF5 file."""

    def __init__(self, path: Path, key: str | None) -> None:
        import h5py

        self.path, names = path.resolve(), []
        with h5py.File(self.path, "r") as file:
            file.visititems(
                lambda name, item: (
                    names.append(name) if isinstance(item, h5py.Dataset) else None
                )
            )
            self.key = array_name(path, names, key)
            array = file[self.key]
            self.shape, self.dtype = array.shape, array.dtype
            self.ndim = len(array.shape)
            self.chunks = _row_blocks(array.chunks, array.shape, array.dtype.itemsize)

    def __getitem__(self, at: Any) -> Array:
        import h5py

        with h5py.File(self.path, "r") as file:
            return np.asarray(file[self.key][at])


class ZarrFile(NpyFile):
    """A Zarr array, or one array of a Zarr group."""

    def __init__(self, path: Path, key: str | None) -> None:
        import zarr

        self.path, self.key = path.resolve(), key
        try:
            array = zarr.open(self.path, mode="r")
            if not isinstance(array, zarr.Array):
                names = [name for name, _ in array.arrays()]
                self.key = array_name(path, names, key)
                array = array[self.key]
        except (OSError, KeyError, ValueError) as error:
            raise InputError(f"{path} cannot be read as Zarr: {error}.") from None
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.chunks = _row_blocks(array.chunks, array.shape, array.dtype.itemsize)

    def __getitem__(self, at: Any) -> Array:
        import zarr

        array = zarr.open(self.path, mode="r")
        array = array if isinstance(array, zarr.Array) else array[self.key]
        return np.asarray(array[at])


class ParquetFile(NpyFile):
    """The numeric columns of a Parquet file; its row groups are the blocks."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path = path.resolve()
        with pq.ParquetFile(self.path) as file:
            schema = file.schema_arrow
            self.labels = [
                name for name in schema.names if not name.startswith("__index_level_")
            ]
            dtypes = [schema.field(name).type.to_pandas_dtype() for name in self.labels]
            group_rows = [
                file.metadata.row_group(k).num_rows
                for k in range(file.metadata.num_row_groups)
            ]
        self.dtype = np.result_type(*dtypes) if dtypes else np.dtype(float)
        if self.dtype.kind != "f":
            self.dtype = np.dtype(np.float64)  # integer columns may have missing values
        self.shape, self.ndim = (sum(group_rows), len(self.labels)), 2
        self.ends = np.cumsum(group_rows)
        self.chunks = (tuple(group_rows) or (0,), (len(self.labels),))

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
def _open_writer(path: Path, array: Any, labels: list[str] | None) -> Iterator[Any]:
    """Yield ``write_rows(first_row, block)``, which writes rows to a file."""
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
        stored = zarr.create_array(
            path, shape=array.shape, dtype=array.dtype, chunks=chunks
        )
        yield lambda row, block: stored.__setitem__(slice(row, row + len(block)), block)
    else:
        import h5py

        with h5py.File(path, "w") as file:
            stored = file.create_dataset("data", array.shape, array.dtype, chunks=True)
            yield lambda row, block: stored.__setitem__(
                slice(row, row + len(block)), block
            )


def _row_blocks(chunks: Any, shape: Any, itemsize: int) -> Any:
    """Return the shape of blocks of whole rows, each several chunks of the file."""
    if not chunks or len(shape) != 2:
        return None
    rows = _block_shape(shape, itemsize)[0]
    return (max(rows // chunks[0], 1) * chunks[0], shape[1])


def _block_shape(shape: Any, itemsize: int) -> Any:
    """Return the shape of blocks of whole rows, at least 16 of them if possible."""
    row_bytes = max(int(np.prod(shape[1:])) * itemsize, 1)
    total = max(int(shape[0]) * row_bytes, 1)
    return (max(min(BLOCK_BYTES, max(total // 16, 1)) // row_bytes, 1), *shape[1:])

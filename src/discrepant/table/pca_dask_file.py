"""A matrix in a file that is worked on by Dask: on local processes, or on a cluster.

The file is read where the work is done, block by block; the parts are fetched a few
blocks at a time and written here, so that nothing has to fit into memory and workers
need not see the folder of the results.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError, missing_extra
from discrepant.core.output_files import atomic_output_folder, write_json
from discrepant.core.progress import reporting
from discrepant.robust_pca.dask.cluster import connected
from discrepant.robust_pca.estimator import RobustPCA
from discrepant.table.io.array_files import open_lazily, write_lazily
from discrepant.table.pca_file import PartsReport, told_by


@dataclass(frozen=True, kw_only=True)
class ScaledReport(PartsReport):
    """What was found in a matrix, and by how many workers."""

    workers: int

    def __str__(self) -> str:
        sizes = np.atleast_1d(self.noise)
        noise = f"Noise of size {np.median(sizes):.3g}." if sizes.any() else "No noise."
        return self._told("", f", by {self.workers} workers", noise, "")


def fit_pca_dask_file(
    file: Path,
    output: Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    key: str | None = None,
    noise: float | str = "auto",
    fdr: float = 0.01,
    max_iter: int | None = None,
    tol: float | None = None,
    memory_limit: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool = False,
) -> ScaledReport:
    """Split the matrix of a file by Dask and write the parts and a summary.

    Parameters
    ----------
    file : Path
        Zarr, HDF5, NPY or Parquet; on a cluster, where its workers see it too.
    output : Path
        Folder for the results; made if needed.
    workers : int, optional
        Number of local processes.
    scheduler : str, optional
        Address of a running cluster, in place of these.
    key : str, optional
        Which array of a Zarr group or an HDF5 file is meant.
    noise, fdr, max_iter, tol, memory_limit
        As in `RobustPCA`.
    seed, overwrite, progress
        As in `discrepant.table.pca_file.fit_pca_file`.
    """
    if workers is not None and scheduler is not None:
        raise InputError("Pass workers= or scheduler=, not both.")
    parts = tuple(f"{part}{file.suffix.lower()}" for part in ("low_rank", "sparse"))
    names = (*parts, "summary.json")
    folders = parts if file.suffix.lower() == ".zarr" else ()
    with _available():
        data, labels = open_lazily(file, key)
    model = RobustPCA(
        noise=noise,
        fdr=fdr,
        max_iter=max_iter,
        tol=tol,
        memory_limit=memory_limit,
        random_state=seed,
        verbose=progress,
    )
    with (
        atomic_output_folder(
            output, names, folders=folders, overwrite=overwrite, keep=file
        ) as scratch,
        _available(),
        connected(scheduler, workers) as client,
    ):
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(data)
        low_rank, sparse = model.low_rank_, model.sparse_
        with reporting(progress, "write") as report:
            write_lazily(scratch / parts[0], low_rank, labels)
            report(0.5, parts[0])
            wrong = write_lazily(scratch / parts[1], sparse, labels)
        found: Any = model._found
        observed = found.found.program.scale.observed
        outcome = ScaledReport(
            file=file.name,
            shape=data.shape,
            workers=len(client.nthreads()),
            missing=1 - observed / data.size,
            corrupted=wrong / max(observed, 1),
            **told_by(model, caught, started),
            seed=seed,
            folder=output,
            files=names,
        )
        write_json(scratch / "summary.json", outcome.summary)
    return outcome


@contextmanager
def _available() -> Iterator[None]:
    """Name the extra where something of it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").split(".")[0]
        if name not in ("dask", "distributed", "zarr", "h5py", "pyarrow"):
            raise
        raise missing_extra(f"{name} is not installed", "dask") from None

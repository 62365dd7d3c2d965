"""Robust PCA of a matrix in a file with Dask, on local processes or on a cluster.

The workers read the file block by block. The results are fetched a few blocks at a time
and written by this process. So no part has to fit into memory, and the workers need no
access to the folder of the results.
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
from discrepant.table.io.array_files import open_dask_array, write_dask_array
from discrepant.table.pca_file import DecompositionReport, fit_fields


@dataclass(frozen=True, kw_only=True)
class DaskReport(DecompositionReport):
    """Estimates from a matrix that was decomposed by Dask workers."""

    workers: int

    def __str__(self) -> str:
        sigmas = np.atleast_1d(self.noise)
        noise = "No noise."
        if sigmas.any():
            noise = f"Noise: standard deviation {np.median(sigmas):.3g}."
        return self.as_text("", f", by {self.workers} workers", noise, "")


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
) -> DaskReport:
    """Decompose the matrix in a file with Dask; write both parts and a summary.

    Parameters
    ----------
    file : Path
        Zarr, HDF5, NPY or Parquet; the workers of a cluster need the same path.
    output : Path
        Folder for the results; created if needed.
    workers : int, optional
        Number of local processes.
    scheduler : str, optional
        Address of a running cluster, instead of ``workers``.
    key : str, optional
        Name of the array in a Zarr group or an HDF5 file.
    noise, fdr, max_iter, tol, memory_limit
        As in `RobustPCA`.
    seed, overwrite, progress
        As in `discrepant.table.pca_file.fit_pca_file`.
    """
    if workers is not None and scheduler is not None:
        raise InputError("Pass workers= or scheduler=, not both.")
    suffix = file.suffix.lower()
    part_names = (f"low_rank{suffix}", f"sparse{suffix}")
    names = (*part_names, "summary.json")
    folders = part_names if suffix == ".zarr" else ()
    with _name_missing_extra():
        data, labels = open_dask_array(file, key)
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
        _name_missing_extra(),
        connected(scheduler, workers) as client,
    ):
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(data)
        low_rank, sparse = model.low_rank_, model.sparse_
        with reporting(progress, "Writing") as report:
            write_dask_array(scratch / part_names[0], low_rank, labels)
            report(0.5, part_names[0])
            corrupted = write_dask_array(scratch / part_names[1], sparse, labels)
        fit: Any = model._result
        observed = fit.fit.program.scale.observed
        result = DaskReport(
            file=file.name,
            shape=data.shape,
            workers=len(client.nthreads()),
            missing=1 - observed / data.size,
            corrupted=corrupted / max(observed, 1),
            **fit_fields(model, caught, started),
            seed=seed,
            folder=output,
            files=names,
        )
        write_json(scratch / "summary.json", result.summary)
    return result


@contextmanager
def _name_missing_extra() -> Iterator[None]:
    """Turn a missing package of Dask's into an error that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").split(".")[0]
        if name not in ("dask", "distributed", "zarr", "h5py", "pyarrow"):
            raise
        raise missing_extra(f"{name} is not installed", "dask") from None

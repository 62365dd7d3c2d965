"""Robust PCA of a matrix in a file, in memory or with Dask, and its report.

With Dask the workers read the file block by block. The results are fetched a few blocks
at a time and written by this process: no part has to fit into memory, and the workers
need no access to the folder of the results.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from discrepant.core.errors import InputError, missing_extra
from discrepant.core.output_files import atomic_output_folder, write_summary
from discrepant.core.plotting import plot_decomposition
from discrepant.core.progress import Progress, reporting
from discrepant.core.results import Certificate
from discrepant.robust_pca.estimator import RobustPCA
from discrepant.table.io.table_file import read_matrix_file

# Formats that only Dask reads here.
DASK_FORMATS = (".zarr", ".h5", ".hdf5")


@dataclass(frozen=True, kw_only=True)
class PCAReport:
    """Estimates from a matrix in a file, and the files that were written.

    ``missing`` is a fraction of all entries, ``corrupted`` of the observed ones.
    ``noise`` is the standard deviation of the noise: one number, or one per column.

    Without Dask, ``labels`` says where the file has labels, ``noise_fraction`` is the
    fraction of the sum of squares of the uncorrupted data that is noise, and
    ``certificate`` is None only if the fit was stopped early. With Dask, ``workers`` is
    their number, and these three are None.
    """

    file: str
    shape: tuple[int, int]
    missing: float
    rank: int
    corrupted: float
    noise: float | tuple[float, ...]
    fdr: float
    alpha: float
    steps: int
    status: str
    warnings: tuple[str, ...]
    seconds: float
    seed: int
    folder: Path
    files: tuple[str, ...]
    solver: str = "implicit"
    labels: str | None = None
    noise_fraction: float | None = None
    certificate: Certificate | None = None
    workers: int | None = None

    def __str__(self) -> str:
        labels, by, certificate = "", f", by {self.workers} workers", ""
        if self.workers is None:
            labels, by = f" (labels: {self.labels})", ""
            stopped = "no certificate was computed, because the fit stopped"
            certificate = f"; {self.certificate or stopped}"
        return (
            f"{self.file}: {self.shape[0]}×{self.shape[1]}{labels}, rank {self.rank}, "
            f"{self.corrupted:.1%} of the entries corrupted, {self.missing:.1%} "
            f"missing{by}.\n{self._noise_text}\n{self.status}{certificate}.\n"
            f"Written to {self.folder}: {', '.join(self.files)}."
        )

    @property
    def _noise_text(self) -> str:
        """A sentence about the noise and how corrupted entries differ from it."""
        sigmas = np.atleast_1d(self.noise)
        if not sigmas.any():
            return "No noise: every entry off the low-rank part is corrupted."
        sigma = f"{sigmas[0]:.3g}"
        if len(sigmas) > 1:
            sigma = f"{sigmas.min():.3g} to {sigmas.max():.3g}, by column"
        fraction = self.noise_fraction
        part = "" if fraction is None else f"; {fraction:.2%} of the sum of squares"
        return (
            f"Noise: standard deviation {sigma}{part}. Entries beyond the noise are "
            f"corrupted, at a false discovery rate of {100 * self.fdr:g}%."
        )


def fit_pca_file(
    file: Path,
    output: Path,
    model: RobustPCA | None = None,
    *,
    header: bool | None = None,
    index: bool | None = None,
    key: str | None = None,
    decimal: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    overwrite: bool = False,
    progress: bool | Progress | None = False,
) -> PCAReport:
    """Decompose the matrix in a file; write both parts, a summary and a figure.

    Parameters
    ----------
    file : Path
        The matrix; `table.io.table_file.read_table_file` describes the formats and
        ``header``, ``index``, ``key`` and ``decimal``. Zarr and HDF5 files are read
        with Dask; the workers of a cluster need the file at the same path.
    output : Path
        Folder for the results; created if needed.
    model : RobustPCA, optional
        The estimator with its parameters; a copy of it is fitted. By default
        ``RobustPCA(random_state=0)``.
    workers : int, optional
        Use Dask, with this number of local processes.
    scheduler : str, optional
        Use Dask, on the cluster at this address.
    overwrite : bool
        Replace results that already exist.
    progress : bool or callable
        See `core.progress.reporting`. If it returns False, the best result so far is
        written.
    """
    model = RobustPCA(random_state=0) if model is None else clone(model)
    if uses_dask(file, workers, scheduler):
        if model.psd or model.alpha != "auto" or model.solver != "implicit":
            raise InputError(
                "--psd, --alpha and --solver cannot be used with Dask, that is with "
                "--workers, --scheduler, Zarr or HDF5 files."
            )
        return _fit_with_dask(
            model, file, output, key, workers, scheduler, overwrite, progress
        )
    table = read_matrix_file(file, header=header, index=index, key=key, decimal=decimal)
    values = table.numeric_values()
    part_names = [f"{part}{table.suffix}" for part in ("low_rank", "sparse")]
    names = (*part_names, "summary.json", "picture.png")
    with (
        reporting(progress, "Fitting") as report_progress,
        atomic_output_folder(output, names, overwrite=overwrite, keep=file) as scratch,
    ):
        model.set_params(verbose=report_progress)
        fields = _fit(model, values)
        for name, part in zip(
            part_names, (model.low_rank_, model.sparse_), strict=True
        ):
            table.write_values(scratch / name, part)
        observed = int(np.count_nonzero(~np.isnan(values)))
        figure = plot_decomposition(
            values,
            model.low_rank_,
            model.sparse_,
            by_column=False if model.psd else None,
        )
        figure.savefig(scratch / "picture.png")
        # The certificate takes about as long as the fit.
        certify = report_progress(1.0, "certificate")
        report = PCAReport(
            file=file.name,
            shape=values.shape,
            labels=table.labels,
            missing=float(np.isnan(values).mean()),
            corrupted=int(model.outliers_.sum()) / max(observed, 1),
            noise_fraction=max(1 - float(model.explained_variance_ratio_.sum()), 0.0),
            certificate=model.certificate_ if certify else None,
            folder=output,
            files=names,
            **fields,
        )
        write_summary(scratch, report)
    return report


def uses_dask(file: Path, workers: int | None, scheduler: str | None) -> bool:
    """Return whether a file is decomposed with Dask."""
    return bool(workers or scheduler or file.suffix.lower() in DASK_FORMATS)


def _fit_with_dask(
    model: RobustPCA,
    file: Path,
    output: Path,
    key: str | None,
    workers: int | None,
    scheduler: str | None,
    overwrite: bool,
    progress: bool | Progress | None,
) -> PCAReport:
    from discrepant.robust_pca.dask.cluster import connected
    from discrepant.table.io.array_files import open_dask_array, write_dask_array

    if workers is not None and scheduler is not None:
        raise InputError("Pass workers= or scheduler=, not both.")
    suffix = file.suffix.lower()
    part_names = (f"low_rank{suffix}", f"sparse{suffix}")
    names = (*part_names, "summary.json")
    folders = part_names if suffix == ".zarr" else ()
    with _name_missing_extra():
        data, labels = open_dask_array(file, key)
    with (
        atomic_output_folder(
            output, names, folders=folders, overwrite=overwrite, keep=file
        ) as scratch,
        _name_missing_extra(),
        connected(scheduler, workers) as client,
    ):
        fields = _fit(model.set_params(verbose=progress), data)
        low_rank, sparse = model.low_rank_, model.sparse_
        with reporting(progress, "Writing") as report_progress:
            write_dask_array(scratch / part_names[0], low_rank, labels)
            report_progress(0.5, part_names[0])
            corrupted = write_dask_array(scratch / part_names[1], sparse, labels)
        fit: Any = model._result
        observed = fit.fit.program.scale.observed
        report = PCAReport(
            file=file.name,
            shape=data.shape,
            workers=len(client.nthreads()),
            missing=1 - observed / data.size,
            corrupted=corrupted / max(observed, 1),
            folder=output,
            files=names,
            **fields,
        )
        write_summary(scratch, report)
    return report


def _fit(model: RobustPCA, data: Any) -> dict[str, Any]:
    """Fit the model; return the fields of the report that do not depend on the data."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(data)
    noise: Any = model.noise_
    return {
        "rank": model.rank_,
        "noise": float(noise) if np.ndim(noise) == 0 else tuple(map(float, noise)),
        "fdr": model.fdr,
        "alpha": model.alpha_,
        "steps": model.n_iter_,
        "status": str(model.status_),
        "warnings": tuple(str(warning.message) for warning in caught),
        "seconds": round(time.perf_counter() - started, 3),
        "seed": model.random_state,
        "solver": model.solver,
    }


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

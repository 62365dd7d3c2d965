"""Robust PCA of a matrix in a file: `fit_pca_file` and its report."""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.output_files import atomic_output_folder, summary_of, write_json
from discrepant.core.plotting import plot_decomposition
from discrepant.core.progress import Progress, reporting
from discrepant.core.results import Certificate
from discrepant.robust_pca.estimator import RobustPCA
from discrepant.table.io.table_file import read_matrix_file


@dataclass(frozen=True, kw_only=True)
class DecompositionReport:
    """Estimates from a matrix in a file, and the files that were written.

    ``missing`` is a fraction of all entries, ``corrupted`` of the observed ones.
    ``noise`` is the standard deviation of the noise: one number, or one per column.
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

    @property
    def summary(self) -> dict[str, Any]:
        """The content of ``summary.json``."""
        return summary_of(self)

    def as_text(self, labels: str, workers: str, noise: str, certificate: str) -> str:
        """Return the report as text, with the parts that only a subclass has."""
        return (
            f"{self.file}: {self.shape[0]}×{self.shape[1]}{labels}, rank {self.rank}, "
            f"{self.corrupted:.1%} of the entries corrupted, {self.missing:.1%} "
            f"missing{workers}.\n{noise}\n{self.status}{certificate}.\n"
            f"Written to {self.folder}: {', '.join(self.files)}."
        )


@dataclass(frozen=True, kw_only=True)
class PCAReport(DecompositionReport):
    """Estimates from a matrix that was decomposed in memory.

    ``labels`` says where the file has labels. ``noise_fraction`` is the fraction of the
    sum of squares of the uncorrupted data that is noise. ``certificate`` is None if
    the fit was stopped early.
    """

    labels: str
    noise_fraction: float
    certificate: Certificate | None
    solver: str

    def __str__(self) -> str:
        certificate = (
            self.certificate or "no certificate was computed, because the fit stopped"
        )
        return self.as_text(
            f" (labels: {self.labels})", "", self._noise_text, f"; {certificate}"
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
        return (
            f"Noise: standard deviation {sigma}; {self.noise_fraction:.2%} of the sum "
            "of squares. Entries beyond the noise are corrupted, at a false discovery "
            f"rate of {100 * self.fdr:g}%."
        )


def fit_pca_file(
    file: Path,
    output: Path,
    *,
    alpha: float | str = "auto",
    psd: bool = False,
    solver: str = "implicit",
    noise: float | str = "auto",
    fdr: float = 0.01,
    max_iter: int | None = None,
    tol: float | None = None,
    header: bool | None = None,
    index: bool | None = None,
    key: str | None = None,
    decimal: str | None = None,
    memory_limit: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool | Progress | None = False,
) -> PCAReport:
    """Decompose the matrix in a file; write both parts, a summary and a figure.

    Parameters
    ----------
    file : Path
        The matrix; `table.io.table_file.read_table_file` describes the formats and
        ``header``, ``index``, ``key`` and ``decimal``.
    output : Path
        Folder for the results; created if needed.
    alpha, psd, solver, noise, fdr, max_iter, tol, memory_limit
        As in `RobustPCA`.
    seed : int
        The same seed gives the same result.
    overwrite : bool
        Replace results that already exist.
    progress : bool or callable
        See `core.progress.reporting`. If it returns False, the best result so far is
        written.
    """
    model = RobustPCA(
        solver,
        alpha=alpha,
        psd=psd,
        noise=noise,
        fdr=fdr,
        max_iter=max_iter,
        tol=tol,
        memory_limit=memory_limit,
        random_state=seed,
    )
    table = read_matrix_file(file, header=header, index=index, key=key, decimal=decimal)
    values = table.numeric_values()
    part_names = [f"{part}{table.suffix}" for part in ("low_rank", "sparse")]
    names = (*part_names, "summary.json", "picture.png")
    with (
        reporting(progress, "Fitting") as report_progress,
        atomic_output_folder(output, names, overwrite=overwrite, keep=file) as scratch,
    ):
        started = time.perf_counter()
        model.set_params(verbose=report_progress)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(values)
        for name, part in zip(
            part_names, (model.low_rank_, model.sparse_), strict=True
        ):
            table.write_values(scratch / name, part)
        observed = int(np.count_nonzero(~np.isnan(values)))
        figure = plot_decomposition(
            values, model.low_rank_, model.sparse_, by_column=False if psd else None
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
            **fit_fields(model, caught, started),
            solver=solver,
            seed=seed,
            folder=output,
            files=names,
        )
        write_json(scratch / "summary.json", report.summary)
    return report


def fit_fields(
    model: RobustPCA, caught: list[warnings.WarningMessage], started: float
) -> dict[str, Any]:
    """Return the report's fields about a fit; ``started`` is from `perf_counter`."""
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
    }

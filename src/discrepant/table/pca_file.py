"""A table in a file split into its low-rank part and its gross corruption."""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.output_files import atomic_output_folder, summary_of, write_json
from discrepant.core.plotting import plot_decomposition
from discrepant.core.progress import Progress, reporting
from discrepant.core.results import Certificate
from discrepant.robust_pca.estimator import RobustPCA
from discrepant.table.io.numeric_file import read_table


@dataclass(frozen=True, kw_only=True)
class PartsReport:
    """What was found in a matrix, and where its two parts were written.

    ``missing`` is a share of the entries and ``corrupted`` of those that are there.
    ``noise`` is the standard deviation of the noise on every entry, one number or one
    a column.
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
        """What stands in ``summary.json``."""
        return summary_of(self)

    def _told(self, labels: str, by: str, noise: str, end: str) -> str:
        """Return the report in words, given what only one kind of it knows."""
        return (
            f"{self.file}: {self.shape[0]}×{self.shape[1]}{labels}, rank {self.rank}, "
            f"{self.corrupted:.1%} of the entries corrupted, {self.missing:.1%} "
            f"missing{by}.\n{noise}\n{self.status}{end}.\n"
            f"Written to {self.folder}: {', '.join(self.files)}."
        )


@dataclass(frozen=True, kw_only=True)
class PCAReport(PartsReport):
    """What was found in a table.

    ``labels`` says where the file had labels, and ``noise_share`` is the noise's part
    of the squares of the uncorrupted data. ``certificate`` is None where the work was
    stopped, and ``no_picture`` the reason why none was drawn, if so.
    """

    labels: str
    noise_share: float
    certificate: Certificate | None
    solver: str
    no_picture: str = ""

    def __str__(self) -> str:
        proof = self.certificate or "no certificate was computed, as it was stopped"
        return self._told(f" (labels: {self.labels})", "", self._noise, f"; {proof}")

    @property
    def _noise(self) -> str:
        """What is noise and what is corrupt, in words."""
        sizes = np.atleast_1d(self.noise)
        if not sizes.any():
            return "No noise: what is not low-rank is corrupt."
        size = f"of size {sizes[0]:.3g}"
        if len(sizes) > 1:
            size = f"of size {sizes.min():.3g} to {sizes.max():.3g}, by column"
        return (
            f"Noise {size}, {self.noise_share:.2%} of the squares; entries beyond it "
            f"are corrupt, at a false discovery rate of {100 * self.fdr:g}%."
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
    """Split the table of a file and write the parts, a summary and a picture.

    Parameters
    ----------
    file : Path
        A table; see `table.io.numeric_file.read_table` for it, ``header``, ``index``,
        ``key`` and ``decimal``.
    output : Path
        Folder for the results; made if needed.
    alpha, psd, solver, noise, fdr, max_iter, tol, memory_limit
        As in `RobustPCA`.
    seed : int
        The same seed gives the same result.
    overwrite : bool
        Whether results that are there already may be replaced.
    progress : bool or callable
        See `core.progress.reporting`. Told to stop, the best so far is written.
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
    table = read_table(file, header=header, index=index, key=key, decimal=decimal)
    values = table.values
    parts = [f"{part}{table.suffix}" for part in ("low_rank", "sparse")]
    names = (*parts, "summary.json", "picture.png")
    with (
        reporting(progress, "Fitting") as watch,
        atomic_output_folder(output, names, overwrite=overwrite, keep=file) as scratch,
    ):
        started = time.perf_counter()
        model.set_params(verbose=watch)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(values)
        for name, part in zip(parts, (model.low_rank_, model.sparse_), strict=True):
            table.write(scratch / name, part)
        seen = int(np.count_nonzero(~np.isnan(values)))
        no_picture = ""
        try:
            picture = plot_decomposition(
                values,
                model.low_rank_,
                model.sparse_,
                by_column=False if psd else None,
            )
            picture.savefig(scratch / "picture.png")
        except InputError as error:  # matplotlib is an extra: do without
            no_picture, names = str(error), names[:-1]
        certify = watch(1.0, "certificate")  # it takes about as long as the fit
        report = PCAReport(
            file=file.name,
            shape=values.shape,
            labels=table.labels,
            missing=float(np.isnan(values).mean()),
            corrupted=int(model.outliers_.sum()) / max(seen, 1),
            noise_share=max(1 - float(model.explained_variance_ratio_.sum()), 0.0),
            certificate=model.certificate_ if certify else None,
            **told_by(model, caught, started),
            solver=solver,
            seed=seed,
            folder=output,
            files=names,
            no_picture=no_picture,
        )
        write_json(scratch / "summary.json", report.summary)
    return report


def told_by(
    model: RobustPCA, caught: list[warnings.WarningMessage], started: float
) -> dict[str, Any]:
    """Return what every report says of a fit that began at a time of `perf_counter`."""
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

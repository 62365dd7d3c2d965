"""The demonstration: a matrix, a table and a photograph, each with its picture."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError, missing_extra
from discrepant.core.output_files import atomic_output_folder, write_json
from discrepant.core.plotting import (
    image_panels,
    plot_decomposition,
    require_matplotlib,
)
from discrepant.core.results import Certificate
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.robust_pca.estimator import RobustPCA
from discrepant.table.clean import clean
from discrepant.table.example_data import sensor_table
from discrepant.table.report.report import write_report

OUTPUTS = ("matrix.png", "photograph.png", "table.csv", "table.html", "summary.json")


@dataclass(frozen=True)
class MatrixReport:
    """A matrix that was made, and what was found of it; all shares are of entries."""

    shape: tuple[int, int]
    rank: int
    rank_found: int
    corrupted: float
    corrupted_found: float
    missing: float
    missing_seen: float
    relative_error: float
    certificate: Certificate
    steps: int
    status: str
    seconds: float


@dataclass(frozen=True)
class TableReport:
    """A table of sensors that was made, and what was found wrong in it."""

    shape: tuple[int, int]
    wrong: int
    flagged: int
    found: int  # of the flagged, those that are wrong
    seconds: float


@dataclass(frozen=True)
class PhotographReport:
    """Decibels of a photograph as it was observed and as it was restored."""

    before: float
    after: float
    seconds: float


@dataclass(frozen=True)
class DemoReport:
    """All three, and the folder with their pictures, or why there are none."""

    matrix: MatrixReport
    table: TableReport
    photograph: PhotographReport | None
    folder: Path
    no_picture: str = ""

    @property
    def summary(self) -> dict[str, Any]:
        """What stands in ``summary.json``."""
        matrix, certificate = self.matrix, self.matrix.certificate
        return {
            "shape": matrix.shape,
            "rank": {"true": matrix.rank, "found": matrix.rank_found},
            "corrupted": {"true": matrix.corrupted, "found": matrix.corrupted_found},
            "missing": matrix.missing_seen,
            "relative_error": matrix.relative_error,
            "certificate": {
                "gap": certificate.gap,
                "feasibility": certificate.feasibility,
            },
            "steps": matrix.steps,
            "seconds": matrix.seconds,
            "table": asdict(self.table),
            "photograph": self.photograph and asdict(self.photograph),
        }

    def __str__(self) -> str:
        matrix, table, image = self.matrix, self.table, self.photograph
        told = (
            f"A {matrix.shape[0]}×{matrix.shape[1]} matrix of rank {matrix.rank}, "
            f"{matrix.corrupted:.0%} corrupted, {matrix.missing:.0%} missing; told "
            "none of this.\n"
            f"  rank found       {matrix.rank_found}\n"
            f"  corrupted found  {matrix.corrupted_found:.1%} of the observed entries\n"
            f"  relative error   {matrix.relative_error:.1e} of the true matrix\n"
            f"  certificate      {matrix.certificate}\n"
            f"  ended            {matrix.status}, in {matrix.seconds:.1f} s\n"
            f"  picture          {self.no_picture or self.folder / 'matrix.png'}\n"
            f"A table of {table.shape[0]} rows: a time, an id, a name and twelve "
            f"sensors, {table.wrong} readings wrong; told nothing.\n"
            f"  flagged          {table.flagged}, of which {table.found} are wrong, in "
            f"{table.seconds:.1f} s\n"
            f"  the table        {self.folder / 'table.csv'}\n"
            f"  report           {self.folder / 'table.html'}\n"
        )
        if image is None:
            return told + str(
                missing_extra("A photograph too, with scikit-image", "restore")
            )
        return told + (
            "A photograph, half of its values replaced by random ones; told nothing.\n"
            f"  from {image.before:.1f} dB to {image.after:.1f} dB in "
            f"{image.seconds:.1f} s\n"
            f"  picture          {self.no_picture or self.folder / 'photograph.png'}"
        )


def demo(
    output: Path, *, seed: int = 0, overwrite: bool = False, progress: bool = False
) -> DemoReport:
    """Recover a 400×300 matrix of rank 8, 20% corrupted and 10% missing.

    Then clean a table of sensors and, where scikit-image is installed, restore a
    photograph of which half of the values are random. Pictures (by matplotlib), the
    table's report and a summary are written to the folder.
    """
    with atomic_output_folder(output, OUTPUTS, overwrite=overwrite) as scratch:
        no_picture = ""
        try:
            require_matplotlib()
        except InputError as error:  # matplotlib is an extra: do without
            no_picture = str(error)
        report = DemoReport(
            _matrix(None if no_picture else scratch / "matrix.png", seed, progress),
            _table(scratch, seed, progress),
            _photograph(
                None if no_picture else scratch / "photograph.png", seed, progress
            ),
            output,
            no_picture,
        )
        write_json(scratch / "summary.json", report.summary)
    return report


def _matrix(path: Path | None, seed: int, progress: bool) -> MatrixReport:
    """Recover a matrix and draw it, if there is where to."""
    shape, rank, share, missing = (400, 300), 8, 0.2, 0.1
    problem = corrupted_matrix(shape, rank, share, missing=missing, random_state=seed)
    observed = problem.observed
    started = time.perf_counter()
    pca = RobustPCA(random_state=seed, verbose=progress).fit(observed)
    seconds = time.perf_counter() - started
    if path is not None:
        parts = observed, pca.low_rank_, pca.sparse_, problem.low_rank
        plot_decomposition(*parts).savefig(path)
    gaps = float(np.isnan(observed).mean())
    return MatrixReport(
        shape=shape,
        rank=rank,
        rank_found=pca.rank_,
        corrupted=share,
        corrupted_found=float(pca.outliers_.mean()) / (1 - gaps),
        missing=missing,
        missing_seen=gaps,
        relative_error=relative_error(pca.low_rank_, problem.low_rank),
        certificate=pca.certificate_,
        steps=pca.n_iter_,
        status=str(pca.status_),
        seconds=round(seconds, 3),
    )


def _table(folder: Path, seed: int, progress: bool) -> TableReport:
    """Clean a table and write its report."""
    table, wrong = sensor_table(random_state=seed)
    table.to_csv(folder / "table.csv", index=False)
    started = time.perf_counter()
    found = clean(table, random_state=seed, progress=progress)
    seconds = time.perf_counter() - started
    write_report(found, folder / "table.html", title="A table of sensors")
    flagged = np.asarray(found.mask)
    return TableReport(
        shape=table.shape,
        wrong=int(wrong.sum()),
        flagged=int(flagged.sum()),
        found=int((flagged & wrong).sum()),
        seconds=round(seconds, 3),
    )


def _photograph(
    path: Path | None, seed: int, progress: bool
) -> PhotographReport | None:
    """Restore a photograph and draw it, if one is to be had and there is where to."""
    try:
        from skimage import data
    except ImportError:
        return None
    from discrepant.image.arrays import psnr
    from discrepant.image.restore.restore import restore

    shipped: Any = data
    truth = shipped.astronaut()[:256, 96:352]
    rng = np.random.default_rng(seed)
    wrong = rng.random(truth.shape) < 0.5
    observed = np.where(wrong, rng.integers(0, 256, truth.shape), truth)
    observed = observed.astype(np.uint8)
    started = time.perf_counter()
    result = restore(observed, quality="fast", progress=progress)
    seconds = time.perf_counter() - started
    panels = {"observed": observed, "restored": result.image, "truth": truth}
    if path is not None:
        image_panels(panels).savefig(path)
    before, after = (
        round(psnr(image / 255, truth / 255), 2) for image in (observed, result.image)
    )
    return PhotographReport(before, after, round(seconds, 3))

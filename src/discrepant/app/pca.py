"""A table in a file split into its low-rank part and its gross corruption."""

import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discrepant import __version__
from discrepant.errors import InputError
from discrepant.matrix.estimator import RobustPCA
from discrepant.outputs import staged, write_json
from discrepant.paper.problems import corrupted_share
from discrepant.plotting import decomposition
from discrepant.result import Certificate
from discrepant.table.files import read_table


@dataclass(frozen=True)
class PCAReport:
    """What was found in a table, and where the parts were written.

    ``labels`` says where the file had labels; ``missing`` and ``corrupted`` are shares
    of the entries. ``no_picture`` is the reason why none was drawn, if so.
    """

    file: str
    shape: tuple[int, int]
    labels: str
    missing: float
    rank: int
    corrupted: float
    alpha: float
    certificate: Certificate
    steps: int
    status: str
    warnings: tuple[str, ...]
    seconds: float
    solver: str
    seed: int
    folder: Path
    files: tuple[str, ...]
    no_picture: str = ""

    @property
    def summary(self) -> dict[str, Any]:
        """What stands in ``summary.json``."""
        apart = ("folder", "files", "no_picture")
        held = {key: value for key, value in asdict(self).items() if key not in apart}
        return {**held, "version": __version__}

    def __str__(self) -> str:
        return (
            f"{self.file}: {self.shape[0]}×{self.shape[1]} (labels: {self.labels}), "
            f"rank {self.rank}, {self.corrupted:.1%} of the entries corrupted, "
            f"{self.missing:.1%} missing.\n{self.status}; {self.certificate}.\n"
            f"Written to {self.folder}: {', '.join(self.files)}."
        )


def pca(
    file: Path,
    output: Path,
    *,
    alpha: float | str = "auto",
    psd: bool = False,
    solver: str = "implicit",
    header: bool | None = None,
    index: bool | None = None,
    key: str | None = None,
    memory_limit: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool = False,
) -> PCAReport:
    """Split the table of a file and write the parts, a summary and a picture.

    Parameters
    ----------
    file : Path
        A table; see `discrepant.table.files.read_table` for it, ``header``, ``index``
        and ``key``.
    output : Path
        Folder for the results; made if needed.
    alpha, psd, solver, memory_limit
        As in `RobustPCA`.
    seed : int
        The same seed gives the same result.
    overwrite : bool
        Whether results that are there already may be replaced.
    progress : bool
        Show a bar.
    """
    model = RobustPCA(
        solver,
        alpha=alpha,
        psd=psd,
        memory_limit=memory_limit,
        random_state=seed,
        verbose=progress,
    )
    table = read_table(file, header=header, index=index, key=key)
    values = table.values
    parts = [f"{part}{table.suffix}" for part in ("low_rank", "sparse")]
    names = (*parts, "summary.json", "picture.png")
    with staged(output, names, overwrite=overwrite, keep=file) as scratch:
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(values)
        for name, part in zip(parts, (model.low_rank_, model.sparse_), strict=True):
            table.write(scratch / name, part)
        no_picture = ""
        try:
            picture = decomposition(values, model.low_rank_, model.sparse_)
            picture.savefig(scratch / "picture.png")
        except InputError as error:  # matplotlib is an extra: do without
            no_picture, names = str(error), names[:-1]
        report = PCAReport(
            file=file.name,
            shape=values.shape,
            labels=table.labels,
            missing=float(np.isnan(values).mean()),
            rank=model.rank_,
            corrupted=corrupted_share(model.sparse_, values),
            alpha=model.alpha_,
            certificate=model.certificate_,
            steps=model.n_iter_,
            status=str(model.status_),
            warnings=tuple(str(warning.message) for warning in caught),
            seconds=round(time.perf_counter() - started, 3),
            solver=solver,
            seed=seed,
            folder=output,
            files=names,
            no_picture=no_picture,
        )
        write_json(scratch / "summary.json", report.summary)
    return report

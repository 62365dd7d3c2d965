"""The command `discrepant demo`: a matrix, a table and a photograph with known errors.

The imports of numerical packages are inside the functions, so that ``--help`` is quick.
"""

import time
from pathlib import Path
from typing import Any

import typer

from discrepant.cli.messages import on_terminal
from discrepant.cli.options import Output, Overwrite, Seed
from discrepant.core.errors import missing_extra

OUTPUTS = ("matrix.png", "photograph.png", "table.csv", "table.html", "summary.json")
MATRIX_SHAPE = (400, 300)
MATRIX_RANK = 8
CORRUPTED_FRACTION = 0.2  # of the entries of the matrix that are corrupted
MISSING_FRACTION = 0.1  # of the entries of the matrix that are missing
RANDOM_FRACTION = 0.5  # of the values of the photograph that become random


def demo(
    output: Output = Path("discrepant-demo"),
    overwrite: Overwrite = False,
    seed: Seed = 0,
) -> None:
    """Try the package on a matrix, a table and a photograph with known errors.

    Writes before-and-after figures, the table with its report, and `summary.json`.

    Example: `discrepant demo -o demo`
    """
    _, text = run_demo(output, seed=seed, overwrite=overwrite, progress=on_terminal())
    typer.echo(text)


def run_demo(
    output: Path, *, seed: int = 0, overwrite: bool = False, progress: bool = False
) -> tuple[dict[str, Any], str]:
    """Recover a matrix, clean a table, restore a photograph, and write the results.

    The photograph needs scikit-image; without it, the text names the package.

    Returns
    -------
    summary : dict
        The content of ``summary.json``.
    text : str
        The description that is printed.
    """
    from discrepant.core.output_files import atomic_output_folder, write_json

    with atomic_output_folder(output, OUTPUTS, overwrite=overwrite) as scratch:
        summary, status = recover_matrix(scratch, seed, progress)
        summary["table"] = clean_table(scratch, seed, progress)
        summary["photograph"] = restore_photograph(scratch, seed, progress)
        write_json(scratch / "summary.json", summary)
    return summary, _describe(summary, status, output)


def recover_matrix(
    folder: Path, seed: int, progress: bool
) -> tuple[dict[str, Any], str]:
    """Recover a corrupted matrix, and draw it.

    Returns the part of the summary and the status of the solver.
    """
    import numpy as np

    from discrepant.core.plotting import plot_decomposition
    from discrepant.paper.synthetic import corrupted_matrix, relative_error
    from discrepant.robust_pca.estimator import RobustPCA

    problem = corrupted_matrix(
        MATRIX_SHAPE,
        MATRIX_RANK,
        CORRUPTED_FRACTION,
        missing=MISSING_FRACTION,
        random_state=seed,
    )
    observed = problem.observed
    started = time.perf_counter()
    pca = RobustPCA(random_state=seed, verbose=progress).fit(observed)
    seconds = time.perf_counter() - started
    parts = observed, pca.low_rank_, pca.sparse_, problem.low_rank
    plot_decomposition(*parts).savefig(folder / "matrix.png")
    missing = float(np.isnan(observed).mean())
    corrupted = float(pca.outliers_.mean()) / (1 - missing)
    certificate = pca.certificate_
    summary = {
        "shape": MATRIX_SHAPE,
        "rank": {"true": MATRIX_RANK, "estimated": pca.rank_},
        "corrupted": {"true": CORRUPTED_FRACTION, "estimated": corrupted},
        "missing": missing,
        "relative_error": relative_error(pca.low_rank_, problem.low_rank),
        "certificate": {
            "gap": certificate.gap,
            "feasibility": certificate.feasibility,
        },
        "steps": pca.n_iter_,
        "seconds": round(seconds, 3),
    }
    return summary, f"{pca.status_}; {certificate}"


def clean_table(folder: Path, seed: int, progress: bool) -> dict[str, Any]:
    """Clean a table of sensor readings, and write the table and its report."""
    import numpy as np

    from discrepant.table.clean import clean
    from discrepant.table.example_data import sensor_table
    from discrepant.table.report.report import write_report

    table, corrupt = sensor_table(random_state=seed)
    table.to_csv(folder / "table.csv", index=False)
    started = time.perf_counter()
    result = clean(table, random_state=seed, progress=progress)
    seconds = time.perf_counter() - started
    write_report(result, folder / "table.html", title="Sensor readings")
    flagged = np.asarray(result.mask)
    return {
        "shape": table.shape,
        "wrong": int(corrupt.sum()),
        "flagged": int(flagged.sum()),
        "flagged_and_wrong": int((flagged & corrupt).sum()),
        "seconds": round(seconds, 3),
    }


def restore_photograph(
    folder: Path, seed: int, progress: bool
) -> dict[str, Any] | None:
    """Restore and draw a photograph of which half of the values are random.

    Returns its PSNR before and after in decibels, or None without scikit-image.
    """
    try:
        from skimage import data
    except ImportError:
        return None
    import numpy as np

    from discrepant.core.plotting import image_panels
    from discrepant.image.arrays import psnr
    from discrepant.image.restore.restore import restore

    sample_images: Any = data
    truth = sample_images.astronaut()[:256, 96:352]
    rng = np.random.default_rng(seed)
    corrupt = rng.random(truth.shape) < RANDOM_FRACTION
    observed = np.where(corrupt, rng.integers(0, 256, truth.shape), truth)
    observed = observed.astype(np.uint8)
    started = time.perf_counter()
    result = restore(observed, quality="fast", progress=progress)
    seconds = time.perf_counter() - started
    panels = {"observed": observed, "restored": result.image, "truth": truth}
    image_panels(panels).savefig(folder / "photograph.png")
    before, after = (
        round(psnr(image / 255, truth / 255), 2) for image in (observed, result.image)
    )
    return {"before": before, "after": after, "seconds": round(seconds, 3)}


def _describe(summary: dict[str, Any], status: str, folder: Path) -> str:
    """Return the text that the command prints."""
    rows, columns = summary["shape"]
    table, photograph = summary["table"], summary["photograph"]
    text = (
        f"Matrix: {rows}×{columns}, rank {MATRIX_RANK}, {CORRUPTED_FRACTION:.0%} of "
        f"the entries corrupted, {MISSING_FRACTION:.0%} missing.\n"
        f"  estimated rank       {summary['rank']['estimated']}\n"
        f"  estimated corrupted  {summary['corrupted']['estimated']:.1%} of the "
        "observed entries\n"
        f"  relative error       {summary['relative_error']:.1e}\n"
        f"  solver               {status}\n"
        f"  time                 {summary['seconds']:.1f} s\n"
        f"  figure               {folder / 'matrix.png'}\n"
        f"Table: {table['shape'][0]} rows with a time, an id, a name and twelve sensor "
        f"readings, {table['wrong']} of them wrong.\n"
        f"  flagged              {table['flagged']} cells, "
        f"{table['flagged_and_wrong']} of them wrong\n"
        f"  time                 {table['seconds']:.1f} s\n"
        f"  table                {folder / 'table.csv'}\n"
        f"  report               {folder / 'table.html'}\n"
    )
    if photograph is None:
        return text + str(missing_extra("The photograph needs scikit-image", "restore"))
    return text + (
        f"Photograph: {RANDOM_FRACTION:.0%} of the values replaced by random ones.\n"
        f"  PSNR                 {photograph['before']:.1f} dB before, "
        f"{photograph['after']:.1f} dB after\n"
        f"  time                 {photograph['seconds']:.1f} s\n"
        f"  figure               {folder / 'photograph.png'}"
    )

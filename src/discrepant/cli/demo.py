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

    Returns the content of ``summary.json`` and the text that is printed.
    """
    from discrepant.core.output_files import atomic_output_folder, write_json

    parts = {
        "matrix": recover_matrix,
        "table": clean_table,
        "photograph": restore_photograph,
    }
    with atomic_output_folder(output, OUTPUTS, overwrite=overwrite) as scratch:
        results = {name: part(scratch, seed, progress) for name, part in parts.items()}
        summary = {name: result for name, (result, _) in results.items()}
        write_json(scratch / "summary.json", summary)
        written = [name for name in OUTPUTS if (scratch / name).exists()]
    texts = [text for _, text in results.values()]
    return summary, "\n".join([*texts, f"Written to {output}: {', '.join(written)}."])


def recover_matrix(
    folder: Path, seed: int, progress: bool
) -> tuple[dict[str, Any], str]:
    """Recover and draw a corrupted matrix; return its summary and its text."""
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
    started = time.perf_counter()
    pca = RobustPCA(random_state=seed, verbose=progress).fit(problem.observed)
    seconds = round(time.perf_counter() - started, 3)
    parts = problem.observed, pca.low_rank_, pca.sparse_, problem.low_rank
    plot_decomposition(*parts).savefig(folder / "matrix.png")
    observed = np.count_nonzero(~np.isnan(problem.observed))
    corrupted = float(pca.outliers_.sum()) / observed
    error = relative_error(pca.low_rank_, problem.low_rank)
    summary = {
        "shape": MATRIX_SHAPE,
        "rank": {"true": MATRIX_RANK, "estimated": pca.rank_},
        "corrupted": {"true": CORRUPTED_FRACTION, "estimated": corrupted},
        "relative_error": error,
        "certificate": {
            "gap": pca.certificate_.gap,
            "feasibility": pca.certificate_.feasibility,
        },
        "seconds": seconds,
    }
    rows, columns = MATRIX_SHAPE
    return summary, (
        f"Matrix: {rows}×{columns}, rank {MATRIX_RANK}, {CORRUPTED_FRACTION:.0%} of "
        f"the entries corrupted, {MISSING_FRACTION:.0%} missing.\n"
        f"  estimated rank {pca.rank_}, {corrupted:.1%} of the observed entries "
        f"corrupted; relative error {error:.1e}\n"
        f"  {pca.status_}; {pca.certificate_}\n"
        f"  {seconds:.1f} s"
    )


def clean_table(folder: Path, seed: int, progress: bool) -> tuple[dict[str, Any], str]:
    """Clean a table of sensor readings; return its summary and its text."""
    import numpy as np

    from discrepant.table.clean import clean
    from discrepant.table.example_data import sensor_table
    from discrepant.table.report.report import write_report

    table, corrupt = sensor_table(random_state=seed)
    table.to_csv(folder / "table.csv", index=False)
    started = time.perf_counter()
    result = clean(table, random_state=seed, progress=progress)
    seconds = round(time.perf_counter() - started, 3)
    write_report(result, folder / "table.html", title="Sensor readings")
    flagged = np.asarray(result.mask)
    summary = {
        "shape": table.shape,
        "wrong": int(corrupt.sum()),
        "flagged": int(flagged.sum()),
        "flagged_and_wrong": int((flagged & corrupt).sum()),
        "seconds": seconds,
    }
    return summary, (
        f"Table: {len(table)} rows with a time, an id, a name and twelve sensor "
        f"readings, {summary['wrong']} of them wrong.\n"
        f"  {summary['flagged']} cells flagged, {summary['flagged_and_wrong']} of them "
        f"wrong\n  {seconds:.1f} s"
    )


def restore_photograph(
    folder: Path, seed: int, progress: bool
) -> tuple[dict[str, Any] | None, str]:
    """Restore and draw a photograph; return its summary, if any, and its text."""
    try:
        from skimage import data
    except ImportError:
        missing = missing_extra("The photograph needs scikit-image", "restore")
        return None, str(missing)
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
    seconds = round(time.perf_counter() - started, 3)
    panels = {"observed": observed, "restored": result.image, "truth": truth}
    image_panels(panels).savefig(folder / "photograph.png")
    before, after = (
        round(psnr(image / 255, truth / 255), 2) for image in (observed, result.image)
    )
    return {"before": before, "after": after, "seconds": seconds}, (
        f"Photograph: {RANDOM_FRACTION:.0%} of the values replaced by random ones.\n"
        f"  PSNR {before:.1f} dB before, {after:.1f} dB after\n  {seconds:.1f} s"
    )

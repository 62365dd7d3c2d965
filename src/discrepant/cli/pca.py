"""The command `discrepant pca`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from discrepant.cli.messages import on_terminal, print_result, print_warning
from discrepant.cli.options import (
    Decimal,
    Fdr,
    Header,
    Index,
    Output,
    Overwrite,
    Seed,
)
from discrepant.core.errors import InputError
from discrepant.core.validation import check_number


def pca(
    file: Annotated[
        Path,
        typer.Argument(help="A matrix: .csv, .tsv, .npy, .npz, .parquet, .zarr, .h5."),
    ],
    output: Output,
    alpha: Annotated[
        str, typer.Option(help="Ratio of the learning rates, α = 1/λ, or `auto`.")
    ] = "auto",
    psd: Annotated[
        bool,
        typer.Option(
            "--psd",
            help="The matrix is positive semidefinite: a covariance, Gram or kernel "
            "matrix.",
        ),
    ] = False,
    noise: Annotated[
        str,
        typer.Option(
            help="Standard deviation of the noise: a number, `auto` (estimated) or "
            "`column` (estimated for each column)."
        ),
    ] = "auto",
    fdr: Fdr = 0.01,
    max_iter: Annotated[
        int | None, typer.Option(help="Maximum number of steps; 500 by default.", min=1)
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(help="Residual at which the solver stops; 1e-7 by default."),
    ] = None,
    header: Header = None,
    index: Index = None,
    key: Annotated[
        str | None, typer.Option(help="NPZ, Zarr and HDF5 files: name of the array.")
    ] = None,
    decimal: Decimal = None,
    solver: Annotated[
        Literal["implicit", "descent"],
        typer.Option(
            help="`implicit`: the fast integrator. `descent`: the paper's gradient "
            "descent."
        ),
    ] = "implicit",
    memory: Annotated[
        float | None,
        typer.Option(
            help="Largest working array in memory, in gigabytes; larger ones go to "
            "temporary files.",
            min=0.0,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Use Dask, with this number of processes on this machine.", min=1
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Use Dask, on the cluster at this address, such as `tcp://host:8786`."
        ),
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Split a matrix into a low-rank part and sparse gross errors (robust PCA).

    Empty cells and NaN are missing entries. Writes `low_rank` and `sparse` in the
    format of the input, with its labels, and `summary.json` and `picture.png`. Ctrl-C
    stops early and writes the best result so far.

    Examples: `discrepant pca table.csv -o out`, `discrepant pca gram.npy --psd -o out`,
    `discrepant pca big.zarr --workers 2 -o out`
    """
    from discrepant.cli.interrupt import interruptible
    from discrepant.robust_pca.estimator import RobustPCA
    from discrepant.table.pca_file import fit_pca_file, uses_dask

    model = RobustPCA(
        solver,
        alpha=_number_or_word("alpha", alpha, "auto"),
        psd=psd,
        noise=_number_or_word("noise", noise, "auto", "column"),
        fdr=fdr,
        max_iter=max_iter,
        tol=tol,
        memory_limit=_bytes(memory),
        random_state=seed,
    )

    def fit(progress: Any) -> Any:
        return fit_pca_file(
            file,
            output,
            model,
            header=header,
            index=index,
            key=key,
            decimal=decimal,
            workers=workers,
            scheduler=scheduler,
            overwrite=overwrite,
            progress=progress,
        )

    if uses_dask(file, workers, scheduler):  # stops at once: blocks are on the workers
        report = fit(on_terminal())
    else:
        with interruptible("Fitting") as progress:
            report = fit(progress)
    for warning in report.warnings:
        print_warning(warning)
    print_result(report)


def _number_or_word(name: str, text: str, *words: str) -> float | str:
    """Return the number in an option, or the text if it is one of the words."""
    if text in words:
        return text
    try:
        return float(text)
    except ValueError:
        quoted = " or ".join(f'"{word}"' for word in words)
        raise InputError(
            f"{name} must be a number or {quoted}, got {text!r}."
        ) from None


def _bytes(gigabytes: float | None) -> int | None:
    if gigabytes is None:
        return None
    requirement = "a number of gigabytes, zero or more"
    return int(
        1e9 * check_number("memory", gigabytes, requirement, lambda size: size >= 0)
    )

"""The command line: arguments in, reports printed. The work is done by its siblings."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from discrepant import __version__
from discrepant.cli.messages import complain, in_flags, on_terminal, run_command, say
from discrepant.cli.options import (
    Decimal,
    Denoise,
    Gain,
    Header,
    Index,
    Key,
    KnownBad,
    Name,
    Output,
    Overwrite,
    Rate,
    ReadNoise,
    Saturation,
    Scale,
    Scheduler,
    Seed,
    Solver,
    StackAxes,
    TimeLimit,
    Workers,
)
from discrepant.cli.serve import serve
from discrepant.cli.video import video
from discrepant.core.errors import InputError
from discrepant.core.validation import check_number

app = typer.Typer(
    help="Recover tables, images, videos and matrices from grossly corrupted data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"discrepant {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show it."),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    output: Output = Path("discrepant-demo"),
    overwrite: Overwrite = False,
    seed: Seed = 0,
) -> None:
    """Recover a matrix, clean a table and restore a photograph, all made wrong.

    Example: `discrepant demo -o demo`
    """
    from discrepant.cli.demo import demo as run

    report = run(output, seed=seed, overwrite=overwrite, progress=on_terminal())
    typer.echo(str(report))


@app.command()
def clean(
    file: Annotated[
        Path,
        typer.Argument(help="A table: .csv, .tsv, .xlsx, .parquet, .npy or .npz."),
    ],
    output: Output,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="Look into these columns only: `a,b`."),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Leave these columns alone: `x,y`.")
    ] = None,
    fdr: Rate = 0.01,
    fill: Annotated[
        bool, typer.Option("--fill/--no-fill", help="Also fill the missing cells.")
    ] = False,
    header: Header = None,
    index: Index = None,
    key: Key = None,
    decimal: Decimal = None,
    sheet: Annotated[
        str | None, typer.Option(help="Excel: the name of the sheet; else the first.")
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Find the wrong cells of a table and replace them by what is expected there.

    Text, dates and identifiers are carried through, and cells that are not flagged
    stay as they are, sign for sign. Writes `cleaned` in the format of the file,
    `flagged.csv`, `report.html`, `cells.png` and `summary.json`. Ctrl-C writes the rows
    that were judged.

    Examples: `discrepant clean table.csv -o out`,
    `discrepant clean table.xlsx --drop id,price --fill -o out`
    """
    from discrepant.core.interrupt import interruptible
    from discrepant.table.clean_file import clean_file

    with interruptible(on_terminal(), "Cleaning", complain) as progress:
        report = clean_file(
            file,
            output,
            columns=_names(columns),
            drop=_names(drop),
            fdr=fdr,
            fill=fill,
            header=header,
            index=index,
            key=key,
            decimal=decimal,
            sheet=sheet,
            seed=seed,
            overwrite=overwrite,
            progress=progress,
        )
    for caveat in report.caveats:
        complain(caveat)
    if report.no_picture:
        complain(f"no picture: {report.no_picture}")
    typer.echo(str(report))


@app.command()
def pca(
    file: Annotated[
        Path,
        typer.Argument(help="A table: .csv, .tsv, .npy, .npz, .parquet, .zarr, .h5."),
    ],
    output: Output,
    alpha: Annotated[
        str, typer.Option(help="Ratio of the learning rates (λ = 1/α), or auto.")
    ] = "auto",
    psd: Annotated[
        bool,
        typer.Option("--psd", help="The table is a covariance, Gram or kernel matrix."),
    ] = False,
    noise: Annotated[
        str,
        typer.Option(help="Size of the noise: auto, column (each its own), or known."),
    ] = "auto",
    fdr: Rate = 0.01,
    max_iter: Annotated[
        int | None, typer.Option(help="Most steps; by default 500.", min=1)
    ] = None,
    tol: Annotated[
        float | None, typer.Option(help="Stop at this residual; by default 1e-7.")
    ] = None,
    header: Header = None,
    index: Index = None,
    key: Key = None,
    decimal: Decimal = None,
    solver: Annotated[
        Solver, typer.Option(help="The quick integrator, or the paper's own descent.")
    ] = Solver.implicit,
    memory: Annotated[
        float | None,
        typer.Option(
            help="Gigabytes a working array may take; more goes to a temporary file.",
            min=0.0,
        ),
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Split a table into its low-rank part and its gross corruption.

    Empty cells and NaN are missing entries. Writes `low_rank` and `sparse` in the
    format of the file, with its labels, and `summary.json` and `picture.png`. Ctrl-C
    writes the best so far.

    Examples: `discrepant pca table.csv -o out`, `discrepant pca gram.npy --psd -o out`,
    `discrepant pca big.zarr --workers 2 -o out`
    """
    common: dict[str, Any] = {
        "noise": _number_or("noise", noise, "auto", "column"),
        "fdr": fdr,
        "max_iter": max_iter,
        "tol": tol,
        "key": key,
        "memory_limit": _bytes(memory),
        "seed": seed,
        "overwrite": overwrite,
    }
    if scheduler or workers or file.suffix.lower() in (".zarr", ".h5", ".hdf5"):
        if psd or alpha != "auto" or solver != Solver.implicit:
            raise InputError("psd, alpha and solver do not go with workers.")
        from discrepant.table.pca_dask_file import fit_pca_dask_file

        common |= {"workers": workers, "scheduler": scheduler}
        scaled = fit_pca_dask_file(file, output, progress=on_terminal(), **common)
        for warning in scaled.warnings:
            complain(warning)
        return say(str(scaled))
    from discrepant.core.interrupt import interruptible
    from discrepant.table.pca_file import fit_pca_file as run

    common |= {"header": header, "index": index, "decimal": decimal, "psd": psd}
    common |= {"alpha": _number_or("alpha", alpha, "auto"), "solver": solver.value}
    with interruptible(on_terminal(), "Fitting", complain) as progress:
        report = run(file, output, progress=progress, **common)
    for warning in report.warnings:
        complain(in_flags(warning, app))
    if report.no_picture:
        complain(f"no picture: {report.no_picture}")
    typer.echo(str(report))


@app.command()
def restore(
    files: Annotated[
        list[Path],
        typer.Argument(help="Images (PNG, JPEG, TIFF, WebP, NPY) or folders of them."),
    ],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="The clean image; for several, a folder."),
    ],
    fast: Annotated[
        bool, typer.Option("--fast", help="Seconds instead of minutes.")
    ] = False,
    mask: Annotated[
        bool, typer.Option("--mask", help="Also write what was judged corrupted.")
    ] = False,
    side_by_side: Annotated[
        bool, typer.Option("--side-by-side", help="Also write before beside after.")
    ] = False,
    suggestions: Annotated[
        bool,
        typer.Option(
            "--suggestions",
            help="Also write what looks like dust, scratches or writing but may be the "
            "picture, for another run with `--known-bad`.",
        ),
    ] = False,
    known_bad: KnownBad = None,
    time_limit: TimeLimit = None,
    axes: StackAxes = None,
    denoise: Denoise = False,
    gain: Gain = None,
    read_noise: ReadNoise = 0.0,
    saturation: Saturation = None,
    overwrite: Overwrite = False,
) -> None:
    """Clean images of gross corruption, of whatever kind and amount.

    Values judged clean stay as they are, bit for bit. Ctrl-C writes the best so far.

    Examples: `discrepant restore photo.png -o clean.png`,
    `discrepant restore scans -o clean --fast`
    """
    from discrepant.core.interrupt import interruptible
    from discrepant.image.files.formats import read
    from discrepant.image.restore.detector import Detector
    from discrepant.image.restore_files import Options, plan, restore_files

    options = Options(
        "fast" if fast else "best",
        None if known_bad is None else read(known_bad),
        mask,
        side_by_side,
        overwrite,
        time_limit,
        axes,
        denoise,
        Detector(gain=gain, read_noise=read_noise, saturation=saturation),
        suggestions,
    )
    jobs = plan(files, output, options)
    with interruptible(on_terminal(), "Restoring", complain) as progress:
        report = restore_files(jobs, options, progress=progress, tell=say)
    if len(jobs) == 1 and report.failures:
        raise InputError(next(iter(report.failures.values())))
    if report.failures:
        typer.echo(str(report), err=True)
    if report.failures or any(done.lost for done in report.done):
        raise typer.Exit(1)


app.command()(video)


@app.command()
def reproduce(
    name: Annotated[Name, typer.Argument(help="Which figure or table of the paper.")],
    output: Output,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version that takes about a minute.")
    ] = False,
    scale: Annotated[
        Scale | None,
        typer.Option(help="Images: minutes on two cores, or the paper's own settings."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Images: a folder to take them from, not scikit-image's."),
    ] = None,
    seed: Seed = 0,
    jobs: Annotated[
        int, typer.Option(help="Processes at a time; -1 is one a core.")
    ] = -1,
    overwrite: Overwrite = False,
) -> None:
    """Reproduce a figure of the paper: a picture, its points and its settings.

    An interrupted run goes on where it stopped when the command is given again.

    Example: `discrepant reproduce fig2c --quick -o results`
    """
    from discrepant.experiments.reproduce import reproduce as run

    try:
        report = run(
            str(name.value),
            output,
            quick=quick,
            scale=None if scale is None else scale.value,
            images=images,
            seed=seed,
            jobs=jobs,
            overwrite=overwrite,
            progress=on_terminal(),
        )
    except KeyboardInterrupt:
        complain("interrupted; the same command goes on from here.")
        raise typer.Exit(130) from None
    typer.echo(str(report))
    if sys.stdout.isatty():
        typer.echo(f"Written to {output}: {', '.join(report.files)}.")


app.command()(serve)


def _number_or(name: str, text: str, *words: str) -> float | str:
    """Return the number that an option holds, or one of the words it may be."""
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
    what = "a number of gigabytes, zero or more"
    return int(1e9 * check_number("memory", gigabytes, what, lambda size: size >= 0))


def _names(texts: list[str] | None) -> list[str] | None:
    """Return the names in lists like ``a,b``; quotes keep a comma in a name."""
    if not texts:
        return None
    cells = [cell for line in csv.reader(texts, skipinitialspace=True) for cell in line]
    return [cell.strip() for cell in cells if cell.strip()]


def main() -> None:
    """Run the command line; a mistake is one sentence and exit code 2."""
    run_command(app)


if __name__ == "__main__":
    main()

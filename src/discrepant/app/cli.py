"""The command line: `discrepant demo`, `pca`, `restore` and `reproduce`."""

import sys
import time
import warnings
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from discrepant import __version__
from discrepant.errors import InputError
from discrepant.experiments import CATALOGUE

app = typer.Typer(
    help="Recover low-rank matrices and images from grossly corrupted data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Output = Annotated[
    Path, typer.Option("-o", "--output", help="Folder for the results; made if needed.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace results that are there already.")
]
Seed = Annotated[
    int, typer.Option(help="Seed; the same seed gives the same result.", min=0)
]
Scale = Enum("Scale", {"cpu": "cpu", "paper": "paper"}, type=str)
Name = Enum("Name", {name: name for name in CATALOGUE}, type=str)  # type: ignore[misc]


class Solver(StrEnum):
    """How `pca` solves."""

    implicit = "implicit"
    descent = "descent"


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
    """Recover a corrupted matrix and a corrupted photograph, and draw both.

    Example: `discrepant demo -o demo`
    """
    from discrepant.app.demo import demo as run

    typer.echo(run(output, overwrite=overwrite, show=_terminal(), seed=seed))


@app.command()
def pca(
    file: Annotated[
        Path, typer.Argument(help="A table: .csv, .tsv, .npy, .npz or .parquet.")
    ],
    output: Output,
    alpha: Annotated[
        str, typer.Option(help="Ratio of the learning rates (λ = 1/α), or auto.")
    ] = "auto",
    psd: Annotated[
        bool,
        typer.Option("--psd", help="The table is a covariance, Gram or kernel matrix."),
    ] = False,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="CSV: the first line holds labels."),
    ] = None,
    index: Annotated[
        bool | None,
        typer.Option("--index/--no-index", help="CSV: the first column holds labels."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="NPZ: the name of the array.")] = None,
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
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Split a table into its low-rank part and its gross corruption.

    Empty cells and NaN are missing entries. Writes `low_rank` and `sparse` in the
    format of the file, with its labels, and `summary.json` and `picture.png`.

    Examples: `discrepant pca table.csv -o out`, `discrepant pca gram.npy --psd -o out`
    """
    from discrepant.matrix.estimator import RobustPCA
    from discrepant.table.files import read_table

    model = RobustPCA(
        solver.value,
        alpha=_number_or_auto(alpha),
        psd=psd,
        memory_limit=None if memory is None else int(memory * 1e9),
        random_state=seed,
        verbose=_terminal(),
    )
    table = read_table(file, header=header, index=index, key=key)
    _split(model, table, file, output, overwrite)


def _split(model: Any, table: Any, file: Path, output: Path, overwrite: bool) -> None:
    import numpy as np

    from discrepant.outputs import staged, write_json
    from discrepant.paper.problems import corrupted_share
    from discrepant.plotting import decomposition

    low_rank, sparse = (f"{part}{table.suffix}" for part in ("low_rank", "sparse"))
    names = (low_rank, sparse, "summary.json", "picture.png")
    with staged(output, names, overwrite=overwrite, keep=file) as scratch:
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(table.values)
        for warning in caught:
            typer.echo(f"discrepant: {warning.message}", err=True)
        summary = {
            "file": file.name,
            "shape": list(table.values.shape),
            "labels": table.labels,
            "missing": float(np.isnan(table.values).mean()),
            "rank": model.rank_,
            "corrupted": corrupted_share(model.sparse_, table.values),
            "alpha": model.alpha_,
            "certificate": vars(model.certificate_),
            "steps": model.n_iter_,
            "status": str(model.status_),
            "warnings": [str(warning.message) for warning in caught],
            "seconds": round(time.perf_counter() - started, 3),
            "solver": model.solver,
            "seed": model.random_state,
            "version": __version__,
        }
        table.write(scratch / low_rank, model.low_rank_)
        table.write(scratch / sparse, model.sparse_)
        write_json(scratch / "summary.json", summary)
        try:
            picture = decomposition(table.values, model.low_rank_, model.sparse_)
            picture.savefig(scratch / "picture.png")
        except InputError as error:  # matplotlib is an extra: do without
            typer.echo(f"No picture: {error}", err=True)
    typer.echo(
        f"{file.name}: {table.values.shape[0]}×{table.values.shape[1]} (labels: "
        f"{table.labels}), rank "
        f"{model.rank_}, {summary['corrupted']:.1%} of the entries corrupted, "
        f"{summary['missing']:.1%} missing.\n{model.status_}; {model.certificate_}.\n"
        f"Written to {output}: {', '.join(names)}."
    )


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
    known_bad: Annotated[
        Path | None,
        typer.Option(
            help="An image that is nonzero where values are known to be bad; of the "
            "same pages and channels, or one for all."
        ),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds for each file, at most; above 0.")
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Clean images of gross corruption, of whatever kind and amount.

    Values judged clean stay as they are, bit for bit. Ctrl-C writes the best so far.

    Examples: `discrepant restore photo.png -o clean.png`,
    `discrepant restore scans -o clean --fast`
    """
    from discrepant.app.restore import Options, plan, run
    from discrepant.image.files.formats import read

    options = Options(
        "fast" if fast else "best",
        None if known_bad is None else read(known_bad),
        mask,
        side_by_side,
        overwrite,
        time_limit,
        seed,
    )
    jobs = plan(files, output, options)
    failures = run(jobs, options, typer.echo, _terminal())
    if len(jobs) == 1 and failures:
        raise InputError(next(iter(failures.values())))
    if failures:
        typer.echo(f"{len(failures)} of {len(jobs)} files failed:", err=True)
        for path, reason in failures.items():
            named = reason.startswith(str(path))
            typer.echo(f"  {reason if named else f'{path}: {reason}'}", err=True)
        raise typer.Exit(1)


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
    import numpy as np
    import pandas as pd

    from discrepant.experiments import load
    from discrepant.experiments.running import Runner
    from discrepant.outputs import staged, write_json
    from discrepant.plotting import require_matplotlib

    label = str(name.value)
    if jobs == 0 or jobs < -1:
        raise InputError(f"--jobs must be a positive number or -1, got {jobs}.")
    module, settings = load(label)
    if scale or images:
        if not hasattr(module.Config, "paper"):
            raise InputError(f"{label} has no --scale and no --images: it needs none.")
        settings = {**settings, **({"images": str(images)} if images else {})}
    if quick and scale is Scale.paper:
        raise InputError("--quick and --scale paper contradict each other; pass one.")
    require_matplotlib()
    make = module.Config.quick if quick else module.Config
    if scale is Scale.paper:
        make = module.Config.paper
    config = make(**settings)
    parts = getattr(config, "companions", ())
    files = (
        *(f"{label}.{ending}" for ending in ("png", "csv", "json")),
        *(f"{label}-{part}.png" for part in parts),
    )
    with staged(output, files, overwrite=overwrite) as scratch:
        started = time.perf_counter()
        runner = Runner(seed=seed, jobs=jobs, show=_terminal(), folder=output)
        try:
            outcome = module.run(config, runner)
        except KeyboardInterrupt:
            typer.echo(
                "discrepant: interrupted; the same command goes on from here.", err=True
            )
            raise typer.Exit(130) from None
        seconds = time.perf_counter() - started
        module.plot(outcome).savefig(scratch / files[0])
        for part in parts:
            getattr(module, part)(outcome).savefig(scratch / f"{label}-{part}.png")
        pd.DataFrame(outcome.rows).to_csv(scratch / files[1], index=False)
        details = {
            "experiment": label,
            "settings": vars(config),
            "seed": seed,
            "finding": outcome.finding,
            "seconds": round(seconds, 1),
            "versions": {
                "discrepant": __version__,
                "numpy": np.__version__,
                "python": sys.version.split()[0],
            },
        }
        write_json(scratch / files[2], details)
    runner.forget()
    if outcome.table:
        typer.echo(outcome.table)
    typer.echo(outcome.finding)
    if sys.stdout.isatty():
        typer.echo(f"Written to {output}: {', '.join(files)}.")


def _number_or_auto(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f'--alpha must be a number or "auto", got {text!r}.') from None


def _terminal() -> bool:
    """Progress is shown to a person, not to a pipe."""
    return sys.stderr.isatty()


def main() -> None:
    """Run the command line; a mistake is one sentence and exit code 2."""
    warnings.showwarning = lambda message, *place: typer.echo(
        f"discrepant: {message}", err=True
    )
    try:
        app()
    except InputError as error:
        typer.echo(f"discrepant: {error}", err=True)
        sys.exit(2)
    except MemoryError:
        typer.echo("discrepant: not enough memory for data of this size.", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()

"""The command `discrepant reproduce`."""

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import typer

from discrepant.cli.messages import on_terminal, print_result, print_warning
from discrepant.cli.options import Output, Overwrite, Seed
from discrepant.experiments.catalogue import CATALOGUE

Experiment = Enum(  # type: ignore[misc]
    "Experiment", {name: name for name in CATALOGUE}, type=str
)


def reproduce(
    name: Annotated[
        Experiment, typer.Argument(help="The figure, table or theorem of the paper.")
    ],
    output: Output,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Run a small version, in about a minute."),
    ] = False,
    scale: Annotated[
        Literal["cpu", "paper"] | None,
        typer.Option(
            help="Image experiments: `cpu` takes minutes on two cores, `paper` uses "
            "the settings of the paper."
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            help="Image experiments: a folder of images to use instead of those of "
            "scikit-image."
        ),
    ] = None,
    seed: Seed = 0,
    jobs: Annotated[
        int, typer.Option(help="Number of parallel processes; -1 uses all cores.")
    ] = -1,
    overwrite: Overwrite = False,
) -> None:
    """Reproduce a figure or table of the paper.

    Writes the figure, the plotted points and the settings. To continue an interrupted
    run, give the same command again.

    Example: `discrepant reproduce fig2c --quick -o results`
    """
    from discrepant.experiments.reproduce import reproduce as run_experiment

    try:
        report = run_experiment(
            str(name.value),
            output,
            quick=quick,
            scale=scale,
            images=images,
            seed=seed,
            jobs=jobs,
            overwrite=overwrite,
            progress=on_terminal(),
        )
    except KeyboardInterrupt:
        print_warning("interrupted; give the same command again to continue.")
        raise typer.Exit(130) from None
    print_result(report)
    if sys.stdout.isatty():
        typer.echo(f"Written to {output}: {', '.join(report.files)}.")

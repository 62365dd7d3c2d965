"""Options that several commands share, and the choices that some offer."""

from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated

import typer

from discrepant.experiments import CATALOGUE

Output = Annotated[
    Path, typer.Option("-o", "--output", help="Folder for the results; made if needed.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace results that are there already.")
]
Seed = Annotated[
    int, typer.Option(help="Seed; the same seed gives the same result.", min=0)
]
Rate = Annotated[
    float, typer.Option(help="Share of the flagged cells that may be right after all.")
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="The first line holds labels."),
]
Index = Annotated[
    bool | None,
    typer.Option("--index/--no-index", help="The first column holds labels."),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="Text files: what stands before decimals, `.` or `,`."),
]
Key = Annotated[str | None, typer.Option(help="NPZ: the name of the array.")]
Name = Enum("Name", {name: name for name in CATALOGUE}, type=str)  # type: ignore[misc]


class Scale(StrEnum):
    """How large `reproduce` runs the images."""

    cpu = "cpu"
    paper = "paper"


class Solver(StrEnum):
    """How `pca` solves."""

    implicit = "implicit"
    descent = "descent"

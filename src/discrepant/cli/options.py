"""Command-line options that several commands share."""

import csv
from pathlib import Path
from typing import Annotated

import typer

Output = Annotated[
    Path,
    typer.Option("-o", "--output", help="Folder for the results; created if needed."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace results that already exist.")
]
Seed = Annotated[
    int, typer.Option(help="Random seed; the same seed gives the same result.", min=0)
]
Fdr = Annotated[
    float,
    typer.Option(help="False discovery rate: fraction of flags that may be wrong."),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line holds column labels; detected by default.",
    ),
]
Index = Annotated[
    bool | None,
    typer.Option(
        "--index/--no-index",
        help="Whether the first column holds row labels; detected by default.",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="Text files: decimal mark, `.` or `,` (detected by default)."),
]


def column_names(texts: list[str] | None) -> list[str] | None:
    """Return the names in comma-separated lists; quotes keep a comma in a name."""
    if not texts:
        return None
    cells = [cell for line in csv.reader(texts, skipinitialspace=True) for cell in line]
    return [cell.strip() for cell in cells if cell.strip()]

"""Options that several commands share, and the choices that some offer."""

from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated

import typer

from discrepant.experiments.catalogue import CATALOGUE

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
KnownBad = Annotated[
    Path | None,
    typer.Option(
        help="An image that is nonzero where values are known to be bad; of the same "
        "pages and channels, or one for all."
    ),
]
TimeLimit = Annotated[
    float | None, typer.Option(help="Seconds for each file, at most; above 0.")
]
StackAxes = Annotated[
    str | None,
    typer.Option(
        "--axes",
        help="Stacks: what each axis is, such as `TYX`; frames of one scene, T, or "
        "slices of one volume, Z, inform each other. OME and ImageJ files say so.",
    ),
]
Denoise = Annotated[bool, typer.Option("--denoise", help="Take off the noise as well.")]
Gain = Annotated[
    float | None, typer.Option(help="A detector's electrons a unit, where known.")
]
ReadNoise = Annotated[
    float, typer.Option(help="A detector's noise in the dark, in electrons.")
]
Saturation = Annotated[
    float | None,
    typer.Option(help="Values at or above it are full, not wrong, and are left alone."),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="Text files: what stands before decimals, `.` or `,`."),
]
Key = Annotated[
    str | None, typer.Option(help="NPZ, Zarr, HDF5: the name of the array.")
]
Workers = Annotated[
    int | None,
    typer.Option(help="By Dask, on so many processes of this machine.", min=1),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="By Dask, on the cluster of this address: `tcp://host:8786`."),
]
Name = Enum("Name", {name: name for name in CATALOGUE}, type=str)  # type: ignore[misc]


class Scale(StrEnum):
    """How large `reproduce` runs the images."""

    cpu = "cpu"
    paper = "paper"


class Solver(StrEnum):
    """How `pca` solves."""

    implicit = "implicit"
    descent = "descent"

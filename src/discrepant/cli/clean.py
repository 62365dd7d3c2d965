"""The command `discrepant clean`."""

from pathlib import Path
from typing import Annotated

import typer

from discrepant.cli.messages import print_result, print_warning
from discrepant.cli.options import (
    Decimal,
    Fdr,
    Header,
    Index,
    Output,
    Overwrite,
    Seed,
    column_names,
)


def clean(
    file: Annotated[
        Path,
        typer.Argument(help="A table: .csv, .tsv, .xlsx, .parquet, .npy or .npz."),
    ],
    output: Output,
    columns: Annotated[
        list[str] | None, typer.Option(help="Check only these columns: `a,b`.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Do not check these columns: `x,y`.")
    ] = None,
    fdr: Fdr = 0.01,
    fill: Annotated[
        bool, typer.Option("--fill/--no-fill", help="Also impute missing cells.")
    ] = False,
    order: Annotated[
        str | None,
        typer.Option(
            help="Column to sort the rows by, such as a time; cells are then also "
            "compared with the cells before and after them. By default detected."
        ),
    ] = None,
    ignore_order: Annotated[
        bool, typer.Option("--ignore-order", help="Do not use the order of the rows.")
    ] = False,
    header: Header = None,
    index: Index = None,
    key: Annotated[
        str | None, typer.Option(help="NPZ files: name of the array.")
    ] = None,
    decimal: Decimal = None,
    sheet: Annotated[
        str | None,
        typer.Option(help="Excel files: name of the sheet; by default the first."),
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Find the wrong cells of a table and replace them by their expected values.

    Text, dates and identifiers are copied. Cells that are not replaced keep their
    text. Writes the cleaned table in the format of the input, `flagged.csv`,
    `report.html`, `cells.png` and `summary.json`. Ctrl-C stops early and writes the
    rows that were checked.

    Examples: `discrepant clean table.csv -o out`,
    `discrepant clean table.xlsx --drop id,price --fill -o out`
    """
    from discrepant.cli.interrupt import interruptible
    from discrepant.table.clean_file import clean_file

    with interruptible("Cleaning") as progress:
        report = clean_file(
            file,
            output,
            columns=column_names(columns),
            drop=column_names(drop),
            fdr=fdr,
            fill=fill,
            order=None if ignore_order else order or "auto",
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
        print_warning(caveat)
    print_result(report)

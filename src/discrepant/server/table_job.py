"""Clean an uploaded table; the person at the page may reject flags afterwards."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.progress import Report, StoppedError, subrange
from discrepant.server.jobs import JobResult, Upload
from discrepant.table.clean_file import clean_source, write_cleaned
from discrepant.table.columns.table_input import as_frame
from discrepant.table.io.table_file import TableFile, read_table_file
from discrepant.table.report.figures import cell_map
from discrepant.table.report.report import embedded
from discrepant.table.report.view import format_number
from discrepant.table.result import CleanResult

MAX_LISTED = 5000  # flagged cells in the list on the page
# Functions that read a file, for the equivalent Python code
READERS = {
    ".csv": "pandas.read_csv",
    ".tsv": "pandas.read_table",
    ".xlsx": "pandas.read_excel",
    ".parquet": "pandas.read_parquet",
    ".npy": "numpy.load",
}
READ_PROGRESS, CLEAN_PROGRESS = 0.15, 0.9  # where these stages end on the progress bar


@dataclass(frozen=True, eq=False)
class TableState:
    """What is needed to write the results again with some flags rejected."""

    source: TableFile
    cleaned: CleanResult
    cells: Any  # (flags, 2): row and column positions, in the order of ``flagged``
    title: str


def clean_upload(upload: Upload, folder: Path, report: Report) -> JobResult:
    """Clean an uploaded table.

    Parameters
    ----------
    upload : Upload
        The table.
    folder : Path
        Folder for the results.
    report : callable
        Receives the progress; returns False to stop.
    """
    started = time.perf_counter()
    source = read_table_file(upload.path, progress=subrange(report, 0, READ_PROGRESS))
    cleaned, notes = clean_source(
        source, progress=subrange(report, READ_PROGRESS, CLEAN_PROGRESS)
    )
    if not report(CLEAN_PROGRESS, "writing"):
        raise StoppedError("stopped before the results were written")
    cells = cleaned.flagged_cells
    names = write_cleaned(cleaned, source, folder, title=upload.name)
    reader = READERS.get(upload.suffix)
    table = f"{reader}({upload.name!r})" if reader else "table"
    return JobResult(
        page_data={
            "headline": cleaned.summary(),
            "notes": list(notes),
            "map": _cell_map(cleaned),
            "flagged": _list_flags(cleaned, cells),
            "rejected": [],
            "unlisted": max(len(cells) - MAX_LISTED, 0),
            "shape": list(cleaned.mask.shape),
            "downloads": [{"file": n, "as": f"{upload.stem}-{n}"} for n in names],
            "cleaned": names[0],
            "seconds": round(time.perf_counter() - started, 1),
            "command": f"discrepant clean {shlex.quote(upload.name)} "
            f"-o {shlex.quote(upload.stem)}",
            "python": f"result = discrepant.clean({table})",
        },
        files={name: folder / name for name in names},
        state=TableState(source, cleaned, cells, upload.name),
    )


def without_flags(result: JobResult, rejected: Sequence[Any]) -> JobResult:
    """Write table, flags, report and figure again, without the rejected flags.

    Parameters
    ----------
    result : JobResult
        Result of `clean_upload`; its files are replaced.
    rejected : sequence of int
        Positions of flags in the list on the page.
    """
    state: TableState = result.state
    count = len(state.cells)
    if not all(type(n) is int and 0 <= n < count for n in rejected):
        raise InputError("The rejected flags must be positions in the list of flags.")
    positions = sorted(set(rejected))
    cleaned = _unflag(state.cleaned, state.cells, positions)
    folder = result.files[result.page_data["cleaned"]].parent / "rewritten"
    folder.mkdir(exist_ok=True)
    names = write_cleaned(cleaned, state.source, folder, title=state.title)
    for name in names:
        (folder / name).replace(result.files[name])
    changes = {"map": _cell_map(cleaned), "rejected": positions}
    return replace(result, page_data={**result.page_data, **changes})


def _cell_map(cleaned: CleanResult) -> str:
    return embedded(cell_map(cleaned), "Map of the flagged cells")


def _unflag(cleaned: CleanResult, cells: Any, rejected: list[int]) -> CleanResult:
    """Return the result without some of its flags, their cells as in the input."""
    restored_cells = cells[rejected]
    mask = cleaned.mask
    flags = np.array(mask, bool)
    flags[tuple(restored_cells.T)] = False
    counts = flags.sum(axis=0)
    note = f"{len(restored_cells):,} of {len(cells):,} flags were rejected by hand."
    return replace(
        cleaned,
        table=_with_original_cells(cleaned, restored_cells),
        flagged=cleaned.flagged.drop(index=rejected).reset_index(drop=True),
        mask=type(mask)(flags, index=mask.index, columns=mask.columns),
        columns=tuple(
            replace(column, flagged=int(count))
            for column, count in zip(cleaned.columns, counts, strict=True)
        ),
        caveats=(*cleaned.caveats, *((note,) if rejected else ())),
    )


def _with_original_cells(cleaned: CleanResult, cells: Any) -> Any:
    """Return the cleaned table with some of its cells as in the input."""
    table = cleaned.table.copy()
    if isinstance(table, np.ndarray):
        table[tuple(cells.T)] = np.asarray(cleaned.original)[tuple(cells.T)]
        return table
    original = as_frame(cleaned.original)
    for column in np.unique(cells[:, 1]) if len(cells) else ():
        rows = cells[cells[:, 1] == column, 0]
        values = table.iloc[:, column].copy()
        values.iloc[rows] = original.iloc[rows, column].to_numpy()
        table.isetitem(int(column), values)
    return table


def _list_flags(cleaned: CleanResult, cells: Any) -> list[dict[str, Any]]:
    """Return the most certain flags: text to display, and numbers to sort by."""
    listed = []
    flagged = cleaned.flagged.head(MAX_LISTED)
    for position, (cell, flag) in enumerate(
        zip(cells, flagged.itertuples(index=False), strict=False)
    ):
        numbers = (flag.value, flag.expected, flag.probability)
        low, high = format_number(flag.low), format_number(flag.high)
        listed.append(
            {
                "position": position,
                "row": str(flag.row),
                "column": str(flag.column),
                "cell": [int(k) for k in cell],
                "value": format_number(flag.value),
                "expected": format_number(flag.expected),
                "interval": f"{low} to {high}",
                "probability": f"{flag.probability:.1%}",
                "sort": [_finite_or_none(value) for value in numbers],
            }
        )
    return listed


def _finite_or_none(value: Any) -> float | None:
    """Return a finite number, or None, since JSON has no infinity or NaN."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None

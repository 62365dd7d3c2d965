"""A table healed for the page; which flags to believe is the reader's choice."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.progress import Report, StoppedError, subrange
from discrepant.server.job_result import Outcome, Upload
from discrepant.table.clean_file import clean_source, write_cleaned
from discrepant.table.columns.table_input import as_frame
from discrepant.table.io.table_file import TableFile, read_table_file
from discrepant.table.report import svg
from discrepant.table.report.view import View, format_number
from discrepant.table.result import CleanResult, summary

LISTED = 5000  # flagged cells that the page lists
READERS = {
    ".csv": "pandas.read_csv",
    ".tsv": "pandas.read_table",
    ".xlsx": "pandas.read_excel",
    ".parquet": "pandas.read_parquet",
    ".npy": "numpy.load",
}
READING = 0.15


@dataclass(frozen=True, eq=False)
class Kept:
    """What is needed to write all again with some flags rejected."""

    source: TableFile
    found: CleanResult
    cells: Any  # (flags, 2): row and column numbers, in the order of ``flagged``
    title: str


def heal_table(upload: Upload, folder: Path, report: Report) -> Outcome:
    """Clean an uploaded table.

    Parameters
    ----------
    upload : Upload
        The table.
    folder : Path
        Where results go.
    report : callable
        Told of the progress; False ends the work.
    """
    started = time.perf_counter()
    source = read_table_file(upload.path, progress=subrange(report, 0, READING))
    found, caveats = clean_source(source, progress=subrange(report, READING, 0.9))
    if not report(0.9, "writing"):
        raise StoppedError("stopped before it was written")
    cells = _places(found)
    names, _ = write_cleaned(found, source, folder, title=upload.name)
    cleaned = names[0]
    called = {name: f"{upload.stem}-{name}" for name in names}
    reader = READERS.get(upload.suffix)
    loaded = f"{reader}({upload.name!r})" if reader else "table"
    return Outcome(
        facts={
            "headline": summary(found),
            "caveats": list(caveats),
            "map": _map(found),
            "flagged": _listed(found, cells),
            "rejected": [],
            "unlisted": max(len(cells) - LISTED, 0),
            "shape": list(found.mask.shape),
            "downloads": [{"file": name, "as": called[name]} for name in names],
            "cleaned": cleaned,
            "seconds": round(time.perf_counter() - started, 1),
            "command": f"discrepant clean {shlex.quote(upload.name)} "
            f"-o {shlex.quote(upload.stem)}",
            "python": f"found = discrepant.clean({loaded})",
        },
        files={name: folder / name for name in names},
        kept=Kept(source, found, cells, upload.name),
    )


def reject(outcome: Outcome, rejected: Sequence[Any]) -> Outcome:
    """Write table, flags, page and picture again, without some of the flags.

    Parameters
    ----------
    outcome : Outcome
        Of `heal_table`; its files are replaced.
    rejected : sequence of int
        Places of flags in the list that the page was given.
    """
    kept: Kept = outcome.kept
    count = len(kept.cells)
    if not all(type(n) is int and 0 <= n < count for n in rejected):
        raise InputError("The choices do not fit the flags of this table.")
    found = _without(kept.found, kept.cells, sorted(set(rejected)))
    table = outcome.files[outcome.facts["cleaned"]]
    fresh = table.with_name("again")
    fresh.mkdir(exist_ok=True)
    names, _ = write_cleaned(found, kept.source, fresh, title=kept.title)
    for name in names:
        (fresh / name).replace(outcome.files[name])
    told = {"map": _map(found), "rejected": sorted(set(rejected))}
    return replace(outcome, facts={**outcome.facts, **told})


def _map(found: CleanResult) -> str:
    return svg.cell_map(View(found)) if found.mask.size else ""


def _without(found: CleanResult, cells: Any, rejected: list[int]) -> CleanResult:
    """Return what was found, as if some of the flags had not been."""
    gone = cells[rejected]
    mask = found.mask
    flags = np.array(mask, bool)
    flags[tuple(gone.T)] = False
    counts = flags.sum(axis=0)
    said = (f"{len(gone):,} of {len(cells):,} flags were rejected by hand.",)
    return replace(
        found,
        table=_as_they_were(found, gone),
        flagged=found.flagged.drop(index=rejected).reset_index(drop=True),
        mask=type(mask)(flags, index=mask.index, columns=mask.columns),
        columns=tuple(
            replace(column, flagged=int(count))
            for column, count in zip(found.columns, counts, strict=True)
        ),
        caveats=(*found.caveats, *(said if rejected else ())),
    )


def _as_they_were(found: CleanResult, cells: Any) -> Any:
    """Return the cleaned table with some of its cells as they were given."""
    table = found.table.copy()
    if isinstance(table, np.ndarray):
        table[tuple(cells.T)] = np.asarray(found.original)[tuple(cells.T)]
        return table
    given = as_frame(found.original)
    for column in np.unique(cells[:, 1]) if len(cells) else ():
        rows = cells[cells[:, 1] == column, 0]
        kept = table.iloc[:, column].copy()
        kept.iloc[rows] = given.iloc[rows, column].to_numpy()
        table.isetitem(int(column), kept)
    return table


def _places(found: CleanResult) -> Any:
    """Return row and column number of each flag, in the order of ``flagged``."""
    cells = np.argwhere(np.asarray(found.mask, bool))
    scores = found.scores.to_numpy()[tuple(cells.T)].astype(float)
    return cells[np.argsort(-scores, kind="stable")]


def _listed(found: CleanResult, cells: Any) -> list[dict[str, Any]]:
    """Return the surest flags as the page lists them: text to read, numbers to sort."""
    listed = []
    flagged = found.flagged.head(LISTED)
    for place, (cell, flag) in enumerate(
        zip(cells, flagged.itertuples(index=False), strict=False)
    ):
        numbers = (flag.value, flag.expected, flag.probability)
        listed.append(
            {
                "place": place,
                "row": str(flag.row),
                "column": str(flag.column),
                "at": [int(k) for k in cell],
                "value": format_number(flag.value),
                "expected": format_number(flag.expected),
                "between": f"{format_number(flag.low)} to {format_number(flag.high)}",
                "probability": f"{flag.probability:.1%}",
                "sort": [_sortable(value) for value in numbers],
            }
        )
    return listed


def _sortable(value: Any) -> float | None:
    """Return a finite number, or None: JSON knows no other."""
    try:
        size = float(value)
    except (TypeError, ValueError):
        return None
    return size if np.isfinite(size) else None

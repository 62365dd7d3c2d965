"""Clean the table in a file, and write table, flags, report and figure to a folder."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.output_files import atomic_output_folder, write_summary
from discrepant.core.progress import Progress, reporting, subrange
from discrepant.table.clean import clean
from discrepant.table.io.table_file import TableFile, read_table_file
from discrepant.table.report.figures import cell_map
from discrepant.table.report.report import write_report
from discrepant.table.report.sentences import ColumnSummary
from discrepant.table.result import CleanResult

# Roles of the columns that are part of the model.
MODELLED_ROLES = ("numbers", "few values", "booleans")
# Fractions of the progress at which reading and cleaning end.
READING, CLEANING = 0.15, 0.85


@dataclass(frozen=True)
class CleanReport:
    """Summary of a cleaned file, and of the files that were written.

    ``flagged`` is the number of flagged cells, ``bad_rows`` are labels of rows, and
    ``columns`` summarises each column. ``labels`` says where the file has labels, and
    ``rows`` explains those of the rows.
    """

    file: str
    shape: tuple[int, int]
    labels: str
    rows: str
    headline: str
    flagged: int
    bad_rows: tuple[str, ...]
    rank: int
    order: str
    columns: tuple[dict[str, Any], ...]
    caveats: tuple[str, ...]
    fdr: float
    filled: bool
    seconds: float
    seed: int
    folder: Path
    files: tuple[str, ...]

    def __str__(self) -> str:
        ordered = sorted(self.columns, key=lambda column: -column["flagged"])[:3]
        most = ", ".join(
            f"{c['name']} ({c['flagged']})" for c in ordered if c["flagged"]
        )
        unchecked = [c for c in self.columns if c["role"] not in MODELLED_ROLES]
        named = ", ".join(f"{c['name']} ({c['role']})" for c in unchecked[:6])
        more = f" and {len(unchecked) - 6} more" if len(unchecked) > 6 else ""
        lines = [
            f"{self.file}: {self.shape[0]:,}×{self.shape[1]} (labels: {self.labels}), "
            f"rank {self.rank}. "
            f"{self.headline}",
            f"Most flags: {most}." if most else "",
            f"Not checked: {named}{more}." if unchecked else "",
            f"Written to {self.folder}: {', '.join(self.files)}.",
        ]
        return "\n".join(line for line in lines if line)


def clean_file(
    file: Path,
    output: Path,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    fdr: float = 0.01,
    fill: bool = False,
    order: str | None = "auto",
    header: bool | None = None,
    index: bool | None = None,
    key: str | None = None,
    sheet: str | None = None,
    decimal: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool | Progress | None = False,
) -> CleanReport:
    """Clean the table in a file; write it, its flags, a report and a figure.

    Parameters
    ----------
    file : Path
        The table. It, ``header``, ``index``, ``key``, ``sheet`` and ``decimal`` are as
        for `table.io.table_file.read_table_file`.
    output : Path
        Folder for the results; created if needed.
    columns, drop : sequence of str, optional
        Names of the columns to analyse, and of those to leave out.
    fdr, fill, order
        As in `discrepant.clean`.
    seed : int
        The same seed gives the same result.
    overwrite : bool
        Replace existing results.
    progress : bool or callable
        See `core.progress.reporting`. After an early stop, the rows scored so far are
        written; where there are none, `StoppedError` is raised.
    """
    expected = (*_names(file.suffix.lower()), "summary.json")
    with (
        reporting(progress, "Cleaning") as watch,
        atomic_output_folder(
            output, expected, overwrite=overwrite, keep=file
        ) as scratch,
    ):
        started = time.perf_counter()
        source = read_table_file(
            file,
            header=header,
            index=index,
            key=key,
            sheet=sheet,
            decimal=decimal,
            progress=subrange(watch, 0, READING),
        )
        result, caveats = clean_source(
            source,
            fdr=fdr,
            fill=fill,
            columns=_columns("columns", columns, source.table, file),
            drop=_columns("drop", drop, source.table, file),
            order=_order(order, source.table, file),
            seed=seed,
            progress=subrange(watch, READING, CLEANING),
        )
        watch(CLEANING, "writing")
        names = write_cleaned(result, source, scratch, title=file.name)
        rows, width = np.shape(result.mask)
        report = CleanReport(
            file=file.name,
            shape=(rows, width),
            labels=source.labels,
            rows=source.rows,
            headline=result.summary(),
            flagged=int(np.asarray(result.mask).sum()),
            bad_rows=tuple(map(str, result.bad_rows)),
            rank=int(result.rank),
            order=result.order,
            columns=tuple(map(_as_json, result.columns, result.noise)),
            caveats=caveats,
            fdr=fdr,
            filled=fill,
            seconds=round(time.perf_counter() - started, 3),
            seed=seed,
            folder=output,
            files=(*names, "summary.json"),
        )
        write_summary(scratch, report)
        watch(1.0, "done")
    return report


def clean_source(
    source: TableFile,
    *,
    fdr: float = 0.01,
    fill: bool = False,
    columns: Any = None,
    drop: Any = None,
    order: Any = "auto",
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[CleanResult, tuple[str, ...]]:
    """Clean the table of a file; return the result and all caveats.

    The parameters are those of `discrepant.clean`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = clean(
            source.table,
            fdr=fdr,
            fill=fill,
            columns=columns,
            drop=drop,
            order=order,
            random_state=seed,
            progress=progress,
        )
    warned = dict.fromkeys(str(warning.message) for warning in caught)
    return result, (*source.notes, *map(str, result.caveats), *warned)


def write_cleaned(
    result: CleanResult, source: TableFile, folder: Path, *, title: str
) -> tuple[str, ...]:
    """Write table, flags, report and figure into a folder; return the files' names."""
    names = _names(source.suffix)
    source.write(folder / names[0], result.table)
    _write_flagged(folder / "flagged.csv", result.flagged)
    write_report(result, folder / "report.html", title=title, rows=source.rows)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        cell_map(result).savefig(folder / "cells.png")
    return names


def _names(suffix: str) -> tuple[str, ...]:
    """Return the names of the result files."""
    return (f"cleaned{suffix}", "flagged.csv", "report.html", "cells.png")


def _columns(
    option: str, requested: Sequence[str] | None, table: Any, file: Path
) -> list[Any] | None:
    """Return the labels of the columns that are named as text."""
    if not requested:
        return None
    labels = list(getattr(table, "columns", range(table.shape[1])))
    known = {str(label).strip(): label for label in labels}
    for name in requested:
        if name not in known:
            some = ", ".join(list(known)[:12]) + (", …" if len(known) > 12 else "")
            raise InputError(
                f"{option}= names {name!r}, which {file.name} does not have; it has "
                f"{some}."
            )
    return [known[name] for name in requested]


def _order(order: str | None, table: Any, file: Path) -> Any:
    """Return the label of the column that the rows are sorted by."""
    if order is None or order == "auto":
        return order
    (label,) = _columns("order", [order], table, file) or [order]
    return label


def _write_flagged(path: Path, flagged: Any) -> None:
    """Write the flagged cells; computed numbers in six digits, values in full."""
    computed = ("expected", "low", "high", "score", "probability")
    texts = {
        name: [f"{value:.6g}" if value == value else "" for value in flagged[name]]
        for name in computed
    }
    flagged.assign(**texts).to_csv(path, index=False)


def _as_json(column: ColumnSummary, noise: float) -> dict[str, Any]:
    """Return the summary of a column as JSON values."""
    numbers = {"explained": column.explained, "noise": noise}
    return {
        **asdict(column),
        "name": str(column.name),
        "sentinels": [float(value) for value in column.sentinels],
        # JSON has no NaN.
        **{k: float(v) if np.isfinite(v) else None for k, v in numbers.items()},
    }

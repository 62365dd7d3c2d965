"""A table in a file cleaned: what is wrong in it found, written down and mended."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.output_files import atomic_output_folder, summary_of, write_json
from discrepant.core.progress import Progress, reporting, subrange
from discrepant.table.clean import clean
from discrepant.table.io.table_file import TableFile, read_table_file
from discrepant.table.report.figures import cell_map
from discrepant.table.report.report import write_report
from discrepant.table.result import CleanResult, ColumnReport, summary

JUDGED = ("numbers", "few values", "booleans")  # roles of columns
READING, CLEANING = 0.15, 0.85  # where the parts of the work end, about


@dataclass(frozen=True)
class CleanReport:
    """What was found in a table, and where it was written.

    ``flagged`` counts cells and ``bad_rows`` names rows; ``columns`` says of each
    what it is, what was done to it and, in its unit, its noise; ``rows`` says in words
    what the labels of the rows are. ``no_picture`` is the reason why none was drawn, if
    so.
    """

    file: str
    shape: tuple[int, int]
    rows: str
    found: str
    flagged: int
    bad_rows: tuple[str, ...]
    rank: int
    columns: tuple[dict[str, Any], ...]
    caveats: tuple[str, ...]
    fdr: float
    filled: bool
    seconds: float
    seed: int
    folder: Path
    files: tuple[str, ...]
    no_picture: str = ""

    @property
    def summary(self) -> dict[str, Any]:
        """What stands in ``summary.json``."""
        return summary_of(self)

    def __str__(self) -> str:
        worst = sorted(self.columns, key=lambda column: -column["flagged"])[:3]
        most = ", ".join(f"{c['name']} ({c['flagged']})" for c in worst if c["flagged"])
        aside = [c for c in self.columns if c["role"] not in JUDGED]
        named = ", ".join(f"{c['name']} ({c['role']})" for c in aside[:6])
        more = f" and {len(aside) - 6} more" if len(aside) > 6 else ""
        lines = [
            f"{self.file}: {self.shape[0]:,}×{self.shape[1]}, rank {self.rank}. "
            f"{self.found}",
            f"Most in: {most}." if most else "",
            f"Set aside, as they were: {named}{more}." if aside else "",
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
    header: bool | None = None,
    index: bool | None = None,
    key: str | None = None,
    sheet: str | None = None,
    decimal: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool | Progress | None = False,
) -> CleanReport:
    """Clean the table of a file; write it, its flags, a page and a picture.

    Parameters
    ----------
    file : Path
        A table; see `table.io.table_file.read_table_file` for it, ``header``,
        ``index``, ``key``, ``sheet`` and ``decimal``.
    output : Path
        Folder for the results; made if needed.
    columns, drop : sequence of str, optional
        Names of the columns to look into, and of those to leave alone.
    fdr, fill
        As in `discrepant.clean`.
    seed : int
        The same seed gives the same result.
    overwrite : bool
        Whether results that are there already may be replaced.
    progress : bool or callable
        See `core.progress.reporting`. Told to stop, the rows that were judged
        are written; where none was, nothing is, and `StoppedError` raised.
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
        found, caveats = clean_source(
            source,
            fdr=fdr,
            fill=fill,
            columns=_columns("columns", columns, source.table, file),
            drop=_columns("drop", drop, source.table, file),
            seed=seed,
            progress=subrange(watch, READING, CLEANING),
        )
        watch(CLEANING, "writing")
        names, no_picture = write_cleaned(found, source, scratch, title=file.name)
        rows, width = np.shape(found.mask)
        report = CleanReport(
            file=file.name,
            shape=(rows, width),
            rows=source.rows,
            found=summary(found),
            flagged=int(np.asarray(found.mask).sum()),
            bad_rows=tuple(map(str, found.rows)),
            rank=int(found.rank),
            columns=tuple(map(_plain, found.columns, found.noise)),
            caveats=caveats,
            fdr=fdr,
            filled=fill,
            seconds=round(time.perf_counter() - started, 3),
            seed=seed,
            folder=output,
            files=(*names, "summary.json"),
            no_picture=no_picture,
        )
        write_json(scratch / "summary.json", report.summary)
        watch(1.0, "done")
    return report


def clean_source(
    source: TableFile,
    *,
    fdr: float = 0.01,
    fill: bool = False,
    columns: Any = None,
    drop: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[CleanResult, tuple[str, ...]]:
    """Clean what was read from a file; also returns all there is to know of it.

    The parameters are those of `discrepant.clean`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = clean(
            source.table,
            fdr=fdr,
            fill=fill,
            columns=columns,
            drop=drop,
            random_state=seed,
            progress=progress,
        )
    noticed = dict.fromkeys(str(warning.message) for warning in caught)
    return found, (*source.notes, *map(str, found.caveats), *noticed)


def write_cleaned(
    found: CleanResult, source: TableFile, folder: Path, *, title: str
) -> tuple[tuple[str, ...], str]:
    """Write table, flags, page and picture into a folder.

    Returns the names of the files, the table's first, and the reason why there is no
    picture, if so.
    """
    names = _names(source.suffix)
    source.write(folder / names[0], found.table)
    _write_flagged(folder / "flagged.csv", found.flagged)
    write_report(found, folder / "report.html", title=title, rows=source.rows)
    try:
        with _quiet_fonts():
            cell_map(found).savefig(folder / "cells.png")
    except InputError as error:  # matplotlib is an extra: do without
        return tuple(name for name in names if name != "cells.png"), str(error)
    return names, ""


def _names(suffix: str) -> tuple[str, ...]:
    """Return what the results of a table of this ending are called."""
    return (f"cleaned{suffix}", "flagged.csv", "report.html", "cells.png")


def _columns(
    option: str, asked: Sequence[str] | None, table: Any, file: Path
) -> list[Any] | None:
    """Return the table's own labels of columns that are given as text."""
    if not asked:
        return None
    labels = list(getattr(table, "columns", range(table.shape[1])))
    known = {str(label).strip(): label for label in labels}
    for name in asked:
        if name not in known:
            some = ", ".join(list(known)[:12]) + (", …" if len(known) > 12 else "")
            raise InputError(
                f"{option}= names {name!r}, which {file.name} does not have; it has "
                f"{some}."
            )
    return [known[name] for name in asked]


def _write_flagged(path: Path, flagged: Any) -> None:
    """Write the flagged cells; what was computed in six digits, values in full."""
    computed = ("expected", "low", "high", "score", "probability")
    texts = {
        name: [f"{value:.6g}" if value == value else "" for value in flagged[name]]
        for name in computed
    }
    flagged.assign(**texts).to_csv(path, index=False)


def _plain(column: ColumnReport, noise: float) -> dict[str, Any]:
    """Return what is said of a column in words and numbers that JSON knows."""
    sizes = {"explained": column.explained, "noise": noise}
    return {
        **asdict(column),
        "name": str(column.name),
        "sentinels": [float(value) for value in column.sentinels],
        # JSON has no NaN.
        **{k: float(v) if np.isfinite(v) else None for k, v in sizes.items()},
    }


@contextmanager
def _quiet_fonts() -> Iterator[None]:
    """Let a label have signs that the font does not; it is drawn without them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield

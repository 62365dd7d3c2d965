"""From scores to a verdict: flags, replacements, and what to say of each column."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.core.validation import count_threads
from discrepant.table.columns.table_input import Sheet
from discrepant.table.columns.table_output import rewrite
from discrepant.table.model.calibration import flags, probability
from discrepant.table.model.score import Every, Judged, judge
from discrepant.table.model.table_model import Rules
from discrepant.table.result import CleanResult, ColumnReport


@dataclass(frozen=True)
class Tuning:
    """When a row is wrong as a whole, and when to warn."""

    row_share: float = 0.5  # of a row's cells: most of what it says is wrong
    row_cells: int = 3  # fewer are cells
    few_rows: int = 40  # below it, the tails of a column cannot be seen
    much: float = 0.2  # flagged: beyond what the model was tried on
    shown: int = 3  # values that are named in a sentence
    kept: int = 2_000_000  # cells: up to so many, scores and expectations are kept


TUNING = Tuning()
ROLES = {"numeric": "numbers", "few levels": "few values"}
ASIDE = {
    "identifier": "It counts or names the rows, and was set aside.",
    "constant": "It says nothing: all its cells, or nearly all, are the same.",
    "empty": "It holds no numbers.",
    "set aside": "It was not to be judged.",
    "other": "Its type cannot be judged.",
}


@dataclass(eq=False)
class Cells:
    """What was found of every cell: kept for small tables, else judged again if asked.

    For a large table these arrays would cost more memory than it does itself.
    """

    sheet: Sheet
    rules: Rules
    every: Every | None
    rows: int  # that were judged, from the first: after an early stop not all

    def frame(self, name: str) -> Any:
        """Give "score" or "expected" with the labels of the table."""
        if self.every is None:
            values, rows = self.sheet.values, self.rows
            every = Every.of(values.shape)
            part = Every(every.score[:rows], every.expected[:rows])
            judge(values[:rows], self.rules, every=part, n_jobs=threads())
            every.clear(values, rows)
            self.every = every
        return labelled(self.sheet, getattr(self.every, name), np.nan)


def labelled(sheet: Sheet, values: Array, empty: Any) -> Any:
    """Give an array of the judged columns as a frame of all of them."""
    import pandas as pd

    frame, at = sheet.frame, sheet.judged
    if len(at) < frame.shape[1]:
        every = np.full(frame.shape, empty, values.dtype)
        every[:, at] = values
        values = every
    labels = {"index": frame.index, "columns": frame.columns}
    return pd.DataFrame(values, **labels, copy=False)


def judge_sheet(
    sheet: Sheet,
    rules: Rules,
    least: float,
    fill: bool,
    report: Report | None = None,
) -> tuple[Judged, Every | None]:
    """Judge all rows, and list the cells of log odds from ``least`` on.

    The scores of all cells are kept too where they are not many.
    """
    values = sheet.values
    every = Every.of(values.shape) if values.size <= TUNING.kept else None
    judged = judge(
        values,
        rules,
        least=least,
        fill=fill,
        every=every,
        n_jobs=threads(),
        report=report,
    )
    return judged, every


def threads() -> int:
    """Give the number of threads that judge rows: one a core."""
    return count_threads(None)


def verdict(
    sheet: Sheet,
    rules: Rules,
    found: tuple[Judged, Every | None],
    cut: float,
    fdr: float,
    fill: bool,
) -> CleanResult:
    """Flag cells from a cutoff on, replace them, and say what was found.

    Codes for missing values are flagged, but only replaced with ``fill``.
    """
    import pandas as pd

    judged, every = found
    frame, at = sheet.frame, sheet.judged
    wrong = flags(judged.score, cut)
    flagged = np.zeros(sheet.values.shape, bool)
    flagged[tuple(judged.cells[wrong].T)] = True
    replaced = (wrong | np.isnan(judged.score)) & np.isfinite(judged.expected)
    for k, j in enumerate(at):
        here = judged.cells[:, 1] == k
        rows = judged.cells[here, 0]
        if j in sheet.foreign:
            replaced[here] &= ~sheet.foreign[j][rows]
        if rules.missing_codes[k] and not fill:
            coded = np.isin(sheet.values[rows, k], rules.missing_codes[k])
            replaced[here] &= ~coded
    rows = _bad_rows(sheet, rules, flagged)
    noise = np.full(frame.shape[1], np.nan)
    noise[at] = rules.noise
    reports = _reports(sheet, rules, flagged)
    return CleanResult(
        table=rewrite(sheet, judged.cells[replaced], judged.expected[replaced]),
        flagged=_listed(sheet, judged, wrong),
        mask=labelled(sheet, flagged, False),
        rows=frame.index[rows],
        row_numbers=np.flatnonzero(rows),
        noise=pd.Series(noise, index=frame.columns, name="noise"),
        rank=rules.rank,
        columns=reports,
        caveats=(
            *_unjudged(judged, len(flagged)),
            *_caveats(sheet, rules, flagged, rows, reports),
        ),
        fdr=fdr,
        original=sheet.given,
        cells=Cells(sheet, rules, every, judged.rows),
    )


def _unjudged(judged: Judged, count: int) -> Iterator[str]:
    """Say that not all rows were judged."""
    if judged.rows < count:
        yield (
            f"Stopped early: the first {judged.rows:,} of {count:,} rows were judged, "
            "and the others are as they were."
        )


def _bad_rows(sheet: Sheet, rules: Rules, flagged: Array) -> Array:
    """Mark the rows of which most cells are flagged."""
    used = rules.used
    many = flagged[:, used].sum(axis=1)
    bad = np.flatnonzero(many >= TUNING.row_cells)
    heard = (~np.isnan(sheet.values[bad][:, used])).sum(axis=1)
    rows = np.zeros(len(flagged), bool)
    rows[bad] = many[bad] >= TUNING.row_share * heard
    return rows


def _listed(sheet: Sheet, judged: Judged, wrong: Array) -> Any:
    """Give the flagged cells as a table, surest first."""
    import pandas as pd

    score = judged.score[wrong].astype(np.float64)
    order = np.argsort(-score, kind="stable")
    cells, between = judged.cells[wrong][order], judged.between[wrong][order]
    expected, score = judged.expected[wrong][order], score[order]
    i, k = cells.T
    at = np.array(sheet.judged, int)
    labels = list(sheet.frame.columns)
    value: Any = sheet.values[i, k]
    if sheet.unreadable:
        value = value.astype(object)
        for n, (row, column) in enumerate(zip(i, at[k], strict=True)):
            if column in sheet.unreadable and sheet.unreadable[column][row]:
                value[n] = sheet.frame.iloc[row, column]
    index = sheet.frame.index
    several = index.nlevels > 1
    return pd.DataFrame(
        {
            "row": _objects([index[r] for r in i]) if several else index[i],
            "column": _objects([labels[at[c]] for c in k]),
            "value": value,
            "expected": expected,
            "low": between[:, 0],
            "high": between[:, 1],
            "score": score,
            "probability": probability(score),
        }
    )


def _objects(labels: list[Any]) -> Array:
    """Give labels as one column, tuples too."""
    column = np.empty(len(labels), object)
    for n, label in enumerate(labels):
        column[n] = label
    return column


def _reports(sheet: Sheet, rules: Rules, flagged: Array) -> tuple[ColumnReport, ...]:
    explained = rules.explained
    place = {j: k for k, j in enumerate(sheet.judged)}
    reports = []
    for j, name in enumerate(sheet.frame.columns):
        field = sheet.fields[j]
        if j not in place:
            missing = int(sheet.frame.iloc[:, j].isna().sum())
            note = ASIDE.get(field.role, "")
            reports.append(ColumnReport(name, field.role, missing=missing, note=note))
            continue
        k = place[j]
        kind = rules.columns[k].kind
        role = ROLES.get(kind, kind)
        if field.role == "booleans" and kind != "constant":
            role = "booleans"
        reports.append(
            ColumnReport(
                name=name,
                role=role,
                sentinels=rules.missing_codes[k],
                missing=int(np.isnan(sheet.values[:, k]).sum()),
                flagged=int(flagged[:, k].sum()),
                explained=float(explained[k]),
                note=_note(sheet, j, kind),
            )
        )
    return tuple(reports)


def _note(sheet: Sheet, j: int, kind: str) -> str:
    said = []
    for some, what in (
        (sheet.unreadable, "cannot be read as numbers"),
        (sheet.foreign, "cannot be read as numbers, but are left as they are"),
    ):
        cells = (
            sheet.frame.iloc[:, j].to_numpy(dtype=object)[some[j]] if j in some else ()
        )
        if len(cells):
            texts = list(dict.fromkeys(repr(cell) for cell in cells))
            more = ", …" if len(texts) > TUNING.shown else ""
            said.append(
                f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'} {what} "
                f"({', '.join(texts[: TUNING.shown])}{more})."
            )
    return " ".join(said) or ASIDE.get(kind, "")


def _caveats(
    sheet: Sheet,
    rules: Rules,
    flagged: Array,
    rows: Array,
    reports: tuple[ColumnReport, ...],
) -> list[str]:
    """Say what to know before trusting the result."""
    said = []
    n = rules.rows
    if rules.model is None and not rules.used:
        said.append("No column of numbers varies: only codes could be looked for.")
    elif rules.model is None:
        said.append(f"{n} rows are too few to tell what a wrong cell is.")
    elif len(rules.used) == 1:
        said.append(
            "Only one column can be judged, and by nothing but itself: what was "
            "flagged stands out in it."
        )
    elif rules.independent:
        said.append(
            "No column says anything of another: only what stands out in its own "
            "column was flagged."
        )
    if rules.model is not None and n < TUNING.few_rows:
        said.append(f"{n} rows are few: errors must be gross to be seen among them.")
    share = flagged.mean() if flagged.size else 0.0
    if share > TUNING.much:
        said.append(
            f"{share:.0%} of the cells were flagged, which is more than can be judged "
            "well; see the report by column."
        )
    if rows.any():
        said.append(
            f"{int(rows.sum())} {'row is' if rows.sum() == 1 else 'rows are'} wrong "
            "from end to end; what stands there now is a guess."
        )
    said += [_quoted(report) for report in reports if _worth_saying(report)]
    names = list(sheet.frame.columns)
    if len(set(names)) < len(names):
        said.append("Some columns share a name; they are told apart by their order.")
    return said


def _worth_saying(report: ColumnReport) -> bool:
    return (
        bool(report.sentinels)
        or report.role == "identifier"
        or ("cannot be read" in report.note)
    )


def _quoted(report: ColumnReport) -> str:
    if report.sentinels:
        codes = " and ".join(f"{code:g}" for code in report.sentinels)
        return (
            f"In column {report.name!r}, {codes} is a code for missing values: such "
            "cells are flagged, and replaced only with fill=True."
        )
    if report.role == "identifier":
        return f"Column {report.name!r} was set aside as an identifier."
    return f"Column {report.name!r}: {report.note}"

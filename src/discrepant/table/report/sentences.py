"""Sentences about a cleaned table: summary, notes on columns, caveats."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.linalg import Array

if TYPE_CHECKING:
    from discrepant.table.columns.table_input import ParsedTable
    from discrepant.table.model.fit import TableModel

# Rows below which the tails of a column cannot be estimated.
FEW_ROWS = 40
# Fraction of flagged cells above which the model was never tested.
MANY_FLAGS = 0.2
# Texts that a note quotes.
QUOTED_TEXTS = 3
# Why the columns of a role are not checked.
SKIP_REASON = {
    "identifier": "It numbers or names the rows: only its sequence was checked.",
    "constant": "All its values, or nearly all, are the same.",
    "empty": "It holds no numbers.",
    "set aside": "It was left out on request.",
    "other": "Values of this type cannot be checked.",
}


@dataclass(frozen=True)
class ColumnSummary:
    """The role of a column, and what was detected in it.

    Attributes
    ----------
    name : object
        Its label.
    role : str
        "numbers" and "few values" and "booleans" are part of the model; "identifier",
        "constant", "empty", "text", "dates", "durations", "categories", "other" and
        "set aside" are returned unchanged.
    sentinels : tuple of float
        Codes for missing values, such as −999.
    missing, flagged : int
        Number of cells.
    explained : float
        Fraction of its variance that the other columns explain; NaN where it is not
        modelled.
    note : str
        Anything else, in a sentence; often empty.
    """

    name: Any
    role: str
    sentinels: tuple[float, ...] = ()
    missing: int = 0
    flagged: int = 0
    explained: float = np.nan
    note: str = ""


def summary(result: Any) -> str:
    """Return the number of flagged cells and bad rows, in one or two sentences."""
    rows, width = np.shape(result.mask)
    mask = np.asarray(result.mask)
    flagged, columns = int(mask.sum()), int(mask.any(axis=0).sum())
    if not flagged:
        sentence = f"None of the {rows:,}×{width} cells is flagged"
    else:
        percent = 100 * flagged / max(rows * sum(is_analysed(result)), 1)
        sentence = (
            f"{flagged:,} {'cell is' if flagged == 1 else 'cells are'} flagged "
            f"({percent:.2g}% of the cells checked), in {columns} of {width} "
            f"{'column' if width == 1 else 'columns'}"
        )
    sentence += f", at a false discovery rate of {100 * result.fdr:g}%."
    missing = np.asarray(result.cells.parsed.frame.isna(), bool)
    more = int((np.asarray(result.replaced) & ~mask & ~missing).sum())
    if more:
        were = "cell, which is likely to be wrong, was" if more == 1 else (
            "cells, which are likely to be wrong, were"
        )  # fmt: skip
        sentence += f" {more:,} more {were} replaced."
    bad = len(result.bad_rows)
    if bad:
        rows_are = "row is" if bad == 1 else "rows are"
        sentence += f" {bad:,} {rows_are} wrong as a whole."
    return sentence


def is_analysed(result: Any) -> list[bool]:
    """Return for each column whether its cells were checked."""
    noise = np.asarray(result.noise, float)
    return [
        bool(np.isfinite(size)) or column.flagged > 0
        for size, column in zip(noise, result.columns, strict=True)
    ]


def column_note(parsed: "ParsedTable", j: int, kind: str) -> str:
    """Return a note on column j of the frame: unparsed texts, or why it is skipped."""
    sentences = []
    for cells_of, problem in (
        (parsed.unparsed, "cannot be read as numbers"),
        (parsed.other_notation, "cannot be read as numbers, but are left as they are"),
    ):
        if j not in cells_of:
            continue
        cells = parsed.frame.iloc[:, j].to_numpy(dtype=object)[cells_of[j]]
        if len(cells):
            texts = list(dict.fromkeys(repr(cell) for cell in cells))
            more = ", …" if len(texts) > QUOTED_TEXTS else ""
            sentences.append(
                f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'} {problem} "
                f"({', '.join(texts[:QUOTED_TEXTS])}{more})."
            )
    return " ".join(sentences) or SKIP_REASON.get(kind, "")


def caveats(
    parsed: "ParsedTable",
    model: "TableModel",
    mask: Array,
    scored_rows: int,
    bad_rows: Array,
    columns: tuple[ColumnSummary, ...],
) -> tuple[str, ...]:
    """Return what to know before relying on the result, in sentences."""
    sentences = []
    if scored_rows < len(mask):
        sentences.append(
            f"Stopped early: the first {scored_rows:,} of {len(mask):,} rows were "
            "checked, and the others are unchanged."
        )
    n = model.training_rows
    if model.model is None and not model.modelled:
        sentences.append(
            "No column of numbers varies: only missing-value codes could be detected."
        )
    elif model.model is None:
        sentences.append(f"{n} rows are too few to detect wrong cells.")
    elif len(model.modelled) == 1:
        sentences.append(
            "Only one column can be checked, without any other to compare it with: "
            "its outliers are flagged."
        )
    elif model.columns_independent:
        sentences.append(
            "No column predicts another: only outliers of single columns are flagged."
        )
    if model.model is not None and n < FEW_ROWS:
        sentences.append(f"{n} rows are few: only gross errors can be detected.")
    fraction = mask.mean() if mask.size else 0.0
    if fraction > MANY_FLAGS:
        sentences.append(
            f"{fraction:.0%} of the cells are flagged, more than can be detected "
            "reliably; see the summary of each column."
        )
    if bad_rows.any():
        rows_are = "row is" if bad_rows.sum() == 1 else "rows are"
        sentences.append(
            f"{int(bad_rows.sum())} {rows_are} wrong as a whole; the replacements "
            "there are guesses."
        )
    sentences += _repeated_errors(parsed, model)
    sentences += [_about_column(column) for column in columns if _has_caveat(column)]
    names = list(parsed.frame.columns)
    if len(set(names)) < len(names):
        sentences.append(
            "Some columns have the same name; they are distinguished by their order."
        )
    return tuple(sentences)


def _repeated_errors(parsed: "ParsedTable", model: "TableModel") -> list[str]:
    """Return a sentence for each value that a column repeats by mistake."""
    sentences = []
    for k, codes in enumerate(model.codes):
        for value in (value for value, missing in codes.items() if not missing):
            count = int((parsed.values[:, k] == value).sum())
            if model.transforms[k].kind != "identifier" and count:
                name = parsed.frame.columns[parsed.numeric_positions[k]]
                sentences.append(
                    f"{count:,} cells of {name!r} equal {value:g}, which contradicts "
                    "the others: they are flagged; check the column."
                )
    return sentences


def step_caveat(steps: list[tuple[Any, Any, float]]) -> tuple[str, ...]:
    """Return a sentence about steps of the level, each column, row label and size."""
    if not steps:
        return ()
    named = [f"{column!r} by {size:.3g} at row {row}" for column, row, size in steps]
    more = len(steps) - QUOTED_TEXTS
    return (
        f"The level changes at once in {', '.join(named[:QUOTED_TEXTS])}"
        f"{f' and {more} more' if more > 0 else ''}: either side may be wrong, and "
        "neither was flagged.",
    )


def _has_caveat(column: ColumnSummary) -> bool:
    return (
        bool(column.sentinels)
        or (column.role == "identifier" and not column.flagged)
        or "cannot be read" in column.note
    )


def _about_column(column: ColumnSummary) -> str:
    if column.sentinels:
        codes = " and ".join(f"{code:g}" for code in column.sentinels)
        plural = len(column.sentinels) > 1
        like = "look like missing-value codes" if plural else (
            "looks like a missing-value code"
        )  # fmt: skip
        return (
            f"{codes} in {column.name!r} {like}: such cells are flagged, and replaced "
            "only with fill=True."
        )
    if column.role == "identifier":
        return f"Column {column.name!r} is an identifier and was not checked."
    return f"Column {column.name!r}: {column.note}"

"""CleanResult: the cleaned table, its flags, and what to know about them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.cell_model.calibration import calibrated_probability
from discrepant.core.linalg import Array
from discrepant.table.columns.table_input import ParsedTable
from discrepant.table.model.fit import TableModel
from discrepant.table.model.order_flags import Step
from discrepant.table.model.row_order import RowOrder
from discrepant.table.model.score import FlagCandidates, FullScores, score_all_cells
from discrepant.table.report.sentences import (
    ColumnSummary,
    caveats,
    column_note,
    step_caveat,
    summary,
)

# Fraction of a row's cells that must be flagged for the row to be bad as a whole.
BAD_ROW_FRACTION = 0.5
# Number of its cells that must be flagged.
BAD_ROW_CELLS = 3
# Limit of a cell's residual in the score of its row, in the noise of its column: one
# cell alone cannot dominate the score.
MAX_ROW_RESIDUAL = 3.0


@dataclass(eq=False)
class OnDemandScores:
    """Scores of all cells: stored for small tables, else computed when first used."""

    parsed: ParsedTable
    model: TableModel
    full: FullScores | None
    candidates: FlagCandidates

    def frame(self, name: str) -> Any:
        """Return "log_odds", "probability" or "expected", with labels."""
        candidates = self.candidates
        if self.full is None:
            full = score_all_cells(
                self.parsed.values, self.model, candidates.scored_rows
            )
            index = tuple(candidates.cells.T)
            full.log_odds[index] = candidates.log_odds
            full.expected[index] = candidates.expected
            self.full = full
        if name == "probability":
            values = calibrated_probability(self.full.log_odds)
        else:
            values = getattr(self.full, name)
        return with_labels(self.parsed, values, np.nan)


@dataclass(frozen=True, eq=False)
class CleanResult:
    """A cleaned table, and the cells that were flagged in it.

    Attributes
    ----------
    table : same type as the input (a DataFrame for lists)
        Cells that are flagged or likely to be wrong (see ``replaced``) have their
        expected values. Missing cells, and flagged codes for missing values such as
        −999, are imputed only with ``fill=True``. All other cells equal the input bit
        for bit.
    flagged : DataFrame
        One row per flagged cell, most certain first: ``row`` and ``column`` (labels),
        ``value``, ``expected``, ``low`` and ``high`` (its 95% interval), ``score``
        (log-odds by the model), ``probability`` (calibrated) and ``kind``: "level"
        where a cell contradicts its row; "spike", "stuck" or "shift" where it
        contradicts the cells before and after it.
    mask : DataFrame of bool
        The flagged cells, with the shape and labels of the table.
    bad_rows : Index
        Labels of the rows that are wrong as a whole.
    row_numbers : int array
        Positions of these rows, from 0: labels may repeat.
    noise : Series
        For each column, in its unit, the standard deviation of a clean cell around its
        expected value; NaN where the column is not modelled.
    rank : int
        Number of directions with more variance than independent columns have.
    columns : tuple of ColumnSummary
        One for each column.
    caveats : tuple of str
        Limits of the result, in sentences.
    fdr : float
        The false discovery rate that was requested.
    original : same type as the input
        The table as it was given.
    cells : OnDemandScores
        Stores or computes ``expected``, ``scores`` and ``probability``. Beyond two
        million cells they are computed from the original when they are first used.
    flagged_cells : int array (k, 2)
        Row and column position of each row of ``flagged``: labels may repeat.
    replaced : DataFrame of bool
        The cells of ``table`` that differ from the input: replaced or imputed.
    order : str
        The order in which rows were compared, such as "by time"; "" if in none.
    ordered_columns : tuple
        Labels of the columns whose neighbouring cells are alike in this order.
    row_sequence : int array or None
        The rows in this order.
    """

    table: Any = field(repr=False)
    flagged: Any
    mask: Any = field(repr=False)
    bad_rows: Any
    row_numbers: Any = field(repr=False)
    noise: Any
    rank: int
    columns: tuple[ColumnSummary, ...]
    caveats: tuple[str, ...]
    fdr: float
    original: Any = field(repr=False)
    cells: Any = field(repr=False)
    flagged_cells: Any = field(default=None, repr=False)
    replaced: Any = field(default=None, repr=False)
    order: str = ""
    ordered_columns: tuple[Any, ...] = ()
    row_sequence: Any = field(default=None, repr=False)

    @property
    def expected(self) -> Any:
        """Expected value of each cell; NaN in columns that are not modelled."""
        return self.cells.frame("expected")

    @property
    def scores(self) -> Any:
        """Log-odds that each cell is corrupted, by the model.

        NaN where it is missing, and −50 where it was not scored.
        """
        return self.cells.frame("log_odds")

    @property
    def probability(self) -> Any:
        """Calibrated probability that each cell is corrupted; NaN where missing."""
        return self.cells.frame("probability")

    @property
    def row_score(self) -> Any:
        """Score of each row as an outlier, larger where more cells are unusual.

        The sum over its modelled cells of their squared residuals from the expected
        values, in the noise of their columns, each limited to 3². It ranks rows, such
        as those of another population, that no single cell gives away; it is not
        calibrated, and no row is flagged by it.
        """
        import pandas as pd

        values = with_labels(self.cells.parsed, self.cells.parsed.values, np.nan)
        noise = np.where(self.noise > 0, self.noise, np.nan)
        residual = np.abs(values.to_numpy() - self.expected.to_numpy()) / noise
        square = np.nan_to_num(np.minimum(residual, MAX_ROW_RESIDUAL) ** 2)
        return pd.Series(square.sum(axis=1), index=values.index, name="row_score")

    def summary(self) -> str:
        """Return the number of flagged cells and bad rows, in one or two sentences."""
        return summary(self)

    def plot(self) -> Any:
        """Draw the map of the table's cells with its flags (matplotlib)."""
        from discrepant.table.report.figures import cell_map

        return cell_map(self)

    def report(self, path: str | Path) -> Any:
        """Write one self-contained HTML page about the flags."""
        from discrepant.table.report.report import write_report

        return write_report(self, path)

    def _repr_html_(self) -> str:
        from discrepant.table.report.report import fragment

        return fragment(self)

    def __str__(self) -> str:
        return " ".join([self.summary(), *self.caveats[:1]])

    __repr__ = __str__


def with_labels(parsed: ParsedTable, values: Array, empty: Any) -> Any:
    """Return an array of the numeric columns as a frame of all columns."""
    import pandas as pd

    frame, positions = parsed.frame, parsed.numeric_positions
    if len(positions) < frame.shape[1]:
        every = np.full(frame.shape, empty, values.dtype)
        every[:, positions] = values
        values = every
    labels = {"index": frame.index, "columns": frame.columns}
    return pd.DataFrame(values, **labels, copy=False)


def build_result(
    parsed: ParsedTable,
    model: TableModel,
    candidates: FlagCandidates,
    flagged: Array,
    replaced: Array,
    cleaned: Any,
    fdr: float,
    order: RowOrder | None,
    steps: Sequence[Step],
) -> CleanResult:
    """Collect mask, list of flags, bad rows, column summaries and caveats.

    Parameters
    ----------
    parsed, model, candidates
        The table, its model and its scores.
    flagged, replaced : bool arrays
        Which of the candidates are flagged, and which are replaced or imputed.
    cleaned : same type as the input
        The table with flagged cells replaced.
    fdr : float
    order : RowOrder or None
        In which rows were compared.
    steps : sequence of Step
        Single steps in that order, which a caveat names.
    """
    import pandas as pd

    frame, labels = parsed.frame, list(parsed.frame.columns)
    positions = parsed.numeric_positions
    mask = np.zeros(parsed.values.shape, bool)
    mask[tuple(candidates.cells[flagged].T)] = True
    replaced_mask = np.zeros(parsed.values.shape, bool)
    replaced_mask[tuple(candidates.cells[replaced].T)] = True
    bad_rows = _bad_rows(parsed, model, mask)
    noise = np.full(frame.shape[1], np.nan)
    noise[positions] = model.noise
    columns = _column_summaries(parsed, model, mask)
    sentences = caveats(
        parsed, model, mask, candidates.scored_rows, bad_rows, columns
    ) + step_caveat(
        [(labels[positions[s.column]], frame.index[s.row], s.size) for s in steps]
    )
    flag_list, flagged_cells = _flag_list(parsed, candidates, flagged)
    return CleanResult(
        table=cleaned,
        flagged=flag_list,
        flagged_cells=flagged_cells,
        mask=with_labels(parsed, mask, False),
        bad_rows=frame.index[bad_rows],
        row_numbers=np.flatnonzero(bad_rows),
        noise=pd.Series(noise, index=frame.columns, name="noise"),
        rank=model.rank,
        columns=columns,
        caveats=sentences,
        fdr=fdr,
        original=parsed.original,
        cells=OnDemandScores(parsed, model, candidates.full, candidates),
        replaced=with_labels(parsed, replaced_mask, False),
        order=order.description if order else "",
        ordered_columns=tuple(labels[positions[k]] for k in order.columns)
        if order
        else (),
        row_sequence=order.rows if order else None,
    )


def _bad_rows(parsed: ParsedTable, model: TableModel, mask: Array) -> Array:
    """Return the rows of which most cells are flagged, as a bool array."""
    modelled = model.modelled
    counts = mask[:, modelled].sum(axis=1)
    candidates = np.flatnonzero(counts >= BAD_ROW_CELLS)
    observed = (~np.isnan(parsed.values[candidates][:, modelled])).sum(axis=1)
    bad = np.zeros(len(mask), bool)
    bad[candidates] = counts[candidates] >= BAD_ROW_FRACTION * observed
    return bad


def _flag_list(
    parsed: ParsedTable, candidates: FlagCandidates, flagged: Array
) -> tuple[Any, Array]:
    """Return the flagged cells as a data frame, most certain first, and positions."""
    import pandas as pd

    listed = np.flatnonzero(flagged)
    score, probability = candidates.log_odds, candidates.probability
    listed = listed[np.lexsort((-score[listed], -probability[listed]))]
    rows, numeric = candidates.cells[listed].T
    interval = candidates.interval[listed]
    columns = np.array(parsed.numeric_positions, int)[numeric]
    labels = list(parsed.frame.columns)
    value: Any = parsed.values[rows, numeric]
    if parsed.unparsed:
        value = value.astype(object)
        for n, (row, column) in enumerate(zip(rows, columns, strict=True)):
            if column in parsed.unparsed and parsed.unparsed[column][row]:
                value[n] = parsed.frame.iloc[row, column]
    index = parsed.frame.index
    multi = index.nlevels > 1
    frame = pd.DataFrame(
        {
            "row": _objects([index[row] for row in rows]) if multi else index[rows],
            "column": _objects([labels[column] for column in columns]),
            "value": value,
            "expected": candidates.expected[listed],
            "low": interval[:, 0],
            "high": interval[:, 1],
            "score": score[listed].astype(np.float64),
            "probability": probability[listed].astype(np.float64),
            "kind": _objects(candidates.kinds[listed].tolist()),
        }
    )
    return frame, np.column_stack([rows, columns])


def _objects(labels: list[Any]) -> Array:
    """Return labels, tuples too, as one array of objects."""
    column = np.empty(len(labels), object)
    for n, label in enumerate(labels):
        column[n] = label
    return column


def _column_summaries(
    parsed: ParsedTable, model: TableModel, mask: Array
) -> tuple[ColumnSummary, ...]:
    explained = model.explained
    numeric = {j: k for k, j in enumerate(parsed.numeric_positions)}
    summaries = []
    for j, name in enumerate(parsed.frame.columns):
        role = parsed.types[j].role
        if j not in numeric:
            missing = int(parsed.frame.iloc[:, j].isna().sum())
            note = column_note(parsed, j, role)
            summaries.append(ColumnSummary(name, role, missing=missing, note=note))
            continue
        k = numeric[j]
        kind = model.transforms[k].kind
        is_boolean = role == "booleans" and kind != "constant"
        summaries.append(
            ColumnSummary(
                name=name,
                role="booleans" if is_boolean else kind,
                sentinels=model.missing_codes[k],
                missing=int(np.isnan(parsed.values[:, k]).sum()),
                flagged=int(mask[:, k].sum()),
                explained=float(explained[k]),
                note=column_note(parsed, j, kind),
            )
        )
    return tuple(summaries)

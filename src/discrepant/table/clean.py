"""clean(): flag the cells that contradict the rest of their row, and replace them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.cell_model.calibration import (
    exceeds,
    fdr_threshold,
    min_log_odds,
    score_of,
)
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Progress, reporting
from discrepant.core.validation import (
    check_choice,
    check_fdr,
    check_flag,
    check_seed,
)
from discrepant.table.columns.table_input import (
    ParsedTable,
    check_has_numbers,
    parse_table,
)
from discrepant.table.columns.table_output import replace_cells
from discrepant.table.model.fit import TableModel, fit_table_model
from discrepant.table.model.order_flags import Step, compare_in_order
from discrepant.table.model.row_order import RowOrder
from discrepant.table.model.score import FlagCandidates, score_rows
from discrepant.table.result import CleanResult, build_result

# Probability from which a cell is replaced. Keeping a cell has the larger expected
# squared error from 1/2 on, if corrupted cells of that probability are no farther off
# than correct ones. They are farther: on the development tables of ``python
# benchmarks/tables.py dev``, the error over all cells is smallest from 0.3 to 0.4.
REPLACE_PROBABILITY = 1 / 3


@dataclass(frozen=True)
class CleanOptions:
    """Which cells are flagged, and which are replaced; see `clean`."""

    fdr: float
    fill: bool
    replace: str

    def __post_init__(self) -> None:
        check_fdr(self.fdr)
        check_flag("fill", self.fill)
        check_choice("replace", self.replace, ("likely", "flagged"))

    @property
    def replace_from(self) -> float:
        """Log-odds from which cells are replaced, flagged or not."""
        return score_of(REPLACE_PROBABILITY) if self.replace == "likely" else np.inf

    @property
    def least_log_odds(self) -> float:
        """Log-odds below which a cell is neither flagged nor replaced."""
        return min(min_log_odds(self.fdr), self.replace_from)


def clean(
    table: Any,
    *,
    fdr: float = 0.01,
    fill: bool = False,
    replace: str = "likely",
    columns: Any = None,
    drop: Any = None,
    order: Any = "auto",
    random_state: Any = 0,
    progress: bool | Progress | None = None,
) -> CleanResult:
    """Flag the cells that contradict the rest of their row, and replace them.

    Where the rows have an order, such as a time, cells that contradict the cells before
    and after them are flagged too. The relation between the columns, their units,
    noise, skewness and the fraction of errors are all estimated from the table. Where
    no column predicts another, only outliers of single columns are flagged, and the
    result says so.

    Parameters
    ----------
    table : DataFrame, array, list of lists, polars DataFrame, xarray or Dask
        Columns of numbers and booleans are analysed. Text, dates, durations,
        categories, identifiers and constants are returned unchanged. Text that holds
        numbers ("12,5", "n/a") is parsed. NaN, None and NA are missing. The variables
        of a Dataset are columns, and the points of the grid that they share are rows. A
        Dask table is returned lazily, from a model that is fitted to a sample of its
        rows (`docs/scaling.md`); a list of lists as a DataFrame.
    fdr : float
        False discovery rate: the fraction of the flags that may be false, by the
        model. Real rows deviate from any model: at 0.01, some 6 flags in 100 fell on
        uncorrupted cells (``python benchmarks/tables.py``); ``probability`` is
        corrected for this.
    fill : bool
        Also impute missing cells, and codes for them such as −999.
    replace : {"likely", "flagged"}
        "likely": the flagged cells are replaced, and so are cells that are wrong with
        a ``probability`` of more than 1/3, which brings the table nearest to the truth
        on average. "flagged": the flagged cells alone. ``mask`` and ``flagged`` are the
        same; ``replaced`` is the mask of the changed cells.
    columns, drop : label or list of labels, optional
        The only columns to analyse, and columns to leave out; positions for an array.
    order : "auto", label or None
        The order of the rows, such as a time. In a column whose neighbouring cells are
        alike in this order, cells are also compared with the cells before and after
        them: spikes, stuck values and short shifts of the level are flagged. "auto"
        tests the rows as given, and every index or column of dates or of unique whole
        numbers, each also within the values of any column that is not analysed; a label
        names the column to sort by; None turns this off. Columns that are not ordered
        are not affected, except that columns which count the rows as given are checked
        for cells that break their sequence. Dask tables are not compared in order.
    random_state : int, Generator or None
        Draws the rows that the model is fitted to, where there are more than 3000.
    progress : bool or callable, optional
        True shows a progress bar. A callable receives ``(fraction, note)``; if it
        returns False, the result covers the rows scored so far. Where there are none,
        `discrepant.core.progress.StoppedError` is raised.

    Returns
    -------
    CleanResult

    Examples
    --------
    >>> import numpy as np
    >>> from discrepant import clean
    >>> rng = np.random.default_rng(0)
    >>> table = rng.normal(size=(200, 1)) + 0.1 * rng.normal(size=(200, 5))
    >>> table[7, 2] += 3
    >>> result = clean(table)
    >>> result.flagged[["row", "column"]].values.tolist()
    [[7, 2]]
    """
    options = CleanOptions(fdr, fill, replace)
    check_seed(random_state)
    if type(table).__module__.split(".")[0] == "dask":
        return _clean_lazily(
            table, options, columns, drop, order, random_state, progress
        )
    parsed = parse_table(table, columns, drop)
    check_has_numbers(parsed)
    rng = np.random.default_rng(random_state)
    with reporting(progress, "Cleaning") as report:
        model = fit_table_model(parsed, rng, report)
        candidates = score_rows(
            parsed.values, model, options.least_log_odds, fill=fill, report=report
        )
    threshold = fdr_threshold(candidates.log_odds, fdr)
    row_order, steps = None, list[Step]()
    if order is not None and candidates.scored_rows == len(parsed.values):
        row_order, steps, candidates = compare_in_order(
            parsed, model, candidates, threshold, fdr, order
        )
    return flag_and_replace(
        parsed, model, candidates, threshold, options, row_order, steps
    )


def _clean_lazily(
    table: Any,
    options: CleanOptions,
    columns: Any,
    drop: Any,
    order: Any,
    random_state: Any,
    progress: bool | Progress | None,
) -> CleanResult:
    """Return the `LazyCleanResult` of a Dask table."""
    from discrepant.table.clean_dask import clean_dask

    if order is not None and not (isinstance(order, str) and order == "auto"):
        raise InputError("order= cannot be used with a Dask table.")
    lazy: Any = clean_dask(table, options, columns, drop, random_state, progress)
    return lazy  # type: ignore[no-any-return]


def flag_and_replace(
    parsed: ParsedTable,
    model: TableModel,
    candidates: FlagCandidates,
    threshold: float,
    options: CleanOptions,
    row_order: RowOrder | None = None,
    steps: Sequence[Step] = (),
) -> CleanResult:
    """Flag the candidates from a threshold on, and replace cells of the table."""
    flagged = exceeds(candidates.log_odds, threshold)
    chosen = flagged | exceeds(candidates.log_odds, options.replace_from)
    replaced = _cells_to_replace(parsed, model, candidates, chosen, options.fill)
    cleaned = replace_cells(
        parsed, candidates.cells[replaced], candidates.expected[replaced]
    )
    fdr = float(options.fdr)
    return build_result(
        *(parsed, model, candidates, flagged, replaced, cleaned, fdr),
        *(row_order, steps),
    )


def _cells_to_replace(
    parsed: ParsedTable,
    model: TableModel,
    candidates: FlagCandidates,
    chosen: Array,
    fill: bool,
) -> Array:
    """Return the candidates to replace: chosen cells, and missing ones to impute.

    Cells in another notation (<0.5) are kept, and codes for missing values are replaced
    only with ``fill``.
    """
    to_impute = np.isnan(candidates.log_odds)
    replaced = (chosen | to_impute) & np.isfinite(candidates.expected)
    for k, j in enumerate(parsed.numeric_positions):
        here = candidates.cells[:, 1] == k
        rows = candidates.cells[here, 0]
        if j in parsed.other_notation:
            replaced[here] &= ~parsed.other_notation[j][rows]
        if model.missing_codes[k] and not fill:
            is_code = np.isin(parsed.values[rows, k], model.missing_codes[k])
            replaced[here] &= ~is_code
    return np.asarray(replaced)

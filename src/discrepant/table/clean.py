"""clean(): flag the cells that contradict the rest of their row, and replace them."""

from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Progress, reporting
from discrepant.core.validation import check_fdr, check_flag, check_seed
from discrepant.table.columns.table_input import (
    ParsedTable,
    check_has_numbers,
    parse_table,
)
from discrepant.table.columns.table_output import replace_cells
from discrepant.table.model.calibration import exceeds, fdr_threshold, min_log_odds
from discrepant.table.model.fit import TableModel, fit_table_model
from discrepant.table.model.score import FlagCandidates, score_rows
from discrepant.table.result import CleanResult, build_result


def clean(
    table: Any,
    *,
    fdr: float = 0.01,
    fill: bool = False,
    columns: Any = None,
    drop: Any = None,
    random_state: Any = 0,
    progress: bool | Progress | None = None,
) -> CleanResult:
    """Flag the cells that contradict the rest of their row, and replace them.

    The relation between the columns, their units, noise, skewness and the fraction of
    errors are all estimated from the table. Where no column predicts another, only
    outliers of single columns are flagged, and the result says so.

    Parameters
    ----------
    table : DataFrame, array, list of lists, polars DataFrame, xarray or Dask
        Columns of numbers and booleans are analysed. Text, dates, durations,
        categories, identifiers and constants are returned unchanged. Text that holds
        numbers ("12,5", "n/a") is parsed. NaN, None and NA are missing. The variables
        of a Dataset are columns, and the points of the grid that they share are rows. A
        Dask table is returned lazily, from a model that is fitted to a sample of its
        rows (`docs/scaling.md`).
    fdr : float
        False discovery rate: the fraction of the flags that may be false, by the
        model. Real rows deviate from any model: at 0.01, some 5 flags in 100 fell on
        uncorrupted cells (``python benchmarks/tables.py``); ``probability`` is
        corrected for this.
    fill : bool
        Also impute missing cells, and codes for them such as −999.
    columns, drop : label or list of labels, optional
        The only columns to analyse, and columns to leave out; positions for an array.
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
    check_fdr(fdr)
    check_flag("fill", fill)
    check_seed(random_state)
    if type(table).__module__.split(".")[0] == "dask":
        from discrepant.table.clean_dask import clean_dask

        options = {"columns": columns, "drop": drop, "random_state": random_state}
        lazy: Any = clean_dask(table, fdr, fill, options, progress)
        return lazy  # type: ignore[no-any-return]
    parsed = parse_table(table, columns, drop)
    check_has_numbers(parsed)
    rng = np.random.default_rng(random_state)
    with reporting(progress, "Cleaning") as report:
        model = fit_table_model(parsed, rng, report)
        candidates = score_rows(
            parsed.values, model, min_log_odds(fdr), fill=fill, report=report
        )
    threshold = fdr_threshold(candidates.log_odds, fdr)
    return flag_and_replace(parsed, model, candidates, threshold, float(fdr), fill)


def flag_and_replace(
    parsed: ParsedTable,
    model: TableModel,
    candidates: FlagCandidates,
    threshold: float,
    fdr: float,
    fill: bool,
) -> CleanResult:
    """Flag the candidates from a threshold on, and replace them in the table."""
    flagged = exceeds(candidates.log_odds, threshold)
    replaced = _cells_to_replace(parsed, model, candidates, flagged, fill)
    cleaned = replace_cells(
        parsed, candidates.cells[replaced], candidates.expected[replaced]
    )
    return build_result(parsed, model, candidates, flagged, cleaned, fdr)


def _cells_to_replace(
    parsed: ParsedTable,
    model: TableModel,
    candidates: FlagCandidates,
    flagged: Array,
    fill: bool,
) -> Array:
    """Return the candidates to replace: flagged cells, and missing ones to impute.

    Cells in another notation (<0.5) are kept, and codes for missing values are replaced
    only with ``fill``.
    """
    to_impute = np.isnan(candidates.log_odds)
    replaced = (flagged | to_impute) & np.isfinite(candidates.expected)
    for k, j in enumerate(parsed.numeric_positions):
        here = candidates.cells[:, 1] == k
        rows = candidates.cells[here, 0]
        if j in parsed.other_notation:
            replaced[here] &= ~parsed.other_notation[j][rows]
        if model.missing_codes[k] and not fill:
            is_code = np.isin(parsed.values[rows, k], model.missing_codes[k])
            replaced[here] &= ~is_code
    return np.asarray(replaced)

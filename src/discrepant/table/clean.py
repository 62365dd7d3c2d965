"""Clean one table of wrong cells, told nothing about it.

The front door: any table is taken apart (`sheet`), its columns of numbers are learnt
(`learning`) and judged (`judging`), and put together again with a verdict (`verdict`).
"""

from importlib import import_module
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.progress import Progress, Report, reporting
from discrepant.core.validation import check_fdr, check_flag, check_seed
from discrepant.table.build_result import judge_sheet, threads, verdict
from discrepant.table.columns.table_input import Sheet, open_sheet
from discrepant.table.model.calibration import cutoff, least_odds
from discrepant.table.model.fit import learn
from discrepant.table.model.table_model import Rules
from discrepant.table.result import CleanResult

HUGE = 1e307  # beyond it, differences of two floats may be none


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
    """Find the wrong cells of a table, and what should stand there.

    A cell is wrong where it contradicts the rest of its row, by the way in which the
    columns go together in the whole table: their units, offsets, noise, skewness and
    the share of errors are all found from the data. Where no column says anything of
    another, only what stands out in its own column is flagged, and the result says so.

    Parameters
    ----------
    table : DataFrame, array, list of lists, polars DataFrame, xarray or Dask
        Columns of numbers and booleans are judged. Text, dates, durations, categories,
        identifiers and constants are carried through untouched. Text that holds numbers
        ("12,5", "n/a") is read. NaN, None and NA are missing. The variables of a
        Dataset are columns, and the points of the grid that they share rows. A table of
        Dask comes back lazy, learnt from some of its rows (`docs/scaling.md`).
    fdr : float
        Share of the flags that may be false, by the model's own odds. Real rows are
        never quite what a model takes them for: at 0.01, some 5 flags in 100 fell on
        cells that nobody had spoilt (``python benchmarks/tables.py``); ``probability``
        is corrected for this.
    fill : bool
        Also impute missing cells, and codes for them such as −999.
    columns, drop : label or list of labels, optional
        The only columns to judge, and columns not to judge; positions for an array.
    random_state : int, Generator or None
        Draws the rows that are learnt from, where they are more than 3000.
    progress : bool or callable, optional
        True shows a bar; a callable is told ``(share done, note)``, and ends the work
        with the rows that were judged so far if it returns False. Where none was,
        `discrepant.core.progress.StoppedError` is raised.

    Returns
    -------
    Cleaned

    Examples
    --------
    >>> import numpy as np
    >>> from discrepant import clean
    >>> rng = np.random.default_rng(0)
    >>> table = rng.normal(size=(200, 1)) + 0.1 * rng.normal(size=(200, 5))
    >>> table[7, 2] += 3
    >>> found = clean(table)
    >>> found.flagged[["row", "column"]].values.tolist()
    [[7, 2]]
    """
    check_fdr(fdr)
    check_flag("fill", fill)
    check_seed(random_state)
    if type(table).__module__.split(".")[0] == "dask":
        lazy: Any = import_module("discrepant.table.clean_dask")
        told = {"columns": columns, "drop": drop, "random_state": random_state}
        found: CleanResult = lazy.clean_lazily(table, fdr, fill, told, progress)
        return found
    sheet = open_sheet(table, columns, drop)
    check_numbers(sheet)
    with reporting(progress, "Cleaning") as report:
        rules = learn_sheet(sheet, random_state, report)
        judged = judge_sheet(sheet, rules, least_odds(fdr), fill, report)
    return verdict(sheet, rules, judged, cutoff(judged[0].score, fdr), float(fdr), fill)


def learn_sheet(sheet: Sheet, random_state: Any, report: Report | None) -> Rules:
    """Learn what the columns of a sheet are and how they go together."""
    fields = [sheet.fields[j] for j in sheet.judged]
    named, coded = [f.named for f in fields], [f.coded for f in fields]
    rng = np.random.default_rng(random_state)
    with np.errstate(over="ignore", invalid="ignore"):  # squares of 1e200
        return learn(
            sheet.values,
            rng=rng,
            n_jobs=threads(),
            named=named,
            coded=coded,
            report=report,
        )


def check_numbers(sheet: Sheet) -> None:
    """Refuse a table without any number to judge."""
    if not sheet.judged:
        roles = sorted({field.role for field in sheet.fields})
        raise InputError(
            f"No column holds numbers ({', '.join(roles)} only): nothing can be judged."
        )
    if not np.isfinite(sheet.values).any():
        raise InputError("All values are missing; at least one must be observed.")
    for j, values in zip(sheet.judged, sheet.values.T, strict=True):
        if np.mean((np.abs(values) > HUGE) & np.isfinite(values)) > 0.25:
            raise InputError(
                f"Column {sheet.frame.columns[j]!r} holds values beyond {HUGE:g}, "
                "whose differences are no numbers; divide it by a power of ten."
            )

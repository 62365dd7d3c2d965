"""Dask tables: fit a `Cleaner` to a sample of the rows, score partitions lazily.

Kinds of columns, model and threshold come from rows drawn evenly from all partitions.
Each row is then scored by itself, on the worker that holds it.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from discrepant.core.errors import InputError, InputTypeError
from discrepant.core.progress import Progress, reporting
from discrepant.robust_pca.dask.cluster import compute_tasks, worker_pool
from discrepant.table.clean import CleanOptions
from discrepant.table.cleaner import Cleaner
from discrepant.table.report.sentences import ColumnSummary

# Rows that the `Cleaner` is fitted to: all of a smaller table.
SAMPLE_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class LazyCleanResult:
    """A cleaned Dask table and its flags; everything of the table's size is lazy.

    Attributes
    ----------
    table, mask : dask.dataframe.DataFrame
        The cleaned table, and the flagged cells, in the partitions of the input.
        ``dask.compute(result.table, result.mask, result.flagged)`` scores each
        partition once; computed one after the other, each scores it again.
    flagged : dask.dataframe.DataFrame
        One row per flagged cell, as for `CleanResult`, in the order of the partitions.
    noise, rank, columns, caveats
        As for `CleanResult`, of the sampled rows. So are the counts in `columns`.
    fdr : float
        The false discovery rate that was requested.
    cleaner : Cleaner
        The fitted model; its method `clean` scores rows in memory.
    """

    table: Any = field(repr=False)
    mask: Any = field(repr=False)
    flagged: Any = field(repr=False)
    noise: Any
    rank: int
    columns: tuple[ColumnSummary, ...]
    caveats: tuple[str, ...]
    fdr: float
    cleaner: Cleaner = field(repr=False)


def clean_dask(
    table: Any,
    options: CleanOptions,
    columns: Any,
    drop: Any,
    random_state: Any,
    progress: bool | Progress | None,
) -> LazyCleanResult:
    """Fit a `Cleaner` to a sample of a Dask table; nothing else is computed yet."""
    import dask.dataframe as dd
    from dask import delayed

    if not isinstance(table, dd.DataFrame):
        raise InputTypeError(
            f"clean takes a Dask DataFrame, got a Dask {type(table).__name__}; "
            "dask.dataframe.from_dask_array makes one of an array."
        )
    rng = np.random.default_rng(random_state)
    names = {"columns": columns, "drop": drop, "random_state": random_state}
    cleaner = Cleaner(**asdict(options), **names)
    with reporting(progress, "Cleaning") as report, worker_pool(table):
        sample = _sample_rows(table, rng)
        report(0.5, f"fitting to {len(sample):,} rows")
        cleaner.fit(sample)
        report(1.0, "fitted")
    first = cleaner.clean(sample.iloc[:1])
    metas = {"table": table._meta, "mask": first.mask.iloc[:0]}
    metas["flagged"] = first.flagged.iloc[:0]
    # The results of a partition are one task of three: computed together, it is scored
    # once.
    model = delayed(cleaner)
    scored = [delayed(_score)(part, model) for part in table.to_delayed()]
    parts = {
        name: dd.from_delayed(
            [delayed(_part)(part, name, meta) for part in scored],
            meta=meta,
            divisions=None if name == "flagged" else table.divisions,
            verify_meta=False,
        )
        for name, meta in metas.items()
    }
    return LazyCleanResult(
        **parts,
        noise=cleaner.noise_,
        rank=cleaner.rank_,
        columns=cleaner.columns_,
        caveats=cleaner.caveats_,
        fdr=float(options.fdr),
        cleaner=cleaner,
    )


def _sample_rows(table: Any, rng: np.random.Generator) -> Any:
    """Return rows drawn evenly from all partitions, in their order."""
    import pandas as pd
    from dask import delayed

    parts = table.to_delayed()
    lengths = np.array(compute_tasks([delayed(len)(part) for part in parts]), np.int64)
    total = int(lengths.sum())
    if not total:
        raise InputError("The table has no rows.")
    which = np.arange(total)
    if total > SAMPLE_ROWS:
        which = np.sort(rng.choice(total, SAMPLE_ROWS, replace=False))
    ends = np.cumsum(lengths)
    by_part = np.split(which, np.searchsorted(which, ends[:-1]))
    starts = ends - lengths
    tasks = [
        delayed(_rows)(part, rows - start)
        for part, rows, start in zip(parts, by_part, starts, strict=True)
        if len(rows)
    ]
    return pd.concat(compute_tasks(tasks))


def _rows(part: Any, which: Any) -> Any:
    return part.iloc[which]


def _score(part: Any, cleaner: Cleaner) -> dict[str, Any]:
    """Return the cleaned table, the mask and the flagged cells of one partition."""
    if not len(part):
        return {}
    result = cleaner.clean(part)
    return {name: getattr(result, name) for name in ("table", "mask", "flagged")}


def _part(scored: dict[str, Any], name: str, meta: Any) -> Any:
    """Return one of the results of a partition, with the types of ``meta``."""
    if not scored:
        return meta
    frame = scored[name]
    if name != "table":
        return frame
    changed = {c: t for c, t in meta.dtypes.items() if frame[c].dtype != t}
    return frame.astype(changed) if changed else frame

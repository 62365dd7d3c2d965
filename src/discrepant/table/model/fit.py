"""What the columns of a table are and how they go together, read off the table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Report, StoppedError
from discrepant.table.columns import column_kind as kinds
from discrepant.table.columns.transform_choice import choose
from discrepant.table.columns.transforms import Column
from discrepant.table.model.factor_model import TUNING as WIDE
from discrepant.table.model.factor_model import Wide, learn_wide
from discrepant.table.model.gaussian_model import Found, Model, Part
from discrepant.table.model.gaussian_model import judge as search
from discrepant.table.model.gaussian_model import learn as learn_model
from discrepant.table.model.table_model import Common, Rules, prepare


@dataclass(frozen=True)
class Tuning:
    """Chosen on the development tables of ``python benchmarks/tables.py dev``."""

    rounds: tuple[int, int] = (6, 4)  # with the first maps, and with the second
    second_tail: float = 0.05  # of the quantiles that choose the second maps
    least_rows: int = 10  # that anything can be learnt from
    rows: int = 3000  # that are learnt from; the search over all of them is one pass
    # A column that seems wrong in more than this share has a second population
    # instead, and values with a share of their own are not called wrong there.
    most: float = 0.15
    reach: int = 200  # predictions stay within all but one cell in so many, each end


TUNING = Tuning()


def learn(
    values: Array,
    *,
    rng: np.random.Generator | None = None,
    n_jobs: int = 1,
    named: Sequence[bool] = (),
    coded: Sequence[bool] = (),
    report: Report | None = None,
) -> Rules:
    """Learn what the columns are and how they go together.

    Parameters
    ----------
    values : array (n, p)
        NaN is missing.
    rng : Generator, optional
        Draws the rows that are learnt from, where there are many.
    n_jobs : int
        Threads.
    named, coded : sequence of bool
        Which columns have the names of identifiers of rows, and of codes that repeat.
    report : callable, optional
        Told how far the work is.
    """
    learnt = some_rows(values, rng or np.random.default_rng(0))
    learnt = np.where(np.isfinite(learnt), learnt, np.nan)
    codes = tuple(kinds.sentinels(column) for column in learnt.T)
    for j, repeated in enumerate(codes):
        learnt[np.isin(learnt[:, j], list(repeated)), j] = np.nan
    described = [kinds.describe(column) for column in learnt.T]
    for j in np.flatnonzero(named).tolist():
        if _all_differ(learnt[:, j]):
            described[j] = Column("identifier")
    for j in np.flatnonzero(coded).tolist():
        if described[j].kind == "numeric" and kinds.is_whole(learnt[:, j]):
            described[j] = Column("identifier")
    bounds = []
    for j, column in enumerate(described):
        low, high = kinds.fences(learnt[:, j], column)
        bounds.append((low, high))
        astray = (learnt[:, j] < low) | (learnt[:, j] > high)
        if astray.any():
            learnt[astray, j] = np.nan
            described[j] = kinds.describe(learnt[:, j])
    rules = Rules(tuple(described), codes, tuple(bounds), (), None, len(learnt))
    if not rules.used or len(learnt) < TUNING.least_rows:
        return rules
    rng = rng or np.random.default_rng(0)
    split = np.zeros(len(described), bool)
    model: Model | Wide | None = None
    _tell(report, 0.05)
    for number, rounds in enumerate(TUNING.rounds, 1):
        rules = replace(rules, common=_commons(learnt, rules, split))
        part = prepare(learnt, rules)
        if len(rules.used) > WIDE.columns:
            model = learn_wide(part, int(rng.integers(2**31)))
            found = model.judge(part)
        else:
            before = model if isinstance(model, Model) else None
            model = learn_model(part, rounds, before, n_jobs)
            found = search(part, model, n_jobs)
        if number == 1:
            split[rules.used] = found.out.mean(axis=0) > TUNING.most
            rules = replace(rules, columns=_describe_again(learnt, rules, part, found))
        _tell(report, 0.4 * number / len(TUNING.rounds))
    ranged = list(rules.columns)
    for k, j in enumerate(rules.used):
        kept = learnt[np.isfinite(learnt[:, j]) & ~found.out[:, k], j]
        low, high = _reach(kept if len(kept) else learnt[:, j])
        ranged[j] = replace(ranged[j], low=low, high=high)
    return replace(rules, columns=tuple(ranged), model=model)


def _tell(report: Report | None, share: float) -> None:
    if report is not None and not report(share, "learning"):
        raise StoppedError("stopped while learning what the columns are")


def _all_differ(column: Array) -> bool:
    seen = column[np.isfinite(column)]
    return kinds.is_whole(seen) and len(np.unique(seen)) >= 0.95 * len(seen) > 0


def some_rows(values: Array, rng: np.random.Generator) -> Array:
    """Draw the rows that are learnt from; all of them where they are not many."""
    if len(values) <= TUNING.rows:
        return values
    drawn = rng.permutation(len(values))[: TUNING.rows]
    return values[np.sort(drawn)]


def _commons(learnt: Array, rules: Rules, split: Array) -> tuple[Common, ...]:
    found = []
    for j in rules.used:
        values = learnt[:, j]  # cells at the atom are not judged, and say nothing here
        rest = values[values != rules.columns[j].atom]
        found.append(Common.of(rest, bool(split[j])))
    return tuple(found)


def _describe_again(
    learnt: Array, rules: Rules, part: Part, found: Found
) -> tuple[Column, ...]:
    """Choose the columns' maps again, without the cells judged wrong."""
    described, used = list(rules.columns), rules.used
    filled = learnt[:, used]
    gone = found.out | part.missing
    for k, j in enumerate(used):
        out = gone[:, k]
        low, high = _reach(learnt[~out, j] if not out.all() else np.zeros(1))
        within = replace(described[j], low=low, high=high)
        filled[out, k] = within.backward(part.X[out, k] - found.away[out, k])
        if described[j].kind == "numeric":
            kept = np.where(found.out[:, k], np.nan, learnt[:, j])
            column = kinds.describe(kept, TUNING.second_tail)
            if column.kind == "numeric":
                described[j] = column
    if len(used) <= WIDE.columns:
        chosen = choose(filled, ~gone, [described[j] for j in used])
        for j, column in zip(used, chosen, strict=True):
            described[j] = column
    return tuple(described)


def _reach(kept: Array) -> tuple[float, float]:
    """Range for predictions: all but one in 200 at either end, at least one."""
    ordered = np.sort(kept)
    cut = min(1 + len(ordered) // TUNING.reach, (len(ordered) - 1) // 2)
    return float(ordered[cut]), float(ordered[-1 - cut])

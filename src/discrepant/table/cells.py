"""Find the wrong cells of a table of numbers by the company that they keep.

`learn` reads what is needed to judge a row by itself off a table, `Rules`; `judge`
applies them to any rows, in blocks of rows, each of them alone.
"""

from dataclasses import dataclass, replace

import numpy as np
from joblib import Parallel, delayed

from discrepant.linalg import Array
from discrepant.progress import Report
from discrepant.table import columns as kinds
from discrepant.table import tails
from discrepant.table.maps import Column
from discrepant.table.model import NEVER, Model, Part
from discrepant.table.model import judge as search
from discrepant.table.model import learn as learn_model


@dataclass(frozen=True)
class Tuning:
    """Chosen on the development tables of ``python benchmarks/tables.py dev``."""

    rounds: tuple[int, int] = (6, 4)  # with the first maps, and with the second
    second_tail: float = 0.05  # of the quantiles that choose the second maps
    rows: int = 3000  # that are learnt from; more gained nothing that was seen
    # How common a value is speaks for it; how rare, less against it: in full it
    # cost the calibration (0.88 said, 0.40 true).
    common: float = 0.02
    rare: float = 0.3
    # A column that seems wrong in more than this share has a second population
    # instead, and values with a share of their own are not called wrong there.
    most: float = 0.15
    level: float = 0.05
    # Sure cells would otherwise pay for coin tosses: without it precision was 0.965
    # on normal data at a false discovery rate of 0.01, with it 0.992.
    least: float = 0.9
    reach: int = 200  # predictions stay within all but one cell in so many, each end
    row_share: float = 0.5  # of a row's cells flagged, from which the row is wrong
    row_cells: int = 3
    independent: float = 0.02  # explained share below which no structure was found
    block: int = 4096  # rows judged at a time: some megabytes for 50 columns


TUNING = Tuning()
SURE = 50.0  # log odds of what needs no company to be wrong: codes, strays, infinities
LEAST_ODDS = float(np.log(TUNING.least / (1 - TUNING.least)))
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@dataclass(frozen=True, eq=False)
class Common:
    """Log odds by which a value that many cells share is likelier to be right.

    A clean cell takes value v with a chance near v's share; over the column the factor
    share + `common` averages to one, so that levels equally common say nothing.
    """

    levels: Array  # values that more than one cell has
    factors: Array
    otherwise: float

    @classmethod
    def of(cls, values: Array, split: bool) -> "Common":
        """Count the values of a column; split: it has a second population."""
        seen = values[np.isfinite(values)]
        levels, counts = np.unique(seen, return_counts=True)
        total = max(len(seen), 1)
        share = counts / total + TUNING.common
        mean = float((share * counts).sum() / total) if len(seen) else 1.0
        factors = cls._weighed(np.log(share / mean))
        if split:
            factors[share > TUNING.level] = NEVER
        single = cls._weighed(np.log(np.array([TUNING.common + 1 / total]) / mean))
        repeated = counts > 1
        return cls(levels[repeated], factors[repeated], float(single[0]))

    @staticmethod
    def _weighed(factors: Array) -> Array:
        return np.where(factors > 0, factors, TUNING.rare * factors)

    def __call__(self, values: Array) -> Array:
        """Look up the log odds of cells."""
        if not len(self.levels):
            return np.full(len(values), self.otherwise)
        at = np.minimum(np.searchsorted(self.levels, values), len(self.levels) - 1)
        return np.where(self.levels[at] == values, self.factors[at], self.otherwise)


@dataclass(frozen=True, eq=False)
class Rules:
    """All that is needed to judge a row by itself.

    Attributes
    ----------
    columns : tuple of Column
        One for each column of numbers; `used` are the modelled ones.
    codes : tuple of tuples of float
        The values of each column that stand for something else (−999).
    bounds : tuple of (low, high)
        Beyond which a column of few values has strays.
    common : tuple of Common
        One for each modelled column.
    model : Model or None
        None where no column can be modelled.
    rows : int
        Number of rows that were learnt from.
    cutoff : float
        Log odds from which on a cell is flagged.
    """

    columns: tuple[Column, ...]
    codes: tuple[tuple[float, ...], ...]
    bounds: tuple[tuple[float, float], ...]
    common: tuple[Common, ...]
    model: Model | None
    rows: int
    cutoff: float = LEAST_ODDS

    @property
    def used(self) -> list[int]:
        """The columns that are modelled."""
        return [j for j, column in enumerate(self.columns) if column.modelled]

    @property
    def rank(self) -> int:
        """Number of directions above chance."""
        return 0 if self.model is None else self.model.rank

    @property
    def explained(self) -> Array:
        """Share of each column's variance that the others explain; NaN: not judged."""
        every = np.full(len(self.columns), np.nan)
        if self.model is not None:
            every[self.used] = np.maximum(self.model.explained, 0.0)
        return every

    @property
    def noise(self) -> Array:
        """Spread of a clean cell around what the others say, in the column's unit."""
        every = np.full(len(self.columns), np.nan)
        if self.model is None:
            return every
        for k, j in enumerate(self.used):
            column = replace(self.columns[j], low=-np.inf, high=np.inf)
            away = self.model.deviation[k] * np.array([-1.0, 1.0])
            low, high = column.backward(self.model.centre[k] + away)
            every[j] = (high - low) / 2
        return every

    @property
    def independent(self) -> bool:
        """Whether no column says anything of another."""
        most = np.nanmax(self.explained, initial=0.0)
        return bool(most < TUNING.independent)


@dataclass(frozen=True, eq=False)
class Judged:
    """What was found.

    Attributes
    ----------
    score : float32 array (n, p)
        Log odds that a cell is wrong; NaN where it is missing, −50 where not judged.
    expected : array (n, p)
        What a cell's company says it should be; NaN in columns that are not modelled.
    likely : int array (k, 2)
        The cells likelier than not to be flagged, by row and column.
    between : array (k, 2)
        A 95% interval of what they should be.
    """

    score: Array
    expected: Array
    likely: Array
    between: Array


def learn(
    values: Array,
    *,
    seed: int = 0,
    n_jobs: int = 1,
    names: tuple[bool, ...] | None = None,
    report: Report | None = None,
) -> Rules:
    """Learn what the columns are and how they go together.

    Parameters
    ----------
    values : array (n, p)
        NaN is missing.
    seed : int
        Draws the rows that are learnt from, where there are many.
    n_jobs : int
        Threads.
    names : tuple of bool, optional
        Which columns are called identifiers by their names.
    report : callable, optional
        Told how far the work is.
    """
    learnt = some_rows(values, seed)
    learnt = np.where(np.isfinite(learnt), learnt, np.nan)
    codes = tuple(kinds.sentinels(column) for column in learnt.T)
    for j, found in enumerate(codes):
        learnt[np.isin(learnt[:, j], found), j] = np.nan
    described = [kinds.describe(column) for column in learnt.T]
    for j, named in enumerate(names or ()):
        if named and described[j].modelled:
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
    if not rules.used:
        return rules
    split = np.zeros(len(described), bool)
    model: Model | None = None
    for rounds in TUNING.rounds:
        rules = replace(rules, common=_commons(learnt, rules, split))
        model = learn_model(prepare(learnt, rules), rounds, model, n_jobs)
        found = search(prepare(learnt, rules), model, n_jobs)
        if rounds == TUNING.rounds[0]:
            split[rules.used] = found.out.mean(axis=0) > TUNING.most
            again = _describe_again(learnt, rules, found.out)
            rules = replace(rules, columns=again)
            rules = replace(rules, common=_commons(learnt, rules, split))
        if report is not None and not report(0.5, "learning"):
            break
    ranged = list(rules.columns)
    for k, j in enumerate(rules.used):
        kept = learnt[np.isfinite(learnt[:, j]) & ~found.out[:, k], j]
        low, high = _reach(kept if len(kept) else learnt[:, j])
        ranged[j] = replace(ranged[j], low=low, high=high)
    return replace(rules, columns=tuple(ranged), model=model)


def some_rows(values: Array, seed: int) -> Array:
    """Draw the rows that are learnt from; all of them where they are not many."""
    if len(values) <= TUNING.rows:
        return values
    drawn = np.random.default_rng(seed).permutation(len(values))[: TUNING.rows]
    return values[np.sort(drawn)]


def _commons(learnt: Array, rules: Rules, split: Array) -> tuple[Common, ...]:
    return tuple(Common.of(learnt[:, j], bool(split[j])) for j in rules.used)


def prepare(known: Array, rules: Rules) -> Part:
    """Bring the columns that are modelled to standard units."""
    used = rules.used
    X, excuse = np.zeros((len(known), len(used))), np.zeros((len(known), len(used)))
    missing = np.zeros(X.shape, bool)
    for k, (j, common) in enumerate(zip(used, rules.common, strict=True)):
        column, values = rules.columns[j], known[:, j]
        missing[:, k] = ~np.isfinite(values) | (values == column.atom)
        X[:, k] = np.clip(column.forward(values), -1e4, 1e4)
        excuse[:, k] = NEVER if column.kind != "numeric" else common(values)
    X[missing] = 0.0
    return Part(X, missing, excuse, np.array([rules.columns[j].grain for j in used]))


def _describe_again(
    learnt: Array, rules: Rules, out: Array
) -> tuple[Column, ...]:
    """Choose the columns' maps again, without the cells judged wrong."""
    described = list(rules.columns)
    for k, j in enumerate(rules.used):
        if described[j].kind == "numeric":
            kept = np.where(out[:, k], np.nan, learnt[:, j])
            column = kinds.describe(kept, TUNING.second_tail)
            if column.kind == "numeric":
                described[j] = column
    return tuple(described)


def _reach(kept: Array) -> tuple[float, float]:
    """Range for predictions: all but one in 200 at either end, at least one."""
    ordered = np.sort(kept)
    cut = min(1 + len(ordered) // TUNING.reach, (len(ordered) - 1) // 2)
    return float(ordered[cut]), float(ordered[-1 - cut])


def judge(
    values: Array, rules: Rules, *, n_jobs: int = 1, report: Report | None = None
) -> Judged:
    """Judge rows by rules that were learnt, each row by itself."""
    n, p = values.shape
    score = np.empty((n, p), np.float32)
    expected = np.full((n, p), np.nan)
    blocks = [slice(i, i + TUNING.block) for i in range(0, n, TUNING.block)]
    reaches = [] if rules.model is None else [
        tails.quantile(weights, 0.05) for weights in rules.model.weights
    ]

    def work(at: slice) -> tuple[Array, Array]:
        return _judge_block(values[at], rules, reaches, score[at], expected[at])

    pool = Parallel(n_jobs=min(n_jobs, len(blocks)), prefer="threads",
                    return_as="generator")
    likely, between = [], []
    for k, (at, found) in enumerate(
        zip(blocks, pool(delayed(work)(at) for at in blocks), strict=True)
    ):
        likely.append(found[0] + [at.start, 0])
        between.append(found[1])
        if report is not None:
            report(0.5 + 0.5 * (k + 1) / len(blocks), "judging")
    return Judged(score, expected, np.concatenate(likely), np.concatenate(between))


def _judge_block(
    values: Array, rules: Rules, reaches: list[float], score: Array, expected: Array
) -> tuple[Array, Array]:
    """Judge some rows; fill their scores and expectations."""
    sure = np.isinf(values)
    for j, (codes, (low, high)) in enumerate(
        zip(rules.codes, rules.bounds, strict=True)
    ):
        column = values[:, j]
        if codes:
            sure[:, j] |= np.isin(column, codes)
        sure[:, j] |= (column < low) | (column > high)
    score[:] = np.where(np.isnan(values), np.nan, -SURE)
    low, high = expected.copy(), expected.copy()
    if rules.model is not None:
        model = rules.model
        part = prepare(np.where(sure, np.nan, values), rules)
        found = search(part, model)
        for k, j in enumerate(rules.used):
            column = rules.columns[j]
            there = ~part.missing[:, k]
            score[there, j] = found.score[there, k]
            centre, spread = part.X[:, k] - found.away[:, k], found.variance[:, k]
            mean = _expect(column, centre, np.sqrt(spread))
            expected[:, j] = mean + column.atom_share * (
                np.nan_to_num(column.atom) - mean
            )
            wide = np.sqrt(spread * model.width[k] ** 2 + part.grain[k] ** 2)
            low[:, j] = column.backward(centre - reaches[k] * wide)
            high[:, j] = column.backward(centre + reaches[k] * wide)
            if column.atom_share:
                low[:, j] = np.minimum(low[:, j], column.atom)
                high[:, j] = np.maximum(high[:, j], column.atom)
    score[sure] = SURE
    likely = np.argwhere(score >= np.float32(LEAST_ODDS))
    between = np.column_stack([low[tuple(likely.T)], high[tuple(likely.T)]])
    return likely, between


def _expect(column: Column, centre: Array, spread: Array) -> Array:
    """Mean in the column's unit of a normal in standard units."""
    total = np.zeros(len(centre))
    for node, weight in zip(NODES, NODE_WEIGHTS, strict=True):
        total += weight * column.backward(centre + node * spread)
    return total


def cutoff(score: Array, fdr: float) -> float:
    """Give the log odds from which on cells are flagged.

    Most are flagged whose mean chance of being right is at most fdr, and each must be
    likelier than `least` to be wrong by itself.
    """
    sure = np.sort(score[score >= np.float32(LEAST_ODDS)].astype(np.float64))[::-1]
    right = 1 / (1 + np.exp(np.minimum(sure, SURE)))
    mean = np.cumsum(right) / np.arange(1, len(right) + 1)
    count = int(np.sum(mean <= fdr))
    if count == len(sure):
        return LEAST_ODDS
    return float(sure[count - 1]) if count else float(np.inf)

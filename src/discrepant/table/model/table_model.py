"""All that is needed to judge a row by itself."""

from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.table.columns.transforms import Column
from discrepant.table.model.factor_model import Wide
from discrepant.table.model.gaussian_model import NEVER, Model, Part


@dataclass(frozen=True)
class Tuning:
    """Chosen on the development tables of ``python benchmarks/tables.py dev``."""

    # How common a value is speaks for it; how rare, less against it: in full it
    # cost the calibration (0.88 said, 0.40 true).
    common: float = 0.02
    rare: float = 0.3
    level: float = 0.05  # share from which a value makes a population of its own
    independent: float = 0.02  # explained share below which no structure was found
    farthest: float = 1e4  # spreads: what lies beyond is as wrong as can be


TUNING = Tuning()


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
    codes : tuple of dict of float to bool
        The repeated values far outside each column; True: they code missing values.
    bounds : tuple of (low, high)
        Beyond which a column of few values has strays.
    common : tuple of Common
        One for each modelled column.
    model : Model, Wide or None
        None where no column can be modelled.
    rows : int
        Number of rows that were learnt from.
    """

    columns: tuple[Column, ...]
    codes: tuple[dict[float, bool], ...]
    bounds: tuple[tuple[float, float], ...]
    common: tuple[Common, ...]
    model: Model | Wide | None
    rows: int

    @property
    def used(self) -> list[int]:
        """The columns that are modelled."""
        return [j for j, column in enumerate(self.columns) if column.modelled]

    @property
    def missing_codes(self) -> list[tuple[float, ...]]:
        """The codes for missing values of each column, such as −999."""
        return [
            tuple(value for value, missing in codes.items() if missing)
            if column.kind != "identifier"
            else ()
            for codes, column in zip(self.codes, self.columns, strict=True)
        ]

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


def prepare(known: Array, rules: Rules) -> Part:
    """Bring the columns that are modelled to standard units."""
    used = rules.used
    X, excuse = np.zeros((len(known), len(used))), np.zeros((len(known), len(used)))
    missing = np.zeros(X.shape, bool)
    for k, (j, common) in enumerate(zip(used, rules.common, strict=True)):
        column, values = rules.columns[j], known[:, j]
        missing[:, k] = ~np.isfinite(values) | (values == column.atom)
        X[:, k] = np.clip(column.forward(values), -TUNING.farthest, TUNING.farthest)
        excuse[:, k] = NEVER if column.kind != "numeric" else common(values)
    X[missing] = 0.0
    return Part(X, missing, excuse, np.array([rules.columns[j].grain for j in used]))

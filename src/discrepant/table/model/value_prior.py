"""Prior log-odds of being clean, from the frequency of a value in its column."""

from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array

# Both chosen on the development tables of ``python benchmarks/tables.py dev``.

# Added to the frequency of a value: the rate at which clean cells take any value.
BASE_FREQUENCY = 0.02
# Weight of the log-odds of rare values. At 1, calibration was poor: 0.88 computed, 0.40
# observed.
RARE_WEIGHT = 0.3


@dataclass(frozen=True, eq=False)
class ValueFrequencyPrior:
    """Prior log-odds of being clean, by the value of a cell.

    A clean cell takes value v with a probability near the frequency of v. Over the
    column the factor frequency + `BASE_FREQUENCY` averages to one, so that equally
    frequent values have log-odds 0.

    Attributes
    ----------
    levels, log_odds : arrays
        Values of more than one cell, and their log-odds.
    default : float
        Log-odds of all other values.
    """

    levels: Array
    log_odds: Array
    default: float

    @classmethod
    def fit(cls, values: Array) -> "ValueFrequencyPrior":
        """Count the values of a column."""
        finite = values[np.isfinite(values)]
        levels, counts = np.unique(finite, return_counts=True)
        total = max(len(finite), 1)
        frequency = counts / total + BASE_FREQUENCY
        mean = float((frequency * counts).sum() / total) if len(finite) else 1.0
        log_odds = cls._weighted(np.log(frequency / mean))
        single = cls._weighted(np.log(np.array([BASE_FREQUENCY + 1 / total]) / mean))
        repeated = counts > 1
        return cls(levels[repeated], log_odds[repeated], float(single[0]))

    @staticmethod
    def _weighted(log_odds: Array) -> Array:
        return np.where(log_odds > 0, log_odds, RARE_WEIGHT * log_odds)

    def __call__(self, values: Array) -> Array:
        """Return the log-odds of cells."""
        if not len(self.levels):
            return np.full(len(values), self.default)
        at = np.minimum(np.searchsorted(self.levels, values), len(self.levels) - 1)
        return np.where(self.levels[at] == values, self.log_odds[at], self.default)

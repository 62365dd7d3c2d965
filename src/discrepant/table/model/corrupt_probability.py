"""Calibrated probability that cells are corrupted, and which of them to replace.

Flags limit the fraction of false ones. The delivered table is another question: a cell
is replaced where the expected squared error of keeping it exceeds that of replacing it.
With probability p, distance d between the value and its expected value m, and a correct
value near m, these are p d² and (1 − p) d², up to the same variance.
"""

import numpy as np

from discrepant.cell_model.calibration import calibrated_probability, score_of
from discrepant.core.linalg import Array
from discrepant.table.model.fit import TableModel

# All chosen on the development tables of ``python benchmarks/tables.py dev``.

# Log-odds gained beyond the range of a column's kept values, TAIL_EXPONENT · log(1 +
# excess / TAIL_UNIT), with the excess relative to the distance from the median to the
# end of the range. A transform alone extrapolates: ten times the largest value of a
# column on a logarithmic scale is a few standard deviations off.
TAIL_EXPONENT, TAIL_UNIT = 0.8, 0.1
# Probability from which a cell is replaced: below 1/2, because among cells of equal
# probability, corrupted ones lie farther off. The error over all cells, relative to
# that of an imputer given the corrupted cells, fell from 3.2 to 2.6 in the geometric
# mean; at 1/2 it was 2.7.
REPLACE_PROBABILITY = 1 / 3


def corrupt_probability(
    log_odds: Array, values: Array, columns: Array, table: TableModel
) -> Array:
    """Return the calibrated probability that cells are corrupted; NaN where missing.

    Parameters
    ----------
    log_odds, values : arrays (k,)
        Score and value of each cell.
    columns : int array (k,)
        Its numeric column.
    table : TableModel
    """
    probability = calibrated_probability(log_odds)
    low, high = table.prediction_ranges
    at = np.flatnonzero((values > high[columns]) | (values < low[columns]))
    x, column = values[at], columns[at]
    end = np.where(x > high[column], high[column], low[column])
    median = np.array([transform.raw_median for transform in table.transforms])
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        excess = np.abs((x - end) / (end - median[column]))
        excess = np.nan_to_num(np.minimum(excess, 1e9))
    gain = (1 + excess / TAIL_UNIT) ** TAIL_EXPONENT
    odds = gain * probability[at] / (1 - probability[at])
    probability[at] = odds / (1 + odds)
    return probability


def likely_cells(log_odds: Array, values: Array, table: TableModel) -> Array:
    """Return which cells (n, k) of the numeric columns are to be replaced."""
    low, high = table.prediction_ranges
    # Inside of its column's range, a cell is replaced from a known score on.
    likely = np.asarray(log_odds >= np.float32(score_of(REPLACE_PROBABILITY)))
    rows, columns = np.nonzero((values > high) | (values < low))
    outside = corrupt_probability(
        log_odds[rows, columns], values[rows, columns], columns, table
    )
    likely[rows, columns] = outside > REPLACE_PROBABILITY
    return likely

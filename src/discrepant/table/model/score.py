"""Score the rows of a table with a fitted model: log-odds, expected value, interval."""

from dataclasses import dataclass, replace

import numpy as np

from discrepant.cell_model.calibration import (
    CERTAIN,
    calibrated_probability,
    exceeds,
)
from discrepant.cell_model.gaussian_model import GaussianModel
from discrepant.cell_model.residual_mixture import mixture_variance, residual_quantile
from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.core.threads import map_row_blocks
from discrepant.core.validation import count_threads
from discrepant.table.columns.transforms import ColumnTransform
from discrepant.table.model.factor_model import FactorModel
from discrepant.table.model.fit import TableModel, standardise

# Cells up to which the scores of all cells are stored; beyond, they would need more
# memory than the table itself.
MAX_STORED_CELLS = 2_000_000
# Probability, by the model, that the correct value lies outside of its interval. Real
# residuals are wider than the model's: at 0.02, the intervals held 95% of the correct
# values in the mean over the development tables (at 0.05, 92%).
INTERVAL_LEVEL = 0.02
# Distance from its expected value, in standard deviations of its clean residual, beyond
# which a cell that is likelier wrong than right is flagged, whatever the tail of its
# column; and the log-odds that it has at least.
GROSS_DISTANCE, GROSS_LOG_ODDS = 7.5, 9.0
# Nodes and weights of the Gauss–Hermite quadrature of expected values.
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@dataclass(frozen=True, eq=False)
class FullScores:
    """Log-odds and expected value of every cell, filled as rows are scored.

    Attributes
    ----------
    log_odds : float32 array (n, p)
        NaN where a cell is missing, −50 where it was not scored.
    expected : array (n, p)
        NaN in columns that are not modelled.
    """

    log_odds: Array
    expected: Array

    @classmethod
    def empty(cls, shape: tuple[int, int]) -> "FullScores":
        """Return uninitialised arrays for a table."""
        return cls(np.empty(shape, np.float32), np.empty(shape))

    def rows(self, rows: slice) -> "FullScores":
        """Return a view of some rows."""
        return FullScores(self.log_odds[rows], self.expected[rows])

    def mark_unscored(self, values: Array, start: int) -> None:
        """Mark the rows from ``start`` on as not scored."""
        missing = np.isnan(values[start:])
        self.log_odds[start:] = np.where(missing, np.nan, -CERTAIN)
        self.expected[start:] = np.nan


@dataclass(frozen=True, eq=False)
class FlagCandidates:
    """Cells that may be flagged or replaced, and missing cells to impute.

    Attributes
    ----------
    cells : int array (k, 2)
        Row and numeric column.
    log_odds : float32 array (k,)
        NaN for a missing cell.
    expected : array (k,)
        Expected value given the rest of the row; NaN where there is none.
    interval : array (k, 2)
        Its 95% interval.
    scored_rows : int
        Number of scored rows, from the first: fewer than all after an early stop.
    kinds : array of str (k,)
        "level" where a cell contradicts its row; see `OrderFlags` for other kinds.
    full : FullScores or None
        Scores of all cells, where they are not too many.
    """

    cells: Array
    log_odds: Array
    expected: Array
    interval: Array
    scored_rows: int
    kinds: Array
    full: FullScores | None = None

    @property
    def probability(self) -> Array:
        """Calibrated probability that each cell is corrupted; NaN for a missing one."""
        return calibrated_probability(self.log_odds)


def score_rows(
    values: Array,
    table: TableModel,
    least: float,
    *,
    fill: bool = False,
    full: FullScores | None = None,
    report: Report | None = None,
) -> FlagCandidates:
    """Score every row independently of the others; list cells of high log-odds.

    Parameters
    ----------
    values : array (n, p)
        The numeric columns.
    table : TableModel
    least : float
        Log-odds from which a cell is listed.
    fill : bool
        List missing cells too.
    full : FullScores, optional
        Filled with the scores of all cells; by default new arrays, if the table has at
        most `MAX_STORED_CELLS`.
    report : callable, optional
        Receives the progress; if it returns False, the rows scored so far are returned.
    """
    if full is None and values.size <= MAX_STORED_CELLS:
        full = FullScores.empty(values.shape)
    halfwidths = (
        []
        if table.model is None
        else [
            residual_quantile(weights, INTERVAL_LEVEL)
            for weights in table.model.tail_weights
        ]
    )

    def score(rows: slice) -> FlagCandidates:
        part = None if full is None else full.rows(rows)
        return _score_block(values[rows], table, halfwidths, least, fill, part)

    parts, scored_rows = [], 0
    for part in map_row_blocks(score, len(values), count_threads(None)):
        part.cells[:, 0] += scored_rows
        parts.append(part)
        scored_rows += part.scored_rows
        fraction = 0.4 + 0.6 * scored_rows / len(values)
        if report is not None and not report(fraction, "scoring"):
            break
    if full is not None:
        full.mark_unscored(values, scored_rows)
    return FlagCandidates(
        cells=np.concatenate([part.cells for part in parts]),
        log_odds=np.concatenate([part.log_odds for part in parts]),
        expected=np.concatenate([part.expected for part in parts]),
        interval=np.concatenate([part.interval for part in parts]),
        scored_rows=scored_rows,
        kinds=np.concatenate([part.kinds for part in parts]),
        full=full,
    )


def score_all_cells(values: Array, table: TableModel, scored_rows: int) -> FullScores:
    """Return the scores of all cells in the first rows; the others are not scored."""
    full = FullScores.empty(values.shape)
    rows = slice(scored_rows)
    score_rows(values[rows], table, 0.0, full=full.rows(rows))
    full.mark_unscored(values, scored_rows)
    return full


def score_listed(values: Array, table: TableModel, cells: Array) -> tuple[Array, Array]:
    """Return expected values and intervals of cells (k, 2) that are not missing."""
    rows, inverse = np.unique(cells[:, 0], return_inverse=True)
    scored = score_rows(values[rows], table, -np.inf)
    width = values.shape[1]
    places = scored.cells @ [width, 1]
    at = np.searchsorted(places, inverse * width + cells[:, 1])
    return scored.expected[at], scored.interval[at]


def _score_block(
    values: Array,
    table: TableModel,
    halfwidths: list[float],
    least: float,
    fill: bool,
    full: FullScores | None,
) -> FlagCandidates:
    violations = rule_violations(values, table)
    log_odds = np.where(np.isnan(values), np.nan, -CERTAIN).astype(np.float32)
    expected = np.full(values.shape, np.nan)
    for j, transform in enumerate(table.transforms):
        if transform.kind == "constant":
            expected[:, j] = transform.raw_median
    low, high = expected.copy(), expected.copy()
    modelled = table.modelled if table.model is not None else []
    if table.model is not None:
        cells = standardise(np.where(violations, np.nan, values), table)
        scores = table.model.score(cells)
        scale = _clean_scale(table.model, scores.variance, cells.rounding_sd)
        noise = scale * np.sqrt(mixture_variance(table.model.tail_weights))
        gross = np.abs(scores.residual) > GROSS_DISTANCE * noise
        odds = np.where(
            gross & (scores.log_odds > 0),
            np.maximum(scores.log_odds, GROSS_LOG_ODDS),
            scores.log_odds,
        )
        log_odds[:, modelled] = np.where(cells.missing, log_odds[:, modelled], odds)
    log_odds[violations] = CERTAIN
    listed = exceeds(log_odds, least)
    if fill:
        listed |= np.isnan(log_odds)
    for k, j in enumerate(modelled):
        centre, variance = cells.values[:, k] - scores.residual[:, k], scores.variance
        at = listed[:, j].nonzero()[0]
        distance = halfwidths[k] * scale[at, k]
        ends = _interval(table.transforms[j], centre[at], distance)
        rows = at if full is None else np.arange(len(values))
        expected[rows, j] = _expected_value(
            table.transforms[j], centre[rows], variance[rows, k]
        )
        low[at, j] = np.minimum(ends[0], expected[at, j])
        high[at, j] = np.maximum(ends[1], expected[at, j])
    if full is not None:
        full.log_odds[:], full.expected[:] = log_odds, expected
    index = listed.nonzero()
    interval = np.column_stack([low[index], high[index]])
    return FlagCandidates(
        cells=np.column_stack(index),
        log_odds=log_odds[index],
        expected=expected[index],
        interval=interval,
        scored_rows=len(values),
        kinds=np.full(len(interval), "level"),
    )


def rule_violations(values: Array, table: TableModel) -> Array:
    """Return the cells that are infinite, a code, or outside of the valid range."""
    violations: Array = np.isinf(values)
    for j, (codes, (low, high)) in enumerate(
        zip(table.codes, table.valid_ranges, strict=True)
    ):
        column = values[:, j]
        if table.transforms[j].kind == "identifier":
            violations[:, j] = False
            continue
        if codes:
            violations[:, j] |= np.isin(column, list(codes))
        if np.isfinite((low, high)).any():
            violations[:, j] |= (column < low) | (column > high)
    return violations


def _expected_value(
    transform: ColumnTransform, centre: Array, variance: Array
) -> Array:
    """Return the mean, in the column's unit, of a normal in standard units."""
    sd = np.sqrt(np.maximum(variance, 0))
    total = np.zeros(len(centre))
    for node, weight in zip(NODES, NODE_WEIGHTS, strict=True):
        total += weight * transform.from_standard(centre + node * sd)
    if transform.point_mass_fraction:
        total += transform.point_mass_fraction * (transform.point_mass - total)
    return total


def _clean_scale(
    model: GaussianModel | FactorModel, variance: Array, rounding_sd: Array
) -> Array:
    """Return the scale of clean residuals, given the variances of the predictions."""
    square = np.maximum(variance * model.scale_factor - model.scale_deficit, 0)
    return np.asarray(np.sqrt(square + rounding_sd**2))


def _interval(
    transform: ColumnTransform, centre: Array, distance: Array
) -> tuple[Array, Array]:
    """Return the ends of the 95% interval in the unit of a column.

    It lies around the centre clipped to the column's range, as the expected value does.
    """
    unclipped = replace(transform, low=-np.inf, high=np.inf)
    centre = transform.standardise(transform.from_standard(centre))
    low = np.maximum(unclipped.from_standard(centre - distance), transform.lowest)
    high = np.minimum(unclipped.from_standard(centre + distance), transform.highest)
    if transform.point_mass_fraction:
        mass = transform.point_mass
        return np.minimum(low, mass), np.maximum(high, mass)
    return low, high

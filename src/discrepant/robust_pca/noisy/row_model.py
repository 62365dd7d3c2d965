"""Flags of tables whose cells the other cells of their row predict better than L does.

In most real tables the spectrum decays slowly, so that no low rank leaves independent
noise of one size, and the posterior of `mixture` does not hold. The Gaussian model of
`discrepant.cell_model` has a full covariance Ψ instead. Low rank with noise is the case
Ψ = Vᵀ cov(c) V + diag(σ²) of it, for coordinates c. Both are compared by the likelihood
of every cell given the others of its row; the full covariance must gain
½ log(rows) for each of its additional parameters (BIC).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from discrepant.cell_model.calibration import exceeds, fdr_threshold
from discrepant.cell_model.gaussian_model import (
    GaussianModel,
    StandardCells,
    fit_gaussian_model,
    fit_residuals,
    initial_model,
)
from discrepant.core.linalg import Array
from discrepant.robust_pca.doubts import Doubt, FitWarning

# Rows needed per column to estimate a covariance.
MIN_ROWS_PER_COLUMN = 3
# Columns up to which a covariance is fitted: a step of its search costs n² operations.
MAX_COLUMNS = 80
# Modelled columns that are needed at the least, as for a fit with noise.
MIN_COLUMNS = 4
# Rows on which both models are compared, at the least …
COMPARED_ROWS = 200
# … and per column.
COMPARED_ROWS_PER_COLUMN = 5
# Rows that the final model is fitted to; the other rows only need to be scored.
MAX_TRAINING_ROWS = 3000
# Iterations of the covariance, as in `clean`.
ITERATIONS = 10
# Iterations of each model for the comparison: more change it by less than its limit.
COMPARED_ITERATIONS = 2
# Interquartile range over its value for a standard normal distribution.
IQR = 1.349
# Interquartile range, relative to the median, up to which a column is constant.
CONSTANT = 1e-12
# Standard deviation that is added to residuals for the comparison, in standard units: a
# model that predicts repeated values exactly would have an unbounded likelihood.
MIN_COMPARED_SD = 0.02
# Largest squared residual that counts in the score of a row: at 3 standard deviations,
# single gross cells do not outweigh a row that is wrong as a whole.
MAX_SQUARE = 9.0
# Factor on the residuals by which flags are tested …
WIDER = 1.5
# … and the fraction of them that may vanish.
MAX_LOST = 0.3
# Variance of the number of flags per row or column beyond that of chance, in its
# standard deviations, from which on flags are clustered.
CLUSTERED = 8.0
# Flags from which on their places are tested.
MIN_FLAGS = 8
# Columns that a warning names.
MAX_LISTED = 6
# Absolute standard value at which cells are clipped, as in `clean`: all that lies
# beyond it is equally improbable.
MAX_STANDARD_VALUE = 1e4


@dataclass(frozen=True)
class RowModel:
    """Gaussian model of the rows of a table, and the threshold of its flags."""

    columns: Array  # positions of the modelled columns; others have no spread
    centre: Array  # median of each modelled column
    scale: Array  # interquartile range over 1.349
    rounding_sd: Array  # standard deviation of the rounding error, in units of scale
    model: GaussianModel
    threshold: float  # log-odds from which on a cell is flagged

    def standard_cells(self, rows: Array) -> StandardCells:
        """Return the modelled columns of some rows in standard units."""
        values = (rows[:, self.columns] - self.centre) / self.scale
        return _standard_cells(values, self.rounding_sd)

    def log_odds(self, rows: Array) -> Array:
        """Return the log-odds that cells are corrupt; NaN where not scored."""
        log_odds = np.full(rows.shape, np.nan)
        log_odds[:, self.columns] = self.model.score(self.standard_cells(rows)).log_odds
        return log_odds

    def row_score(self, rows: Array) -> Array:
        """Return each row's mean squared residual, each residual at most 3."""
        cells = self.standard_cells(rows)
        scores = self.model.score(cells)
        variance = np.maximum(scores.variance, 1e-12) * self.model.scale_factor
        square = np.minimum(scores.residual**2 / variance, MAX_SQUARE)
        observed = ~cells.missing
        total = np.where(observed, square, 0.0).sum(axis=1)
        return np.asarray(total / np.maximum(observed.sum(axis=1), 1))


def fit_row_model(
    sample: Array, low_rank: tuple[Array, Array, Array], fdr: float
) -> RowModel | None:
    """Fit the row model to some rows; None if low rank and noise explain them as well.

    Parameters
    ----------
    sample : array (k, n)
        Rows of the table; NaN is missing.
    low_rank : tuple of arrays
        Mean and covariance of rows by the low-rank fit, and its noise of each column.
    fdr : float
        False discovery rate of the flags.
    """
    columns, centre, scale = _column_scales(sample)
    if len(columns) < MIN_COLUMNS:
        return None
    values = (sample[:, columns] - centre) / scale
    rounding_sd = np.array([_rounding_step(column) for column in values.T]) / 12**0.5
    cells = _standard_cells(values, rounding_sd)
    n_compared = max(COMPARED_ROWS, COMPARED_ROWS_PER_COLUMN * len(columns))
    step = max(1, len(sample) // n_compared)
    compared = _standard_cells(values[::step], np.maximum(rounding_sd, MIN_COMPARED_SD))
    mean, covariance, noise = low_rank
    rank = int(np.linalg.matrix_rank(covariance))
    S = covariance[np.ix_(columns, columns)] / np.outer(scale, scale)
    S[np.diag_indices(len(S))] += (
        np.maximum(noise[columns] / scale, MIN_COMPARED_SD) ** 2
    )
    factor = replace(
        initial_model(compared),
        mean=(mean[columns] - centre) / scale,
        precision=np.linalg.inv(S),
        per_row=0.0,
    )
    factor = fit_residuals(compared, factor, COMPARED_ITERATIONS)
    n, p = compared.values.shape
    full = fit_gaussian_model(compared, 2 * COMPARED_ITERATIONS, None, 1)
    freedom = max(p * (p + 1) // 2 - (rank * p - rank * (rank - 1) // 2 + p), 0)
    gain = _log_likelihood(compared, full) - _log_likelihood(compared, factor)
    if not gain > freedom * np.log(n) / 2:
        return None
    full = fit_gaussian_model(cells, ITERATIONS, None, 1)
    log_odds = full.score(cells).log_odds[~cells.missing]
    threshold = fdr_threshold(log_odds, fdr)
    return RowModel(columns, centre, scale, rounding_sd, full, threshold)


def may_have_row_model(shape: tuple[int, int]) -> bool:
    """Return whether a table has enough rows, and few enough columns."""
    n_rows, n_columns = shape
    enough_rows = n_rows >= MIN_ROWS_PER_COLUMN * n_columns
    return enough_rows and MIN_COLUMNS <= n_columns <= MAX_COLUMNS


def flag_doubts(row_model: RowModel, sample: Array) -> Iterator[FitWarning]:
    """Yield what speaks against the flags of a row model."""
    constant = np.setdiff1d(np.arange(sample.shape[1]), row_model.columns)
    if len(constant):
        yield Doubt.CONSTANT_COLUMNS.warning(columns=_listed("column", constant))
    cells, model = row_model.standard_cells(sample), row_model.model
    flags = exceeds(model.score(cells).log_odds, row_model.threshold)
    total = flags.sum()
    if not total:
        return
    wider = replace(model, residual_scale=WIDER * model.residual_scale)
    kept = flags & exceeds(wider.score(cells).log_odds, row_model.threshold)
    lost = 1 - kept.sum() / total
    if lost > MAX_LOST:
        yield Doubt.WIDE_TAILS.warning(fraction=lost, factor=WIDER)
    for axis in (0, 1):
        counts = flags.sum(axis=axis)
        expected = total / len(counts)
        excess = np.sum((counts - expected) ** 2) / expected - len(counts)
        if total >= MIN_FLAGS and excess > CLUSTERED * np.sqrt(2 * len(counts)):
            worst = np.argsort(-counts, kind="stable")[:3]
            where = "few rows"
            if axis == 0:
                where = _listed("column", np.sort(row_model.columns[worst]))
            fraction = counts[worst].sum() / total
            yield Doubt.CLUSTERED_FLAGS.warning(fraction=fraction, where=where)


def _listed(name: str, positions: Array) -> str:
    """Return positions in words: column 3; columns 3, 5 and 4 more."""
    some = ", ".join(str(k) for k in positions[:MAX_LISTED])
    more = len(positions) - MAX_LISTED
    end = f" and {more} more" if more > 0 else ""
    return f"{name}{'s' if len(positions) > 1 else ''} {some}{end}"


def _log_likelihood(cells: StandardCells, model: GaussianModel) -> float:
    """Return the summed log density of the cells, each given the others of its row."""
    density = model.log_density(cells, model.score(cells))
    return float(density[~cells.missing].sum())


def _column_scales(sample: Array) -> tuple[Array, Array, Array]:
    """Return the columns with a spread, their medians and their robust scales."""
    columns = np.flatnonzero(np.isfinite(sample).sum(axis=0) >= MIN_ROWS_PER_COLUMN)
    quartiles = np.nanquantile(sample[:, columns], (0.25, 0.5, 0.75), axis=0)
    scale = (quartiles[2] - quartiles[0]) / IQR
    varies = scale > CONSTANT * np.abs(quartiles[1])
    return columns[varies], quartiles[1][varies], scale[varies]


def _rounding_step(values: Array) -> float:
    """Return the usual step between repeated values, if most are; at most one."""
    levels, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    repeated = counts > 1
    if counts[repeated].sum() < 0.5 * counts.sum() or repeated.sum() < 2:
        return 0.0
    return min(float(np.median(np.diff(levels[repeated]))), 1.0)


def _standard_cells(values: Array, rounding_sd: Array) -> StandardCells:
    """Return cells in standard units, clipped; NaN is missing."""
    missing = np.isnan(values)
    clipped = np.clip(values, -MAX_STANDARD_VALUE, MAX_STANDARD_VALUE)
    filled = np.where(missing, 0.0, clipped)
    return StandardCells(filled, missing, np.zeros(values.shape), rounding_sd)

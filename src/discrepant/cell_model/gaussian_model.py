"""The cellwise-robust Gaussian model of a table's rows, in standard units.

Rows are normal with one covariance; each cell is corrupted with a small probability,
and then widely spread. The fit alternates between the search for corrupted cells
(`cell_search`), the covariance of the rest, and the tails of its residuals
(`residual_mixture`).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from discrepant.cell_model.residual_mixture import (
    TAIL_SHAPES,
    corrupt_log_density,
    fit_tails,
    mixture_variance,
    tail_density,
)
from discrepant.core.linalg import Array
from discrepant.core.threads import map_row_blocks

# Constants without a derivation were chosen on the development tables of
# ``python benchmarks/tables.py dev``.

# Weights of the diagonal in the shrunk covariance; the one that predicts the kept cells
# of held-out rows best is chosen.
SHRINKAGES = (1e-4, 5e-4, 0.002, 0.01, 0.03, 0.07, 0.15, 0.3, 0.5, 0.75, 1.0)
# Folds of that cross-validation.
FOLDS = 5
# Absolute standard value at which cells are clipped for the first covariance.
CLIP = 2.0
# Weight of the identity in that covariance.
IDENTITY_WEIGHT = 0.1
# Fraction of corrupted cells that the first iteration assumes.
FIRST_CORRUPT_RATE = 0.05
# The corruption rate of a column is shrunk to that of the table by so many cells …
PRIOR_CELLS = 20.0
# … plus so many times the column's own number of cells.
PRIOR_FRACTION = 1.0
# Limits of a column's corruption rate.
MIN_CORRUPT_RATE, MAX_CORRUPT_RATE = 5e-4, 0.2
# Absolute standard value beyond which the search starts with a cell excluded.
START_EXCLUDED = 5.0
# Fraction of the smallest held-out residuals whose root mean square is compared.
CENTRAL_FRACTION = 0.95
# Limit of the ratio of held-out to fitted residuals.
MAX_INFLATION = 2.0
# Prior log-odds of being clean that no evidence exceeds.
NEVER_FLAG = 1e6


class StandardCells(NamedTuple):
    """The modelled columns in standard units.

    Attributes
    ----------
    values : array (n, p)
        0 where a cell is missing.
    missing : bool array (n, p)
    clean_log_odds : array (n, p)
        Prior log-odds of being clean, from the frequency of the value in its column.
    rounding_sd : array (p,)
        See `ColumnTransform`.
    """

    values: Array
    missing: Array
    clean_log_odds: Array
    rounding_sd: Array

    def prior_log_odds(self, corrupt_rate: Array) -> Array:
        """Return prior log-odds plus the log density of corrupted cells at a value."""
        log_odds = logit(corrupt_rate) - self.clean_log_odds
        return np.asarray(log_odds + corrupt_log_density(self.values))


class CellScores(NamedTuple):
    """The result of `cell_search.score_rows`."""

    excluded: Array
    log_odds: Array
    residual: Array
    variance: Array
    moments: Array
    sums: Array


@dataclass(frozen=True, eq=False)
class GaussianModel:
    """Mean and precision of rows; residual scale, tails and corruption rate by column.

    Attributes
    ----------
    mean : array (p,)
    precision : array (p, p)
    residual_scale : array (p,)
        Scale of clean residuals, relative to the conditional standard deviation.
    tail_weights : array (p, 3)
        See `residual_mixture`.
    corrupt_rate : array (p,)
    shrinkage : float
        Weight of the diagonal in the covariance.
    inflation : array (p,)
        Ratio of held-out to fitted residuals.
    per_row : float
        1 / number of training rows.
    """

    mean: Array
    precision: Array
    residual_scale: Array
    tail_weights: Array
    corrupt_rate: Array
    shrinkage: float
    inflation: Array
    per_row: float

    def score(self, cells: StandardCells) -> CellScores:
        """Score every row, independently of the others."""
        return score_cells(cells, self)

    def log_density(self, cells: StandardCells, scores: CellScores) -> Array:
        """Return the log density of each cell given the kept others of its row."""
        square = np.maximum(scores.variance, 1e-12) * self.scale_factor
        offset = cells.rounding_sd**2 - self.scale_deficit
        square = np.maximum(square + offset, 1e-3 * square)
        z = scores.residual / np.sqrt(square)
        clean = tail_density(z, self.tail_weights) / np.sqrt(square)
        corrupt = np.exp(corrupt_log_density(cells.values))
        rate = self.corrupt_rate
        return np.asarray(np.log((1 - rate) * clean + rate * corrupt))

    def with_moments_of(self, rows: Array) -> "GaussianModel":
        """Return the model with the mean and covariance of complete rows."""
        covariance = np.cov(rows, rowvar=False, bias=True).reshape(len(self.mean), -1)
        precision = _shrunk_inverse(covariance, self.shrinkage)
        return replace(self, mean=rows.mean(axis=0), precision=precision)

    @property
    def scale_factor(self) -> Array:
        """Factor from the conditional variance of a cell to its squared clean scale."""
        return np.asarray(
            np.maximum(self._variance_ratio, 1.0) / mixture_variance(self.tail_weights)
        )

    @property
    def scale_deficit(self) -> Array:
        """Reduction of the squared clean scale where residuals are small.

        Residuals are smaller than the model's where all other cells are present. A
        missing neighbour raises the variance, and only that increase is added: of two
        columns that differ by noise alone, either is uncertain without the other.
        """
        deficit = 1 - np.minimum(self._variance_ratio, 1.0)
        return np.asarray(
            deficit / (np.diag(self.precision) * mixture_variance(self.tail_weights))
        )

    @property
    def _variance_ratio(self) -> Array:
        """Variance of clean residuals over the conditional variance of the model."""
        return np.asarray(self.residual_scale**2 * mixture_variance(self.tail_weights))

    @property
    def explained(self) -> Array:
        """Fraction of each column's variance that the other columns explain."""
        S = np.linalg.inv(self.precision)
        return np.asarray(1 - 1 / (np.diag(S) * np.diag(self.precision)))

    @property
    def residual_sd(self) -> Array:
        """Standard deviation of clean residuals, in standard units."""
        return np.asarray(np.sqrt(self._variance_ratio / np.diag(self.precision)))

    @property
    def rank(self) -> int:
        """Number of directions with more variance than independent columns have.

        The limit is the edge of Marchenko and Pastur, (1 + √(p/n))², for correlations.
        """
        S = np.linalg.inv(self.precision)
        scale = np.sqrt(np.diag(S))
        p = len(S)
        edge = (1 + np.sqrt(p * self.per_row)) ** 2
        return int(np.sum(np.linalg.eigvalsh(S / np.outer(scale, scale)) > edge))


def fit_gaussian_model(
    cells: StandardCells, iterations: int, start: GaussianModel | None, n_jobs: int
) -> GaussianModel:
    """Alternate between scoring the cells and updating the model.

    Parameters
    ----------
    cells : StandardCells
        The training rows.
    iterations : int
    start : GaussianModel, optional
        Where to start; by default from clipped correlations.
    n_jobs : int
        Threads.
    """
    model = initial_model(cells) if start is None else start
    for step in range(iterations):
        scores = score_cells(cells, model, n_jobs, FOLDS)
        choose = step % 2 == 1 or step == iterations - 1
        update = _update(cells, scores, model, choose)
        precision = update.precision
        if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0:
            break  # columns are sums of others, to rounding: keep the last model
        model = update
    return model


def fit_residuals(
    cells: StandardCells, model: GaussianModel, iterations: int
) -> GaussianModel:
    """Fit residual scales, tails and corruption rates at a given covariance."""
    for _ in range(iterations):
        scores = score_cells(cells, model, folds=1)
        update = _update(cells, scores, model, choose=False)
        model = replace(update, mean=model.mean, precision=model.precision)
    return model


def initial_model(cells: StandardCells) -> GaussianModel:
    """Return the model with the correlations of clipped values."""
    n, p = cells.values.shape
    clipped = np.where(cells.missing, 0.0, np.clip(cells.values, -CLIP, CLIP))
    S = clipped.T @ clipped / n
    scale = np.sqrt(np.maximum(np.diag(S), 1e-6))
    correlation = (1 - IDENTITY_WEIGHT) * S / np.outer(scale, scale)
    correlation = correlation + IDENTITY_WEIGHT * np.eye(p)
    return GaussianModel(
        mean=np.zeros(p),
        precision=np.linalg.inv(correlation),
        residual_scale=np.ones(p),
        tail_weights=np.tile(TAIL_SHAPES[1], (p, 1)),
        corrupt_rate=np.full(p, FIRST_CORRUPT_RATE),
        shrinkage=IDENTITY_WEIGHT,
        inflation=np.ones(p),
        per_row=1 / n,
    )


def score_cells(
    cells: StandardCells, model: GaussianModel, n_jobs: int = 1, folds: int = 0
) -> CellScores:
    """Search every row for corrupted cells.

    Parameters
    ----------
    cells : StandardCells
    model : GaussianModel
    n_jobs : int
        Threads.
    folds : int
        Number of groups of rows whose moments are computed; none if 0.
    """
    from discrepant.cell_model.cell_search import score_rows

    values, missing = cells.values, cells.missing
    prior = cells.prior_log_odds(model.corrupt_rate)
    can_be_flagged = ~missing & (cells.clean_log_odds < NEVER_FLAG / 2)
    start = (np.abs(values) > START_EXCLUDED) & can_be_flagged
    centred = values - model.mean
    scale_offset = cells.rounding_sd**2 - model.scale_deficit
    # Copies: a model that was unpickled may be read-only, which is another type of
    # array, for which Numba would compile the search again.
    K, tail_weights = model.precision.copy(), model.tail_weights.copy()
    noise = (model.scale_factor, scale_offset, tail_weights, model.per_row)
    fold = assign_folds(cells) if folds > 1 else np.zeros(len(values), np.int64)

    def score_block(rows: slice) -> CellScores:
        return CellScores(
            *score_rows(
                *(centred[rows], missing[rows], prior[rows], K, noise),
                *(start[rows], fold[rows], folds),
            )
        )

    parts: list[CellScores] = list(map_row_blocks(score_block, len(values), n_jobs))
    if len(parts) == 1:
        return parts[0]
    by_cell = (np.concatenate([part[k] for part in parts]) for k in range(4))
    moments = np.sum([part.moments for part in parts], axis=0)
    sums = np.sum([part.sums for part in parts], axis=0)
    return CellScores(*by_cell, moments, sums)  # type: ignore[call-arg]


def assign_folds(cells: StandardCells) -> Array:
    """Return each row's fold by its sum, whatever the order of rows and columns."""
    size = np.where(cells.missing, 0.0, np.clip(cells.values, -5, 5)).sum(axis=1)
    fold = np.empty(len(size), np.int64)
    fold[np.argsort(size, kind="stable")] = np.arange(len(size)) % FOLDS
    return fold


def estimate_corrupt_rate(cells: StandardCells, scores: CellScores) -> Array:
    """Return each column's fraction of corrupted cells, shrunk to that of the table."""
    observed = ~cells.missing
    can_be_flagged = (observed & (cells.clean_log_odds < NEVER_FLAG / 2)).sum()
    probability = np.where(observed, expit(scores.log_odds), 0.0)
    count = np.maximum(observed.sum(axis=0), 1)
    table_rate = (probability.sum() + 1.0) / (can_be_flagged + 50.0)
    prior_cells = PRIOR_CELLS + PRIOR_FRACTION * count
    corrupt_rate = (probability.sum(axis=0) + prior_cells * table_rate) / (
        count + prior_cells
    )
    max_rate = min(2.5 * table_rate + 0.005, MAX_CORRUPT_RATE)
    return np.asarray(np.clip(corrupt_rate, MIN_CORRUPT_RATE, max_rate))


def _update(
    cells: StandardCells, scores: CellScores, model: GaussianModel, choose: bool
) -> GaussianModel:
    """Return the model fitted to the scored cells; `choose`: its shrinkage too."""
    values, observed = cells.values, ~cells.missing
    corrupt_rate = estimate_corrupt_rate(cells, scores)
    sd = np.sqrt(np.maximum(scores.variance, 1e-12))
    residual_scale, tail_weights = fit_tails(
        scores.residual / sd,
        corrupt_log_density(values) + np.log(sd),
        observed,
        corrupt_rate,
    )
    n = len(values)
    shift = scores.sums.sum(axis=0) / n
    S = scores.moments.sum(axis=0) / n - np.outer(shift, shift)
    shrinkage, inflation = model.shrinkage, model.inflation
    if choose:
        shrinkage, inflation = _choose_shrinkage(cells, scores, model)
    return GaussianModel(
        mean=model.mean + shift,
        precision=_shrunk_inverse(S, shrinkage),
        residual_scale=residual_scale * inflation,
        tail_weights=tail_weights,
        corrupt_rate=corrupt_rate,
        shrinkage=shrinkage,
        inflation=inflation,
        per_row=model.per_row,
    )


def _shrunk_inverse(S: Array, shrinkage: float) -> Array:
    S = (1 - shrinkage) * S + np.diag(shrinkage * np.diag(S) + 1e-9)
    return np.linalg.inv(S)


def _choose_shrinkage(
    cells: StandardCells, scores: CellScores, model: GaussianModel
) -> tuple[float, Array]:
    """Return the shrinkage that predicts the kept cells of held-out rows best.

    Also returns each column's ratio of held-out to fitted residuals.
    """
    fold = assign_folds(cells)
    sizes = [_residual_size(cells, scores, model, a, fold) for a in SHRINKAGES]
    best = int(np.argmin([np.mean(np.log(size)) for size in sizes]))
    fitted = _residual_size(cells, scores, model, SHRINKAGES[best], None)
    inflation = np.clip(sizes[best] / fitted, 1.0, MAX_INFLATION)
    return SHRINKAGES[best], inflation


def _residual_size(
    cells: StandardCells,
    scores: CellScores,
    model: GaussianModel,
    shrinkage: float,
    fold: Array | None,
) -> Array:
    """Return the size of each column's residuals, held out if folds are given."""
    values, gone = cells.values, scores.excluded | cells.missing
    n, p = values.shape
    centred = values - model.mean
    filled = np.where(gone, centred - scores.residual, centred)
    errors = np.full(values.shape, np.nan)
    for k in range(FOLDS if fold is not None else 1):
        rows = np.flatnonzero(fold == k) if fold is not None else np.arange(n)
        sums, moments = scores.sums.sum(axis=0), scores.moments.sum(axis=0)
        training_rows = n
        if fold is not None:
            sums, moments = sums - scores.sums[k], moments - scores.moments[k]
            training_rows = n - len(rows)
        shift = sums / training_rows
        S = moments / training_rows - np.outer(shift, shift)
        K = _shrunk_inverse(S, shrinkage)
        errors[rows] = (filled[rows] - shift) @ K / np.diag(K)
    errors[gone] = np.nan
    ordered = np.sort(np.abs(errors), axis=0)
    kept = np.sum(np.isfinite(ordered), axis=0)
    size = np.ones(p)
    for j in range(p):
        central = ordered[: max(int(CENTRAL_FRACTION * kept[j]), 1), j]
        size[j] = np.sqrt(np.mean(central**2)) if kept[j] else 1.0
    return np.maximum(size, 1e-6)

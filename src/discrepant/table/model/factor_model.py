"""The model of tables with more than 80 columns: low rank plus noise per column.

The covariance of p columns has p² / 2 parameters, and a search over sets of cells costs
p² operations a step. Beyond some eighty columns, loadings and noise of `RobustPCA` need
fewer: each row is a robust regression on the components, and each cell is compared with
its prediction as if it had been left out.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from discrepant.cell_model.gaussian_model import (
    FIRST_CORRUPT_RATE,
    CellScores,
    StandardCells,
    estimate_corrupt_rate,
)
from discrepant.cell_model.residual_mixture import (
    TAIL_SHAPES,
    corrupt_log_density,
    fit_tails,
    mixture_variance,
)
from discrepant.core.linalg import Array
from discrepant.core.robust_regression import robust_coordinates

# Columns up to which the covariance model is used: there, a step of its search costs
# 6400 multiplications.
MAX_COVARIANCE_COLUMNS = 80
# Smallest noise of a column in standard units; below it columns are copies.
MIN_NOISE = 1e-3
# Iterations of corruption rates and tails, given the components.
ITERATIONS = 4
# Regressions of a row's scores on the components, given its cells' log-odds.
REFITS = 3
# Limit of a cell's leverage: beyond it, the cell determines its own prediction.
MAX_LEVERAGE = 0.9


@dataclass(frozen=True, eq=False)
class FactorModel:
    """Components and noise of rows; residual scale, tails, corruption rate by column.

    Attributes
    ----------
    mean : array (p,)
    components : array (r, p)
    noise : array (p,)
        Standard deviation of the noise, in standard units.
    residual_scale, tail_weights, corrupt_rate : arrays (p,), (p, 3), (p,)
        As for `GaussianModel`; the scale is relative to the noise.
    signal_variance : array (p,)
        Variance of the low-rank part.
    """

    mean: Array
    components: Array
    noise: Array
    residual_scale: Array
    tail_weights: Array
    corrupt_rate: Array
    signal_variance: Array

    @property
    def rank(self) -> int:
        """Number of components."""
        return len(self.components)

    @property
    def explained(self) -> Array:
        """Fraction of each column's variance that the other columns explain."""
        return np.asarray(self.signal_variance / (self.signal_variance + self.noise**2))

    @property
    def scale_factor(self) -> Array:
        """Factor from the conditional variance of a cell to its squared clean scale."""
        return np.asarray(self.residual_scale**2)

    @property
    def scale_deficit(self) -> Array:
        """Reduction of the squared clean scale: none, the noise itself is used."""
        return np.zeros(len(self.noise))

    @property
    def residual_sd(self) -> Array:
        """Standard deviation of clean residuals, in standard units."""
        variance = mixture_variance(self.tail_weights)
        return np.asarray(self.noise * self.residual_scale * np.sqrt(variance))

    def robust_start(self, cells: StandardCells) -> Array:
        """Return coefficients of each row that half of its cells cannot mislead."""
        X = (self.components / self.noise).T
        return robust_coordinates(self._scaled(cells), X)[0]

    def _scaled(self, cells: StandardCells) -> Array:
        """Return the cells less their mean, over the noise; NaN where missing."""
        values = np.where(cells.missing, np.nan, cells.values - self.mean)
        return np.asarray(values / self.noise)

    def score(self, cells: StandardCells, start: Array | None = None) -> CellScores:
        """Score every row, independently of the others.

        ``start`` is the result of `robust_start`, if it is known: it depends on the
        components and the noise alone.
        """
        from discrepant.cell_model.cell_search import table_log_odds

        observed = ~cells.missing
        prior = cells.prior_log_odds(self.corrupt_rate)
        noise = self.scale_factor, cells.rounding_sd**2, self.tail_weights.copy()
        Y = self._scaled(cells)
        y = np.where(observed, Y, 0.0)
        X = (self.components / self.noise).T  # (p, r)
        pairs = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
        ridge = 1e-9 * np.trace(X.T @ X) * np.eye(self.rank)
        coefficients = self.robust_start(cells) if start is None else start
        clean = observed.astype(np.float64)
        log_odds = np.zeros(Y.shape)
        for step in range(REFITS + 1):
            if step:
                clean = np.where(observed, expit(-log_odds), 0.0)
                G = (clean @ pairs).reshape(len(Y), self.rank, self.rank) + ridge
                H = np.linalg.inv(G)
                coefficients = np.einsum("nab,nb->na", H, (clean * y) @ X)
                hat = np.einsum("ja,nab,jb->nj", X, H, X, optimize=True)
            else:
                hat = np.zeros(Y.shape)
            leverage = np.clip(clean * hat, 0.0, MAX_LEVERAGE)
            residual = self.noise * (y - coefficients @ X.T) / (1 - leverage)
            kept = self.noise**2 / (1 - leverage)
            variance = np.where(clean > 0.5, kept, self.noise**2 * (1 + hat))
            log_odds = table_log_odds(residual, variance, prior, *noise)
        excluded = observed & (log_odds > 0)
        nothing = np.zeros(0)
        return CellScores(excluded, log_odds, residual, variance, nothing, nothing)


def fit_factor_model(cells: StandardCells, seed: int) -> FactorModel:
    """Fit components and noise by `RobustPCA`, then tails and corruption rates."""
    from discrepant.robust_pca.estimator import RobustPCA

    n, p = cells.values.shape
    Y = np.where(cells.missing, np.nan, cells.values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit below copes with what it warns of
        pca = RobustPCA(noise="column", random_state=seed).fit(Y)
    noise = np.broadcast_to(np.asarray(pca.noise_, np.float64), (p,))
    scaled = pca.components_ * (pca.singular_values_ / np.sqrt(n))[:, None]
    model = FactorModel(
        mean=np.zeros(p),
        components=np.asarray(pca.components_, np.float64),
        noise=np.maximum(noise, MIN_NOISE),
        residual_scale=np.ones(p),
        tail_weights=np.tile(TAIL_SHAPES[1], (p, 1)),
        corrupt_rate=np.full(p, FIRST_CORRUPT_RATE),
        signal_variance=np.asarray((scaled**2).sum(axis=0), np.float64),
    )
    observed = ~cells.missing
    start = model.robust_start(cells)
    for _ in range(ITERATIONS):
        scores = model.score(cells, start)
        corrupt_rate = estimate_corrupt_rate(cells, scores)
        sd = np.sqrt(scores.variance)
        residual_scale, tail_weights = fit_tails(
            scores.residual / sd,
            corrupt_log_density(cells.values) + np.log(sd),
            observed,
            corrupt_rate,
        )
        model = replace(
            model,
            residual_scale=residual_scale,
            tail_weights=tail_weights,
            corrupt_rate=corrupt_rate,
        )
    return model

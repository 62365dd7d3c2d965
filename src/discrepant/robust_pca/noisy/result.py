"""Result of the fit with noise: three parts and posterior probabilities.

Arrays as large as the data are computed on first access, once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from discrepant.cell_model.calibration import calibrated_probability, exceeds
from discrepant.core.linalg import Array, norm
from discrepant.core.results import Certificate
from discrepant.core.robust_regression import reweighted_coordinates
from discrepant.robust_pca.exact.integrator import integrate
from discrepant.robust_pca.exact.result import ExactResult
from discrepant.robust_pca.noisy.histogram import BIN_CENTRES, to_table
from discrepant.robust_pca.noisy.mixture import Mixture, Posterior
from discrepant.robust_pca.noisy.row_model import MAX_SQUARE, RowModel
from discrepant.robust_pca.result import LowRankResult, locked_cached_property
from discrepant.robust_pca.rows import passes

CERTIFICATE_TOL = 1e-5  # tolerance of the penalised program behind the certificate
SCORED_ROWS = 1 << 13  # rows that the row model scores at a time


@dataclass(frozen=True)
class CellPosterior:
    """What the posterior probability of an entry is computed from; see `fit`."""

    sides: tuple[Array, Array]  # by row and column: 1/σ, and 1/√(1 − leverage)
    low_rank: tuple[Array, Array]  # L in units of the noise
    weights: Array  # by bin of the residual
    posterior: Posterior  # by bin of the leave-one-out residual


@dataclass(frozen=True, eq=False, repr=False)
class NoisyResult(LowRankResult):
    """Low-rank part as U diag(s) Vᵀ, noise, and the posterior of each entry."""

    noise: Array  # σ of each column, in the unit of the data
    cells: CellPosterior = field(repr=False)
    # what flags are computed from where it beats low rank and noise
    row_model: RowModel | None = field(default=None, repr=False, kw_only=True)

    @property
    def mixture(self) -> Mixture:
        """Distribution of noise and errors."""
        return self.cells.posterior.mixture

    def coordinates(self, rows: Array) -> Array:
        """Return the robust coordinates of new rows in the row space of X.

        An entry counts by the fitted probability of being clean.
        """
        noise = self.noise.astype(np.float64)
        basis = np.ascontiguousarray((self.components / noise).T, np.float64)
        weights = self.mixture.weight.astype(np.float64)

        def weight(z: Array) -> Array:
            return np.asarray(np.interp(z, BIN_CENTRES, weights))

        return reweighted_coordinates(rows / noise, basis, weight)

    @locked_cached_property
    def probability(self) -> Array:
        """P(corrupt) of each entry; zero where it is missing."""
        rows, cells = self.program.rows, self.cells
        if self.row_model is not None:

            def scored(block: slice) -> Array:
                probability = calibrated_probability(self._log_odds[block])
                return np.asarray(np.nan_to_num(probability))

            return self._by_block(scored)
        with rows:
            probability = passes.corrupt_probability(
                rows,
                cells.low_rank,
                unit=self.program.unit,
                line_values=cells.sides,
                weights=cells.weights,
                probability=cells.posterior.corrupt,
            )
        return rows.to_caller_layout(probability)

    @locked_cached_property
    def outliers(self) -> Array:
        """Which entries are flagged as corrupt."""
        if self.row_model is not None:
            return exceeds(self._log_odds, self.row_model.threshold)
        flags: Array = self.probability >= self.cells.posterior.fdr_threshold
        return flags

    @locked_cached_property
    def _log_odds(self) -> Array:
        """Log-odds by the row model that each entry is corrupt; NaN: not scored."""
        rows, model = self.program.rows, self.row_model
        assert model is not None

        def scored(block: slice) -> Array:
            return model.log_odds(rows.take(np.arange(rows.m)[block], 0))

        return self._by_block(scored)

    @locked_cached_property
    def row_score(self) -> Array:
        """Mean squared residual of each row, each at most 9; 1 is usual."""
        rows, model = self.program.rows, self.row_model
        with rows:
            if model is not None:
                starts = range(SCORED_ROWS, rows.m, SCORED_ROWS)
                blocks = np.split(np.arange(rows.m), starts)
                scores = [model.row_score(rows.take(block, 0)) for block in blocks]
                return np.concatenate(scores)
            z = BIN_CENTRES / self.mixture.tau
            square = passes.corrupt_probability(
                rows,
                self.cells.low_rank,
                unit=self.program.unit,
                line_values=self.cells.sides,
                weights=self.cells.weights,
                probability=to_table(np.minimum(z**2, MAX_SQUARE)),
            )
            counts = passes.count_observed(rows)[1 if rows.transposed else 0]
        total = rows.to_caller_layout(square).sum(axis=1, dtype=np.float64)
        return np.asarray(total / np.maximum(counts, 1))

    def _by_block(self, values_of: Callable[[slice], Array]) -> Array:
        """Return an array of the data's shape that is computed by blocks of rows."""
        rows = self.program.rows
        values = rows.to_caller_layout(rows.empty_like_data())
        with rows:
            for start in range(0, rows.m, SCORED_ROWS):
                block = slice(start, start + SCORED_ROWS)
                values[block] = values_of(block)
        return values

    @locked_cached_property
    def sparse(self) -> Array:
        """S, m×n: Y − X on the outliers, and zero elsewhere."""
        rows = self.program.rows
        flags = rows.to_caller_layout(self.outliers)
        with rows:
            S = passes.flagged_part(rows, flags, self.block_factors)
        return rows.to_caller_layout(S)

    @locked_cached_property
    def certificate(self) -> Certificate:
        """Distance to the optimum of the penalised program, of which this is the refit.

        Its κ = 1/σ(√m + √n) puts the threshold for singular values at the edge of the
        noise spectrum. The program is solved on first access.
        """
        return self._penalised.certificate

    @property
    def kappa(self) -> float:
        """The weight κ of the squared noise in the penalised program."""
        rows = self.program.rows
        edge = math.sqrt(rows.m) + math.sqrt(rows.n)
        sigma = norm(self.noise.astype(np.float64)) / math.sqrt(len(self.noise))
        return 1 / (sigma * edge)

    @property
    def dual(self) -> Array:
        """The dual M of the penalised program, m×n."""
        return self._penalised.dual

    @locked_cached_property
    def _penalised(self) -> ExactResult:
        penalised = replace(self.program, kappa=self.kappa)
        rng = np.random.default_rng(0)
        return integrate(penalised, tol=CERTIFICATE_TOL, polish=False, rng=rng)

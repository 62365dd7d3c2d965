"""Result of the fit with noise: three parts and posterior probabilities.

Arrays as large as the data are computed on first access, once.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from discrepant.core.linalg import Array, norm
from discrepant.core.results import Certificate
from discrepant.robust_pca.exact.integrator import integrate
from discrepant.robust_pca.exact.result import ExactResult
from discrepant.robust_pca.noisy.coordinates import noisy_coordinates
from discrepant.robust_pca.noisy.mixture import Mixture
from discrepant.robust_pca.result import LowRankResult, locked_cached_property
from discrepant.robust_pca.rows import passes

CERTIFICATE_TOL = 1e-5  # tolerance of the penalised program behind the certificate


@dataclass(frozen=True)
class CellPosterior:
    """What the posterior probability of an entry is computed from; see `fit`."""

    sides: tuple[Array, Array]  # by row and column: 1/σ, and 1/√(1 − leverage)
    low_rank: tuple[Array, Array]  # L in units of the noise
    weights: Array  # by bin of the residual
    corrupt: Array  # probability, by bin of the leave-one-out residual
    fdr_threshold: float  # probability from which on an entry is flagged


@dataclass(frozen=True, eq=False, repr=False)
class NoisyResult(LowRankResult):
    """Low-rank part as U diag(s) Vᵀ, noise, and the posterior of each entry."""

    noise: Array  # σ of each column, in the unit of the data
    mixture: Mixture
    settled: bool  # whether the fit converged and the noise is certain
    rounding: bool  # whether only rounding errors are left
    cells: CellPosterior = field(repr=False)

    def coordinates(self, rows: Array) -> Array:
        """Return the robust coordinates of new rows in the row space of X."""
        weight = self.mixture.weight
        return noisy_coordinates(rows, self.components, self.noise, weight)

    @locked_cached_property
    def probability(self) -> Array:
        """P(corrupt) of each entry; zero where it is missing."""
        rows, cells = self.program.rows, self.cells
        with rows:
            probability = passes.corrupt_probability(
                rows,
                cells.low_rank,
                unit=self.program.unit,
                line_values=cells.sides,
                weights=cells.weights,
                probability=cells.corrupt,
            )
        return rows.to_caller_layout(probability)

    @locked_cached_property
    def outliers(self) -> Array:
        """Which entries are flagged as corrupt."""
        flags: Array = self.probability >= self.cells.fdr_threshold
        return flags

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

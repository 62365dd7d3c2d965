"""What a fit with noise hands back: three parts, and how sure it is of each cell.

As for an exact fit, whatever is as large as the data is computed when it is first asked
for, once, and nothing is written to.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from discrepant.core.linalg import Array, norm
from discrepant.core.results import Certificate
from discrepant.robust_pca.cached_property import locked_cached_property
from discrepant.robust_pca.exact.integrator import integrate
from discrepant.robust_pca.exact.result import ExactResult
from discrepant.robust_pca.noisy.coordinates import noisy_coordinates
from discrepant.robust_pca.noisy.mixture import Mixture
from discrepant.robust_pca.result import LowRankResult
from discrepant.robust_pca.rows import passes

CERTIFIED = 1e-5  # residual of the penalised program at which its certificate is taken


@dataclass(frozen=True)
class Cells:
    """How the deviation of a cell tells whether it is corrupt; see `fit`."""

    sides: tuple[Array, Array]  # by row and column: 1/σ, and 1/√(1 − leverage)
    low_rank: tuple[Array, Array]  # L in units of the noise
    weights: Array  # by bin of the deviation
    corrupt: Array  # probability, by bin of the deviation when left out
    flagged_from: float  # probability from which on a cell is flagged


@dataclass(frozen=True, repr=False)
class NoisyResult(LowRankResult):
    """Low-rank part as U diag(s) Vᵀ, noise, and what the cells are judged by."""

    noise: Array  # σ of each column, in the unit of the data
    mixture: Mixture
    settled: bool  # whether the fit stands, and the noise is not in doubt
    rounding: bool  # whether nothing but rounding is left
    cells: Cells = field(repr=False)

    def coordinates(self, rows: Array) -> Array:
        """Return where new rows lie in the row space of X, weighed by the noise."""
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
        wrong: Array = self.probability >= self.cells.flagged_from
        return wrong

    @locked_cached_property
    def sparse(self) -> Array:
        """S, m×n: Y − X on the outliers, and zero elsewhere."""
        rows = self.program.rows
        wrong = rows.to_caller_layout(self.outliers)
        with rows:
            S = passes.flagged_part(rows, wrong, self.factors)
        return rows.to_caller_layout(S)

    @locked_cached_property
    def certificate(self) -> Certificate:
        """Proof of optimality of the penalised program whose refit this is.

        Its κ = 1/σ(√m + √n) puts the threshold for singular values at the edge of the
        noise's spectrum. It is solved for this when first asked for.
        """
        return self._penalised.certificate

    @property
    def dual(self) -> Array:
        """The dual M of the penalised program, m×n."""
        return self._penalised.dual

    @locked_cached_property
    def _penalised(self) -> ExactResult:
        rows = self.program.rows
        edge = math.sqrt(rows.m) + math.sqrt(rows.n)
        sigma = norm(self.noise.astype(np.float64)) / math.sqrt(len(self.noise))
        penalised = replace(self.program, kappa=1 / (sigma * edge))
        rng = np.random.default_rng(0)
        return integrate(penalised, tol=CERTIFIED, polish=False, rng=rng)

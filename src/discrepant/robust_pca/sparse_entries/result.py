"""Result of a fit of stored entries: its parts are as sparse as the data."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array, issparse

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.results import Certificate
from discrepant.robust_pca.doubts import Doubt, FitWarning
from discrepant.robust_pca.noisy.mixture import Mixture
from discrepant.robust_pca.result import FactoredResult
from discrepant.robust_pca.sparse_entries import kernels
from discrepant.robust_pca.sparse_entries.entries import StoredEntries

# Rounds of reweighted least squares in the robust regression of new rows: after these
# coordinates change by less than the noise.
REGRESSION_ROUNDS = 30


@dataclass(frozen=True, eq=False, repr=False)
class SparseEntriesResult(FactoredResult):
    """Low-rank part as U diag(s) Vᵀ; everything else at the stored entries only."""

    noise: Array
    alpha: float
    mixture: Mixture | None  # of the residuals; None for an exact fit
    entries: StoredEntries = field(repr=False)  # the data
    corrupt_probability: Array = field(repr=False)  # of each stored entry
    flag_threshold: float = field(repr=False)  # probability from which one is flagged

    @property
    def doubts(self) -> Iterator[FitWarning]:
        """Yield warnings if rows or columns have too few entries for the rank.

        Other doubts are those about every fit.
        """
        needed = max(self.rank, 1)
        by_axis = self.entries.by_axis
        few = [int((lines.counts < needed).sum()) for lines in by_axis]
        if any(few):
            yield Doubt.FEW_STORED.warning(rows=few[0], columns=few[1], rank=needed)
        if not self.mixture:
            return
        is_clean = ~self._is_outlier
        rows, columns = (
            int(
                ((lines.sums(is_clean) <= self.rank) & (lines.counts > self.rank)).sum()
            )
            for lines in by_axis
        )
        if rows or columns:
            where = f" in {rows} rows and {columns} columns"
            yield Doubt.UNDETERMINED.warning(where=where)

    @property
    def certificate(self) -> Certificate:
        """Not available: it would need a dual of the size of the full matrix."""
        raise InputError(
            'There is no certificate with missing="unstored": it would need an array '
            "of the size of the full matrix."
        )

    @property
    def low_rank(self) -> Any:
        """X at the stored entries; `block` returns it anywhere."""
        return self._to_sparse(self.fitted)

    @property
    def sparse(self) -> Any:
        """Y − X on the outliers, and zero at the other stored entries."""
        y = self.entries.y
        return self._to_sparse(np.where(self._is_outlier, y - self.fitted, 0.0))

    @property
    def residual(self) -> Any:
        """Y − X − S at the stored entries."""
        y = self.entries.y
        return self._to_sparse(np.where(self._is_outlier, 0.0, y - self.fitted))

    @property
    def outliers(self) -> Any:
        """Which stored entries are flagged as corrupt."""
        return self.entries.to_sparse(self._is_outlier)

    @property
    def probability(self) -> Any:
        """P(corrupt) of each stored entry."""
        return self._to_sparse(self.corrupt_probability)

    @cached_property
    def fitted(self) -> Array:
        """X at the stored entries, as a one-dimensional array."""
        U, V = (np.ascontiguousarray(F, np.float64) for F in self.factors)
        y, residual = self.entries.y, np.empty(len(self.entries.y))
        self.entries.run(0, kernels.residuals, y, U, V, residual)
        return np.asarray(y - residual)

    def coordinates(self, rows: Any) -> Array:
        """Return the coordinates of new rows in the row space of X.

        They minimise the sum of absolute errors, up to the noise. Missing are the
        entries that a sparse matrix does not store, and NaN elsewhere.
        """
        if not issparse(rows):
            rows = np.asarray(rows)
            observed = np.nonzero(~np.isnan(rows))
            rows = coo_array((rows[observed], observed), rows.shape)
        coordinates = np.zeros((rows.shape[0], self.rank))
        if not rows.nnz or not self.rank:
            return coordinates
        entries = StoredEntries(rows)
        V = np.ascontiguousarray(self.components.T, np.float64)
        floor = 1e-9 * float(np.median(np.abs(entries.y)) or 1.0)
        scale = max(float(self.noise[0]), floor)
        squares = self.singular_values.astype(float) ** 2
        ridge = scale**2 / np.maximum(squares / len(self.U), 1e-300)
        y, weights, residual = entries.y, np.ones(len(entries.y)), entries.y.copy()
        prior = V, ridge, np.ones(len(coordinates))
        for _ in range(REGRESSION_ROUNDS):
            entries.run(0, kernels.least_squares, y, weights, *prior, coordinates)
            entries.run(0, kernels.residuals, y, coordinates, V, residual)
            weights = scale / (np.abs(residual) + scale)
        return coordinates

    @property
    def _is_outlier(self) -> Array:
        return self.corrupt_probability >= self.flag_threshold

    def _to_sparse(self, values: Array) -> Any:
        return self.entries.to_sparse(values.astype(self.entries.dtype))

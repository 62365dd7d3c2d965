"""Result of a fit of stored entries: its parts are as sparse as the data."""

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.results import Certificate
from discrepant.robust_pca.result import FactoredResult, locked_cached_property
from discrepant.robust_pca.sparse_entries import kernels
from discrepant.robust_pca.sparse_entries.entries import StoredEntries

# Rounds of reweighted least squares in the robust regression of new rows: after these
# coordinates change by less than the noise.
REGRESSION_ROUNDS = 30


@dataclass(frozen=True)
class StoredData:
    """The data, with the class of the sparse matrix they came in, and a lock."""

    entries: StoredEntries = field(repr=False)
    sparse_class: Any  # of the input, and of the parts
    lock: Any = field(default_factory=threading.RLock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"entries": self.entries, "sparse_class": self.sparse_class}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "lock": threading.RLock()}.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False, repr=False)
class SparseEntriesResult(FactoredResult):
    """Low-rank part as U diag(s) Vᵀ; everything else at the stored entries only."""

    noise: Array
    alpha: float
    stored: StoredData = field(repr=False)
    corrupt_probability: Array = field(repr=False)  # of each stored entry
    flag_threshold: float = field(repr=False)  # probability from which one is flagged

    @property
    def lock(self) -> Any:
        """The lock under which parts are computed."""
        return self.stored.lock

    @property
    def undetermined(self) -> tuple[int, int]:
        """Number of rows and of columns with fewer stored entries than the rank."""
        needed = max(self.rank, 1)
        rows, columns = self.stored.entries.by_axis
        return int((rows.counts < needed).sum()), int((columns.counts < needed).sum())

    @property
    def certificate(self) -> Certificate:
        """Not available: it would need a dual of the size of the full matrix."""
        raise InputError(
            'There is no certificate with missing="unstored": it would need an array '
            "of the size of the full matrix."
        )

    @locked_cached_property
    def low_rank(self) -> Any:
        """X at the stored entries; `block` returns it anywhere."""
        return self._to_sparse(self.fitted)

    @locked_cached_property
    def sparse(self) -> Any:
        """Y − X on the outliers, and zero at the other stored entries."""
        y = self.stored.entries.y
        return self._to_sparse(np.where(self._is_outlier, y - self.fitted, 0.0))

    @locked_cached_property
    def residual(self) -> Any:
        """Y − X − S at the stored entries."""
        y = self.stored.entries.y
        return self._to_sparse(np.where(self._is_outlier, 0.0, y - self.fitted))

    @locked_cached_property
    def outliers(self) -> Any:
        """Which stored entries are flagged as corrupt."""
        stored = self.stored
        return stored.entries.to_sparse(self._is_outlier, stored.sparse_class)

    @locked_cached_property
    def probability(self) -> Any:
        """P(corrupt) of each stored entry."""
        return self._to_sparse(self.corrupt_probability)

    @locked_cached_property
    def fitted(self) -> Array:
        """X at the stored entries, as a one-dimensional array."""
        entries = self.stored.entries
        residual = np.empty(len(entries.y))
        U, V = (np.ascontiguousarray(F, np.float64) for F in self.factors)
        entries.run(entries.rows, kernels.residuals, entries.y, U, V, residual)
        return np.asarray(entries.y - residual)

    def coordinates(self, rows: Any) -> Array:
        """Return the coordinates of new rows in the row space of X.

        Missing are the entries that a sparse matrix does not store, and NaN elsewhere.
        """
        from scipy import sparse

        if not sparse.issparse(rows):
            rows = np.asarray(rows)
            observed = np.nonzero(~np.isnan(rows))
            rows = sparse.coo_array((rows[observed], observed), rows.shape)
        coordinates = np.zeros((rows.shape[0], self.rank))
        if not rows.nnz or not self.rank:
            return coordinates
        entries = StoredEntries(rows)
        V = np.ascontiguousarray(self.components.T, np.float64)
        floor = 1e-9 * float(np.median(np.abs(entries.y)) or 1.0)
        scale = max(float(self.noise[0]), floor)
        squares = self.singular_values.astype(float) ** 2
        ridge = scale**2 / np.maximum(squares / len(self.U), 1e-300)
        entries.run(
            entries.rows,
            kernels.robust_regressions,
            entries.y,
            V,
            ridge,
            scale,
            REGRESSION_ROUNDS,
            coordinates,
        )
        return coordinates

    @property
    def _is_outlier(self) -> Array:
        return self.corrupt_probability >= self.flag_threshold

    def _to_sparse(self, values: Array) -> Any:
        entries, sparse_class = self.stored.entries, self.stored.sparse_class
        return entries.to_sparse(values.astype(entries.dtype), sparse_class)

"""What a fit of stored entries hands back: sparse for sparse."""

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from discrepant.core.display import ResultDisplayMixin
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.results import Certificate, History, Status
from discrepant.robust_pca.cached_property import locked_cached_property
from discrepant.robust_pca.sparse_entries import kernels
from discrepant.robust_pca.sparse_entries.entries import StoredEntries

ROUNDS = 30  # of a robust regression of new rows


@dataclass(frozen=True)
class Stored:
    """What was stored, and how: the places of the results."""

    entries: StoredEntries = field(repr=False)
    kind: Any  # the sparse class of the input
    lock: Any = field(default_factory=threading.RLock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"entries": self.entries, "kind": self.kind}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "lock": threading.RLock()}.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, repr=False)
class SparseEntriesResult(ResultDisplayMixin):
    """Low-rank part as U diag(s) Vᵀ; everything else at the stored entries only."""

    U: Array
    singular_values: Array
    components: Array
    noise: Array
    lam: float
    status: Status
    history: History
    stored: Stored = field(repr=False)
    chance: Array = field(repr=False)  # P(corrupt) of each entry
    flagged_from: float = field(repr=False)

    @property
    def program(self) -> Any:
        """Where `locked_cached_property` finds the lock."""
        return SimpleNamespace(rows=self.stored)

    @property
    def rank(self) -> int:
        """Rank of the low-rank part."""
        return len(self.singular_values)

    @property
    def n_steps(self) -> int:
        """Rounds that were made."""
        return len(self.history["step"])

    @property
    def undetermined(self) -> tuple[int, int]:
        """How many rows and columns store fewer entries than the rank."""
        entries, least = self.stored.entries, max(self.rank, 1)
        few = [int((side.counts < least).sum()) for side in entries.sides]
        return few[0], few[1]

    @property
    def certificate(self) -> Certificate:
        """There is none: it would need a dual of the table's size."""
        raise InputError(
            "There is no certificate for data of which only stored entries are seen."
        )

    def block(self, rows: Any, columns: Any) -> Array:
        """Return a part of the low-rank part, as a dense array."""
        part: Array = (self.U[rows] * self.singular_values) @ self.components[
            :, columns
        ]
        return part

    @locked_cached_property
    def low_rank(self) -> Any:
        """X at the stored entries; `block` gives it anywhere."""
        return self._at(self.fitted)

    @locked_cached_property
    def sparse(self) -> Any:
        """Y − X on the outliers, and zero at the other stored entries."""
        y = self.stored.entries.y
        return self._at(np.where(self._wrong, y - self.fitted, 0.0))

    @locked_cached_property
    def residual(self) -> Any:
        """Y − X − S at the stored entries."""
        y = self.stored.entries.y
        return self._at(np.where(self._wrong, 0.0, y - self.fitted))

    @locked_cached_property
    def outliers(self) -> Any:
        """Which stored entries are flagged as corrupt."""
        return self.stored.entries.like(self._wrong, self.stored.kind)

    @locked_cached_property
    def probability(self) -> Any:
        """P(corrupt) of each stored entry."""
        return self._at(self.chance)

    @locked_cached_property
    def fitted(self) -> Array:
        """X at the stored entries, as a plain array."""
        entries = self.stored.entries
        rest = np.empty(len(entries.y))
        U = np.asarray(self.U * self.singular_values, np.float64)
        V = np.ascontiguousarray(self.components.T, np.float64)
        entries.each(entries.rows, kernels.residuals, entries.y, U, V, rest)
        return np.asarray(entries.y - rest)

    def coordinates(self, rows: Any) -> Array:
        """Return where new rows lie; sparse ones by what they store, others by NaN."""
        from scipy import sparse

        if not sparse.issparse(rows):
            rows = np.asarray(rows)
            seen = np.nonzero(~np.isnan(rows))
            rows = sparse.coo_array((rows[seen], seen), rows.shape)
        found = np.zeros((rows.shape[0], self.rank))
        if not rows.nnz or not self.rank:
            return found
        entries = StoredEntries(rows)
        V = np.ascontiguousarray(self.components.T, np.float64)
        floor = 1e-9 * float(np.median(np.abs(entries.y)) or 1.0)
        scale = max(float(self.noise[0]), floor)
        spread = np.maximum(
            self.singular_values.astype(float) ** 2 / len(self.U), 1e-300
        )
        ridge = scale**2 / spread
        entries.each(
            entries.rows, kernels.regressions, entries.y, V, ridge, scale, ROUNDS, found
        )
        return found

    @property
    def _wrong(self) -> Array:
        return self.chance >= self.flagged_from

    def _at(self, values: Array) -> Any:
        stored = self.stored
        return stored.entries.like(values.astype(stored.entries.dtype), stored.kind)

"""Rows that come one after the other: `partial_fit`, in memory that does not grow.

The latest rows are kept and split together, as `fit` would; older ones are forgotten.
Between two fits each new row is only looked at: does the subspace explain most of its
entries? A run of rows that it does not explain is a change of the scene. What was
before is then dropped, and the new rows are fitted as soon as there are enough, and
again as they become more.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from discrepant.core.array_libraries import ArrayKind
from discrepant.core.errors import InputError
from discrepant.core.labels import Labels
from discrepant.core.linalg import Array
from discrepant.core.results import Result
from discrepant.core.robust_regression import l1_coordinates
from discrepant.robust_pca.input_data import validated
from discrepant.robust_pca.settings import check_asked

WINDOW = 200  # rows that are kept
FIRST = 20  # rows before the first fit: fewer say little
RUN = 5  # rows in a row that are not explained: a change
GROWTH = 1.5  # times as many rows before the next fit
COLUMNS = 600  # of a row that are looked at, and no less than
TIMES = 8  # as many as the rank
SIGMAS = 4.0  # of noise within which an entry is explained
ROUNDING = 1e-6  # of a row's size, where there is no noise


class Tracker:
    """The latest rows, and the split of those among them that belong together.

    Parameters
    ----------
    found : Result, optional
        Of a fit from which to go on.
    """

    def __init__(self, found: Result | None = None) -> None:
        self.found = found
        self.seen = 0
        self._rows: Array | None = None
        self._fitted = 0 if found is None else WINDOW  # rows of the last fit
        self._new = 0  # rows since
        self._strange = 0  # rows in a row that were not explained

    def update(self, rows: Array, solve: Callable[[Array], Result]) -> None:
        """Take in rows, in the order in which they came; `solve` splits a matrix."""
        for start in range(0, len(rows), RUN):
            self._take(rows[start : start + RUN], solve)

    def _take(self, rows: Array, solve: Callable[[Array], Result]) -> None:
        kept = rows if self._rows is None else np.concatenate([self._rows, rows])
        for row in rows:
            known = None if self.found is None else explained(self.found, row)
            if known is not None:
                self._strange = 0 if known else self._strange + 1
        self.seen += len(rows)
        self._new += len(rows)
        if self.found is not None and RUN <= self._strange < 2 * RUN:
            kept = kept[-self._strange :]  # what was before is another scene
            self._fitted = 0
        self._rows = kept[-WINDOW:]
        if len(self._rows) >= FIRST and self._due(len(self._rows)):
            self.found = solve(self._rows)
            self._fitted, self._new = len(self._rows), 0

    def _due(self, count: int) -> bool:
        """Whether enough is new: half as much again, or half of a full window."""
        if self.found is None or not self._fitted:
            return True
        return self._new >= (GROWTH - 1) * min(self._fitted, WINDOW)


def explained(found: Result, row: Array) -> bool | None:
    """Return whether most entries of a row lie in a subspace, up to the noise.

    Some columns suffice to tell, the same ones for all rows. A row of which hardly
    anything is there says nothing: None.
    """
    V = found.components
    count = max(COLUMNS, TIMES * len(V))
    some = np.random.default_rng(0).permutation(V.shape[1])[:count]
    y, noise = row[some].astype(np.float64), found.noise[some]
    seen = ~np.isnan(y)
    if np.count_nonzero(seen) <= 2 * len(V):
        return None
    basis, _ = np.linalg.qr(V[:, some].T.astype(np.float64))
    c = l1_coordinates(y[None], np.ascontiguousarray(basis.T))[0]
    away = np.abs(y - basis @ c)[seen]
    size = np.median(np.abs(y[seen]))
    near = away <= SIGMAS * noise[seen] + ROUNDING * size
    return bool(np.mean(near) > 0.5)


class Tracking:
    """Gives an estimator that can split a table also `partial_fit`."""

    _tracker: Tracker

    @available_if(lambda self: self.solver == "implicit")  # type: ignore[untyped-decorator]
    def partial_fit(self: Any, X: Any, y: Any = None) -> Any:
        """Follow a stream: take in more rows, and forget what is long past.

        The latest 200 rows are kept and split together; `low_rank_`, `sparse_` and
        `outliers_` are those of the rows of the last split. A change of the subspace is
        noticed within five rows and followed as soon as the new rows determine it.
        After `fit` it goes on from there; else the model counts as fitted from the
        twentieth row on. `n_samples_seen_` counts the rows that came this way.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next rows, in their order; NaN marks missing entries.
        y : None
            Ignored.
        """
        check_asked(self)
        if self.missing == "unstored" or self.psd or self.solver != "implicit":
            raise InputError(
                'partial_fit needs solver="implicit", missing="nan" and psd=False: '
                "rows of a stream are dense, and no square matrix."
            )
        first = "_tracker" not in self.__dict__
        before = self.__dict__.get("_found") if first else None
        if before is not None and not isinstance(before.components, np.ndarray):
            before = None  # of a fit elsewhere: begin afresh
        if first and before is None:
            self._forget()
        rows = validated(self, X, reset=first and before is None)
        if first:
            self._tracker = Tracker(before)
        tracker = self._tracker
        tracker.update(rows, lambda some: self._integrated(some, self._rules(), None))
        self.n_samples_seen_ = tracker.seen
        if tracker.found is not self.__dict__.get("_found"):
            self._keep(tracker.found, None, ArrayKind.of(X))
        return self

    def _keep(
        self: Any, found: Result, labels: Labels | None, kind: ArrayKind | None = None
    ) -> None:
        """Show what was found; from here on the model counts as fitted."""
        self.noise_ = one_or_all(found.noise)
        self.rank_ = found.rank
        self.singular_values_ = found.singular_values
        self.components_ = found.components
        self.alpha_ = 1 / found.lam
        self.n_iter_ = found.n_steps
        self.status_ = found.status
        self.history_ = found.history
        self._labels, self._array_kind, self._found = labels, kind, found
        for name in ("components_", "singular_values_", "noise_"):
            values = getattr(self, name)
            if kind is not None and isinstance(values, np.ndarray):
                setattr(self, name, kind.convert(values))


def one_or_all(noise: Array) -> float | Array:
    """Return one number for the noise where it is the same in all columns."""
    return float(noise[0]) if np.all(noise == noise[0]) else noise

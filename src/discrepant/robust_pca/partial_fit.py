"""Fit a stream of rows in constant memory: `RobustPCA.partial_fit`.

The latest rows are kept in a window and split together, as `fit` would. Between two
fits, each new row is only tested: does the subspace explain most of its entries? A few
unexplained rows in succession are a change of the subspace. The older rows are then
dropped. The new rows are fitted as soon as there are enough, and again as their number
grows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from discrepant.core.array_libraries import ArrayKind
from discrepant.core.errors import InputError, InputTypeError
from discrepant.core.linalg import Array
from discrepant.core.results import Result
from discrepant.core.robust_regression import l1_coordinates
from discrepant.robust_pca.input_data import is_dask, validate_data_of
from discrepant.robust_pca.settings import check_parameters

# Rows in the window.
WINDOW = 200
# Rows before the first fit: fewer hardly determine a subspace.
FIRST_FIT = 20
# Unexplained rows in succession that indicate a change of the subspace. Rows are also
# processed in groups of this size.
UNEXPLAINED_RUN = 5
# Factor by which the number of rows grows before the next fit.
GROWTH = 1.5
# Columns at which a row is tested, at the least.
TESTED_COLUMNS = 600
# Columns at which a row is tested, per component, at the least.
TESTED_COLUMNS_PER_RANK = 8
# An entry is explained if its residual is within this many standard deviations.
MAX_SIGMAS = 4.0
# Residual allowed in addition, relative to the row's median |entry|: rounding.
ROUNDING = 1e-6


class RowTracker:
    """Window of the latest rows, and the result of the last fit."""

    def __init__(self, result: Result | None = None) -> None:
        self.result = result
        self.n_rows_seen = 0
        self._window: Array | None = None
        self._n_fitted = 0 if result is None else WINDOW  # rows of the last fit
        self._n_since_fit = 0
        self._n_unexplained = 0  # in succession, up to the latest

    def update(self, rows: Array, solve: Callable[[Array], Result]) -> None:
        """Add rows in the order of arrival; `solve` fits a matrix."""
        for start in range(0, len(rows), UNEXPLAINED_RUN):
            self._add(rows[start : start + UNEXPLAINED_RUN], solve)

    def _add(self, rows: Array, solve: Callable[[Array], Result]) -> None:
        """Add a few rows to the window, and fit it if that is due."""
        window = rows if self._window is None else np.concatenate([self._window, rows])
        for row in rows:
            explained = None if self.result is None else is_explained(self.result, row)
            if explained is not None:
                self._n_unexplained = 0 if explained else self._n_unexplained + 1
        self.n_rows_seen += len(rows)
        self._n_since_fit += len(rows)
        changed = UNEXPLAINED_RUN <= self._n_unexplained < 2 * UNEXPLAINED_RUN
        if self.result is not None and changed:
            window = window[-self._n_unexplained :]  # the rows before have another
            self._n_fitted = 0
        self._window = window[-WINDOW:]
        if len(self._window) >= FIRST_FIT and self._fit_is_due():
            self.result = solve(self._window)
            self._n_fitted, self._n_since_fit = len(self._window), 0

    def _fit_is_due(self) -> bool:
        """Whether rows increased by half, or half of a full window is new."""
        if self.result is None or not self._n_fitted:
            return True
        return self._n_since_fit >= (GROWTH - 1) * min(self._n_fitted, WINDOW)


def is_explained(result: Result, row: Array) -> bool | None:
    """Return whether most entries of a row lie in a fit's subspace, up to the noise.

    The test uses some columns, the same for all rows. None if the row has too few
    observed entries.
    """
    V = result.components
    n_columns = max(TESTED_COLUMNS, TESTED_COLUMNS_PER_RANK * len(V))
    columns = np.random.default_rng(0).permutation(V.shape[1])[:n_columns]
    y, noise = row[columns].astype(np.float64), result.noise[columns]
    observed = ~np.isnan(y)
    if np.count_nonzero(observed) <= 2 * len(V):
        return None
    basis, _ = np.linalg.qr(V[:, columns].T.astype(np.float64))
    c = l1_coordinates(y[None], np.ascontiguousarray(basis.T))[0]
    residual = np.abs(y - basis @ c)[observed]
    size = np.median(np.abs(y[observed]))
    explained = residual <= MAX_SIGMAS * noise[observed] + ROUNDING * size
    return bool(np.mean(explained) > 0.5)


class PartialFitMixin:
    """Adds `partial_fit` to an estimator that can split a matrix."""

    _tracker: RowTracker

    @available_if(lambda self: self.solver == "implicit")  # type: ignore[untyped-decorator]
    def partial_fit(self: Any, X: Any, y: Any = None) -> Any:
        """Continue a stream: add rows, and drop those that left the window.

        The latest 200 rows are kept and split together; `low_rank_`, `sparse_` and
        `outliers_` belong to the rows of the last split. A change of the subspace is
        detected within five rows, and the model follows as soon as the new rows
        determine it. After `fit`, the stream continues from its result. Otherwise the
        model is fitted from the twentieth row on. `n_samples_seen_` counts the rows
        passed to this method.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next rows, in their order; NaN marks missing entries.
        y : None
            Ignored.
        """
        check_parameters(self)
        if self.missing == "unstored" or self.psd:
            raise InputError(
                'partial_fit needs missing="nan" and psd=False: a stream consists of '
                "dense rows, which form no square matrix."
            )
        if is_dask(X):
            raise InputTypeError(
                "An array in memory is needed, got a Dask collection; pass X.compute()."
            )
        first = "_tracker" not in self.__dict__
        previous = self.__dict__.get("_result") if first else None
        if previous is not None and not isinstance(previous.components, np.ndarray):
            previous = None  # not in NumPy arrays: start from scratch
        if first and previous is None:
            self._forget_previous_fit()
        rows = validate_data_of(self, X, reset=first and previous is None)
        if first:
            self._tracker = RowTracker(previous)
        tracker = self._tracker
        tracker.update(rows, self._fit_rows)
        self.n_samples_seen_ = tracker.n_rows_seen
        if tracker.result is not self.__dict__.get("_result"):
            self._set_fitted_attributes(tracker.result, None, ArrayKind.of(X))
        return self

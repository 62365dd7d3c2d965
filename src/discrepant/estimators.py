"""RobustPCA: the matrix methods behind scikit-learn's conventions."""

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from discrepant.certificate import certify
from discrepant.descent import recover
from discrepant.errors import InputError
from discrepant.linalg import Array
from discrepant.stopping import Residual, Steps
from discrepant.subspace import coordinates


class RobustPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Split a table into a low-rank part and sparse gross corruption.

    Neither the rank nor the share of corrupted entries need be known, and there is
    nothing to stop in time. NaN marks missing entries. The data are not centred.

    Parameters
    ----------
    solver : {"descent"}
        "descent" is the paper's gradient descent with two learning rates.
    alpha : float or "auto"
        Ratio of the rates of corruption and signal. The result is that of the convex
        program ``min ‖X‖_* + λ‖S‖₁`` with λ = 1/α. "auto" is √max(m, n).
    psd : bool
        Whether the low-rank part is positive semidefinite, as covariance, Gram and
        kernel matrices are. The corruption need not be symmetric.
    tol : float
        Stop when ``‖X + S − Y‖ ≤ tol·‖Y‖``.
    max_iter : int
        Most steps.
    step, init_scale, width
        Settings of the descent; see `discrepant.recover`.
    random_state : int, Generator, RandomState or None
        Seed of the start.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    low_rank_, sparse_ : ndarray or DataFrame of the shape of the data
        The two parts.
    rank_ : int
        Rank of the low-rank part, read off the largest gap of its spectrum.
    components_ : ndarray of shape (rank_, n_features)
        Orthonormal basis of its row space.
    singular_values_ : ndarray of shape (rank_,)
        Its singular values.
    certificate_ : Certificate
        How far the result is from a global optimum of the convex program.
    alpha_ : float
        The ratio that was used.
    n_iter_ : int
        Steps taken.
    status_ : Status
        How the run ended, in a sentence.
    history_ : History
        How it went.

    Examples
    --------
    >>> from discrepant import RobustPCA
    >>> from discrepant.problems import corrupted_matrix, relative_error
    >>> problem = corrupted_matrix((60, 40), rank=2, share=0.05, random_state=0)
    >>> pca = RobustPCA(random_state=0).fit(problem.observed)
    >>> pca.rank_
    2
    >>> relative_error(pca.low_rank_, problem.low_rank) < 0.05
    True
    """

    def __init__(
        self,
        solver: str = "descent",
        *,
        alpha: float | str = "auto",
        psd: bool = False,
        tol: float = 1e-3,
        max_iter: int = 20_000,
        step: float | str = "auto",
        init_scale: float = 1e-4,
        width: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.solver = solver
        self.alpha = alpha
        self.psd = psd
        self.tol = tol
        self.max_iter = max_iter
        self.step = step
        self.init_scale = init_scale
        self.width = width
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> "RobustPCA":
        """Split the table X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The corrupted table; NaN marks missing entries.
        y : None
            Ignored.
        """
        if self.solver != "descent":
            raise InputError(f'solver must be "descent", got {self.solver!r}.')
        Y = self._validated(X, reset=True)
        found = recover(
            Y,
            alpha=self.alpha,
            step=self.step,
            init_scale=self.init_scale,
            width=self.width,
            psd=self.psd,
            stop=(Residual(self.tol), Steps(self.max_iter)),
            random_state=self.random_state,
            progress=bool(self.verbose),
        )
        _, sigma, Vt = np.linalg.svd(found.low_rank, full_matrices=False)
        self.rank_ = _rank_at_gap(sigma)
        self.singular_values_ = sigma[: self.rank_]
        self.components_ = Vt[: self.rank_]
        self.low_rank_ = _labelled(found.low_rank, X)
        self.sparse_ = _labelled(found.sparse, X)
        self.alpha_ = found.alpha
        self.certificate_ = certify(found)
        self.n_iter_ = found.n_steps
        self.status_ = found.status
        self.history_ = found.history
        return self

    def transform(self, X: Any) -> Array:
        """Return the coordinates of rows in the learned subspace.

        The rows may be corrupted and incomplete themselves: the coordinates minimise
        the sum of absolute errors over the observed entries.
        """
        check_is_fitted(self)
        rows = self._validated(X, reset=False)
        return coordinates(rows, self.components_).astype(rows.dtype)

    def inverse_transform(self, X: Any) -> Array:
        """Return the rows that have the given coordinates."""
        check_is_fitted(self)
        return np.asarray(X) @ self.components_

    @property
    def _n_features_out(self) -> int:
        """Number of coordinates, for `get_feature_names_out`."""
        return int(self.rank_)

    def _validated(self, X: Any, reset: bool) -> Array:
        try:
            return validate_data(
                self,
                X,
                reset=reset,
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan",
            )
        except ValueError as error:
            advice = " Replace it by NaN to mark it as missing."
            raise InputError(
                f"{error}{advice if 'infinity' in str(error) else ''}"
            ) from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _rank_at_gap(sigma: Array) -> int:
    """Count the singular values before the largest gap of the spectrum.

    The descent ends a finite distance from low rank: directions that it did not choose
    are small, not zero. Values below a hundredth of the largest are not looked at.
    """
    if not len(sigma) or sigma[0] <= 0:
        return 0
    relative = np.append(sigma, 0.0) / sigma[0]
    heads = np.flatnonzero(relative >= 0.01)
    gaps = relative[heads] / np.maximum(relative[heads + 1], 1e-3)
    return int(heads[np.argmax(gaps)]) + 1


def _labelled(values: Array, like: Any) -> Any:
    """Give an array the row and column labels of what it was made from."""
    if hasattr(like, "iloc") and hasattr(like, "columns"):
        import pandas as pd

        return pd.DataFrame(values, index=like.index, columns=like.columns)
    return values

"""RobustPCA: robust principal components as a scikit-learn estimator."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)

from discrepant.core.array_libraries import ArrayKind, in_kind_of, to_numpy
from discrepant.core.errors import InputError
from discrepant.core.labels import labels_of
from discrepant.core.linalg import Array
from discrepant.core.progress import reporting
from discrepant.core.results import History, Result, Status
from discrepant.core.validation import real_array
from discrepant.paper.matrix_descent import DescentSettings, recover_by_descent
from discrepant.paper.stopping import DEFAULT_STOP, Residual, Steps
from discrepant.robust_pca.fit_warnings import (
    fit_warnings,
    sample_data,
    sparse_entries_warnings,
)
from discrepant.robust_pca.fitted import FittedPartsMixin
from discrepant.robust_pca.input_data import is_dask, validate_array
from discrepant.robust_pca.partial_fit import PartialFitMixin
from discrepant.robust_pca.settings import (
    DEFAULT_PASSES,
    DEFAULT_TOL,
    SolverSettings,
    check_parameters,
)

# Parameters of the implicit solver besides tol and max_iter.
SETTINGS = ("alpha", "psd", "noise", "fdr", "polish", "effort", "random_state")


class RobustPCA(
    PartialFitMixin,
    FittedPartsMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Split a table into a low-rank part, sparse gross corruption, and noise.

    The rank, the fraction of corrupted entries and the noise are estimated; there is no
    stopping time to choose. NaN marks missing entries. The data are not centred.
    Float32 stays float32; every other type of number becomes float64.

    Parameters
    ----------
    solver : {"implicit", "descent"}
        "implicit" integrates the paper's gradient flow in a few large steps, each one
        pass over the data. "descent" is the paper's gradient descent with two learning
        rates.
    alpha : float or "auto"
        Ratio of the learning rates of corruption and signal. The result solves the
        convex program ``min ‖X‖_* + λ‖S‖₁`` with λ = 1/α. "auto" is √max(m, n), less if
        entries are missing; with ``psd=True`` the implicit solver estimates it from the
        data (see `discrepant.paper.alpha`).
    psd : bool
        Whether the low-rank part is positive semidefinite, as covariance, Gram and
        kernel matrices are. The corruption need not be symmetric.
    tol : float, optional
        Stop when ``‖X + S − Y‖ ≤ tol·‖Y‖``; by default 1e-7, for the descent 1e-3. The
        implicit solver also requires a relative dual residual of at most 30·tol. Its
        smallest tolerance is 20 times the rounding error of the data's type. Entries
        so gross that they are clipped enter ‖Y‖ with their clipped size.
    max_iter : int, optional
        Largest number of steps; by default 500, for the descent 20,000.
    polish : bool
        Implicit solver: once the rank and the support of S are determined, refine to
        rounding error if that gives an exact solution.
    effort : {"best", "fast"}
        Implicit solver: "best" searches for an exact decomposition by empirical Bayes
        if nothing cheaper gives a clear result: up to a few seconds for 50×50, and
        about a minute for 1000×1000. "fast" leaves this out.
    noise : "auto", "column", float or array-like of shape (n_features,)
        Implicit solver: standard deviation of the noise on every entry. "auto"
        estimates it, and tests whether it differs between columns; it is zero if the
        data have an exact decomposition. "column" estimates one for each column. Zero
        selects the convex program without noise; so does "auto" together with a number
        for `alpha` or with ``polish=False``.
    fdr : float
        False discovery rate: the fraction of the flagged entries (`outliers_`) that may
        be clean.
    warm_start : bool
        Implicit solver: start from the last fit, if its data had the same shape.
    memory_limit : int, optional
        Implicit solver: bytes that its one large working array may take in memory. A
        larger one is kept in a temporary file, and so are the two parts. The data may
        be a memory map. For a Dask array it is the size that may be loaded into memory,
        by default 256 MB.
    missing : {"nan", "unstored"}
        How missing entries are marked. With "unstored" the data are a sparse matrix of
        SciPy, and only stored entries are observed. Time and memory then depend on the
        number of stored entries, and the parts are as sparse as the data.
    n_jobs : int, optional
        Implicit solver: number of threads; by default one per core. −1 is all cores.
    step, init_scale, width
        Settings of the descent; see `discrepant.recover`.
    random_state : int, Generator, RandomState or None
        Seed of the random initialisation.
    verbose : bool or callable
        Show a progress bar. A callable receives ``(fraction done, note)``; if it
        returns False, the fit ends with the best result so far.

    Attributes
    ----------
    low_rank_, sparse_ : ndarray or DataFrame of the shape of the data
        The two parts. The implicit solver computes each on first access, from the data
        that were passed to `fit`; do not change these data before. The sparse part is
        zero except at the outliers.
    noise_ : float or ndarray of shape (n_features,)
        Standard deviation of the noise; zero if the decomposition is exact, one number
        if it is the same in all columns.
    outliers_ : ndarray of bool or DataFrame of the shape of the data
        The entries flagged as corrupt; a fraction `fdr` of them may be clean.
        In tables of up to 80 columns and at least three times as many rows, entries are
        compared with what the other entries of their row predict, if that explains the
        data better than low rank and noise do.
    probability_ : ndarray or DataFrame of the shape of the data
        Calibrated probability that an entry is corrupt: of the entries with probability
        0.9, nine in ten are. Zero for missing entries; zero or one without noise.
    row_score_ : ndarray of shape (n_samples,)
        How unusual each row is: the mean of its squared residuals, in units of their
        variance and at most 9 each, every entry left out of its own prediction. Without
        noise, the fraction of the row's entries that are flagged.
    residual_ : ndarray or DataFrame of the shape of the data
        The noise: data minus both parts.
    explained_variance_ratio_ : ndarray of shape (rank,)
        Fraction of the uncorrupted data's squares that each component explains.
    rank_ : int
        Rank of the low-rank part.
    components_ : ndarray of shape (rank, n_features)
        Orthonormal basis of the row space of the low-rank part.
    singular_values_ : ndarray of shape (rank,)
        Singular values of the low-rank part.
    certificate_ : Certificate
        Bound on the distance to a global optimum of the convex program. With noise, it
        is a bound for the penalised program, whose solution the result refits. It is
        computed on first access, in about the time of a fit.
    alpha_ : float
        The ratio α that was used.
    n_iter_ : int
        Number of steps.
    status_ : Status
        How the run ended, in a sentence; ``status_.doubts`` lists what the fit warned
        of (`discrepant.robust_pca.doubts.Doubt`).
    history_ : History
        Residual, rank and other quantities of each step.

    Examples
    --------
    >>> from discrepant import RobustPCA
    >>> from discrepant.paper.synthetic import corrupted_matrix, relative_error
    >>> problem = corrupted_matrix((60, 40), rank=2, fraction=0.1, random_state=0)
    >>> pca = RobustPCA(random_state=0).fit(problem.observed)
    >>> pca.rank_
    2
    >>> relative_error(pca.low_rank_, problem.low_rank) < 1e-12
    True
    """

    noise_: float | Array
    rank_: int
    singular_values_: Array
    components_: Array
    alpha_: float
    n_iter_: int
    status_: Status
    history_: History

    def __init__(
        self,
        solver: str = "implicit",
        *,
        alpha: float | str = "auto",
        psd: bool = False,
        tol: float | None = None,
        max_iter: int | None = None,
        polish: bool = True,
        effort: str = "best",
        noise: Any = "auto",
        fdr: float = 0.01,
        warm_start: bool = False,
        memory_limit: int | None = None,
        missing: str = "nan",
        n_jobs: int | None = None,
        step: float | str = "auto",
        init_scale: float = 1e-4,
        width: int | None = None,
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.solver = solver
        self.alpha = alpha
        self.psd = psd
        self.tol = tol
        self.max_iter = max_iter
        self.polish = polish
        self.effort = effort
        self.noise = noise
        self.fdr = fdr
        self.warm_start = warm_start
        self.memory_limit = memory_limit
        self.missing = missing
        self.n_jobs = n_jobs
        self.step = step
        self.init_scale = init_scale
        self.width = width
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> "RobustPCA":
        """Split the table X into a low-rank part, sparse corruption, and noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The corrupted table; NaN marks missing entries. It is not changed. If it is
            a Dask array, so are the parts, in the same chunks (`docs/scaling.md`).
        y : None
            Ignored.
        """
        check_parameters(self)
        previous = getattr(self, "_result", None) if self.warm_start else None
        self._forget_previous_fit()  # an interrupted fit leaves no attributes
        if is_dask(X):
            result, messages = self._dask("fit", X, previous)
            labels, kind = None, None
        else:
            Y = validate_array(self, X, reset=True)
            if self.missing == "unstored":
                result = self._fit_stored_entries(Y)
                messages = sparse_entries_warnings(result)
            else:
                if self.solver == "descent":
                    result = self._fit_by_descent(Y)
                else:
                    result = self._fit_implicit(Y, previous)
                messages = fit_warnings(Y, result, sample_data(result))
            labels, kind = labels_of(X), ArrayKind.of(X)
        doubts = []
        for warning in messages:
            warnings.warn(warning, stacklevel=2)
            doubts.append(warning.doubt)
        self._set_fitted_attributes(result, labels, kind)
        self.status_ = replace(self.status_, doubts=tuple(doubts))
        return self

    def transform(self, X: Any) -> Any:
        """Return the coordinates of rows in the learned subspace.

        The rows may be corrupted and incomplete themselves. The coordinates minimise
        the sum of absolute errors over the observed entries, which is exact if enough
        of them are clean. After a fit with noise, entries are weighted by their noise
        and by their probability of being clean.
        """
        self._fitted()
        if is_dask(X):
            return self._dask("transform", X)
        rows = validate_array(self, X, reset=False)
        if not issparse(rows) and np.isinf(rows).any():
            raise InputError(
                "Input X contains infinity; replace it by NaN to mark it as missing."
            )
        coordinates = self._fitted().coordinates(rows).astype(rows.dtype)
        return in_kind_of(X, coordinates)

    def inverse_transform(self, X: Any) -> Any:
        """Return the rows with the given coordinates; a frame for a frame."""
        V = self._fitted().components
        if is_dask(X):
            return self._dask("inverse_transform", X)
        C = real_array(to_numpy(X))
        shape = tuple(C.shape)
        if len(shape) != 2 or shape[1] != self.rank_:
            raise InputError(
                f"Coordinates of shape (rows, {self.rank_}) are needed, got {shape}."
            )
        rows = (C @ V).astype(C.dtype)
        labels = labels_of(X)
        if labels is None:
            return in_kind_of(X, rows)
        names = getattr(self, "feature_names_in_", None)
        return labels.with_columns(names).frame(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the fraction of new rows explained: 1 − Σ|X − X̂| / Σ|X|.

        Sums are over observed entries. One is perfect. Gross corruption of the rows
        lowers the score by its size, not by its square.
        """
        if is_dask(X):
            return float(self._dask("score", X))
        C, V = to_numpy(self.transform(X)), self._fitted().components
        rows = validate_array(self, X, reset=False)
        if issparse(rows):
            raise InputError("score needs an array; mark missing entries by NaN.")
        largest = float(np.nanmax(np.abs(rows), initial=0.0))
        if not largest:
            return 1.0
        scaled = rows / largest  # so that no sum overflows
        expected = (np.asarray(C) / largest) @ V
        residual = np.nansum(np.abs(scaled - expected))
        return 1 - float(residual / np.nansum(np.abs(scaled)))

    def _settings(self) -> SolverSettings:
        """Return the settings of the implicit solver."""
        return SolverSettings(
            **{name: getattr(self, name) for name in SETTINGS},
            tol=DEFAULT_TOL if self.tol is None else self.tol,
            max_iter=self.max_iter or DEFAULT_PASSES,
        )

    def _fit_implicit(self, Y: Array, previous: Result | None) -> Result:
        """Fit an array by the implicit solver."""
        from discrepant.robust_pca.exact.result import ExactResult
        from discrepant.robust_pca.noisy.result import NoisyResult
        from discrepant.robust_pca.rows.in_memory import ArrayRows

        rows = ArrayRows(Y, n_jobs=self.n_jobs, memory_limit=self.memory_limit)
        start = previous if isinstance(previous, ExactResult | NoisyResult) else None
        if start is not None and not start.program.rows.same_layout(rows):
            start = None
        return self._solve_rows(rows, start)

    def _solve_rows(self, rows: Any, start: Any) -> Result:
        """Fit rows, in memory or in Dask, by the implicit solver."""
        from discrepant.robust_pca.solve import solve

        try:
            with reporting(self.verbose, "Fitting") as report:
                return solve(rows, self._settings(), start, report)
        except SystemError as error:  # compiled code reports Ctrl-C in this way
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise

    def _dask(self, method: str, X: Any, *arguments: Any) -> Any:
        """Call a method of this estimator for a Dask array."""
        from discrepant.robust_pca.dask import estimator as dask_estimator

        return getattr(dask_estimator, method)(self, X, *arguments)

    def _fit_stored_entries(self, Y: Any) -> Result:
        """Fit the stored entries of a sparse matrix."""
        from discrepant.robust_pca.sparse_entries.solve import solve_stored

        with reporting(self.verbose, "Fitting") as report:
            return solve_stored(Y, self._settings(), self.n_jobs, report)

    def _fit_by_descent(self, Y: Array) -> Result:
        """Fit an array by the paper's descent, which has no warm start."""
        residual, steps = DEFAULT_STOP
        rules = (
            residual if self.tol is None else Residual(self.tol),
            steps if self.max_iter is None else Steps(self.max_iter),
        )
        settings = DescentSettings(
            self.alpha, self.step, self.init_scale, self.width, self.psd, rules
        )
        return recover_by_descent(
            Y, None, settings, random_state=self.random_state, progress=self.verbose
        )

    @property
    def _n_features_out(self) -> int:
        """Number of coordinates, for `get_feature_names_out`."""
        return int(self.rank_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

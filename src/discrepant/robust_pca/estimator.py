"""RobustPCA: the matrix methods behind scikit-learn's conventions."""

import warnings
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
from discrepant.core.validation import (
    check_integer,
    check_rates,
    check_square,
    real_array,
)
from discrepant.operators.observation import validate_observation
from discrepant.paper.matrix_descent import DescentSettings, recover_by_descent
from discrepant.paper.stopping import Residual, Steps
from discrepant.robust_pca.fit_warnings import caveats, seen_of, stored_caveats
from discrepant.robust_pca.fitted import FittedParts
from discrepant.robust_pca.input_data import is_dask, validated
from discrepant.robust_pca.partial_fit import Tracking
from discrepant.robust_pca.settings import check_asked

# solver → (tol, max_iter) where they are not given
DEFAULTS: dict[str, tuple[float, int]] = {
    "implicit": (1e-7, 500),
    "descent": (1e-3, 20_000),
}
# what the implicit solver is told beside them
SETTINGS = ("alpha", "psd", "noise", "fdr", "polish", "random_state")


class RobustPCA(
    Tracking,
    FittedParts,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Split a table into a low-rank part, sparse gross corruption, and noise.

    Neither the rank, nor the share of corrupted entries, nor the noise need be known,
    and there is nothing to stop in time. NaN marks missing entries. The data are not
    centred. Float32 stays float32; every other type of number becomes float64.

    Parameters
    ----------
    solver : {"implicit", "descent"}
        "implicit" follows the paper's flow in a few big steps, each one pass over the
        data; "descent" is the paper's gradient descent with two learning rates.
    alpha : float or "auto"
        Ratio of the rates of corruption and signal. The result is that of the convex
        program ``min ‖X‖_* + λ‖S‖₁`` with λ = 1/α. "auto" is √max(m, n), less where
        entries are missing; with ``psd=True`` the implicit solver reads it off the
        data (see `discrepant.paper.alpha`).
    psd : bool
        Whether the low-rank part is positive semidefinite, as covariance, Gram and
        kernel matrices are. The corruption need not be symmetric.
    tol : float, optional
        Stop when ``‖X + S − Y‖ ≤ tol·‖Y‖``; by default 1e-7, for the descent 1e-3. The
        implicit solver also asks for a relative dual residual of at most 30·tol, and
        takes no less than 20 times the rounding error of the data's type. Entries so
        gross that they are clipped count in ‖Y‖ at the size at which they are.
    max_iter : int, optional
        Most steps; by default 500, for the descent 20,000.
    polish : bool
        Implicit solver: once the rank and the support of S are seen, refine to rounding
        where that gives an exact solution.
    noise : "auto", "column", float or array-like of shape (n_features,)
        Implicit solver: standard deviation of the noise on every entry. "auto" finds
        it, and whether it differs between columns; where the data have an exact
        splitting there is none. "column" finds one for each column. Zero asks for the
        convex program without noise, and so does "auto" together with an `alpha` of
        one's own or ``polish=False``.
    fdr : float
        Share of the flagged entries (`outliers_`) that may be clean ones.
    warm_start : bool
        Implicit solver: start from the last fit, if it was of data of the same shape.
    memory_limit : int, optional
        Implicit solver: bytes that its one large working array may take in memory;
        beyond that it is kept in a temporary file, and so are the two parts. The data
        may be a memory map, of which no more is then held either. Of a Dask array it
        is what may be brought into memory, by default 256 MB.
    missing : {"nan", "unstored"}
        What marks missing entries. With "unstored" the data are a sparse matrix of
        SciPy, and only what it stores is observed; time and memory go with that, and
        the parts come back as sparse as the data.
    n_jobs : int, optional
        Implicit solver: threads; by default one a core. −1 is all cores.
    step, init_scale, width
        Descent: its settings; see `discrepant.recover`.
    random_state : int, Generator, RandomState or None
        Seed of the start.
    verbose : bool or callable
        Show a progress bar; a callable is told ``(share done, note)``, and ends the fit
        with the best so far if it returns False.

    Attributes
    ----------
    low_rank_, sparse_ : ndarray or DataFrame of the shape of the data
        The two parts. The implicit solver computes each when it is first asked for,
        from the data that were passed to `fit`; they should not be changed before.
        The sparse part is zero off the outliers.
    noise_ : float or ndarray of shape (n_features,)
        Standard deviation of the noise; zero where the splitting is exact, one number
        where all columns share it.
    outliers_ : ndarray of bool or DataFrame of the shape of the data
        The entries flagged as corrupt; of these a share `fdr` may be clean.
    probability_ : ndarray or DataFrame of the shape of the data
        Probability that an entry is corrupt, calibrated: of those said 0.9, nine in
        ten are. Zero where it is missing; zero or one where there is no noise.
    residual_ : ndarray or DataFrame of the shape of the data
        The noise: data minus both parts.
    explained_variance_ratio_ : ndarray of shape (rank,)
        Share of the squares of the uncorrupted data that each component explains.
    rank_ : int
        Rank of the low-rank part.
    components_ : ndarray of shape (rank, n_features)
        Orthonormal basis of its row space.
    singular_values_ : ndarray of shape (rank,)
        Its singular values.
    certificate_ : Certificate
        How far the result is from a global optimum of the convex program; where there
        is noise, how far its penalised program was solved, of which the result is the
        refit. Computed when first asked for, in about the time of a fit.
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
        """Split the table X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The corrupted table; NaN marks missing entries. It is not changed. Where it
            is a Dask array, so are the parts, in the same chunks (`docs/scaling.md`).
        y : None
            Ignored.
        """
        check_asked(self)
        before = getattr(self, "_found", None) if self.warm_start else None
        self._forget()  # an interrupted fit leaves nothing behind
        rules = self._rules()
        if is_dask(X):
            return self._lazily(X, rules, before)
        Y = validated(self, X, reset=True)
        if self.missing == "unstored":
            found = self._stored(Y, rules)
            told = stored_caveats(found)
        else:
            descent = self.solver == "descent"
            solve = self._descended if descent else self._integrated
            found = solve(Y, rules, before)
            told = caveats(Y, found, seen_of(found))
        for message, kind in told:
            warnings.warn(message, kind, stacklevel=2)
        self._keep(found, labels_of(X), ArrayKind.of(X))
        return self

    def transform(self, X: Any) -> Any:
        """Return the coordinates of rows in the learned subspace.

        The rows may be corrupted and incomplete themselves: the coordinates minimise
        the sum of absolute errors over the observed entries, exactly where enough of
        them are clean. Where there is noise, entries weigh by its size and by how
        likely they are clean.
        """
        self._fitted()
        if is_dask(X):
            return self._lazy("transform", X)
        rows = validated(self, X, reset=False)
        if not issparse(rows) and np.isinf(rows).any():
            raise InputError(
                "Input X contains infinity; replace it by NaN to mark it as missing."
            )
        coordinates = self._fitted().coordinates(rows).astype(rows.dtype)
        return in_kind_of(X, coordinates)

    def inverse_transform(self, X: Any) -> Any:
        """Return the rows that have the given coordinates; a frame for a frame."""
        V = self._fitted().components
        if is_dask(X):
            return self._lazy("inverse_transform", X)
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
        """Return how much of new rows the subspace explains: 1 − Σ|X − X̂| / Σ|X|.

        Sums are over observed entries. One is perfect; gross corruption of the rows
        themselves lowers it by its size, not by its square.
        """
        if is_dask(X):
            return float(self._lazy("score", X))
        C, V = to_numpy(self.transform(X)), self._fitted().components
        rows = validated(self, X, reset=False)
        if issparse(rows):
            raise InputError("score needs an array; mark what is missing by NaN.")
        top = float(np.nanmax(np.abs(rows), initial=0.0))
        if not top:
            return 1.0
        near = rows / top  # no sum overflows
        expected = (np.asarray(C) / top) @ V
        return 1 - float(np.nansum(np.abs(near - expected)) / np.nansum(np.abs(near)))

    def _rules(self) -> tuple[Residual, Steps]:
        """Return when to stop."""
        tol, max_iter = DEFAULTS[self.solver]
        return (
            Residual(tol if self.tol is None else self.tol),
            Steps(max_iter if self.max_iter is None else self.max_iter),
        )

    def _integrated(
        self, Y: Array, rules: tuple[Residual, Steps], before: Result | None
    ) -> Result:
        """Fit by the implicit integrator, and at the level of the noise if any."""
        from discrepant.robust_pca.exact.result import ExactResult
        from discrepant.robust_pca.noisy.result import NoisyResult
        from discrepant.robust_pca.rows.in_memory import ArrayRows

        rows = ArrayRows(Y, n_jobs=self.n_jobs, memory_limit=self.memory_limit)
        warm = before if isinstance(before, ExactResult | NoisyResult) else None
        if warm is not None and not warm.program.rows.same_layout(rows):
            warm = None
        return self._solved(rows, rules, warm)

    def _solved(self, rows: Any, rules: tuple[Residual, Steps], warm: Any) -> Result:
        """Split rows, wherever they lie."""
        from discrepant.robust_pca.solve import Settings, solve

        told = {name: getattr(self, name) for name in SETTINGS}
        settings = Settings(**told, tol=rules[0].tol, max_iter=rules[1].limit)
        try:
            with reporting(self.verbose, "Fitting") as report:
                return solve(rows, settings, warm, report)
        except SystemError as error:  # how compiled code reports a Ctrl-C
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise

    def _lazily(
        self, X: Any, rules: tuple[Residual, Steps], before: Result | None
    ) -> "RobustPCA":
        """Fit a Dask array, where it lies."""
        found, told = self._lazy("fit", X, rules, before)
        for message, kind in told:
            warnings.warn(message, kind, stacklevel=3)
        self._keep(found, None)
        return self

    def _lazy(self, what: str, X: Any, *told: Any) -> Any:
        """Return what is asked of a Dask array, as one."""
        from discrepant.robust_pca.dask import estimator as lazy

        return getattr(lazy, what)(self, X, *told)

    def _stored(self, Y: Any, rules: tuple[Residual, Steps]) -> Result:
        """Fit the stored entries of a sparse matrix."""
        from discrepant.robust_pca.sparse_entries.solve import solve_stored

        if self.psd or self.solver != "implicit" or self.alpha != "auto":
            raise InputError(
                'missing="unstored" works with solver="implicit", alpha="auto" and '
                "psd=False only."
            )
        with reporting(self.verbose, "Fitting") as report:
            return solve_stored(
                Y,
                noise=self.noise,
                fdr=self.fdr,
                tol=rules[0].tol,
                max_iter=rules[1].limit,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
                report=report,
            )

    def _descended(
        self, Y: Array, rules: tuple[Residual, Steps], before: Result | None
    ) -> Result:
        """Fit by the paper's descent."""
        if self.width is not None:
            check_integer(
                "width", self.width, "a whole number from 1", lambda n: n >= 1
            )
        check_rates(self.alpha, self.step, self.init_scale)
        data, A = validate_observation(Y, None)
        check_square(A.signal_shape, self.psd)
        settings = DescentSettings(
            self.alpha, self.step, self.init_scale, self.width, self.psd, rules, None
        )
        return recover_by_descent(
            data,
            A,
            settings,
            random_state=self.random_state,
            progress=self.verbose,
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

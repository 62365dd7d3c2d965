"""RobustPCA: robust principal components as a scikit-learn estimator."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from discrepant.core.array_libraries import ArrayKind, in_kind_of, to_numpy
from discrepant.core.errors import InputError
from discrepant.core.labels import Labels, labels_of
from discrepant.core.linalg import Array
from discrepant.core.progress import Report, reporting
from discrepant.core.results import Certificate, History, Result, Status
from discrepant.core.validation import real_array
from discrepant.paper.matrix_descent import DescentSettings, recover_by_descent
from discrepant.robust_pca.fit_warnings import fit_warnings
from discrepant.robust_pca.input_data import is_dask, validate_data_of
from discrepant.robust_pca.partial_fit import PartialFitMixin
from discrepant.robust_pca.settings import SolverSettings, check_parameters

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _part(name: str, description: str) -> property:
    """Return a property: an array of the result, in the container of the data."""

    def part(model: "RobustPCA") -> Any:
        return model._in_container(getattr(model._fitted(), name))

    return property(part, doc=description)


class RobustPCA(
    PartialFitMixin,
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

    noise_: Any
    rank_: int
    singular_values_: Any
    components_: Any
    alpha_: float
    n_iter_: int
    status_: Status
    history_: History
    _result: Result
    _labels: Labels | None
    _array_kind: ArrayKind | None

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
        data = validate_data_of(self, X, reset=True)
        if self.solver == "descent":
            result = self._fit_by_descent(data)
        elif self.missing == "unstored":
            result = self._fit_stored_entries(data)
        else:
            result = self._fit_rows(data, previous)
        doubts = []
        for warning in fit_warnings(data, result):
            warnings.warn(warning, stacklevel=2)
            doubts.append(warning.doubt)
        self._set_fitted_attributes(result, labels_of(X), ArrayKind.of(X))
        self.status_ = replace(result.status, doubts=tuple(doubts))
        return self

    def transform(self, X: Any) -> Any:
        """Return the coordinates of rows in the learned subspace.

        The rows may be corrupted and incomplete themselves. The coordinates minimise
        the sum of absolute errors over the observed entries, which is exact if enough
        of them are clean. After a fit with noise, entries are weighted by their noise
        and by their probability of being clean.
        """
        result = self._fitted()
        rows = validate_data_of(self, X, reset=False)
        if is_dask(rows):
            from discrepant.robust_pca.dask.result import block_coordinates

            return block_coordinates(result, rows)
        return in_kind_of(X, result.coordinates(rows).astype(rows.dtype))

    def inverse_transform(self, X: Any) -> Any:
        """Return the rows with the given coordinates; a frame for a frame."""
        V = self._fitted().components
        C = X if is_dask(X) else real_array(to_numpy(X))
        if C.ndim != 2 or C.shape[1] != self.rank_:
            raise InputError(
                f"Coordinates of shape (rows, {self.rank_}) are needed, got {C.shape}."
            )
        rows = (C @ V).astype(C.dtype if C.dtype.kind == "f" else np.float64)
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
        result, C = self._fitted(), self.transform(X)
        rows = validate_data_of(self, X, reset=False)
        if issparse(rows):
            raise InputError("score needs an array; mark missing entries by NaN.")
        C = C if is_dask(C) else np.asarray(to_numpy(C))
        # In units of the largest entry, so that no sum overflows.
        unit = np.maximum(np.nan_to_num(np.abs(rows)).max(), np.finfo(rows.dtype).tiny)
        residual = np.nansum(np.abs(rows / unit - (C / unit) @ result.components))
        total = np.nansum(np.abs(rows / unit))
        if is_dask(rows):
            import dask

            residual, total = dask.compute(residual, total)
        return 1 - float(residual / total) if total else 1.0

    # -- parts of the result -----------------------------------------------------------

    low_rank_ = _part("low_rank", "The low-rank part.")
    sparse_ = _part("sparse", "The sparse part.")
    outliers_ = _part("outliers", "Which entries are flagged as corrupt.")
    probability_ = _part("probability", "The probability that each entry is corrupt.")
    residual_ = _part(
        "residual", "The noise: data minus both parts. NaN where the data are missing."
    )

    @property
    def row_score_(self) -> Any:
        """How unusual each row is: the larger, the more."""
        return self._converted(self._fitted().row_score)

    @property
    def explained_variance_ratio_(self) -> Any:
        """Fraction of the uncorrupted data's squares that each component explains."""
        result = self._fitted()
        # In units of the largest singular value, so that no square overflows.
        unit = np.max(result.singular_values, initial=0.0).astype(np.float64) or 1.0
        squares = (result.singular_values / unit) ** 2
        ratio = squares / max(squares.sum() + _sum_of_squares(result, unit), 1e-300)
        if self._array_kind is not None:
            ratio = ratio.astype(result.components.dtype)
        return self._converted(ratio)

    @property
    def certificate_(self) -> Certificate:
        """How far the result is from a global optimum."""
        return self._fitted().certificate

    def plot(self) -> "Figure":
        """Draw the data, the low-rank part and the corruption.

        Columns of very different sizes are each drawn in units of their spread.
        """
        return self._fitted().plot()

    def _fitted(self) -> Result:
        """Return the result of the fit; raise an error if there is none."""
        check_is_fitted(self)
        return self._result

    def _set_fitted_attributes(
        self, result: Result, labels: Labels | None, kind: ArrayKind | None
    ) -> None:
        """Set the attributes of a fit; from here on the model is fitted."""
        self._labels, self._array_kind = labels, kind
        noise = result.noise
        uniform = np.all(noise == noise[0])
        self.noise_ = float(noise[0]) if uniform else self._converted(noise)
        self.rank_ = result.rank
        self.singular_values_ = self._converted(result.singular_values)
        self.components_ = self._converted(result.components)
        self.alpha_ = 1 / result.lam
        self.n_iter_ = result.n_steps
        self.status_ = result.status
        self.history_ = result.history
        self._result = result

    def _forget_previous_fit(self) -> None:
        """Delete the attributes of an earlier fit."""
        for name in [n for n in vars(self) if n.endswith("_") and n[0] != "_"]:
            delattr(self, name)
        for name in ("_result", "_labels", "_array_kind", "_tracker"):
            self.__dict__.pop(name, None)

    def _in_container(self, values: Any) -> Any:
        """Return values as the kind of array or labelled frame passed to `fit`."""
        if self._labels is not None:
            return self._labels.frame(values)
        return self._converted(values)

    def _converted(self, values: Any) -> Any:
        """Return values as the kind of array passed to `fit`."""
        kind = self._array_kind
        return values if kind is None else kind.convert(values)

    # -- the solvers -------------------------------------------------------------------

    def _fit_rows(self, Y: Any, previous: Result | None = None) -> Result:
        """Fit an array, in memory or of Dask, by the implicit solver."""
        from discrepant.robust_pca.dask.cluster import worker_pool
        from discrepant.robust_pca.dask.result import DaskResult
        from discrepant.robust_pca.dask.rows import DaskRows
        from discrepant.robust_pca.result import LowRankResult
        from discrepant.robust_pca.rows.in_memory import ArrayRows
        from discrepant.robust_pca.solve import solve

        limit, is_lazy = self.memory_limit, is_dask(Y)
        rows = (
            DaskRows(Y, memory_limit=limit)
            if is_lazy
            else ArrayRows(Y, n_jobs=self.n_jobs, memory_limit=limit)
        )
        start: Any = previous.fit if isinstance(previous, DaskResult) else previous
        if not (
            isinstance(start, LowRankResult) and start.program.rows.same_layout(rows)
        ):
            start = None
        with worker_pool(Y) if is_lazy else nullcontext(), self._reporting() as report:
            fit = solve(rows, SolverSettings.of(self), start, report)
        return DaskResult(fit, Y) if is_lazy else fit

    def _fit_stored_entries(self, Y: Any) -> Result:
        """Fit the stored entries of a sparse matrix."""
        from discrepant.robust_pca.sparse_entries.solve import solve_stored

        with self._reporting() as report:
            return solve_stored(Y, SolverSettings.of(self), self.n_jobs, report)

    def _fit_by_descent(self, Y: Array) -> Result:
        """Fit an array by the paper's descent, which has no warm start."""
        names = "alpha step init_scale width psd tol max_iter".split()
        settings = DescentSettings(**{name: getattr(self, name) for name in names})
        return recover_by_descent(
            Y, None, settings, random_state=self.random_state, progress=self.verbose
        )

    @contextmanager
    def _reporting(self) -> Iterator[Report]:
        """Yield the callback for progress; Ctrl-C in compiled code interrupts."""
        try:
            with reporting(self.verbose, "Fitting") as report:
                yield report
        except SystemError as error:  # compiled code reports Ctrl-C in this way
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise

    # -- conventions of scikit-learn ---------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return "_result" in self.__dict__

    def _repr_html_inner(self) -> str:
        """Return the HTML card of the result, followed by scikit-learn's."""
        return self._result_html() + str(super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._result_html() + bundle["text/html"]
        return bundle

    def _result_html(self) -> str:
        return self._result._repr_html_() if self.__sklearn_is_fitted__() else ""

    def _get_fitted_attr_html(self, doc_link: str = "") -> tuple[()]:
        """Keep scikit-learn from reading all attributes: some take as long as a fit."""
        return ()

    def __dir__(self) -> list[str]:
        return list(object.__dir__(self))  # scikit-learn's reads each, see above

    @property
    def _n_features_out(self) -> int:
        """Number of coordinates, for `get_feature_names_out`."""
        return int(self.rank_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _sum_of_squares(result: Result, unit: float) -> float:
    """Return the sum of squares of the residual; if sparse, extrapolated to all."""
    residual: Any = result.residual / unit
    if not issparse(residual):
        return float(np.nansum(residual**2))
    mean = np.mean(residual.data**2) if residual.nnz else 0.0
    return float(mean * np.prod(residual.shape))

"""RobustPCA: the matrix methods behind scikit-learn's conventions."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from discrepant.checks import check_rates, real_array, unmasked
from discrepant.errors import InputError, InputTypeError
from discrepant.linalg import COMPARABLE, Array, row_sizes, some_of
from discrepant.matrix.door import recover
from discrepant.matrix.subspace import coordinates
from discrepant.paper.alpha import alpha_for
from discrepant.paper.certificate import Certificate, certify
from discrepant.paper.recovery import Recovery
from discrepant.paper.stopping import Residual, Steps
from discrepant.progress import bar

if TYPE_CHECKING:
    from discrepant.matrix.split import Split

# solver → (tol, max_iter) where they are not given
DEFAULTS: dict[str, tuple[float, int]] = {
    "implicit": (1e-7, 500),
    "descent": (1e-3, 20_000),
}
CERTIFIED = 1e-4  # gap up to which a result needs no warning
TRUSTED = 1e-3  # gap up to which a polished result is taken for the convex optimum


class RobustPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Split a table into a low-rank part and sparse gross corruption.

    Neither the rank nor the share of corrupted entries need be known, and there is
    nothing to stop in time. NaN marks missing entries. The data are not centred.
    Float32 stays float32; every other type of number becomes float64.

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
    warm_start : bool
        Implicit solver: start from the last fit, if it was of data of the same shape.
    memory_limit : int, optional
        Implicit solver: bytes that its one large working array may take in memory;
        beyond that it is kept in a temporary file, and so are the two parts. The data
        may be a memory map.
    n_jobs : int, optional
        Implicit solver: threads; by default one a core. −1 is all cores.
    step, init_scale, width
        Descent: its settings; see `discrepant.recover`.
    random_state : int, Generator, RandomState or None
        Seed of the start.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    low_rank_, sparse_ : ndarray or DataFrame of the shape of the data
        The two parts. The implicit solver computes each when it is first asked for,
        from the data that were passed to `fit`; they should not be changed before.
    rank_ : int
        Rank of the low-rank part.
    components_ : ndarray of shape (rank_, n_features)
        Orthonormal basis of its row space.
    singular_values_ : ndarray of shape (rank_,)
        Its singular values.
    certificate_ : Certificate
        How far the result is from a global optimum of the convex program; computed
        when first asked for, in about the time of a fit.
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
    >>> from discrepant.paper.problems import corrupted_matrix, relative_error
    >>> problem = corrupted_matrix((60, 40), rank=2, share=0.1, random_state=0)
    >>> pca = RobustPCA(random_state=0).fit(problem.observed)
    >>> pca.rank_
    2
    >>> relative_error(pca.low_rank_, problem.low_rank) < 1e-12
    True
    """

    def __init__(
        self,
        solver: str = "implicit",
        *,
        alpha: float | str = "auto",
        psd: bool = False,
        tol: float | None = None,
        max_iter: int | None = None,
        polish: bool = True,
        warm_start: bool = False,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
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
        self.polish = polish
        self.warm_start = warm_start
        self.memory_limit = memory_limit
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
            The corrupted table; NaN marks missing entries. It is not changed.
        y : None
            Ignored.
        """
        if self.solver not in DEFAULTS:
            raise InputError(
                f'solver must be "implicit" or "descent", got {self.solver!r}.'
            )
        before = getattr(self, "_found", None) if self.warm_start else None
        self._forget()  # an interrupted fit leaves nothing behind
        Y = self._validated(X, reset=True)
        tol, max_iter = DEFAULTS[self.solver]
        rules = (
            Residual(tol if self.tol is None else self.tol),
            Steps(max_iter if self.max_iter is None else self.max_iter),
        )
        found: Recovery | Split
        if self.solver == "implicit":
            found = self._integrated(Y, rules, before)
            sigma, Vt, rank = found.s, found.Vt, found.rank
        else:
            found = recover(
                Y,
                alpha=self.alpha,
                step=self.step,
                init_scale=self.init_scale,
                width=self.width,
                psd=self.psd,
                stop=rules,
                random_state=self.random_state,
                progress=bool(self.verbose),
            )
            _, sigma, Vt = np.linalg.svd(found.low_rank, full_matrices=False)
            rank = _rank_at_gap(sigma)
        self._found, self._labels = found, _labels(X)
        self.rank_ = rank
        self.singular_values_ = sigma[:rank]
        self.components_ = Vt[:rank]
        self.alpha_ = 1 / found.lam
        self.n_iter_ = found.n_steps
        self.status_ = found.status
        self.history_ = found.history
        self._warn(Y)
        # The residual may be slow to fall where the result is certified already.
        certified = found.status.converged or abs(self.certificate_.gap) <= CERTIFIED
        if not certified:
            warnings.warn(
                f"{found.status}; {self.certificate_}. Raise max_iter, or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    @property
    def low_rank_(self) -> Any:
        """The low-rank part."""
        return self._labelled(self._fitted().low_rank)

    @property
    def sparse_(self) -> Any:
        """The sparse part."""
        return self._labelled(self._fitted().sparse)

    @property
    def certificate_(self) -> Certificate:
        """How far the result is from a global optimum."""
        found = self._fitted()
        if not isinstance(found, Recovery):
            return found.certificate
        if "_certificate" not in self.__dict__:
            self._certificate = certify(found)
        return self._certificate

    def transform(self, X: Any) -> Array:
        """Return the coordinates of rows in the learned subspace.

        The rows may be corrupted and incomplete themselves: the coordinates minimise
        the sum of absolute errors over the observed entries, exactly where enough of
        them are clean and to a few parts in a thousand where all are noisy.
        """
        self._fitted()
        rows = self._validated(X, reset=False)
        if np.isinf(rows).any():
            raise InputError(
                "Input X contains infinity; replace it by NaN to mark it as missing."
            )
        return coordinates(rows, self.components_).astype(rows.dtype)

    def inverse_transform(self, X: Any) -> Any:
        """Return the rows that have the given coordinates; a frame for a frame."""
        self._fitted()
        C = real_array(X)
        if C.ndim != 2 or C.shape[1] != self.rank_:
            raise InputError(
                f"Coordinates of shape (rows, {self.rank_}) are needed, got {C.shape}."
            )
        rows = (C @ self.components_).astype(C.dtype)
        labels = _labels(X)
        if labels is None:
            return rows
        import pandas as pd

        names = getattr(self, "feature_names_in_", None)
        return pd.DataFrame(rows, index=labels[0], columns=names)

    def score(self, X: Any, y: Any = None) -> float:
        """Return how much of new rows the subspace explains: 1 − Σ|X − X̂| / Σ|X|.

        Sums are over observed entries. One is perfect; gross corruption of the rows
        themselves lowers it by its size, not by its square.
        """
        C = self.transform(X)
        rows = self._validated(X, reset=False)
        seen = ~np.isnan(rows)
        size = float(np.abs(rows).sum(where=seen))
        missed = float(np.abs(rows - np.asarray(C) @ self.components_).sum(where=seen))
        return 1 - missed / size if size else 1.0

    def _integrated(
        self, Y: Array, rules: tuple[Residual, Steps], before: Any
    ) -> "Split":
        """Fit by the implicit integrator."""
        from discrepant.matrix.integrator import integrate
        from discrepant.matrix.split import Split

        check_rates(self.alpha, self.step, self.init_scale)
        observed = _observed_share(Y)
        if observed == 0:
            raise InputError("All values are missing; at least one must be observed.")
        told = not isinstance(self.alpha, str)
        alpha = float(self.alpha) if told else alpha_for(Y, bool(self.psd), observed)
        warm = before if isinstance(before, Split) and before.fits(Y) else None
        with bar("fit", None, bool(self.verbose)) as report:

            def go(polish: bool, warm: Split | None) -> Split:
                return integrate(
                    Y,
                    alpha=alpha,
                    psd=bool(self.psd),
                    tol=rules[0].tol,
                    max_iter=rules[1].most,
                    polish=polish,
                    rng=np.random.default_rng(self.random_state),
                    warm=warm,
                    callback=lambda k, step: report(k, f"residual {step.residual:.1e}"),
                    n_jobs=self.n_jobs,
                    memory_limit=self.memory_limit,
                )

            found = go(bool(self.polish), warm)
            # Told an α of the user's own, an exact splitting need not be the convex
            # optimum that this α asks for.
            if told and found.polished and found.certificate.gap > TRUSTED:
                found = go(False, found)
        return found

    def _fitted(self) -> "Recovery | Split":
        check_is_fitted(self)
        return self._found

    def __sklearn_is_fitted__(self) -> bool:
        return "_found" in self.__dict__

    def _forget(self) -> None:
        """Drop what an earlier fit has learned."""
        for name in [n for n in vars(self) if n.endswith("_") and n[0] != "_"]:
            delattr(self, name)
        for name in ("_found", "_labels", "_certificate"):
            self.__dict__.pop(name, None)

    @property
    def _n_features_out(self) -> int:
        """Number of coordinates, for `get_feature_names_out`."""
        return int(self.rank_)

    def _validated(self, X: Any, reset: bool) -> Array:
        kinds = {getattr(kind, "kind", "") for kind in _dtypes(X)}
        if kinds & set("mMV"):
            raise InputError(
                "The data hold dates, durations or records; numbers are needed (drop "
                "or encode such columns)."
            )
        try:
            return validate_data(
                self,
                unmasked(X),
                reset=reset,
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
            )
        except (ValueError, TypeError, RuntimeError) as error:
            kind = InputTypeError if isinstance(error, TypeError) else InputError
            raise kind(" ".join(str(error).split())) from None

    def _warn(self, Y: Array) -> None:
        """Say what a user should know before trusting the parts."""
        sizes = row_sizes(Y.T, entries=64)
        sizes = sizes[sizes > 0]
        if sizes.size and sizes.max() > COMPARABLE * sizes.min():
            warnings.warn(
                f"The columns differ in size by a factor of "
                f"{sizes.max() / sizes.min():.0e}: large ones are taken for corrupt "
                "or small ones lost beside them; bring them to one unit first.",
                UserWarning,
                stacklevel=3,
            )
        unexplained = self._unexplained(Y)
        if unexplained > 0.5 and self.status_.converged:
            warnings.warn(
                f"{unexplained:.0%} of the entries are taken for corrupt, by a good "
                f"part of their size. A table of {Y.shape[0]}×{Y.shape[1]} may be too "
                "narrow, or too full of noise and errors; a smaller alpha leaves more "
                "to the low-rank part.",
                UserWarning,
                stacklevel=3,
            )

    def _unexplained(self, Y: Array) -> float:
        """Return the share of some entries that the low-rank part misses."""
        found, (rows, columns) = self._found, some_of(Y.shape)
        if isinstance(found, Recovery):
            L = found.signal[rows, columns]
        else:
            L = (found.U[rows] * found.s) @ found.Vt[:, columns]
        some = Y[rows, columns]
        seen = ~np.isnan(some)
        usual = float(np.median(np.abs(some[seen]))) if seen.any() else 0.0
        if not usual:
            return 0.0
        return float(np.mean(np.abs(some - L)[seen] > 0.3 * usual))

    def _labelled(self, values: Array) -> Any:
        """Give an array the row and column labels of what was fitted."""
        if self._labels is None:
            return values
        import pandas as pd

        index, columns = self._labels
        return pd.DataFrame(values, index=index, columns=columns)

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


def _observed_share(Y: Array, block: int = 1 << 22) -> float:
    """Return the share of entries that are not NaN, in little memory."""
    height = max(1, block // Y.shape[1])
    missing = sum(
        int(np.isnan(Y[start : start + height]).sum())
        for start in range(0, len(Y), height)
    )
    return 1 - missing / Y.size


def _dtypes(X: Any) -> list[Any]:
    """Return the types of the columns of a frame, or that of an array."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        return list(X.dtypes)
    return [getattr(X, "dtype", None)]


def _labels(X: Any) -> tuple[Any, Any] | None:
    """Return the row and column labels of a data frame."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return X.index, X.columns
    return None

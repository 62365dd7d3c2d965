"""What a solve of ``y = A(X) + s`` hands back."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discrepant.core.display import ResultDisplayMixin
from discrepant.core.linalg import Array, rank_at_gap
from discrepant.core.results import Certificate, History, Status
from discrepant.core.robust_regression import l1_coordinates
from discrepant.operators.observation import nan_where_missing
from discrepant.operators.operator import Operator
from discrepant.paper.certificate import certify

# Of the median size of the data. A start of 1e-4 leaves the signal 4 to 7% off, and the
# corruption takes that up: it is zero nowhere, and small where nothing is corrupt.
NEGLIGIBLE_CORRUPTION = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Recovery(ResultDisplayMixin):
    """A signal and a corruption that together explain the observation.

    It is a `discrepant.core.results.Result`, and carries the problem that was solved.

    Attributes
    ----------
    signal : ndarray
        The low-rank matrix X; also called ``low_rank``.
    corruption : ndarray
        The sparse part s, of the shape of the data; also called ``sparse``.
    factors : tuple of ndarray
        U for ``X = U Uᵀ``, or U and V for ``X = U Vᵀ``.
    dual : ndarray
        A multiple of the dual variable ν of ``A(X) + s = y``; its scale is immaterial.
    y, operator, alpha, psd
        The problem that was solved; ``lam`` is 1/α.
    status : Status
        How the run ended.
    history : History
        How it went.
    n_steps : int
        Steps taken.
    bound : float
        Size at which gross entries of y were clipped.
    """

    signal: Array
    corruption: Array
    factors: tuple[Array, ...]
    dual: Array
    y: Array
    operator: Operator
    alpha: float
    psd: bool
    status: Status
    history: History
    n_steps: int
    bound: float = np.inf

    @property
    def low_rank(self) -> Array:
        """The low-rank matrix X."""
        return self.signal

    @property
    def sparse(self) -> Array:
        """The sparse corruption s."""
        return self.corruption

    @property
    def noise(self) -> Array:
        """There is none, in any column."""
        return np.zeros(self.signal.shape[1], self.signal.dtype)

    @property
    def outliers(self) -> Array:
        """Which values of the data are corrupt: where s is more than dust."""
        sizes = np.abs(self.y[self.y != 0])  # zero: not observed, or nothing to go by
        usual = np.quantile(sizes, 0.5, method="lower") if sizes.size else 0.0
        return np.asarray(np.abs(self.corruption) > NEGLIGIBLE_CORRUPTION * usual)

    @property
    def probability(self) -> Array:
        """One where s is more than dust: without noise there is no doubt."""
        return self.outliers.astype(self.signal.dtype)

    @property
    def residual(self) -> Array:
        """What is left of the data when both parts are taken; NaN where missing."""
        A = self.operator
        left = self.y - A.forward(self.signal) - self.corruption
        return nan_where_missing(left, A)

    def coordinates(self, rows: Array) -> Array:
        """Return where new rows lie in the row space of X."""
        return l1_coordinates(rows, self.components)

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a part of X."""
        return self.signal[rows, columns]

    @property
    def lam(self) -> float:
        """The weight λ = 1/α of ‖s‖₁ in the convex program that this solves."""
        return 1 / self.alpha

    @property
    def rank(self) -> int:
        """The rank of X: its singular values before their largest gap."""
        return rank_at_gap(self._spectrum[0])

    @property
    def singular_values(self) -> Array:
        """The leading singular values of X, as many as its rank."""
        return self._spectrum[0][: self.rank]

    @property
    def components(self) -> Array:
        """Orthonormal rows that span the row space of X, as many as its rank."""
        return self._spectrum[1][: self.rank]

    @cached_property
    def certificate(self) -> Certificate:
        """How far this is from a global optimum; computed when first asked for."""
        return certify(self)

    @cached_property
    def _spectrum(self) -> tuple[Array, Array]:
        """All singular values of X and its right singular vectors as rows."""
        exact = self.signal.dtype.itemsize >= 4  # LAPACK knows no float16
        X = self.signal if exact else self.signal.astype(np.float32)
        _, sigma, Vt = np.linalg.svd(X, full_matrices=False)
        return sigma.astype(self.signal.dtype), Vt.astype(self.signal.dtype)

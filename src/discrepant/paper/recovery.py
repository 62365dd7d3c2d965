"""Recovery: the result of the descent and of the paper's baselines."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discrepant.core.linalg import Array, rank_at_gap, svd
from discrepant.core.results import Certificate, History, Result, Status
from discrepant.operators.observation import nan_where_missing
from discrepant.operators.operator import Operator
from discrepant.paper.certificate import certify

# Size of s, in units of the median |y|, up to which an entry is not flagged. A start of
# 1e-4 leaves an error of 4 to 7% in the signal, which s compensates: at clean entries s
# is small, not zero.
NEGLIGIBLE_CORRUPTION = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Recovery(Result):
    """A signal and a corruption whose sum explains the observation.

    It has all attributes of a `Result`, and the problem that was solved.

    Attributes
    ----------
    factors : tuple of ndarray
        U for ``X = U Uᵀ``, or U and V for ``X = U Vᵀ``.
    dual : ndarray
        A multiple of the dual variable ν of ``A(X) + s = y``; its scale is arbitrary.
    y, operator, alpha, psd
        The problem that was solved; ``lam`` is 1/α.
    bound : float
        Size at which gross entries of y were clipped.
    """

    low_rank: Array
    sparse: Array
    factors: tuple[Array, ...]
    dual: Array
    y: Array
    operator: Operator
    alpha: float
    psd: bool
    status: Status
    history: History
    bound: float = np.inf

    @property
    def noise(self) -> Array:
        """Zeros: the model has no noise in any column."""
        return np.zeros(self.low_rank.shape[1], self.low_rank.dtype)

    @property
    def outliers(self) -> Array:
        """Which values of the data are corrupt: those with a non-negligible s."""
        sizes = np.abs(self.y[self.y != 0])  # entries that are not observed are zero
        median = np.quantile(sizes, 0.5, method="lower") if sizes.size else 0.0
        return np.asarray(np.abs(self.sparse) > NEGLIGIBLE_CORRUPTION * median)

    @property
    def probability(self) -> Array:
        """One at corrupt values, else zero: without noise both cases are certain."""
        return self.outliers.astype(self.low_rank.dtype)

    @property
    def residual(self) -> Array:
        """The data minus both parts; NaN at missing entries."""
        A = self.operator
        residual = self.y - A.forward(self.low_rank) - self.sparse
        return nan_where_missing(residual, A)

    @property
    def rank(self) -> int:
        """The rank of X: the number of singular values before the largest gap."""
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
        """How far the result is from a global optimum; computed on first use."""
        return certify(self)

    @cached_property
    def _spectrum(self) -> tuple[Array, Array]:
        """All singular values of X and its right singular vectors as rows."""
        supported = self.low_rank.dtype.itemsize >= 4  # LAPACK has no float16
        X = self.low_rank if supported else self.low_rank.astype(np.float32)
        _, sigma, Vt = svd(X)
        return sigma.astype(self.low_rank.dtype), Vt.astype(self.low_rank.dtype)

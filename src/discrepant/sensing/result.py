"""Result of a solve of ``y = A(X) + s`` for a linear operator A."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.results import Certificate, History, Result, Status
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.tangent_space import FixedRankMatrix
from discrepant.operators.entrywise import Mask
from discrepant.operators.observation import nan_where_missing
from discrepant.operators.operator import Operator
from discrepant.robust_pca.doubts import FitWarning
from discrepant.sensing.certificate import CertificateInputs, certificate_and_dual


@dataclass(frozen=True, eq=False, repr=False)
class SensingResult(Result):
    """A low-rank X as factors, and which of its measurements are corrupt.

    The certificate and the dual take further applications of the operator, and are
    computed on first access.

    Attributes
    ----------
    y, operator, alpha, psd, symmetric
        The problem that was solved; ``lam`` is 1/α.
    sigma : float
        Standard deviation of the noise on the clean measurements, of each part where
        they are complex; zero where the fit is exact.
    doubts : tuple of FitWarning
        The warnings that were given.
    """

    point: FixedRankMatrix = field(repr=False)
    y: Array = field(repr=False)
    operator: Operator = field(repr=False)
    alpha: float
    psd: bool
    symmetric: bool
    outliers: Array = field(repr=False)
    probability: Array = field(repr=False)
    sigma: float
    status: Status
    history: History = field(repr=False)
    doubts: tuple[FitWarning, ...]
    bound: float = field(repr=False)  # where the certificate clips gross entries of y
    measurements: Measurements = field(repr=False)
    certificate_inputs: CertificateInputs = field(repr=False)

    @cached_property
    def low_rank(self) -> Array:
        """The low-rank matrix X; the same as ``signal``."""
        return self.point.value().astype(self._dtype)

    @cached_property
    def sparse(self) -> Array:
        """The sparse part s: y − A(X) on the outliers, and zero elsewhere."""
        e = self._in_data_shape(self.certificate_inputs.e)
        return np.where(self.outliers, e, 0).astype(self.y.dtype)

    @property
    def residual(self) -> Array:
        """The data minus both parts; NaN where missing."""
        e = self._in_data_shape(self.certificate_inputs.e)
        residual = np.where(self.outliers, 0, e).astype(self.y.dtype)
        return nan_where_missing(residual, self.operator)

    @property
    def noise(self) -> Array:
        """Standard deviation of the noise; measurements are one column."""
        return np.array([self.sigma])

    @property
    def factors(self) -> tuple[Array, ...]:
        """U for ``X = U Uᴴ`` under X ⪰ 0, or U and V for ``X = U Vᴴ``."""
        root = np.sqrt(np.abs(self.point.d))
        U = (self.point.U * root).astype(self._dtype)
        if self.psd:
            return (U,)
        return U, (self.point.V * root * np.sign(self.point.d)).astype(self._dtype)

    @property
    def singular_values(self) -> Array:
        """The singular values of X, decreasing."""
        return np.asarray(np.abs(self.point.d))

    @property
    def components(self) -> Array:
        """Orthonormal rows that span the row space of X."""
        rows: Array = self.point.V.conj().T
        return rows.astype(self._dtype)

    def coordinates(self, rows: Array) -> Array:
        """Return the coordinates of new rows in the row space of X."""
        if not self.point.real:
            raise InputError("Coordinates are for real matrices, and X is complex.")
        return super().coordinates(rows)

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a part of X."""
        L, R = self.point.factors
        return np.asarray(L[rows] @ R[columns].conj().T).astype(self._dtype)

    @property
    def n_applications(self) -> int:
        """Number of applications of A and A* so far, including the certificate's."""
        return self.measurements.n_applications

    @property
    def kappa(self) -> float:
        """The weight κ of the squared noise in the convex program; ∞ without noise."""
        return self.certificate_inputs.kappa

    @property
    def dual(self) -> Array:
        """The dual ν of ``A(X) + s = y``, of the shape of the data."""
        return self._in_data_shape(self._certificate_and_dual[1])

    @property
    def certificate(self) -> Certificate:
        """Bound on the distance to a global optimum of the convex program.

        With noise, the program has a penalty (κ/2)‖y − A(X) − s‖² at the level of the
        noise, and the result is its refit without shrinkage.
        """
        return self._certificate_and_dual[0]

    def embed_in_mask(self, operator: Operator, y: Array) -> "SensingResult":
        """Return the result of observed entries as that of the matrix with a mask."""
        observed: Array = operator.observed  # type: ignore[attr-defined]
        outliers, probability = np.zeros(y.shape, bool), np.zeros(y.shape)
        outliers[observed], probability[observed] = self.outliers, self.probability
        return replace(
            self, operator=operator, y=y, outliers=outliers, probability=probability
        )

    def _in_data_shape(self, flat: Array) -> Array:
        """Return flat measurements in the shape of the data."""
        if not isinstance(self.operator, Mask) or flat.size == self.y.size:
            return flat.reshape(self.y.shape)
        full = np.zeros(self.y.shape, flat.dtype)
        full[self.operator.observed] = flat
        return full

    @cached_property
    def _certificate_and_dual(self) -> tuple[Certificate, Array]:
        A = self.measurements
        with A.threads():
            inputs = self.certificate_inputs
            return certificate_and_dual(A, self.point, inputs, self.bound)

    @property
    def _dtype(self) -> Any:
        complex_data = np.iscomplexobj(self.y)
        single = self.y.dtype.itemsize < (16 if complex_data else 8)
        if self.point.real and complex_data:
            return np.float32 if single else np.float64
        if self.point.real:
            return self.y.dtype
        return np.complex64 if single else np.complex128

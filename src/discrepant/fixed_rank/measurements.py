"""Operator and data of a fit: flat, in double precision, with applications counted.

The solvers call only `forward` and `adjoint` of an operator, or its `forward_factors`
if it has one. If X is real and the measurements are complex, the real part of the
adjoint is the adjoint with respect to real matrices.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.threads import blas_threads
from discrepant.operators.operator import Operator

# Residual, relative to the data, that rounding alone leaves of data in single
# precision, which round at 6e-8.
SINGLE_ROUNDING = 4e-6
# Residual, relative to the data, that rounding alone leaves of data in double
# precision, which round at 1e-16.
DOUBLE_ROUNDING = 1e-11
# Residual, in units of the scale of the data, up to which a measurement fits exactly …
EXACT = 1e-8
# … and in units of the scale that rounding leaves; the larger of both counts.
EXACT_ROUNDINGS = 10
# Smallest fraction of the measured numbers that X is taken to leave to the noise.
MIN_FREE_FRACTION = 0.1


class Measurements:
    """A linear operator on low-rank matrices, with its data as a flat vector y.

    X can be real although the measurements are complex. `n_applications` counts those
    of the operator and its adjoint.
    """

    def __init__(
        self, operator: Operator, y: Array, real: bool, n_applications: int = 0
    ):
        self.operator, self.real = operator, real
        self.n_applications = n_applications
        self.observation, self.complex_data = y, np.iscomplexobj(y)
        dtype: Any = np.complex128 if self.complex_data else np.float64
        self.y: Array = np.asarray(y, dtype).reshape(-1)
        self.shape = self.signal_shape = operator.signal_shape
        self.data_shape = self.y.shape
        self.dtype = np.dtype(np.float64 if real else np.complex128)
        self._forward_factors: Callable[[Array, Array], Array] | None
        self._forward_factors = getattr(operator, "forward_factors", None)
        # Number of real numbers measured: two for each complex measurement.
        self.n_numbers = self.y.size * (2 if self.complex_data else 1)

    def threads(self) -> AbstractContextManager[object]:
        """Limit BLAS to one thread if the matrices are too small for several."""
        return blas_threads(self.y.size * math.prod(self.shape))

    @property
    def rounding(self) -> float:
        """Residual, relative to the data, that rounding alone leaves."""
        single = self.observation.dtype.itemsize < (16 if self.complex_data else 8)
        return SINGLE_ROUNDING if single else DOUBLE_ROUNDING

    @cached_property
    def scale(self) -> float:
        """Robust standard deviation of the data."""
        return residual_scale(self.y)

    @property
    def exact_residual(self) -> float:
        """Residual up to which a measurement fits exactly."""
        return max(EXACT, EXACT_ROUNDINGS * self.rounding) * self.scale

    def residual(self, L: Array, R: Array) -> Array:
        """Return y − A(L Rᴴ), flat."""
        return np.asarray(self.y - self.forward(L, R))

    def forward(self, L: Array, R: Array) -> Array:
        """Return A(L Rᴴ), flat."""
        if not L.shape[1]:
            return np.zeros_like(self.y)
        self.n_applications += 1
        if self._forward_factors is not None:
            measured = self._forward_factors(L, R)
        else:
            measured = self.operator.forward(L @ R.conj().T)
        return self._as_data(measured)

    def forward_matrix(self, X: Array) -> Array:
        """Return A(X), flat."""
        self.n_applications += 1
        return self._as_data(self.operator.forward(X))

    def adjoint(self, z: Array) -> Array:
        """Return A*(z)."""
        self.n_applications += 1
        back = np.asarray(self.operator.adjoint(z.reshape(self.operator.data_shape)))
        return np.asarray(back.real if self.real else back, self.dtype)

    def signs(self, rng: np.random.Generator) -> Array:
        """Return a random sign for each measurement, or a phase if data are complex."""
        if self.complex_data:
            return np.asarray(np.exp(2j * np.pi * rng.random(self.y.size)))
        return np.asarray(rng.choice((-1.0, 1.0), size=self.y.size))

    def _as_data(self, measured: Array) -> Array:
        """Return measurements flat, in the dtype of y."""
        flat = np.asarray(measured).reshape(-1)
        return np.asarray(flat if self.complex_data else flat.real, self.y.dtype)


def residual_scale(e: Array, freedom_fraction: float = 0.0) -> float:
    """Return the standard deviation of residuals, estimated by their median modulus.

    `freedom_fraction` is the ratio of the degrees of freedom of X to the number of
    measured numbers: a fit makes residuals smaller than the noise by that.
    """
    # The median modulus of normal residuals of standard deviation one in each part.
    median = 1.17741 if np.iscomplexobj(e) else 0.67449
    free = max(1 - freedom_fraction, MIN_FREE_FRACTION)
    return float(np.median(np.abs(e)) / median / np.sqrt(free))


def direction(z: Array) -> Array:
    """Return z/|z|, the sign or phase of each number; zero for zero."""
    modulus = np.abs(z)
    return np.asarray(z / np.where(modulus > 0, modulus, 1.0))


def clipped(z: Array, limit: float) -> Array:
    """Return z with its moduli clipped at a limit, signs and phases unchanged."""
    modulus = np.abs(z)
    factor = np.minimum(1.0, limit / np.where(modulus > 0, modulus, 1.0))
    return np.asarray(z * factor)


def product(a: Array, b: Array) -> float:
    """Return the real inner product ``Re ⟨a, b⟩`` of two arrays."""
    return float(np.vdot(a, b).real)

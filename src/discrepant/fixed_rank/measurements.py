"""The observation as the solvers of this folder see it: flat, in double precision.

Only `forward` and `adjoint` of an operator are called, or its `forward_factors` where
it has one, and every call is counted. A real X behind complex measurements is a matter
of the adjoint alone: its real part is the adjoint with respect to real matrices.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.threads import blas_threads
from discrepant.operators.operator import Operator


class Measurements:
    """A linear map on factors, with its data.

    Parameters
    ----------
    operator : Operator
        How X was observed.
    y : ndarray
        The observation, of any shape.
    real : bool
        Whether X is real; it may be where the measurements are complex.
    spent : int
        Applications that were made before.
    """

    def __init__(self, operator: Operator, y: Array, real: bool, spent: int = 0):
        self.operator, self.real, self.n_applications = operator, real, spent
        self.given, self.complex_data = y, np.iscomplexobj(y)
        kind: Any = np.complex128 if self.complex_data else np.float64
        self.y: Array = np.asarray(y, kind).reshape(-1)
        self.shape = self.signal_shape = operator.signal_shape
        self.data_shape = self.y.shape
        self.dtype = np.dtype(np.float64 if real else np.complex128)
        factors: Callable[[Array, Array], Array] | None
        factors = getattr(operator, "forward_factors", None)
        self._factors = factors
        numbers = 2 if self.complex_data else 1
        self.count = self.y.size * numbers  # of real numbers that were measured

    def threads(self) -> AbstractContextManager[object]:
        """Hold BLAS to one thread where matrices are too small to be worth sharing."""
        return blas_threads(self.y.size * math.prod(self.shape))

    @property
    def rounding(self) -> float:
        """Relative size of what rounding alone leaves of a residual."""
        single = self.given.dtype.itemsize < (16 if self.complex_data else 8)
        return 4e-6 if single else 1e-11

    def forward(self, L: Array, R: Array) -> Array:
        """Return A(L Rᴴ), flat."""
        if not L.shape[1]:
            return np.zeros_like(self.y)
        self.n_applications += 1
        if self._factors is not None:
            seen = self._factors(L, R)
        else:
            seen = self.operator.forward(L @ R.conj().T)
        return self._as_data(seen)

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
        """Return random signs, or phases where the data are complex."""
        if self.complex_data:
            return np.asarray(np.exp(2j * np.pi * rng.random(self.y.size)))
        return np.asarray(rng.choice((-1.0, 1.0), size=self.y.size))

    def _as_data(self, seen: Array) -> Array:
        flat = np.asarray(seen).reshape(-1)
        return np.asarray(flat if self.complex_data else flat.real, self.y.dtype)


def direction(z: Array) -> Array:
    """Return the sign of each number, or its phase; zero of zero."""
    size = np.abs(z)
    return np.asarray(z / np.where(size > 0, size, 1.0))


def clipped(z: Array, most: float) -> Array:
    """Return numbers whose modulus is at most so large, in the same direction."""
    size = np.abs(z)
    return np.asarray(z * np.minimum(1.0, most / np.where(size > 0, size, 1.0)))


def product(a: Array, b: Array) -> float:
    """Return the real inner product ``Re ⟨a, b⟩``."""
    return float(np.vdot(a, b).real)


def shrunk_modulus(z: Array, threshold: float) -> Array:
    """Soft threshold of the modulus: the proximal map of ``threshold·‖·‖₁``."""
    return np.asarray(z - clipped(z, threshold)) if threshold > 0 else z

"""Linear operators of SciPy and PyLops as operators on matrices."""

from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array


class Wrapped:
    """A linear operator with ``shape``, ``matvec`` and ``rmatvec`` on X row by row.

    These are ``scipy.sparse.linalg.LinearOperator`` and all PyLops operators.

    Parameters
    ----------
    linear : LinearOperator
        Maps the ``n₁·n₂`` entries of X to the data.
    signal_shape : tuple of int
        The shape (n₁, n₂) of X.
    """

    def __init__(self, linear: Any, signal_shape: tuple[int, int]) -> None:
        self.linear, self.signal_shape = linear, signal_shape
        needed = ("shape", "matvec", "rmatvec")
        missing = [name for name in needed if not hasattr(linear, name)]
        if missing:
            raise InputError(
                f"Wrapped needs an operator with {', '.join(missing)}; pass a SciPy "
                "LinearOperator or a PyLops operator."
            )
        size = np.prod(signal_shape)
        if len(signal_shape) != 2 or linear.shape[1] != size:
            raise InputError(
                f"The operator takes {linear.shape[1]} values, but a matrix of shape "
                f"{signal_shape} has {size}."
            )
        self.data_shape: tuple[int, ...] = (int(linear.shape[0]),)

    def forward(self, X: Array) -> Array:
        """Return A(X)."""
        return np.asarray(self.linear.matvec(X.reshape(-1)))

    def adjoint(self, z: Array) -> Array:
        """Return A*(z)."""
        return np.asarray(self.linear.rmatvec(z)).reshape(self.signal_shape)

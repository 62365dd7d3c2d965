"""Linear operators of SciPy and PyLops as operators on matrices."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array


@dataclass(frozen=True, eq=False)
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

    linear: Any
    signal_shape: tuple[int, int]

    def __post_init__(self) -> None:
        missing = [
            name
            for name in ("shape", "matvec", "rmatvec")
            if not hasattr(self.linear, name)
        ]
        if missing:
            raise InputError(
                f"Wrapped needs an operator with {', '.join(missing)}; pass a SciPy "
                "LinearOperator or a PyLops operator."
            )
        if len(self.signal_shape) != 2 or self.linear.shape[1] != np.prod(
            self.signal_shape
        ):
            raise InputError(
                f"The operator takes {self.linear.shape[1]} values, but a matrix of "
                f"shape {self.signal_shape} has {np.prod(self.signal_shape)}."
            )

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the observation y."""
        return (int(self.linear.shape[0]),)

    def forward(self, X: Array) -> Array:
        """Return A(X)."""
        return np.asarray(self.linear.matvec(X.reshape(-1)))

    def adjoint(self, z: Array) -> Array:
        """Return A*(z)."""
        return np.asarray(self.linear.rmatvec(z)).reshape(self.signal_shape)

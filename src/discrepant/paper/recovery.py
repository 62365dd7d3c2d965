"""What a solve of ``y = A(X) + s`` hands back."""

from dataclasses import dataclass

import numpy as np

from discrepant.linalg import Array
from discrepant.paper.operators import Operator
from discrepant.result import History, Status


@dataclass(frozen=True, eq=False)
class Recovery:
    """A signal and a corruption that together explain the observation.

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
    def lam(self) -> float:
        """The weight λ = 1/α of ‖s‖₁ in the convex program that this solves."""
        return 1 / self.alpha

"""Parameterisations of the signal (U Uᵀ, U Vᵀ) and of the corruption (g∘g − h∘h).

Every parameterisation has two methods. ``value()`` returns the array that the
parameters represent. ``descend(grad, rate)`` takes a gradient step on the parameters,
in place, given the gradient with respect to that array. Do not write to the arrays that
``value()`` returns.
"""

from typing import Any, Protocol

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.validation import check_integer


class Parameterisation(Protocol):
    """An array that is a function of parameters, and a gradient step on these."""

    def value(self) -> Any:
        """Return the array that the parameters represent."""
        ...

    def descend(self, grad: Any, rate: float) -> None:
        """Take a gradient step, given the gradient with respect to the value."""
        ...


class PSDFactor:
    """``X = U Uᵀ`` with U of n×r′: positive semidefinite, rank at most r′.

    Under ``f = ¼‖A(X) + s − y‖²`` the step is ``U ← U − τ sym(A*(r)) U``, the paper's
    equation (7).
    """

    def __init__(self, U: Array) -> None:
        from discrepant.structures.kernels import symmetric_part

        self.U = np.ascontiguousarray(U)
        n = len(self.U)
        self._symmetric_part = symmetric_part
        self._scaled = np.empty((n, n), self.U.dtype)

    @property
    def factors(self) -> tuple[Array, ...]:
        """U alone."""
        return (self.U,)

    def value(self) -> Array:
        """Return U Uᵀ."""
        return np.asarray(self.U @ self.U.T)

    def descend(self, grad: Array, rate: float) -> None:
        """Take ``U ← U − rate·sym(grad) U``."""
        self._symmetric_part(grad, self.U.dtype.type(rate), self._scaled)
        self.U -= self._scaled @ self.U


class Factor:
    """``X = U Vᵀ`` with U of m×r′ and V of n×r′: any matrix of rank at most r′.

    It is the off-diagonal block of the positive semidefinite ``[U; V][U; V]ᵀ``:
    ``U ← U − τ A*(r) V`` and ``V ← V − τ A*(r)ᵀ U``.
    """

    def __init__(self, U: Array, V: Array) -> None:
        self.U, self.V = np.ascontiguousarray(U), np.ascontiguousarray(V)

    @property
    def factors(self) -> tuple[Array, ...]:
        """U and V."""
        return self.U, self.V

    def value(self) -> Array:
        """Return U Vᵀ."""
        return np.asarray(self.U @ self.V.T)

    def descend(self, grad: Array, rate: float) -> None:
        """Take ``U ← U − rate·grad V`` and ``V ← V − rate·gradᵀ U`` together."""
        scaled = rate * grad
        dU, dV = scaled @ self.V, scaled.T @ self.U
        self.U -= dU
        self.V -= dV


class Hadamard:
    """``s = g∘g − h∘h``: sparse by the same implicit bias that makes U Uᵀ low-rank.

    ``g ← g − ατ r∘g`` and ``h ← h + ατ r∘h``, the paper's equation (8). The step also
    updates s, so that ``value()`` takes no time.
    """

    def __init__(self, g: Array, h: Array) -> None:
        from discrepant.structures.kernels import hadamard_step

        self.g, self.h = np.ascontiguousarray(g), np.ascontiguousarray(h)
        self._value: Array = self.g**2 - self.h**2
        self._step = hadamard_step

    @classmethod
    def gaussian(
        cls,
        shape: tuple[int, ...],
        scale: float,
        rng: np.random.Generator,
        dtype: Any = np.float64,
    ) -> "Hadamard":
        """Start g from N(0, scale²) and h equal to it, so that s starts at zero."""
        g = (scale * rng.standard_normal(shape)).astype(dtype)
        return cls(g, g.copy())

    def value(self) -> Array:
        """Return g∘g − h∘h."""
        return self._value

    def descend(self, grad: Array, rate: float) -> None:
        """Take ``g ← g − rate·grad∘g`` and ``h ← h + rate·grad∘h``."""
        self._step(
            self.g.reshape(-1),
            self.h.reshape(-1),
            self._value.reshape(-1),
            np.ascontiguousarray(grad).reshape(-1),
            self.g.dtype.type(rate),
        )

    def dual(self, alpha: float) -> Array:
        """Return the dual ``ξ = −∫ r dt`` from ``g = g₀ exp(αξ)``, ``h = h₀ exp(−αξ)``.

        g and h start equal, so ``ξ = (log|g| − log|h|) / 2α``.
        """
        tiny = np.finfo(self.g.dtype).tiny
        g, h = np.maximum(np.abs(self.g), tiny), np.maximum(np.abs(self.h), tiny)
        return np.asarray((np.log(g) - np.log(h)) / (2 * alpha))


class NoCorruption:
    """``s = 0``: a model without corruption, for the baselines."""

    def value(self) -> float:
        """Return zero."""
        return 0.0

    def descend(self, grad: Any, rate: float) -> None:
        """Do nothing: there are no parameters."""


def gaussian_factors(
    shape: tuple[int, int],
    scale: float,
    rng: np.random.Generator,
    *,
    psd: bool,
    width: int | None = None,
    dtype: Any = np.float64,
) -> PSDFactor | Factor:
    """Start U Uᵀ (`psd`) or U Vᵀ from N(0, scale²), as the paper's experiments do.

    The width r′ is by default the largest one, the smaller side of the matrix.
    """
    m, n = shape
    limit = min(shape)
    if width is not None:
        check_integer(
            "width",
            width,
            f"a whole number between 1 and {limit} for this matrix, or left out to "
            "over-parameterise fully",
            lambda columns: 1 <= columns <= limit,
        )
    rows = n if psd else m + n
    stacked = (scale * rng.standard_normal((rows, width or limit))).astype(dtype)
    return PSDFactor(stacked) if psd else Factor(stacked[:m], stacked[m:])

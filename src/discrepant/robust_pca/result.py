"""Base class of all matrix results: a low-rank part as factors, the rest on demand.

Arrays as large as the data are computed on first access, once, by functions without
side effects: an interruption leaves the result unchanged, and concurrent threads wait.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.results import History, Result, Status
from discrepant.operators.entrywise import Identity, Mask
from discrepant.robust_pca.doubts import FitWarning
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.rows import passes

T = TypeVar("T")


class Step(NamedTuple):
    """Outcome of one pass over the data, as the history of a result keeps it."""

    # "uncorrupted", "fast", "polish", "careful"; after a row sample "sweep"; with noise
    # "clipped" and "weighed"
    phase: str
    residual: float  # ‖Y − X − S‖ / ‖Y‖, without the noise where that is modelled
    dual_residual: float  # μ‖ΔX‖ / ‖M‖, NaN without a dual
    rank: int
    mu: float  # step size in the unit of the problem; NaN without one
    support: float  # fraction of the observed entries with S ≠ 0


class locked_cached_property(Generic[T]):  # noqa: N801 (a decorator)
    """A property that is computed once, under the lock of the result.

    `functools.cached_property` may compute it once per thread, or, on older versions of
    Python, holds a lock of its own, which can deadlock two properties.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __get__(self, result: Any, owner: object = None) -> T:
        """Return the cached value; compute it first if needed."""
        if result is None:  # looked up on the class
            return self  # type: ignore[return-value]
        cache, name = vars(result), f"_{self.compute.__name__}_once"
        with result.lock:
            if name not in cache:
                cache[name] = self.compute(result)
            value: T = cache[name]
            return value


@dataclass(frozen=True, eq=False, repr=False)
class FactoredResult(Result):
    """Low-rank part as U diag(s) Vᵀ, in the caller's orientation and unit."""

    U: Array  # (m, r), orthonormal
    singular_values: Array  # (r,), decreasing
    components: Array  # (r, n), orthonormal rows
    status: Status
    history: History

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a block of the low-rank part without computing all of it."""
        U, V = self.U[rows], self.components[:, columns]
        part: Array = (U * self.singular_values) @ V
        return part

    @property
    def factors(self) -> tuple[Array, Array]:
        """U and V with ``X = U Vᵀ``."""
        return self.U * self.singular_values, self.components.T


@dataclass(frozen=True, eq=False, repr=False)
class LowRankResult(FactoredResult):
    """Result of a fit of rows; arrays of the size of the data on first access."""

    program: ConvexProblem = field(repr=False)
    # what speaks against it; each is a warning
    doubts: tuple[FitWarning, ...] = field(default=(), kw_only=True)

    @property
    def lock(self) -> Any:
        """The lock under which parts are computed."""
        return self.program.rows.lock

    @property
    def lam(self) -> float:
        """The weight λ of ‖S‖₁ in the convex program."""
        return self.program.lam

    @property
    def alpha(self) -> float:
        """1/λ."""
        return 1 / self.program.lam

    @property
    def y(self) -> Array:
        """The data, zero where missing."""
        Y: Array = self.program.rows.data
        return np.where(np.isnan(Y), Y.dtype.type(0), Y)

    @property
    def operator(self) -> Identity | Mask:
        """The linear map from X to the data: the identity, or a mask."""
        missing = np.isnan(self.program.rows.data)
        return Mask(~missing) if missing.any() else Identity(missing.shape)

    @property
    def psd(self) -> bool:
        """Whether X ⪰ 0 was a constraint."""
        return self.program.psd

    @property
    def bound(self) -> float:
        """Size at which gross entries of y were clipped."""
        return self.program.scale.bound

    @property
    def n_applications(self) -> int:
        """Number of applications of A and A*: one of each per pass."""
        return 2 * len(self.history["step"])

    @property
    def block_factors(self) -> tuple[Array, Array]:
        """Factors of L in the unit of the data and the orientation of the rows."""
        scaled = self.components.T * self.singular_values
        return (scaled, self.U) if self.program.rows.transposed else (self.U, scaled)

    @locked_cached_property
    def low_rank(self) -> Array:
        """X, m×n, in the dtype of the data."""
        rows = self.program.rows
        with rows:
            X = passes.low_rank_part(rows, self.block_factors)
        return rows.to_caller_layout(X)

    @locked_cached_property
    def residual(self: Any) -> Array:
        """Y − X − S, m×n: NaN where Y is missing."""
        rows = self.program.rows
        S = rows.to_caller_layout(self.sparse)
        with rows:
            R = passes.residual_part(rows, S, self.block_factors)
        return np.asarray(rows.to_caller_layout(R))

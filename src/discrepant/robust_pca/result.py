"""What all results of a matrix fit share: a low-rank part as factors, and the rest.

Only the factors of the low-rank part are there from the start. Whatever is as large as
the data is computed when it is first asked for, once, by functions that change nothing:
an interrupted one leaves everything as it was, and of two threads one waits.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from discrepant.core.display import ResultDisplayMixin
from discrepant.core.linalg import Array
from discrepant.core.results import History, Status
from discrepant.robust_pca.cached_property import once
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.rows import passes


@dataclass(frozen=True, repr=False)
class LowRankResult(ResultDisplayMixin, ABC):
    """Low-rank part as U diag(s) Vᵀ, in the caller's orientation and unit."""

    U: Array  # (m, r), orthonormal
    singular_values: Array  # (r,), decreasing
    components: Array  # (r, n), orthonormal rows
    status: Status
    history: History
    program: ConvexProblem = field(repr=False)
    # what speaks against it; each is a warning
    doubts: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    @abstractmethod
    def sparse(self) -> Array:
        """S, m×n, in the type of the data; zero where Y is missing."""

    @property
    def rank(self) -> int:
        """Rank of the low-rank part."""
        return len(self.singular_values)

    @property
    def n_steps(self) -> int:
        """Passes that were made."""
        return len(self.history["step"])

    @property
    def lam(self) -> float:
        """The weight λ of ‖S‖₁ in the convex program."""
        return self.program.lam

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a part of the low-rank part, without computing all of it."""
        U, V = self.U[rows], self.components[:, columns]
        part: Array = (U * self.singular_values) @ V
        return part

    @property
    def factors(self) -> tuple[Array, Array]:
        """L in the unit of the data and the orientation of the blocks."""
        scaled = self.components.T * self.singular_values
        return (scaled, self.U) if self.program.rows.transposed else (self.U, scaled)

    @once
    def low_rank(self) -> Array:
        """X, m×n, in the type of the data."""
        rows = self.program.rows
        with rows:
            X = passes.low_rank_part(rows, self.factors)
        return rows.to_caller_layout(X)

    @once
    def residual(self) -> Array:
        """Y − X − S, m×n: NaN where Y is missing."""
        rows = self.program.rows
        S = rows.to_caller_layout(self.sparse)
        with rows:
            R = passes.residual_part(rows, S, self.factors)
        return rows.to_caller_layout(R)

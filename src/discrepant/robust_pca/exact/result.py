"""Result of the exact solver: low-rank and sparse part, dual and certificate."""

from dataclasses import dataclass, field, replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.results import Certificate, History, Status
from discrepant.robust_pca.exact.dual import certificate_of, dual_variable
from discrepant.robust_pca.exact.step import State
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.result import LowRankResult, locked_cached_property
from discrepant.robust_pca.rows import passes


@dataclass(frozen=True, eq=False, repr=False)
class ExactResult(LowRankResult):
    """Exact decomposition; everything but the low-rank factors is lazy."""

    state: State = field(repr=False)
    # Whether more entries fit to rounding than any wrong matrix of this rank could fit.
    proven: bool = field(default=False, kw_only=True)
    # Whether the user asked for this optimum of the convex program.
    requested: bool = field(default=False, kw_only=True)

    @property
    def polished(self) -> bool:
        """Whether the parts are exact to rounding."""
        return self.state.polished

    @locked_cached_property
    def sparse(self) -> Array:
        """S, m×n, in the dtype of the data: Y − X on the support, else zero."""
        rows, program = self.program.rows, self.program
        with rows:
            S = passes.sparse_part(
                rows,
                # After a polish, the residual alone determines the support.
                None if self.polished else self._dual,
                (self.state.U, self.state.C),
                unit=program.unit,
                dual_cutoff=program.saturated_dual,
                zeta=self.state.zeta,
            )
        return rows.to_caller_layout(S)

    @locked_cached_property
    def probability(self) -> Array:
        """One where S ≠ 0, else zero."""
        S = self.sparse
        return self.outliers.astype(S.dtype)

    @property
    def outliers(self) -> Array:
        """Which entries are corrupt."""
        flags: Array = self.sparse != 0
        return flags

    @property
    def noise(self) -> Array:
        """Zero for every column."""
        return np.zeros(self.components.shape[1], self.program.rows.dtype)

    @property
    def dual(self) -> Array:
        """The dual M, m×n."""
        return self.program.rows.to_caller_layout(self._dual)

    @locked_cached_property
    def certificate(self) -> Certificate:
        """Distance to the global optimum, bounded by the dual."""
        return certificate_of(self.program, self.state, self._dual)

    @locked_cached_property
    def _dual(self) -> Array:
        return dual_variable(self.program, self.state)


def exact_result(
    program: ConvexProblem, state: State, status: Status, history: History
) -> ExactResult:
    """Return the result of a state, in the caller's orientation and unit."""
    rows = program.rows
    s = np.linalg.norm(state.C, axis=0)
    order = np.argsort(-s)
    floor = 10 * np.finfo(rows.dtype).eps  # relative to the clipping bound
    order = order[s[order] > floor]
    is_sorted = np.array_equal(order, np.arange(len(s)))  # then no copy is needed
    left = state.U if is_sorted else state.U[:, order]
    C, s = state.C[:, order], s[order]
    U, V = rows.swap_factors(left, C / s)
    return ExactResult(
        U=U.astype(rows.dtype, copy=False),
        singular_values=(s / program.unit).astype(rows.dtype),
        components=np.ascontiguousarray(V.T, rows.dtype),
        status=status,
        history=history,
        program=program,
        state=replace(state, U=left, C=C),
    )

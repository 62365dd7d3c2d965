"""What an integration hands back: two parts, a dual and a certificate."""

from dataclasses import dataclass, field, replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.results import Certificate, History, Status
from discrepant.core.robust_regression import l1_coordinates
from discrepant.robust_pca.cached_property import once
from discrepant.robust_pca.exact.dual import certificate_of, dual_of
from discrepant.robust_pca.exact.step import State
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.result import LowRankResult
from discrepant.robust_pca.rows import passes


@dataclass(frozen=True, repr=False)
class ExactResult(LowRankResult):
    """Low-rank part and what the rest is computed from."""

    state: State = field(repr=False)

    @property
    def polished(self) -> bool:
        """Whether the parts are exact to rounding."""
        return self.state.polished

    def coordinates(self, rows: Array) -> Array:
        """Return where new rows lie in the row space of X."""
        return l1_coordinates(rows, self.components)

    @once
    def sparse(self) -> Array:
        """S, m×n, in the type of the data; computed when first asked for.

        It is zero off its support, Y − X on it, and zero where Y is missing.
        """
        rows, program = self.program.rows, self.program
        with rows:
            S = passes.sparse_part(
                rows,
                # A polished support is known from the residual alone.
                None if self.polished else self._dual,
                (self.state.U, self.state.C),
                unit=program.unit,
                dual_cutoff=program.on_bound,
                zeta=self.state.zeta,
            )
        return rows.to_caller_layout(S)

    @once
    def probability(self) -> Array:
        """One where S ≠ 0: without noise there is no doubt."""
        S = self.sparse
        return self.outliers.astype(S.dtype)

    @property
    def outliers(self) -> Array:
        """Which entries are corrupt."""
        wrong: Array = self.sparse != 0
        return wrong

    @property
    def noise(self) -> Array:
        """There is none, in any column."""
        return np.zeros(self.components.shape[1], self.program.rows.dtype)

    @property
    def dual(self) -> Array:
        """The dual M, m×n."""
        return self.program.rows.to_caller_layout(self._dual)

    @once
    def certificate(self) -> Certificate:
        """Proof of optimality from the dual."""
        return certificate_of(self.program, self.state, self._dual)

    @once
    def _dual(self) -> Array:
        return dual_of(self.program, self.state)


def split_of(
    program: ConvexProblem, state: State, status: Status, history: History
) -> ExactResult:
    """Turn the factors of a state to the caller's orientation and unit."""
    rows = program.rows
    s = np.linalg.norm(state.C, axis=0)
    order = np.argsort(-s)
    floor = 10 * np.finfo(rows.dtype).eps  # in units of the bound
    order = order[s[order] > floor]
    every = np.array_equal(order, np.arange(len(s)))  # as a rule: then no copy is made
    left = state.U if every else state.U[:, order]
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

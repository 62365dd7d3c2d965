"""What an integration hands back: two parts, a dual and a certificate, each on demand.

Only the factors of the low-rank part are there from the start. Whatever is as large as
the data is computed when it is first asked for, once, by functions that change nothing:
an interrupted one leaves everything as it was, and of two threads one waits.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from discrepant.linalg import Array
from discrepant.matrix.dual import certificate_of, dual_of
from discrepant.matrix.once import once
from discrepant.matrix.program import Program
from discrepant.matrix.steps import State
from discrepant.paper.subspace import coordinates
from discrepant.result import Certificate, History, Status


@dataclass(frozen=True)
class Split:
    """Low-rank part as U diag(s) Vᵀ, and what the rest is computed from."""

    U: Array  # (m, r), orthonormal; the caller's orientation
    singular_values: Array  # (r,), decreasing
    components: Array  # (r, n), orthonormal rows
    status: Status
    history: History
    program: Program = field(repr=False)
    state: State = field(repr=False)

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
        """The weight λ of ‖S‖₁."""
        return self.program.lam

    @property
    def polished(self) -> bool:
        """Whether the parts are exact to rounding."""
        return self.state.polished

    def coordinates(self, rows: Array) -> Array:
        """Return where new rows lie in the row space of X."""
        return coordinates(rows, self.components)

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a part of the low-rank part, without computing all of it."""
        U, V = self.U[rows], self.components[:, columns]
        part: Array = (U * self.singular_values) @ V
        return part

    @once
    def low_rank(self) -> Array:
        """X, m×n, in the type of the data; computed when first asked for."""
        rows = self.program.rows
        with rows:
            X = rows.scratch()
            rows.sweep(
                "low_rank_part", (X,), (self.program.unit,), low_rank=self._factors
            )
        return rows.as_given(X)

    @once
    def sparse(self) -> Array:
        """S, m×n, in the type of the data; computed when first asked for.

        It is zero off its support, Y − X on it, and zero where Y is missing.
        """
        rows, program = self.program.rows, self.program
        with rows:
            S = rows.scratch(fill=0.0)
            # A polished support is known from the residual alone.
            M, reach = (S, 0.0) if self.polished else (self._dual, program.on_bound)
            rows.sweep(
                "sparse_part",
                (S, M),
                (program.unit, reach, self.state.zeta),
                low_rank=self._factors,
            )
        return rows.as_given(S)

    @once
    def probability(self) -> Array:
        """One where S ≠ 0: without noise there is no doubt."""
        return np.asarray(self.outliers, self.program.rows.dtype)

    @property
    def outliers(self) -> Array:
        """Which entries are corrupt."""
        return np.asarray(self.sparse != 0)

    @property
    def noise(self) -> Array:
        """There is none, in any column."""
        return np.zeros(self.components.shape[1], self.program.rows.dtype)

    @property
    def dual(self) -> Array:
        """The dual M, m×n."""
        return self.program.rows.as_given(self._dual)

    @once
    def residual(self) -> Array:
        """Y − X − S, m×n: NaN where Y is missing."""
        rows = self.program.rows
        S = rows.as_given(self.sparse)
        with rows:
            R = rows.scratch()
            rows.sweep(
                "remainder", (R, S), (self.program.unit,), low_rank=self._factors
            )
        return rows.as_given(R)

    @once
    def certificate(self) -> Certificate:
        """Proof of optimality from the dual."""
        return certificate_of(self.program, self.state, self._dual)

    @once
    def _dual(self) -> Array:
        return dual_of(self.program, self.state)

    @property
    def _factors(self) -> tuple[Array, Array]:
        return self.state.U, self.state.C


def split_of(program: Program, state: State, status: Status, history: History) -> Split:
    """Turn the factors of a state to the caller's orientation and unit."""
    rows = program.rows
    s = np.linalg.norm(state.C, axis=0)
    order = np.argsort(-s)
    floor = 10 * np.finfo(rows.dtype).eps  # in units of the bound
    order = order[s[order] > floor]
    left, C, s = state.U[:, order], state.C[:, order], s[order]
    U, V = rows.turn(left, C / s)
    return Split(
        U=U.astype(rows.dtype),
        singular_values=(s / program.unit).astype(rows.dtype),
        components=np.ascontiguousarray(V.T, rows.dtype),
        status=status,
        history=history,
        program=program,
        state=replace(state, U=left, C=C),
    )

"""What an integration hands back: two parts, a dual and a certificate, each on demand.

Only the factors of the low-rank part are there from the start; whatever is as large as
the data is computed when it is first asked for.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from discrepant.linalg import Array
from discrepant.matrix.dual import certify_factors, settle
from discrepant.matrix.steps import Scale, Stepper
from discrepant.matrix.sweep import kernels
from discrepant.matrix.sweep.rows import Rows
from discrepant.paper.certificate import Certificate
from discrepant.result import History, Status

_RIPE = 5e-6  # gap at which the dual of a polished result is good enough


@dataclass(frozen=True)
class Split:
    """Low-rank part as U diag(s) Vᵀ, and all that is needed to compute the rest."""

    U: Array  # (m, r), orthonormal
    s: Array  # (r,), decreasing
    Vt: Array  # (r, n), orthonormal rows; the caller's orientation
    status: Status
    n_steps: int
    history: History
    lam: float
    psd: bool
    polished: bool
    mu: float
    _rows: Rows = field(repr=False)
    _T: Array = field(repr=False)
    _last: tuple[Array, Array] = field(repr=False)
    _scale: Scale = field(repr=False)
    _zeta: float = field(repr=False)
    _feasibility: float = field(repr=False)

    @property
    def rank(self) -> int:
        """Rank of the low-rank part."""
        return len(self.s)

    @cached_property
    def low_rank(self) -> Array:
        """X, m×n, in the type of the data; computed when first asked for."""
        rows = self._rows
        X = rows.scratch()
        with rows:
            rows.sweep(
                kernels.low_rank_part, (X,), (self._unit,), low_rank=self._factors
            )
        return rows.as_given(X)

    @cached_property
    def sparse(self) -> Array:
        """S, m×n, in the type of the data; computed when first asked for.

        It is zero off its support, Y − X on it, and zero where Y is missing.
        """
        rows = self._rows
        S = rows.scratch()
        S[:] = 0
        # A polished support is known from the residual alone.
        M, reach = (S, 0.0) if self.polished else (self.dual, self._reach)
        with rows:
            rows.sweep(
                kernels.sparse_part,
                (S, M),
                (self._unit, reach, self._zeta),
                low_rank=self._factors,
            )
        return rows.as_given(S)

    def fits(self, Y: Array) -> bool:
        """Whether a solve of Y can start from here: same shape, order and type."""
        other = Rows(Y)
        return self._rows.lies_like(other) and self._rows.dtype == other.dtype

    @cached_property
    def dual(self) -> Array:
        """The dual M, laid out as the data are in memory; takes the place of T."""
        rows, M = self._rows, self._T
        with rows:
            rows.sweep(
                kernels.dual_from, (M,), (self.mu, self.lam), low_rank=self._last
            )
            if self.polished and self.rank:
                settle(
                    rows,
                    M,
                    self._factors,
                    self.psd,
                    self._unit,
                    self.lam,
                    self._reach,
                    self._zeta,
                )
                if self._certify(M).gap > _RIPE:
                    _ripen(self, M)
        return M

    @cached_property
    def certificate(self) -> Certificate:
        """Proof of optimality from the dual; no SVD of anything m×n."""
        M = self.dual
        with self._rows:
            return self._certify(M)

    def _certify(self, M: Array) -> Certificate:
        return certify_factors(
            self._rows,
            M,
            self._factors,
            float(np.sum(self.s, dtype=np.float64)) * self._unit,
            psd=self.psd,
            unit=self._unit,
            lam=self.lam,
            feasibility=self._feasibility,
        )

    @property
    def _unit(self) -> float:
        """What the data are multiplied by."""
        return self._scale.unit(self._rows.dtype)

    @property
    def _factors(self) -> tuple[Array, Array]:
        """L = U Cᵀ in the unit and the orientation of the blocks."""
        U, V = self._rows.turn(self.U, self.Vt.T)
        return U, V * (self.s * self._unit)

    @property
    def _reach(self) -> float:
        """Below λ by enough to tell, in float32 too, a dual on its bound."""
        return self.lam * (1 - 1e-4)


def _ripen(result: Split, M: Array) -> None:
    """Step on from the solution for the sake of M alone, in place.

    Near the limit of what is recoverable, a polish succeeds long before the dual has
    converged.  L is right already, so a large and constant μ serves M best.
    """
    rows, lam = result._rows, result.lam
    rng = np.random.default_rng(0)
    stepper = Stepper(rows, result._scale, lam, result.psd, rng, M)
    mu = 64 * result.mu
    factors = result._factors
    for _ in range(10):
        stepper.start_from(*factors, M, mu)
        for _ in range(25):
            stepper.step("careful")
            stepper.keep = 1.0
        rows.sweep(kernels.dual_from, (M,), (mu, lam), low_rank=stepper.last)
        factors = stepper.last
        if result._certify(M).gap < _RIPE:
            return

"""Result of `recover` for a fully or partly observed matrix, as of `RobustPCA`."""

from dataclasses import dataclass, field

from discrepant.core.display import ResultDisplayMixin
from discrepant.core.linalg import Array
from discrepant.core.results import Certificate, History, Status
from discrepant.operators.operator import Operator
from discrepant.robust_pca.exact.result import ExactResult
from discrepant.robust_pca.noisy.result import NoisyResult


@dataclass(frozen=True, eq=False, repr=False)
class MatrixResult(ResultDisplayMixin):
    """Result of `discrepant.recover` for a matrix, with the problem it solves."""

    fit: ExactResult | NoisyResult = field(repr=False)
    y: Array = field(repr=False)
    operator: Operator = field(repr=False)
    psd: bool

    @property
    def low_rank(self) -> Array:
        """The low-rank matrix X; also called ``signal``."""
        return self.fit.low_rank.astype(self.y.dtype, copy=False)

    @property
    def sparse(self) -> Array:
        """The sparse corruption s; also called ``corruption``."""
        return self.fit.sparse.astype(self.y.dtype, copy=False)

    signal, corruption = low_rank, sparse

    @property
    def residual(self) -> Array:
        """The data minus both parts; NaN where missing."""
        return self.fit.residual

    @property
    def noise(self) -> Array:
        """Standard deviation of the noise in each column; zeros if there is none."""
        return self.fit.noise

    @property
    def outliers(self) -> Array:
        """Which entries are flagged as corrupt."""
        return self.fit.outliers

    @property
    def probability(self) -> Array:
        """The probability that each entry is corrupt."""
        return self.fit.probability

    @property
    def factors(self) -> tuple[Array, ...]:
        """U and V with ``X = U Vᵀ``."""
        return self.fit.U * self.fit.singular_values, self.fit.components.T

    @property
    def rank(self) -> int:
        """The rank of X."""
        return self.fit.rank

    @property
    def singular_values(self) -> Array:
        """The singular values of X, decreasing."""
        return self.fit.singular_values

    @property
    def components(self) -> Array:
        """Orthonormal rows that span the row space of X."""
        return self.fit.components

    def coordinates(self, rows: Array) -> Array:
        """Return the coordinates of new rows in the row space of X."""
        return self.fit.coordinates(rows)

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a part of X."""
        return self.fit.block(rows, columns)

    @property
    def lam(self) -> float:
        """The weight λ of ‖s‖₁ in the convex program."""
        return self.fit.lam

    @property
    def alpha(self) -> float:
        """1/λ."""
        return 1 / self.fit.lam

    @property
    def certificate(self) -> Certificate:
        """Bound on the distance to a global optimum of the convex program."""
        return self.fit.certificate

    @property
    def dual(self) -> Array:
        """The dual of the convex program, of the shape of the data."""
        return self.fit.dual

    @property
    def bound(self) -> float:
        """Size at which gross entries of y were clipped."""
        return self.fit.program.scale.bound

    @property
    def status(self) -> Status:
        """How the run ended."""
        return self.fit.status

    @property
    def history(self) -> History:
        """Numbers of each step."""
        return self.fit.history

    @property
    def n_steps(self) -> int:
        """Passes over the data."""
        return self.fit.n_steps

    @property
    def n_applications(self) -> int:
        """Each pass is an application of A and one of A*."""
        return 2 * self.n_steps

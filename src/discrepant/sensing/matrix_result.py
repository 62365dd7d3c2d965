"""A matrix that is seen as it is, recovered by the integrator of `RobustPCA`."""

from dataclasses import dataclass, field

from discrepant.core.display import ResultDisplayMixin
from discrepant.core.linalg import Array
from discrepant.core.results import Certificate, History, Status
from discrepant.operators.operator import Operator
from discrepant.robust_pca.exact.result import ExactResult
from discrepant.robust_pca.noisy.result import NoisyResult


@dataclass(frozen=True, eq=False, repr=False)
class MatrixResult(ResultDisplayMixin):
    """What `discrepant.recover` returns for a matrix: a `Result` with its problem."""

    split: ExactResult | NoisyResult = field(repr=False)
    y: Array = field(repr=False)
    operator: Operator = field(repr=False)
    psd: bool

    @property
    def low_rank(self) -> Array:
        """The low-rank matrix X; also called ``signal``."""
        return self.split.low_rank.astype(self.y.dtype, copy=False)

    @property
    def sparse(self) -> Array:
        """The sparse corruption s; also called ``corruption``."""
        return self.split.sparse.astype(self.y.dtype, copy=False)

    signal, corruption = low_rank, sparse

    @property
    def residual(self) -> Array:
        """What is left of the data when both parts are taken; NaN where missing."""
        return self.split.residual

    @property
    def noise(self) -> Array:
        """Standard deviation of the noise in each column; zeros if there is none."""
        return self.split.noise

    @property
    def outliers(self) -> Array:
        """Which entries are flagged as corrupt."""
        return self.split.outliers

    @property
    def probability(self) -> Array:
        """The probability that each entry is corrupt."""
        return self.split.probability

    @property
    def factors(self) -> tuple[Array, ...]:
        """U and V with ``X = U Vᵀ``."""
        return self.split.U * self.split.singular_values, self.split.components.T

    @property
    def rank(self) -> int:
        """The rank of X."""
        return self.split.rank

    @property
    def singular_values(self) -> Array:
        """The singular values of X, decreasing."""
        return self.split.singular_values

    @property
    def components(self) -> Array:
        """Orthonormal rows that span the row space of X."""
        return self.split.components

    def coordinates(self, rows: Array) -> Array:
        """Return where new rows lie in the row space of X."""
        return self.split.coordinates(rows)

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a part of X."""
        return self.split.block(rows, columns)

    @property
    def lam(self) -> float:
        """The weight λ of ‖s‖₁ in the convex program."""
        return self.split.lam

    @property
    def alpha(self) -> float:
        """1/λ."""
        return 1 / self.split.lam

    @property
    def certificate(self) -> Certificate:
        """How far this is from a global optimum of the convex program."""
        return self.split.certificate

    @property
    def dual(self) -> Array:
        """The dual of the convex program, of the shape of the data."""
        return self.split.dual

    @property
    def bound(self) -> float:
        """Size at which gross entries of y were clipped."""
        return self.split.program.scale.bound

    @property
    def status(self) -> Status:
        """How the run ended."""
        return self.split.status

    @property
    def history(self) -> History:
        """How it went."""
        return self.split.history

    @property
    def n_steps(self) -> int:
        """Passes over the data."""
        return self.split.n_steps

    @property
    def n_applications(self) -> int:
        """Each pass is an application of A and one of A*."""
        return 2 * self.n_steps

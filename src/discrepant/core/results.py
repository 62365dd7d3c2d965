"""Results of solvers: both parts, certificate, status and history."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.display import DisplayMixin
from discrepant.core.linalg import Array
from discrepant.core.plotting import plot_decomposition, plot_measurements
from discrepant.core.robust_regression import l1_coordinates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Entries of a matrix beyond which a card does not count the corrupt ones: the flags
# would first have to be computed.
MAX_COUNTED = 4_000_000
# Rows and columns of a sparse or lazy matrix that are drawn.
MAX_DRAWN = 1200
# Relative gap that rounding alone may leave, of either sign; the spectral norm of a
# dual is estimated to 1e-5.
ROUNDING_GAP = 1e-5


class Outcome(Enum):
    """How a run ended."""

    EXACT = "exact to rounding"
    CONVERGED = "converged"
    NOISE_LEVEL = "fitted at the level of the noise"
    STOPPED = "stopped on request"
    LIMIT = "reached its limit of steps or of time"
    NOT_EXACT = "no exact solution was found"


@dataclass(frozen=True)
class Status:
    """How a run ended: its outcome, a sentence for the user, and doubts about it."""

    outcome: Outcome
    sentence: str
    doubts: tuple[Enum, ...] = ()  # what the run warned of

    @property
    def converged(self) -> bool:
        """Whether the run reached its goal."""
        goals = (Outcome.EXACT, Outcome.CONVERGED, Outcome.NOISE_LEVEL)
        return self.outcome in goals

    @property
    def stopped(self) -> bool:
        """Whether the caller stopped the run."""
        return self.outcome is Outcome.STOPPED

    def __str__(self) -> str:
        return self.sentence


class History(dict[str, np.ndarray]):
    """Numbers recorded during a run: one array per name, all of the same length.

    The first columns are the same for every solver: ``step``, the number of steps
    taken; ``residual``, ``‖A(X) + s − y‖ / ‖y‖``; and ``seconds``, the time since the
    start. Further columns of the solver and of a callback follow.
    """


@dataclass(frozen=True)
class Certificate:
    """How far a recovery is from a global optimum of the convex program.

    Attributes
    ----------
    primal, dual : float
        The objective p at X, and a lower bound d of its optimum from a dual variable.
    feasibility : float
        ``‖A(X) + s − y‖ / ‖y‖``.
    gap : float
        Relative duality gap ``(p − d)/p``: the objective at X exceeds the global
        optimum by at most this fraction. At zero X is optimal; one is no information.
        A negative gap beyond rounding shows that the dual is not feasible, so that the
        certificate proves nothing.

    Gross entries that the solver clipped count at the size at which they were clipped.
    At full size a single one would hide the gap of all others.
    """

    primal: float
    dual: float
    feasibility: float
    gap: float = field(init=False)

    def __post_init__(self) -> None:
        gap = (self.primal - self.dual) / self.primal if self.primal > 0 else 0.0
        object.__setattr__(self, "gap", float(gap))

    def __str__(self) -> str:
        if self.gap < -ROUNDING_GAP:
            return f"no certificate: the dual is not feasible (gap {self.gap:.1e})"
        return (
            f"within {abs(self.gap):.1e} of the global optimum "
            f"(residual {self.feasibility:.1e})"
        )


class Result(DisplayMixin):
    """Base class of the results of all solvers.

    The certificate and arrays of the size of the data may be computed when they are
    first used.

    Attributes
    ----------
    low_rank : ndarray
        The low-rank matrix X; also called ``signal``.
    sparse : ndarray
        The sparse corruption s, of the shape of the data; also called ``corruption``.
    rank : int
        The rank r of X.
    singular_values : ndarray of shape (r,)
        The singular values of X, decreasing.
    components : ndarray of shape (r, n)
        An orthonormal basis of the row space of X.
    alpha, lam : float
        α, and the weight λ = 1/α of ‖s‖₁ in the convex program.
    certificate : Certificate
        How far the result is from a global optimum of the convex program.
    noise : ndarray
        Standard deviation of the noise in each column; zeros if there is none.
    outliers : ndarray of bool
        Which values of the data are flagged as corrupt.
    probability : ndarray
        The probability that each value is corrupt.
    residual : ndarray
        The data minus both parts; NaN at missing entries.
    status : Status
        How the run ended.
    history : History
        Numbers recorded during the run.
    n_steps : int
        The number of steps, passes or rounds taken.
    """

    low_rank: Array
    sparse: Array
    singular_values: Array
    components: Array
    alpha: float
    certificate: Certificate
    noise: Array
    outliers: Array
    probability: Array
    residual: Array
    status: Status
    history: History

    @property
    def signal(self) -> Array:
        """The low-rank matrix X; the same as ``low_rank``."""
        return self.low_rank

    @property
    def corruption(self) -> Array:
        """The sparse corruption s; the same as ``sparse``."""
        return self.sparse

    @property
    def rank(self) -> int:
        """The rank of X."""
        return len(self.singular_values)

    @property
    def lam(self) -> float:
        """The weight λ = 1/α of ‖s‖₁ in the convex program."""
        return 1 / self.alpha

    @property
    def n_steps(self) -> int:
        """The number of steps, passes or rounds taken."""
        steps = self.history["step"]
        return int(steps[-1]) if len(steps) else 0

    @property
    def row_score(self) -> Array:
        """How unusual each row of a matrix is: the fraction of its entries flagged."""
        return np.asarray(self.outliers.mean(axis=1)).ravel()

    def coordinates(self, rows: Array) -> Array:
        """Return the l1 coordinates of new rows in the row space of X.

        The rows may be corrupted and have missing entries (NaN).
        """
        return l1_coordinates(rows, self.components)

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a block of X, without computing all of X if X is large."""
        return self.low_rank[rows, columns]

    def _facts(self) -> dict[str, str]:
        """Return rank, noise, steps, corrupt entries and singular values as text."""
        sigma = np.atleast_1d(self.noise)
        noise = "none" if not sigma.any() else f"{sigma.min():.3g}"
        if sigma.max() > sigma.min():
            noise += f" to {sigma.max():.3g}, by column"
        facts = {"rank": str(self.rank), "noise": noise, "steps": str(self.n_steps)}
        rows, columns = _shape_of(self)
        flagged = self.outliers if rows * columns <= MAX_COUNTED else None
        is_lazy = hasattr(flagged, "compute")  # Dask: nothing is computed for a card
        if flagged is not None and not is_lazy:
            is_sparse = hasattr(flagged, "nnz")
            count = int(flagged.sum())
            observed = flagged.size if is_sparse else rows * columns
            if observed:
                facts["corrupt"] = (
                    f"{count:,} of {observed:,} values ({count / observed:.2%})"
                )
        if self.rank:
            values = [f"{value:.3g}" for value in self.singular_values[:6]]
            more = ["…"] * (self.rank > len(values))
            facts["singular values"] = ", ".join(values + more)
        return facts

    def plot(self) -> "Figure":
        """Draw the data, the low-rank part and the corruption.

        If the data are not a matrix but measurements of one, the matrix and the
        corruption of the measurements are drawn.
        """
        rows, columns = _shape_of(self)
        drawn = np.s_[: min(rows, MAX_DRAWN), : min(columns, MAX_DRAWN)]
        if hasattr(self.sparse, "tocsr"):  # only stored entries are observed
            low_rank = self.block(*drawn)
            sparse, residual = (
                _to_dense(values, drawn) for values in (self.sparse, self.residual)
            )
            return plot_decomposition(low_rank + residual + sparse, low_rank, sparse)
        if self.sparse.shape != (rows, columns):
            return plot_measurements(self.low_rank, self.sparse, self.outliers)
        low_rank, sparse, residual = (
            _to_numpy(values, drawn)
            for values in (self.low_rank, self.sparse, self.residual)
        )
        observed = low_rank + sparse + residual
        return plot_decomposition(*map(_modulus, (observed, low_rank, sparse)))

    def __str__(self) -> str:
        rows, columns = _shape_of(self)
        return f"{rows}×{columns} matrix of rank {self.rank}; {self.status}"


def _shape_of(result: Result) -> tuple[int, int]:
    """Return the shape of X, without computing it."""
    columns = result.components.shape[1]
    return len(result.block(slice(None), slice(0, 1))), columns


def _to_dense(values: Any, block: tuple[slice, slice]) -> Array:
    """Return a block of a sparse matrix, with NaN at entries that are not stored."""
    stored = values.tocsr()[block].tocoo()
    dense = np.full(stored.shape, np.nan)
    dense[stored.row, stored.col] = stored.data
    return dense


def _to_numpy(values: Any, block: tuple[slice, ...]) -> Array:
    """Return a NumPy array; of a Dask array, a computed block."""
    if hasattr(values, "compute"):
        return np.asarray(values[block].compute())
    return np.asarray(values)


def _modulus(values: Array) -> Array:
    """Return the modulus of complex values, which can be drawn; others unchanged."""
    return np.abs(values) if np.iscomplexobj(values) else values

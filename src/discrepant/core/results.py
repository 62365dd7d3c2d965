"""Results of solvers: both parts, certificate, status and history."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np

from discrepant.core.linalg import Array

# Part of the objective, as a fraction of it, below which its alignment is set to one.
NEGLIGIBLE = 1e-6


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
    """How a run ended: its outcome, and a sentence for the user."""

    outcome: Outcome
    sentence: str

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


@dataclass(frozen=True)
class History(Mapping[str, np.ndarray]):
    """Numbers recorded during a run: one array per name, all of the same length.

    The first columns are the same for every solver: ``step``, the number of steps
    taken; ``residual``, ``‖A(X) + s − y‖ / ‖y‖``; and ``seconds``, the time since the
    start. Further columns of the solver and of a callback follow.
    """

    columns: dict[str, np.ndarray] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


@dataclass(frozen=True)
class Certificate:
    """How far a recovery is from a global optimum of the convex program.

    Attributes
    ----------
    gap : float
        Relative duality gap ``(p − d)/p``: the objective at X exceeds the global
        optimum by at most this fraction. At zero X is optimal; one is no information.
    feasibility : float
        ``‖A(X) + s − y‖ / ‖y‖``.
    signal_alignment : float
        ``⟨A*(ν), X⟩ / ‖X‖_*``; one at an optimum.
    corruption_alignment : float
        ``⟨ν, s⟩ / λ‖s‖₁``; one at an optimum.
    primal, dual : float
        The two bounds p and d.

    Gross entries that the solver clipped count at the size at which they were clipped.
    At full size a single one would hide the gap of all others.
    """

    gap: float
    feasibility: float
    signal_alignment: float
    corruption_alignment: float
    primal: float
    dual: float

    def __str__(self) -> str:
        return (
            f"within {self.gap:.1e} of the global optimum "
            f"(residual {self.feasibility:.1e}, alignment of the signal "
            f"{self.signal_alignment:.4f}, of the corruption "
            f"{self.corruption_alignment:.4f})"
        )


def certificate_from_products(
    *,
    nuclear: float,
    primal: float,
    dual: float,
    on_signal: float,
    on_corruption: float,
    weighted_l1: float,
    feasibility: float,
) -> Certificate:
    """Return the certificate for given inner products with a feasible dual ν.

    Parameters
    ----------
    nuclear : float
        ‖X‖_*.
    primal, dual : float
        The primal objective at X and the dual objective at ν.
    on_signal, on_corruption : float
        ⟨A*(ν), X⟩ and ⟨ν, s⟩.
    weighted_l1 : float
        λ‖s‖₁.
    feasibility : float
        ``‖A(X) + s − y‖ / ‖y‖``.
    """
    return Certificate(
        gap=_ratio(max(primal - dual, 0.0), primal, 0.0),  # a negative gap is rounding
        feasibility=feasibility,
        signal_alignment=_ratio(on_signal, nuclear, 1.0, NEGLIGIBLE * primal),
        corruption_alignment=_ratio(
            on_corruption, weighted_l1, 1.0, NEGLIGIBLE * primal
        ),
        primal=primal,
        dual=dual,
    )


def _ratio(part: float, whole: float, if_empty: float, tiny: float = 0.0) -> float:
    """Return part / whole, or `if_empty` if the whole is not above `tiny`."""
    return float(part / whole) if whole > tiny else if_empty


class Result(Protocol):
    """The attributes that the results of all solvers have.

    The certificate and arrays of the size of the data may be computed when they are
    first used.
    """

    @property
    def low_rank(self) -> Array:
        """The low-rank matrix X."""
        ...

    @property
    def sparse(self) -> Array:
        """The sparse corruption s, of the shape of the data."""
        ...

    @property
    def rank(self) -> int:
        """The rank r of X."""
        ...

    @property
    def singular_values(self) -> Array:
        """The r singular values of X, decreasing."""
        ...

    @property
    def components(self) -> Array:
        """An orthonormal basis of the row space of X, as r rows."""
        ...

    @property
    def lam(self) -> float:
        """The weight λ of ‖s‖₁ in the convex program."""
        ...

    @property
    def certificate(self) -> Certificate:
        """How far the result is from a global optimum of the convex program."""
        ...

    @property
    def noise(self) -> Array:
        """Standard deviation of the noise in each column; zeros if there is none."""
        ...

    @property
    def outliers(self) -> Array:
        """Which entries are flagged as corrupt."""
        ...

    @property
    def probability(self) -> Array:
        """The probability that each entry is corrupt."""
        ...

    @property
    def residual(self) -> Array:
        """The data minus both parts; NaN at missing entries."""
        ...

    def coordinates(self, rows: Array) -> Array:
        """Return the coordinates of new rows in the row space of X (`components`).

        The rows may be corrupted and have missing entries (NaN).
        """
        ...

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a block of X, without computing all of X if X is large."""
        ...

    @property
    def status(self) -> Status:
        """How the run ended."""
        ...

    @property
    def history(self) -> History:
        """Numbers recorded during the run."""
        ...

    @property
    def n_steps(self) -> int:
        """The number of steps taken."""
        ...

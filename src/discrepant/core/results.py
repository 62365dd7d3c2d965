"""What every solve hands back: two parts, how good they are, how it ended and went."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np

from discrepant.core.linalg import Array

NEGLIGIBLE = 1e-6  # a part that is less than this of the whole counts as none


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
    """How a run ended: an outcome, and a sentence a person can read."""

    outcome: Outcome
    sentence: str

    @property
    def converged(self) -> bool:
        """Whether nothing was left to do."""
        done = (Outcome.EXACT, Outcome.CONVERGED, Outcome.NOISE_LEVEL)
        return self.outcome in done

    @property
    def stopped(self) -> bool:
        """Whether it ended because the caller asked for that."""
        return self.outcome is Outcome.STOPPED

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class History(Mapping[str, np.ndarray]):
    """Numbers recorded along the way, one array a name, all of one length.

    The first columns are the same for every solver: ``step``, the number of steps
    taken; ``residual``, ``‖A(X) + s − y‖ / ‖y‖``; and ``seconds``, the time since the
    start. What else a solver records stands behind them, and so does whatever a
    callback returns.
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
    """Evidence for a recovery.

    Attributes
    ----------
    gap : float
        Relative duality gap ``(p − d)/p``: the objective at X is at most this share
        above the global optimum. Zero is perfect; one says nothing.
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
    """Assemble a certificate from inner products with a feasible dual."""
    return Certificate(
        gap=_ratio(max(primal - dual, 0.0), primal, 0.0),  # below it is rounding
        feasibility=feasibility,
        signal_alignment=_ratio(on_signal, nuclear, 1.0, NEGLIGIBLE * primal),
        corruption_alignment=_ratio(
            on_corruption, weighted_l1, 1.0, NEGLIGIBLE * primal
        ),
        primal=primal,
        dual=dual,
    )


def _ratio(part: float, whole: float, if_empty: float, tiny: float = 0.0) -> float:
    return float(part / whole) if whole > tiny else if_empty


class Result(Protocol):
    """What every solver's result offers, however it was computed.

    ``certificate`` and whatever is as large as the data may be computed when they are
    first asked for.
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
        """What is left of the data when both parts are taken; NaN where missing."""
        ...

    def coordinates(self, rows: Array) -> Array:
        """Return where new rows lie in the row space of X, as `components` span it.

        The rows may be corrupted and incomplete (NaN) themselves.
        """
        ...

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a part of X, without computing all of it where that is large."""
        ...

    @property
    def status(self) -> Status:
        """How the run ended."""
        ...

    @property
    def history(self) -> History:
        """How it went."""
        ...

    @property
    def n_steps(self) -> int:
        """Steps taken."""
        ...

"""Stopping rules of the descent: residual and number of steps.

A rule is a callable ``Iteration → Status | None``. The run ends at the first rule that
returns a status.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from discrepant.core.errors import InputError
from discrepant.core.results import Outcome, Status
from discrepant.core.validation import check_number, quote


@dataclass(frozen=True)
class Iteration:
    """State of a run: steps taken, relative residual, seconds since the start."""

    step: int
    residual: float
    seconds: float


Rule = Callable[[Iteration], Status | None]


@dataclass(frozen=True)
class Residual:
    """Stop when ``‖A(X) + s − y‖ ≤ tol·‖y‖``."""

    tol: float

    def __post_init__(self) -> None:
        check_number("tol", self.tol, "zero or more", lambda tol: tol >= 0)

    def __call__(self, iteration: Iteration) -> Status | None:
        """Return the status "converged" if the residual is small enough."""
        if iteration.residual > self.tol:
            return None
        return Status(
            Outcome.CONVERGED,
            f"converged after {iteration.step} steps: residual "
            f"{iteration.residual:.1e} at or below tol {self.tol:.1e}",
        )


@dataclass(frozen=True)
class Steps:
    """Stop after a number of steps."""

    limit: int

    def __post_init__(self) -> None:
        if not isinstance(self.limit, Real) or not self.limit >= 1:
            raise InputError(f"At least one step is needed, got {quote(self.limit)}.")

    def __call__(self, iteration: Iteration) -> Status | None:
        """Return the status "limit reached" after the last step."""
        if iteration.step < self.limit:
            return None
        return Status(
            Outcome.LIMIT,
            f"took all of {self.limit} steps: residual {iteration.residual:.1e}",
        )


# The paper's number of steps, or earlier at a small residual.
DEFAULT_STOP: tuple[Rule, ...] = (Residual(1e-3), Steps(20_000))


def validate_rules(stop: Any) -> tuple[Rule, ...]:
    """Return stopping rules as a tuple, with a step limit if only residuals are given.

    The residual alone need not ever become small enough.
    """
    if callable(stop):
        rules: tuple[Any, ...] = (stop,)
    else:
        rules = tuple(stop) if isinstance(stop, Iterable) else (stop,)
    if not rules or not all(callable(rule) for rule in rules):
        raise InputError(
            "stop must be rules such as Steps(1000) or Residual(1e-3), got "
            f"{quote(stop)}."
        )
    endless = all(isinstance(rule, Residual) for rule in rules)
    return (*rules, DEFAULT_STOP[-1]) if endless else rules

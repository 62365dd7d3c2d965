"""When to stop: rules that look at a moment of the run and may say how it ended.

A rule is any callable ``Moment → Status | None``; the first to speak ends the run.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from discrepant.core.errors import InputError
from discrepant.core.results import Outcome, Status
from discrepant.core.validation import check_number, quote


@dataclass(frozen=True)
class Iteration:
    """Where a run stands: steps taken, relative residual, seconds spent."""

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

    def __call__(self, moment: Iteration) -> Status | None:
        """Judge a moment of the run."""
        if moment.residual > self.tol:
            return None
        return Status(
            Outcome.CONVERGED,
            f"converged after {moment.step} steps: residual {moment.residual:.1e} "
            f"at or below tol {self.tol:.1e}",
        )


@dataclass(frozen=True)
class Steps:
    """Stop after so many steps."""

    most: int

    def __post_init__(self) -> None:
        if not isinstance(self.most, Real) or not self.most >= 1:
            raise InputError(f"At least one step is needed, got {quote(self.most)}.")

    def __call__(self, moment: Iteration) -> Status | None:
        """Judge a moment of the run."""
        if moment.step < self.most:
            return None
        return Status(
            Outcome.LIMIT,
            f"took all of {self.most} steps: residual {moment.residual:.1e}",
        )


@dataclass(frozen=True)
class Seconds:
    """Stop after so many seconds."""

    most: float

    def __call__(self, moment: Iteration) -> Status | None:
        """Judge a moment of the run."""
        if moment.seconds < self.most:
            return None
        return Status(
            Outcome.LIMIT,
            f"stopped after {self.most:g} s and {moment.step} steps: "
            f"residual {moment.residual:.1e}",
        )


DEFAULT_STOP: tuple[Rule, ...] = (Residual(1e-3), Steps(20_000))  # the paper's steps


def validate_rules(stop: Any) -> tuple[Rule, ...]:
    """Return the rules as a tuple, and see to it that one of them ends the run."""
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


def first_stop(rules: Sequence[Rule], moment: Iteration) -> Status | None:
    """Return the status of the first rule that speaks."""
    for rule in rules:
        if (status := rule(moment)) is not None:
            return status
    return None


def step_limit(rules: Sequence[Rule]) -> int | None:
    """Return the number of steps after which the run ends at the latest, if set."""
    return min((rule.most for rule in rules if isinstance(rule, Steps)), default=None)

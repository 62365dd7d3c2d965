"""The paper's algorithm: gradient descent with two learning rates.

    r = A(U Uᵀ) + g∘g − h∘h − y
    U ← U − τ·sym(A*(r)) U      g ← g − ατ·r∘g      h ← h + ατ·r∘h

`descend` is the one explicit loop of the package. It takes any signal and corruption
that have ``value()`` and ``descend(grad, rate)``: the factors of a matrix
(`discrepant.paper.matrix_descent`), a network, or a class of your own.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Progress, reporting
from discrepant.core.results import History, Outcome, Status
from discrepant.operators.operator import Operator
from discrepant.paper.stopping import (
    DEFAULT_STOP,
    Iteration,
    Rule,
    first_stop,
    step_limit,
)
from discrepant.structures.factorisations import Parameterisation

Callback = Callable[[Iteration, Parameterisation, Parameterisation], Any]

FIRST_ITERATION = Iteration(step=0, residual=1.0, seconds=0.0)

# The value is quadratic in the parameters and the step multiplies them by the residual:
# once a step is too large the residual grows faster and faster, past any bound at once.
DIVERGED = 1e3  # times the first residual


class DivergenceError(ArithmeticError):
    """The residual grew without bound: the step is too large."""


def descend(
    y: Any,
    operator: Operator,
    signal: Parameterisation,
    corruption: Parameterisation,
    *,
    step: float | Callable[[int], float],
    alpha: float = 1.0,
    stop: Sequence[Rule] = DEFAULT_STOP,
    gradient: Callable[[Any], Any] | None = None,
    check_every: int = 10,
    callback: Callback | None = None,
    progress: bool | Progress | None = None,
    start: Iteration = FIRST_ITERATION,
) -> tuple[Status, History]:
    """Descend on signal and corruption together until a rule says stop.

    Parameters
    ----------
    y : array
        The observation.
    operator : Operator
        How the signal is observed.
    signal, corruption : Parameterisation
        What is descended on, in place.
    step : float or callable
        The learning rate τ, or a schedule ``step number → τ``.
    alpha : float
        The corruption's rate is ατ.
    stop : sequence of rules
        The first rule to speak ends the run.
    gradient : callable, optional
        Derivative of the loss with respect to A(X) + s, given the residual; by default
        the residual itself, that of ``½‖r‖²``. ``numpy.sign`` makes it the ℓ1 loss.
    check_every : int
        The rules and the callback are asked every so many steps.
    callback : callable, optional
        ``callback(moment, signal, corruption)``; a mapping of names to numbers that it
        returns is recorded in the history. Its time is not counted.
    progress : bool or callable, optional
        True shows a bar; a callable is told ``(share, note)`` when the rules are asked,
        and ends the run by returning False.
    start : Moment
        Where an interrupted run left off; the history begins there.
    """
    last = step_limit(stop)
    norm_y = _norm(y) or 1.0
    records: list[dict[str, float]] = []
    seconds, started = start.seconds, time.perf_counter()
    with (
        reporting(progress, "descent") as report,
        np.errstate(over="ignore", invalid="ignore"),
    ):
        for k in count(start.step):
            residual = operator.forward(signal.value()) + corruption.value() - y

            if k % check_every == 0 or k == last:
                seconds += time.perf_counter() - started
                moment = Iteration(k, _norm(residual) / norm_y, seconds)
                if k == start.step:
                    largest = DIVERGED * max(1.0, moment.residual)
                if not moment.residual < largest:  # also true of NaN
                    raise DivergenceError(f"diverged within {k} steps")
                extra = callback(moment, signal, corruption) if callback else None
                records.append(_record(moment, extra))
                go_on = report(k / last if last else 0.0, _note(moment, extra))
                started = time.perf_counter()
                status = first_stop(stop, moment)
                if status is None and not go_on:
                    status = Status(
                        Outcome.STOPPED, f"stopped on request after {k} steps"
                    )
                if status is not None:
                    break

            tau = step(k) if callable(step) else step
            grad = residual if gradient is None else gradient(residual)
            signal.descend(operator.adjoint(grad), tau)
            corruption.descend(grad, alpha * tau)

    columns = {name: np.array([row[name] for row in records]) for name in records[0]}
    assert status is not None
    return status, History(columns)


def _norm(z: Any) -> float:
    """Return the Euclidean norm of an array of any shape."""
    return math.sqrt(float((z * z).sum()))


def _record(moment: Iteration, extra: Any) -> dict[str, float]:
    """Make one row of the history."""
    row = {
        "step": moment.step,
        "residual": moment.residual,
        "seconds": moment.seconds,
    }
    return {**row, **extra} if isinstance(extra, Mapping) else row


def _note(moment: Iteration, extra: Any) -> str:
    """Say beside the bar how the run stands."""
    recorded = extra if isinstance(extra, Mapping) else {}
    return "  ".join(
        [f"residual {moment.residual:.1e}"]
        + [f"{name} {value:.4g}" for name, value in recorded.items()]
    )


@dataclass(frozen=True)
class ErrorToTruth:
    """A callback that records the relative error to a known truth."""

    truth: Array

    def __call__(
        self, moment: Iteration, signal: Parameterisation, corruption: Parameterisation
    ) -> dict[str, float]:
        """Return the error at this moment."""
        return {"error": _norm(signal.value() - self.truth) / _norm(self.truth)}

"""The paper's algorithm, gradient descent with two learning rates (equations 7, 8).

    r = A(U Uᵀ) + g∘g − h∘h − y
    U ← U − τ·sym(A*(r)) U      g ← g − ατ·r∘g      h ← h + ατ·r∘h

`descend` accepts any signal and corruption with the methods ``value()`` and
``descend(grad, rate)``: the factors of a matrix (`discrepant.paper.matrix_descent`), a
network, or a class of your own.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Progress, reporting
from discrepant.core.results import History, Outcome, Status
from discrepant.operators.operator import Operator
from discrepant.structures.factorisations import Parameterisation

# The relative residual and the number of steps at which the paper's descent ends.
TOL, MAX_STEPS = 1e-3, 20_000


@dataclass(frozen=True)
class Iteration:
    """State of a run: steps taken, relative residual, seconds since the start."""

    step: int
    residual: float
    seconds: float


Callback = Callable[[Iteration, Parameterisation, Parameterisation], Any]

# State at the start of a new run.
FIRST_ITERATION = Iteration(step=0, residual=1.0, seconds=0.0)
# Residual, in units of the first one, from which a run counts as diverged. The value is
# quadratic in the parameters and a step multiplies them by the residual: once the step
# size is too large, the residual grows faster than exponentially.
DIVERGED = 1e3


class DivergenceError(ArithmeticError):
    """The residual grew without bound: the step size is too large."""


def descend(
    y: Any,
    operator: Operator,
    signal: Parameterisation,
    corruption: Parameterisation,
    *,
    step: float | Callable[[int], float],
    alpha: float = 1.0,
    tol: float = TOL,
    max_iter: int = MAX_STEPS,
    gradient: Callable[[Any], Any] | None = None,
    check_every: int = 10,
    callback: Callback | None = None,
    progress: bool | Progress | None = None,
    start: Iteration = FIRST_ITERATION,
) -> tuple[Status, History]:
    """Run gradient descent on signal and corruption.

    Parameters
    ----------
    y : array
        The observation.
    operator : Operator
        The linear map A from the signal to the observation.
    signal, corruption : Parameterisation
        The two parts, changed in place.
    step : float or callable
        The learning rate τ, or a schedule ``step number → τ``.
    alpha : float
        Ratio α of the learning rates: the corruption's rate is ατ.
    tol : float
        The run ends when ``‖A(X) + s − y‖ ≤ tol·‖y‖``.
    max_iter : int
        Maximum number of steps.
    gradient : callable, optional
        Derivative of the loss with respect to A(X) + s, given the residual; by default
        the residual itself, that of ``½‖r‖²``. ``numpy.sign`` makes it the ℓ1 loss.
    check_every : int
        Number of steps between two tests of the residual and calls of the callback.
    callback : callable, optional
        ``callback(iteration, signal, corruption)``. If it returns a mapping of names to
        numbers, these are recorded in the history. Its time is not counted.
    progress : bool or callable, optional
        True shows a bar. A callable is called with ``(fraction, note)`` and ends the
        run by returning False.
    start : Iteration
        State of an interrupted run to continue; the history begins there.

    Returns
    -------
    status : Status
        How the run ended.
    history : History
        Step, residual and seconds, and what the callback returned.
    """
    norm_y = _norm(y) or 1.0
    records: list[dict[str, float]] = []
    seconds, started = start.seconds, time.perf_counter()
    with (
        reporting(progress, "descent") as report,
        np.errstate(over="ignore", invalid="ignore"),
    ):
        for k in count(start.step):
            residual = operator.forward(signal.value()) + corruption.value() - y

            if k % check_every == 0 or k == max_iter:
                seconds += time.perf_counter() - started
                iteration = Iteration(k, _norm(residual) / norm_y, seconds)
                if k == start.step:
                    largest = DIVERGED * max(1.0, iteration.residual)
                if not iteration.residual < largest:  # also true for NaN
                    raise DivergenceError(f"diverged within {k} steps")
                extra = callback(iteration, signal, corruption) if callback else None
                extra = extra if isinstance(extra, Mapping) else {}
                records.append({**vars(iteration), **extra})
                proceed = report(k / max_iter, _note(iteration, extra))
                started = time.perf_counter()
                reached = f"residual {iteration.residual:.1e}"
                if iteration.residual <= tol:
                    sentence = f"converged after {k} steps: {reached} at or below tol"
                    status = Status(Outcome.CONVERGED, f"{sentence} {tol:.1e}")
                    break
                if k >= max_iter:
                    sentence = f"took all of {max_iter} steps: {reached}"
                    status = Status(Outcome.LIMIT, sentence)
                    break
                if not proceed:
                    sentence = f"stopped on request after {k} steps"
                    status = Status(Outcome.STOPPED, sentence)
                    break

            tau = step(k) if callable(step) else step
            grad = residual if gradient is None else gradient(residual)
            signal.descend(operator.adjoint(grad), tau)
            corruption.descend(grad, alpha * tau)

    columns = {name: np.array([row[name] for row in records]) for name in records[0]}
    return status, History(columns)


def _norm(z: Any) -> float:
    """Return the Euclidean norm of an array of any library, shape and scale."""
    largest = float(abs(z).max())
    if not 0 < largest < math.inf:
        return largest
    z = z / largest
    return largest * math.sqrt(float((z * z).sum()))


def _note(iteration: Iteration, extra: Mapping[str, float]) -> str:
    """Return the text beside the progress bar: residual and recorded numbers."""
    recorded = (f"{name} {value:.4g}" for name, value in extra.items())
    return "  ".join([f"residual {iteration.residual:.1e}", *recorded])


@dataclass(frozen=True)
class ErrorToTruth:
    """Callback that records the relative error of the signal to a known truth."""

    truth: Array

    def __call__(
        self,
        iteration: Iteration,
        signal: Parameterisation,
        corruption: Parameterisation,
    ) -> dict[str, float]:
        """Return the error at this iteration."""
        return {"error": _norm(signal.value() - self.truth) / _norm(self.truth)}

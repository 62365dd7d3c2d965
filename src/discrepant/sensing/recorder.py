"""History, progress reports and callbacks of one solve of measurements."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from discrepant.core.linalg import Array, norm
from discrepant.core.progress import Report
from discrepant.core.results import History
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.tangent_space import FixedRankMatrix
from discrepant.paper.stopping import Iteration


class CallbackValue:
    """X or s at an iteration, with the method `value` that callbacks call."""

    def __init__(self, value: Callable[[], Array]) -> None:
        self.value = value


class RoundHistory:
    """Rounds of all phases of a solve.

    Parameters
    ----------
    report : callable
        Called with the fraction done and a note; False stops the solve.
    callback : callable or None
        The user's callback.
    max_rounds : int
        Limit of the number of rounds.
    norm_y : float
        Norm of the data, which residuals are divided by.
    tol : float
        Residual at which progress is complete.

    Attributes
    ----------
    stopped : bool
        Whether `report` has asked to stop; it stays True.
    """

    def __init__(
        self, report: Report, callback: Any, max_rounds: int, norm_y: float, tol: float
    ) -> None:
        self.report, self.callback = report, callback
        self.max_rounds = max_rounds
        self.norm_y, self.tol = norm_y or 1.0, tol
        self.rows: list[dict[str, Any]] = []
        self.stopped, self.paused = False, 0.0
        self.started = time.perf_counter()

    def note(self, phase: str, at: FixedRankMatrix, e: Array, A: Measurements) -> bool:
        """Record a round; return whether to continue."""
        seconds = time.perf_counter() - self.started - self.paused
        # Gross residuals are corruption; only the others count.
        size = np.abs(e)
        small = size[size <= 5 * np.median(size) / 0.67449]
        residual = norm(small) / self.norm_y
        step = len(self.rows) + 1
        row = {
            "step": step,
            "residual": residual,
            "seconds": seconds,
            "phase": phase,
            "rank": at.rank,
            "applications": A.n_applications,
        }
        if self.callback is not None:
            iteration = Iteration(step, residual, seconds)
            corruption = np.where(size > 5 * np.median(size), e, 0)
            shape = A.operator.data_shape
            extra = self.callback(
                iteration,
                CallbackValue(at.value),
                CallbackValue(lambda: corruption.reshape(shape)),
            )
            row |= extra if isinstance(extra, Mapping) else {}
            self.paused = time.perf_counter() - self.started - seconds
        self.rows.append(row)
        fraction = np.log(max(residual, 1e-300)) / np.log(min(self.tol, 0.5))
        fraction = min(max(float(fraction), step / self.max_rounds, 0.0), 1.0)
        note = f"{phase}, rank {at.rank}, residual {residual:.1e}"
        self.stopped |= not self.report(fraction, note)
        return not self.stopped

    @property
    def ended(self) -> bool:
        """Whether no further round may be made."""
        return self.stopped or len(self.rows) >= self.max_rounds

    def history(self) -> History:
        """Return one array for each recorded name."""
        names = self.rows[0] if self.rows else ("step", "residual", "seconds")
        return History({n: np.array([row[n] for row in self.rows]) for n in names})

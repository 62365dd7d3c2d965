"""History, progress reports and the budget of steps of one solve."""

import math
import time
from typing import Any

import numpy as np

from discrepant.core.progress import Report
from discrepant.core.results import History, Outcome


class Recorder:
    """Records steps and reports progress; several solvers may share one.

    The solve stops if `report`, called with the fraction done and a note, returns
    False; `stopped` then stays True. `tol` is the residual at which the work is done,
    `max_iter` the limit of the number of steps.
    """

    def __init__(self, report: Report, tol: float, max_iter: int) -> None:
        self.report, self.tol, self.max_iter = report, tol, max_iter
        self.steps: list[dict[str, Any]] = []
        self.started = time.perf_counter()
        self.stopped = False

    def note(self, step: Any, fraction: float | None = None) -> bool:
        """Record a step; return whether to continue.

        A step is a named tuple of numbers, `residual` among them. The fraction of the
        work that is done follows from the residual by default.
        """
        number = len(self.steps) + 1
        seconds = time.perf_counter() - self.started
        row = {"step": number, "residual": step.residual, "seconds": seconds}
        row |= step._asdict()
        self.steps.append(row)
        if fraction is None:
            tol = min(max(self.tol, 1e-300), 0.5)
            fraction = math.log(max(step.residual, 1e-300)) / math.log(tol)
        fraction = min(max(fraction, number / self.max_iter, 0.0), 1.0)
        rank = f"rank {row['rank']}, " if "rank" in row else ""
        note = f"{rank}residual {step.residual:.1e}"
        self.stopped |= not self.report(fraction, note)
        return not self.stopped

    @property
    def ended(self) -> bool:
        """Whether no further step is allowed."""
        return self.stopped or len(self.steps) >= self.max_iter

    @property
    def outcome(self) -> Outcome:
        """Why no further step is allowed."""
        return Outcome.STOPPED if self.stopped else Outcome.LIMIT

    @property
    def end(self) -> str:
        """Why no further step is allowed, in words."""
        if self.stopped:
            return "stopped early, on request"
        return f"took all of {self.max_iter} steps"

    @property
    def residual(self) -> float:
        """The residual of the last step."""
        return float(self.steps[-1]["residual"]) if self.steps else 0.0

    def history(self) -> History:
        """Return the recorded steps as one array per quantity."""
        names = self.steps[0] if self.steps else ("step", "residual", "seconds")
        return History({n: np.array([row[n] for row in self.steps]) for n in names})

"""History, progress reports and the pass budget of one solve."""

import math
import time
from typing import NamedTuple

import numpy as np

from discrepant.core.progress import Report
from discrepant.core.results import History, Outcome


class Step(NamedTuple):
    """Outcome of one pass over the data."""

    # "uncorrupted", "fast", "polish", "careful"; after a row sample "sweep"; with noise
    # "clipped" and "weighed"
    phase: str
    residual: float  # ‖Y − X − S‖ / ‖Y‖, without the noise where that is modelled
    dual_residual: float  # μ‖ΔX‖ / ‖M‖, NaN without a dual
    rank: int
    mu: float  # step size in the unit of the problem; NaN without one
    support: float  # fraction of the observed entries with S ≠ 0


class Recorder:
    """Records passes and reports progress; several solvers may share one."""

    def __init__(self, report: Report, tol: float, max_iter: int) -> None:
        self.report, self.tol, self.max_iter = report, tol, max_iter
        self.steps: list[Step] = []
        self.seconds: list[float] = []
        self.started = time.perf_counter()
        self.stopped = False

    def note(self, step: Step, fraction: float | None = None) -> None:
        """Record a pass and report the fraction of the work that is done."""
        self.steps.append(step)
        self.seconds.append(time.perf_counter() - self.started)
        if fraction is None:
            tol = min(self.tol, 0.5)
            fraction = math.log(max(step.residual, 1e-300)) / math.log(tol)
        fraction = min(max(fraction, len(self.steps) / self.max_iter, 0.0), 1.0)
        note = f"rank {step.rank}, residual {step.residual:.1e}"
        self.stopped |= not self.report(fraction, note)

    @property
    def ended(self) -> bool:
        """Whether no further pass is allowed."""
        return self.stopped or len(self.steps) >= self.max_iter

    @property
    def outcome(self) -> Outcome:
        """Why no further pass is allowed."""
        return Outcome.STOPPED if self.stopped else Outcome.LIMIT

    @property
    def end(self) -> str:
        """Why no further pass is allowed, in words."""
        if self.stopped:
            return "stopped early, on request"
        return f"took all of {self.max_iter} steps"

    @property
    def residual(self) -> float:
        """The residual of the last pass."""
        return self.steps[-1].residual if self.steps else 0.0

    def history(self) -> History:
        """Return the recorded passes as one array per quantity."""
        columns = {
            name: np.array([getattr(step, name) for step in self.steps])
            for name in Step._fields
        }
        count = {"step": np.arange(1, len(self.steps) + 1)}
        first = {"residual": columns["residual"], "seconds": np.array(self.seconds)}
        return History({**count, **first, **columns})

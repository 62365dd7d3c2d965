"""The steps of a solve so far, told to who watches, and whether there may be more."""

import math
import time
from typing import NamedTuple

import numpy as np

from discrepant.core.progress import Report
from discrepant.core.results import History, Outcome


class Step(NamedTuple):
    """What one pass over the data did."""

    # "fast", "polish", "careful"; after a sample "sweep"; with noise "clipped" and
    # "weighed"
    phase: str
    residual: float  # ‖Y − X − S‖ / ‖Y‖, without the noise where that is modelled
    dual_residual: float  # μ‖ΔX‖ / ‖M‖, where there is a dual; else NaN
    rank: int
    mu: float  # step size, in the unit of the integration, where there is one; else NaN
    support: float  # share of observed entries where S ≠ 0


class Recorder:
    """Steps taken; one log may serve several solvers in turn."""

    def __init__(self, report: Report, tol: float, max_iter: int) -> None:
        self.report, self.tol, self.max_iter = report, tol, max_iter
        self.steps: list[Step] = []
        self.seconds: list[float] = []
        self.started = time.perf_counter()
        self.stopped = False

    def note(self, step: Step, share: float | None = None) -> None:
        """Write a step down and tell who watches."""
        self.steps.append(step)
        self.seconds.append(time.perf_counter() - self.started)
        if share is None:
            tol = min(self.tol, 0.5)
            share = math.log(max(step.residual, 1e-300)) / math.log(tol)
        share = min(max(share, len(self.steps) / self.max_iter, 0.0), 1.0)
        note = f"rank {step.rank}, residual {step.residual:.1e}"
        self.stopped |= not self.report(share, note)

    @property
    def ended(self) -> bool:
        """Whether no further step may be taken."""
        return self.stopped or len(self.steps) >= self.max_iter

    @property
    def outcome(self) -> Outcome:
        """Why no further step may be taken."""
        return Outcome.STOPPED if self.stopped else Outcome.LIMIT

    @property
    def end(self) -> str:
        """The same in words."""
        if self.stopped:
            return "stopped early, on request"
        return f"took all of {self.max_iter} steps"

    @property
    def residual(self) -> float:
        """The residual of the last step."""
        return self.steps[-1].residual if self.steps else 0.0

    def history(self) -> History:
        """Return one array a name."""
        columns = {
            name: np.array([getattr(step, name) for step in self.steps])
            for name in Step._fields
        }
        count = {"step": np.arange(1, len(self.steps) + 1)}
        first = {"residual": columns["residual"], "seconds": np.array(self.seconds)}
        return History({**count, **first, **columns})

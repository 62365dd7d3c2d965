"""What was done so far: told to who watches, kept for the history."""

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


class Held:
    """A part of the signal at a moment, as callbacks know it."""

    def __init__(self, value: Callable[[], Array]) -> None:
        self.value = value


class Recorder:
    """Rounds of all phases; once it was told to stop, `stopped` stays True."""

    def __init__(
        self, report: Report, callback: Any, most: int, norm_y: float, tol: float
    ) -> None:
        self.report, self.callback, self.most = report, callback, most
        self.norm_y, self.tol = norm_y or 1.0, tol
        self.rows: list[dict[str, Any]] = []
        self.stopped, self.paused = False, 0.0
        self.started = time.perf_counter()

    def note(self, phase: str, at: FixedRankMatrix, e: Array, A: Measurements) -> bool:
        """Write a round down; returns whether to go on."""
        seconds = time.perf_counter() - self.started - self.paused
        # What the low rank leaves is corruption where it is gross; the rest counts.
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
            moment = Iteration(step, residual, seconds)
            corruption = np.where(size > 5 * np.median(size), e, 0)
            shape = A.operator.data_shape
            extra = self.callback(
                moment, Held(at.value), Held(lambda: corruption.reshape(shape))
            )
            row |= extra if isinstance(extra, Mapping) else {}
            self.paused = time.perf_counter() - self.started - seconds
        self.rows.append(row)
        share = np.log(max(residual, 1e-300)) / np.log(min(self.tol, 0.5))
        share = min(max(float(share), step / self.most, 0.0), 1.0)
        note = f"{phase}, rank {at.rank}, residual {residual:.1e}"
        self.stopped |= not self.report(share, note)
        return not self.stopped

    @property
    def ended(self) -> bool:
        """Whether no further round may be made."""
        return self.stopped or len(self.rows) >= self.most

    def history(self) -> History:
        """Return one array a name."""
        names = self.rows[0] if self.rows else ("step", "residual", "seconds")
        return History({n: np.array([row[n] for row in self.rows]) for n in names})

"""Time limit, progress reports and history of a restoration."""

import math
import time
from dataclasses import dataclass, field

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.core.results import History


@dataclass
class Budget:
    """Record the steps of a restoration and decide whether there is time for more.

    Attributes
    ----------
    report : callable
        Called with the fraction of the work done and a note; returns False to stop.
    n_tiles, steps_per_tile : int
        Number of tiles, and the largest number of steps that a tile takes.
    time_limit : float or None
        Seconds for all tiles.
    stopped : bool
        True once ``report`` has returned False.
    keep_going : bool
        Whether the current tile may take another step.
    complete : bool
        True as long as no tile was skipped or ended early.
    """

    report: Report
    n_tiles: int
    steps_per_tile: int
    time_limit: float | None
    stopped: bool = False
    keep_going: bool = True
    complete: bool = True
    _started: float = field(default_factory=time.perf_counter)
    _rows: list[tuple[float, int, float]] = field(default_factory=list)
    _tile: int = 0
    _step: int = 0
    _tile_deadline: float = math.inf  # seconds after the start

    def start_tile(self, tile: int) -> bool:
        """Start a tile; return whether there is time for it.

        The tile gets an equal part of the time that is left. The first tile always
        starts, so that there is a result however short the time limit.
        """
        self._tile, self._step = tile, 0
        seconds = self._seconds()
        if self.time_limit is not None:
            left = max(self.time_limit - seconds, 0)
            self._tile_deadline = seconds + left / (self.n_tiles - tile)
        self.keep_going = not self.stopped and (
            tile == 0 or seconds < self._tile_deadline
        )
        self.complete = self.complete and self.keep_going
        return self.keep_going

    def step(self, clean_probability: Array) -> bool:
        """Record a step with its clean probabilities; return whether to continue."""
        seconds, corrupted = self._seconds(), float(1 - clean_probability.mean())
        self._rows.append((seconds, self._tile, corrupted))
        self._step += 1
        done = (self._tile + self._step / self.steps_per_tile) / self.n_tiles
        self.stopped = not self.report(min(done, 1.0), f"{corrupted:.0%} corrupted")
        self.keep_going = seconds < self._tile_deadline and not self.stopped
        self.complete = self.complete and self.keep_going
        return self.keep_going

    def history(self) -> History:
        """Return the recorded steps, one row each."""
        seconds, tile, corrupted = np.array(self._rows, float).reshape(-1, 3).T
        steps = np.arange(1, len(self._rows) + 1)
        return History(
            {"step": steps, "seconds": seconds, "tile": tile, "corrupted": corrupted}
        )

    def _seconds(self) -> float:
        return time.perf_counter() - self._started

"""The rounds of a restoration: noted, reported, and ended in time."""

import math
import time
from dataclasses import dataclass, field

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.core.results import History


@dataclass
class Rounds:
    """Notes the rounds of a restoration, and says after each whether to go on.

    Attributes
    ----------
    report : callable
        Told the share of the work that is done; answers whether to go on.
    tiles, most : int
        How many tiles there are, and how many rounds each takes at most.
    time_limit : float or None
        Seconds for all of them.
    stopped : bool
        Whether the report asked to stop.
    going : bool
        The last answer.
    complete : bool
        Whether every answer was to go on.
    """

    report: Report
    tiles: int
    most: int
    time_limit: float | None
    stopped: bool = False
    going: bool = True
    complete: bool = True
    _started: float = field(default_factory=time.perf_counter)
    _rows: list[tuple[float, int, float]] = field(default_factory=list)
    _tile: int = 0
    _round: int = 0
    _until: float = math.inf  # seconds at which this tile's time is over

    def begin(self, tile: int) -> bool:
        """Begin a tile; return whether there is time for it.

        It has an even share of the time that is left. The first always begins: there
        is a result however short the time.
        """
        self._tile, self._round = tile, 0
        seconds = self._seconds()
        if self.time_limit is not None:
            left = max(self.time_limit - seconds, 0)
            self._until = seconds + left / (self.tiles - tile)
        self.going = not self.stopped and (tile == 0 or seconds < self._until)
        self.complete = self.complete and self.going
        return self.going

    def proceed(self, weight: Array) -> bool:
        """Note a round, and say whether to go on."""
        seconds, share = self._seconds(), float(1 - weight.mean())
        self._rows.append((seconds, self._tile, share))
        self._round += 1
        done = (self._tile + self._round / self.most) / self.tiles
        self.stopped = not self.report(min(done, 1.0), f"{share:.0%} corrupted")
        self.going = seconds < self._until and not self.stopped
        self.complete = self.complete and self.going
        return self.going

    def history(self) -> History:
        """Return one row a round."""
        seconds, tile, share = np.array(self._rows, float).reshape(-1, 3).T
        steps = np.arange(1, len(self._rows) + 1)
        return History(
            {"step": steps, "seconds": seconds, "tile": tile, "corrupted": share}
        )

    def _seconds(self) -> float:
        return time.perf_counter() - self._started

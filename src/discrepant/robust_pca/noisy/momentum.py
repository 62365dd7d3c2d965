"""Statistics of a pass, its convergence rate, and heavy-ball momentum."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.noisy.mixture import Mixture

SLOW = 0.6  # ratio of successive moves above which momentum pays for its product


@dataclass(frozen=True)
class Pass:
    """Statistics of one pass."""

    histogram: Array
    column_histograms: Array  # coarse, one row per column of the caller
    outlier_counts: tuple[Array, Array]  # by row and by column
    edge: float
    tau: float  # new σ over the σ that was used
    mixture: Mixture | None
    move: float  # ‖ΔL‖ over the statistical error of L
    same_rank: bool
    saturated: bool  # whether every column of V was above the edge


class Momentum:
    """Momentum β and the remaining distance, from the moves so far."""

    def __init__(self) -> None:
        self.beta = 0.0  # momentum
        self.last_move, self.remaining = (
            np.inf,
            np.inf,
        )  # last move and remaining distance

    def reset(self) -> None:
        """Forget the moves so far."""
        self.beta, self.last_move = 0.0, np.inf

    def update(self, step: Pass) -> None:
        """Estimate the remaining distance and β from the last two moves.

        Moves are comparable only while rank and noise are stable. β follows from the
        root t of the plain iteration, as for heavy-ball momentum.
        """
        move, stable = step.move, step.same_rank and 0.9 < step.tau < 1.1
        comparable = stable and 0 < self.last_move < np.inf
        rate = min(move / self.last_move, 0.97) if comparable else 0.5
        self.remaining = move * max(rate / (1 - rate), 1.0)
        b = self.beta
        root = rate**2 / ((1 + b) * rate - b) if (1 + b) * rate > b else 0.97
        root = min(max(root, 0.0), 0.9)
        if not stable or (b and move > 1.02 * self.last_move):
            self.beta = 0.0
        elif self.last_move < np.inf and rate > SLOW:
            q = sqrt(1 - root)
            self.beta = max(b, (1 - q) / (1 + q))
        self.last_move = move if stable else np.inf

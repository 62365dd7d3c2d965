"""What a pass found, and how fast they converge: what is left to go, and momentum."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.noisy.mixture import Mixture

SLOW = 0.6  # ratio of successive moves from which on momentum is worth its product


@dataclass(frozen=True)
class Pass:
    """What one pass found."""

    histogram: Array
    own: Array  # coarse histograms, one a column of the caller's
    outside: tuple[Array, Array]  # cells outside, by row and by column
    edge: float
    tau: float  # σ found over σ used
    mixture: Mixture | None
    move: float  # ‖ΔL‖ over the statistical error of L
    same_rank: bool
    saturated: bool  # whether every column of V was above the edge


class Pace:
    """Told of each move, it knows β and how far there is left to go."""

    def __init__(self) -> None:
        self.beta = 0.0  # momentum
        self.moved, self.left = np.inf, np.inf  # last move, and what is left to go

    def forget(self) -> None:
        """Begin to measure anew."""
        self.beta, self.moved = 0.0, np.inf

    def follow(self, found: Pass) -> None:
        """Tell from the last two moves what is left, and whether to gain momentum.

        Moves compare only while rank and noise stand. β follows from the root t of the
        plain iteration, as for heavy-ball momentum.
        """
        move, calm = found.move, found.same_rank and 0.9 < found.tau < 1.1
        known = calm and 0 < self.moved < np.inf
        rate = min(move / self.moved, 0.97) if known else 0.5
        self.left = move * max(rate / (1 - rate), 1.0)
        b = self.beta
        root = rate**2 / ((1 + b) * rate - b) if (1 + b) * rate > b else 0.97
        root = min(max(root, 0.0), 0.9)
        if not calm or (b and move > 1.02 * self.moved):
            self.beta = 0.0
        elif self.moved < np.inf and rate > SLOW:
            q = sqrt(1 - root)
            self.beta = max(b, (1 - q) / (1 + q))
        self.moved = move if calm else np.inf

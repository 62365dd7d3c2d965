"""The two phases of a fit with noise, when each of them may end, and at which state."""

from dataclasses import dataclass
from math import log
from typing import Generic, TypeVar

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.noisy.mixture import Mixture

# Move of L, relative to its statistical error, at which the clipped phase ends …
CLOSE_CLIPPED = 0.5
# … and at which the weighed phase ends.
CLOSE_WEIGHED = 0.1
# Clipped passes, at most: L may alternate between two ranks.
MAX_CLIPPED_PASSES = 20
# Passes of each phase, at least.
MIN_PASSES = 4
# Weighed passes in a row that must hardly move L.
SETTLED_PASSES = 2
# Weighed passes after which the fit ends if none of them has shortened the description
# of the data …
PATIENCE = 20
# … by more than this, in nats per entry.
MIN_SHORTER = 0.01

# Clean entries that a fit needs per degree of freedom; with fewer it interpolates them.
MIN_ENTRIES_PER_FREEDOM = 1.2

State = TypeVar("State")


@dataclass
class Phase:
    """Which weights the passes use, and for how long the fit has been stable."""

    is_weighed: bool = False  # by the posterior; otherwise by Huber's weights
    passes: int = 0
    settled_passes: int = 0  # last passes in a row that hardly moved L

    @property
    def name(self) -> str:
        """Name of the phase in the history."""
        return "weighed" if self.is_weighed else "clipped"

    @property
    def is_settled(self) -> bool:
        """Whether the phase may end."""
        if self.is_weighed:
            return self.settled_passes >= SETTLED_PASSES and self.passes >= MIN_PASSES
        return self.passes >= (
            MIN_PASSES if self.settled_passes else MAX_CLIPPED_PASSES
        )

    def count(self, is_steady: bool, move: float) -> None:
        """Take note of a pass: whether rank and noise are steady, and the move of L."""
        close = CLOSE_WEIGHED if self.is_weighed else CLOSE_CLIPPED
        self.passes += 1
        is_settled = is_steady and move < close
        self.settled_passes = self.settled_passes + 1 if is_settled else 0

    def restart(self) -> None:
        """Require further settled passes, as L has been changed."""
        self.settled_passes, self.passes = 0, min(self.passes, 2)


class Shortest(Generic[State]):
    """The state of a fit that describes the data in the shortest way so far.

    Where no low rank leaves independent noise, the noise that is estimated falls until
    half of the entries are interpolated and the others count as errors. Such a fit does
    not shorten the description.
    """

    def __init__(self) -> None:
        self.state: State | None = None
        self.length = np.inf
        self.passes_since = 0

    def compare(self, state: State, length: float) -> None:
        """Keep the state if its description is shorter, in nats per entry."""
        self.passes_since += 1
        if length < self.length - MIN_SHORTER:
            self.state, self.length, self.passes_since = state, length, 0

    def is_shorter_than(self, length: float) -> bool:
        """Whether a state with this length should give way to the one that is kept."""
        return self.length + MIN_SHORTER <= length

    @property
    def is_final(self) -> bool:
        """Whether passes no longer shorten the description."""
        return self.passes_since >= PATIENCE


def description_length(
    mixture: Mixture, log_ratio: float, sizes: Array, freedom: int, n_observed: float
) -> float:
    """Return the length of the description of data by a fit, in nats per entry.

    It is −log likelihood of the residuals plus the digits of L: each parameter takes
    those above the noise, and those by which its estimate is more precise. A fit that
    interpolates does not count: its length is infinite.

    Parameters
    ----------
    mixture : Mixture
        Distribution of the residuals in units of σ.
    log_ratio : float
        Mean log of the size of the data over σ.
    sizes : array
        Root mean square of the entries of each component, in units of σ.
    freedom : int
        Degrees of freedom of L.
    n_observed : float
        Number of entries.
    """
    n_clean = mixture.clean * n_observed
    if n_clean < MIN_ENTRIES_PER_FREEDOM * freedom:
        return np.inf
    digits = 0.0
    if len(sizes):
        digits = float(np.mean(np.log1p(sizes / mixture.tau)))
        digits += 0.5 * log(n_clean / freedom + 1)
    return freedom * digits / n_observed - log_ratio - mixture.log_likelihood

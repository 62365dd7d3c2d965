"""Rounds of all phases of a solve of measurements, and the user's callback."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from discrepant.core.linalg import Array, norm
from discrepant.core.recorder import Recorder
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.tangent_space import FixedRankMatrix
from discrepant.paper.stopping import Iteration

# Residuals above this many median moduli count as corruption, not as misfit.
GROSS = 5.0
# Median modulus of normal numbers of standard deviation one.
NORMAL_MEDIAN = 0.67449


class Round(NamedTuple):
    """Outcome of one round."""

    phase: str  # "pursuit", "flow", "noise", …
    residual: float  # of the measurements that are not gross
    rank: int
    applications: int  # of the operator and its adjoint so far


class CallbackValue:
    """X or s at an iteration, with the method `value` that callbacks call."""

    def __init__(self, value: Callable[[], Array]) -> None:
        self.value = value


class RoundLog:
    """Passes rounds on to a recorder, and to the callback of the user if any."""

    def __init__(self, recorder: Recorder, callback: Any, norm_y: float) -> None:
        self.recorder, self.callback, self.norm_y = recorder, callback, norm_y or 1.0

    def note(self, phase: str, at: FixedRankMatrix, e: Array, A: Measurements) -> bool:
        """Record a round; return whether to continue."""
        size = np.abs(e)
        median = np.median(size)
        small = size[size <= GROSS * median / NORMAL_MEDIAN]
        residual = norm(small) / self.norm_y

        def call(step: int, seconds: float) -> Any:
            corruption = np.where(size > GROSS * median, e, 0)
            return self.callback(
                Iteration(step, residual, seconds),
                CallbackValue(at.value),
                CallbackValue(lambda: corruption.reshape(A.operator.data_shape)),
            )

        return self.recorder.note(
            Round(phase, residual, at.rank, A.n_applications),
            callback=None if self.callback is None else call,
        )

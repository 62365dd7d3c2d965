"""Numbers of one pass over the data, as the recorder keeps them."""

from typing import NamedTuple

from discrepant.core.recorder import Recorder

__all__ = ["Recorder", "Step"]


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

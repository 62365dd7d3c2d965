"""Appendix A: learning rates per coordinate select a weighted minimum-norm solution.

Gradient descent on ``½‖Bx − b‖²`` from zero, with the rate of coordinate i times dᵢ,
stays in the range of ``diag(d) Bᵀ``. Of the infinitely many solutions it therefore
reaches that of ``min Σ xᵢ²/dᵢ  s.t.  Bx = b``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.plotting import COLOURS, Figure, new_figure, styled
from discrepant.experiments.runner import Outcome, Row, Runner
from discrepant.operators.linear_operator import Wrapped
from discrepant.paper.descent import Iteration, descend
from discrepant.paper.synthetic import relative_error
from discrepant.structures.factorisations import NoCorruption


@dataclass(frozen=True)
class Config:
    """Size of the system, and ratios of the rates of the two halves of x."""

    equations: int = 20
    unknowns: int = 60
    ratios: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0)
    steps: int = 200_000

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take seconds."""
        return cls(ratios=(0.1, 1.0, 10.0), steps=50_000, **settings)


class Coordinates:
    """The vector x as its own parameters, with a learning rate per coordinate."""

    def __init__(self, rates: Array) -> None:
        self.rates = rates
        self.x = np.zeros((len(rates), 1))

    def value(self) -> Array:
        """Return x."""
        return self.x

    def descend(self, grad: Array, rate: float) -> None:
        """Take ``x ← x − rate·d∘grad``."""
        self.x = self.x - rate * self.rates[:, None] * grad


def weighted_minimum_norm(B: Array, b: Array, d: Array) -> Array:
    """Solve ``min Σ xᵢ²/dᵢ  s.t.  Bx = b`` in closed form."""
    return np.asarray(d * (B.T @ np.linalg.solve((B * d) @ B.T, b)))


def fit(ratio: float, config: Config, seed: int) -> Row:
    """Return the distances to the closed forms, for rates 1 and ``ratio``."""
    from scipy.sparse.linalg import aslinearoperator

    rng = np.random.default_rng(seed)
    B = rng.standard_normal((config.equations, config.unknowns))
    b = rng.standard_normal(config.equations)
    d = np.where(np.arange(config.unknowns) < config.unknowns // 2, ratio, 1.0)
    weighted = weighted_minimum_norm(B, b, d)
    signal = Coordinates(d)

    def distance(step: Iteration, signal: Any, corruption: Any) -> dict[str, float]:
        return {"distance": relative_error(signal.x[:, 0], weighted)}

    _, history = descend(
        b,
        Wrapped(aslinearoperator(B), (config.unknowns, 1)),
        signal,
        NoCorruption(),
        step=float(1 / np.linalg.norm(B * np.sqrt(d), 2) ** 2),
        tol=1e-12,
        max_iter=config.steps,
        callback=distance,
        check_every=10,
    )
    unweighted = weighted_minimum_norm(B, b, np.ones_like(d))
    return {
        "step": history["step"].tolist(),
        "distance_to_weighted": history["distance"].tolist(),
        "end_distance_to_unweighted": relative_error(signal.x[:, 0], unweighted),
    }


def run(config: Config, runner: Runner) -> Outcome:
    """Run the descent for each ratio of the rates."""
    axes = {"ratio": config.ratios}
    points = runner.grid(fit, axes, config)
    worst = points.groupby("ratio")["distance_to_weighted"].last().max()
    farthest = points["end_distance_to_unweighted"].max()
    finding = (
        "Descent with one rate per coordinate ends in the weighted minimum-norm "
        f"solution (relative distance at most {worst:.0e}), up to {farthest:.2f} away "
        "from the unweighted one."
    )
    return Outcome(config, points, finding)


@styled
def plot(outcome: Outcome) -> Figure:
    """Draw the distance to the predicted solution against steps."""
    figure, ax = new_figure(size=(6.0, 3.8))
    config = outcome.config
    for ratio, colour in zip(config.ratios, COLOURS, strict=False):
        points = outcome.points[outcome.points["ratio"] == ratio]
        distances, label = points["distance_to_weighted"], f"rates differ by {ratio:g}"
        ax.semilogy(points["step"], distances, color=colour, label=label)
    ax.set(
        xlabel="step",
        ylabel="distance to min Σ xᵢ²/dᵢ",
        title=f"{config.equations} equations, {config.unknowns} unknowns",
    )
    ax.legend()
    return figure

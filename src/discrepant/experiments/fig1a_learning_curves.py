"""Figure 1a: which over-parameterisations overfit, and which do not."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.plotting import COLOURS, Figure, new_figure, styled
from discrepant.experiments.runner import Outcome, Row, Runner
from discrepant.paper.baselines import l1_factorisation
from discrepant.paper.descent import ErrorToTruth
from discrepant.paper.synthetic import corrupted_matrix
from discrepant.sensing.recover import recover

METHODS = {
    "l1-exact": "ℓ1 loss, r′ = r (rank given)",
    "l1-over": "ℓ1 loss, r′ = n",
    "double": "double over-parameterisation, r′ = n",
}


@dataclass(frozen=True)
class Config:
    """The paper's problem, the number of steps and the step sizes."""

    n: int = 50
    rank: int = 5
    fraction: float = 0.3
    steps: int = 20_000
    step: float = 1e-4
    half_life: int = 4_000

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take seconds."""
        return cls(n=30, rank=3, steps=4_000, step=4e-4, half_life=800, **settings)


def curve(method: str, config: Config, seed: int) -> Row:
    """Return the learning curve of one method."""
    problem = corrupted_matrix(
        config.n, config.rank, config.fraction, random_state=[seed, 0]
    )
    common: dict[str, Any] = {
        "max_iter": config.steps,
        "callback": ErrorToTruth(problem.low_rank),
        "random_state": [seed, 1],
        "psd": True,
    }
    if method == "double":
        result = recover(
            problem.observed,
            solver="descent",
            alpha=np.sqrt(config.n),
            step=config.step,
            tol=0,
            **common,
        )
    else:
        result = l1_factorisation(
            problem.observed,
            width=config.rank if method == "l1-exact" else None,
            half_life=config.half_life,
            **common,
        )
    return {key: result.history[key].tolist() for key in ("step", "error")}


def run(config: Config, runner: Runner) -> Outcome:
    """Run the three methods on one problem."""
    points = runner.grid(curve, {"method": METHODS}, config)
    errors = points.groupby("method")["error"]
    last, best = errors.last(), errors.min()
    finding = (
        f"With r′ = r the ℓ1 loss ends at error {last['l1-exact']:.1e}; with r′ = n it "
        f"passes {best['l1-over']:.3f} and ends at {last['l1-over']:.3f}; double "
        f"over-parameterisation with r′ = n ends at {last['double']:.3f}, its best "
        f"being {best['double']:.3f}."
    )
    return Outcome(config, points, finding)


@styled
def plot(outcome: Outcome) -> Figure:
    """Draw error against steps."""
    figure, ax = new_figure(size=(6.4, 4.0))
    for (method, label), colour in zip(METHODS.items(), COLOURS, strict=False):
        points = outcome.points[outcome.points["method"] == method]
        ax.semilogy(points["step"], points["error"], color=colour, label=label)
    config = outcome.config
    ax.set(
        xlabel="step",
        ylabel="relative error of X",
        title=f"n = {config.n}, rank {config.rank}, {config.fraction:.0%} corrupted",
    )
    ax.legend()
    return figure

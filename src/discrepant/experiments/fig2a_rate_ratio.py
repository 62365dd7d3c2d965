"""Figure 2a: the ratio α of the learning rates determines the error of X."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.plotting import COLOURS, Figure, new_figure, styled
from discrepant.experiments.runner import Outcome, Row, Runner
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.sensing.recover import recover


@dataclass(frozen=True)
class Config:
    """The paper's problem; ratios are given in units of √n."""

    n: int = 50
    rank: int = 5
    fraction: float = 0.3
    steps: int = 20_000
    step: float = 1e-4
    trials: int = 10
    ratios: tuple[float, ...] = (
        *(0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0),
        *(1.1, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0),
    )

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take seconds."""
        return cls(trials=2, ratios=(0.4, 0.7, 1.0, 1.4, 2.8), **settings)


def trial(alpha: float, trial: int, config: Config, seed: int) -> Row:
    """Return the error on one problem; all ratios are tried on the same problems."""
    problem = corrupted_matrix(
        config.n, config.rank, config.fraction, random_state=[seed, trial]
    )
    result = recover(
        problem.observed,
        solver="descent",
        alpha=alpha,
        step=config.step,
        psd=True,
        tol=0,
        max_iter=config.steps,
        random_state=[seed, trial, 1],
    )
    return {"error": relative_error(result.low_rank, problem.low_rank)}


def run(config: Config, runner: Runner) -> Outcome:
    """Solve all problems at each ratio."""
    alphas = [ratio * float(np.sqrt(config.n)) for ratio in config.ratios]
    axes = {"alpha": alphas, "trial": range(config.trials)}
    points = runner.grid(trial, axes, config)
    mean = points.groupby("alpha")["error"].mean()
    root = np.sqrt(config.n)
    at_root = mean[min(alphas, key=lambda alpha: abs(alpha - root))]
    finding = (
        f"The error is lowest at α = {mean.idxmin():.2f} (mean {mean.min():.3f}); at "
        f"√n = {root:.2f} it is {at_root:.3f}, at α = {alphas[0]:.2f} "
        f"{mean[alphas[0]]:.3f}, at α = {alphas[-1]:.1f} {mean[alphas[-1]]:.3f}."
    )
    return Outcome(config, points, finding)


@styled
def plot(outcome: Outcome) -> Figure:
    """Draw the mean error against α, with the range of the trials."""
    errors = outcome.points.groupby("alpha")["error"]
    low, mean, high = errors.min(), errors.mean(), errors.max()
    figure, ax = new_figure(size=(5.6, 3.8))
    ax.fill_between(mean.index, low, high, color=COLOURS[0], alpha=0.2, linewidth=0)
    ax.plot(mean.index, mean, "o-", color=COLOURS[0])
    root = np.sqrt(outcome.config.n)
    ax.axvline(root, color=COLOURS[1], linestyle="--", linewidth=1.2)
    ax.text(root * 1.04, max(high) * 0.95, "α = √n", color=COLOURS[1], va="top")
    ax.set(
        xscale="log",
        xlabel="ratio α of the learning rates",
        ylabel="relative error of X",
        ylim=(0, None),
    )
    ticks = [2, 4, 7, 10, 20]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    return figure

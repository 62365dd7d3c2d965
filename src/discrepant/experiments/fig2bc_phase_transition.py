"""Figures 2b and 2c: success of recovery by rank and fraction of corruption."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.plotting import Figure, new_figure, styled
from discrepant.experiments.runner import Outcome, Row, Runner, where
from discrepant.paper.stopping import Steps
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.sensing.recover import recover

TITLES = {
    "convex": "convex program",
    "convex-psd": "convex program with X ⪰ 0",
    "descent": "discrepant learning rates",
}


@dataclass(frozen=True)
class Config:
    """The paper's grid: n = 50, ten trials each, success is an error below 0.1."""

    method: str = "descent"
    n: int = 50
    ranks: tuple[int, ...] = tuple(range(1, 26, 2))
    fractions: tuple[float, ...] = tuple(round(0.05 * k, 2) for k in range(1, 12))
    trials: int = 10
    steps: int = 20_000
    step: float = 1e-4
    success: float = 0.1

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take about a minute."""
        return cls(
            ranks=(1, 9, 17, 25), fractions=(0.05, 0.2, 0.35, 0.5), trials=2, **settings
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """The panels of the figure."""
        if self.method == "convex":
            return ("convex", "convex-psd")
        return (self.method,)


def solve(method: str, observed: Array, config: Config, seed: list[int]) -> Array:
    """Return the low-rank part by one of the methods, at λ = 1/√n."""
    if method != "descent":
        return solve_convex(observed, np.sqrt(config.n), method == "convex-psd")
    # Single precision changes the error in its sixth digit and takes half the time;
    # benchmarks/monte_carlo.py shows both.
    return recover(
        observed.astype(np.float32),
        solver="descent",
        alpha=np.sqrt(config.n),
        step=config.step,
        psd=True,
        stop=Steps(config.steps),
        random_state=seed,
    ).low_rank


def solve_convex(observed: Array, alpha: float, psd: bool) -> Array:
    """Return the optimum of the convex program.

    The implicit integrator is about ten times faster than `baselines.convex`; a test
    compares the two.
    """
    from discrepant.robust_pca.exact.integrator import integrate
    from discrepant.robust_pca.problem import ConvexProblem

    return integrate(
        ConvexProblem.of(observed, alpha=alpha, psd=psd, n_jobs=1),
        polish=False,
        tol=1e-4,
        max_iter=500,
        rng=np.random.default_rng(0),
    ).low_rank


def solve_grid_point(
    method: str, rank: int, fraction: float, trial: int, config: Config, seed: int
) -> Row:
    """Return the error on one problem; all methods solve the same problems."""
    problem_seed = [seed, rank, round(1000 * fraction), trial]
    problem = corrupted_matrix(config.n, rank, fraction, random_state=problem_seed)
    low_rank = solve(method, problem.observed, config, [*problem_seed, 1])
    return {"error": relative_error(low_rank, problem.low_rank)}


def run(config: Config, runner: Runner) -> Outcome:
    """Solve all problems of the grid."""
    name = "fig2b" if config.method == "convex" else "fig2c"
    axes = {
        "method": config.methods,
        "rank": config.ranks,
        "fraction": config.fractions,
        "trial": range(config.trials),
    }
    rows = runner.grid(solve_grid_point, axes, label=name, config=config)
    areas = {m: success_rates(rows, m, config).mean() for m in config.methods}
    finding = (
        "Success area (fraction of problems recovered): "
        + ", ".join(f"{TITLES[m]} {area:.3f}" for m, area in areas.items())
        + "."
    )
    return Outcome(config, rows, finding)


def success_rates(
    rows: list[Row], method: str, config: Any, trials: int | None = None
) -> Array:
    """Return the success rates as an array (ranks, fractions)."""
    trials = config.trials if trials is None else trials
    rates = np.zeros((len(config.ranks), len(config.fractions)))
    for row in where(rows, method=method):
        rank = config.ranks.index(row["rank"])
        fraction = config.fractions.index(row["fraction"])
        rates[rank, fraction] += (row["error"] < config.success) / trials
    return rates


@styled
def plot(outcome: Outcome) -> Figure:
    """Draw the success rate over rank and fraction: white is one, black zero."""
    config = outcome.config
    figure, axes = new_figure(
        len(config.methods), squeeze=False, size=(4.6 * len(config.methods), 4.0)
    )
    for ax, method in zip(axes[0], config.methods, strict=True):
        rates = success_rates(outcome.rows, method, config)
        draw_rates(ax, rates, config.fractions, [str(r) for r in config.ranks])
        ax.set_title(f"{TITLES[method]}: area {rates.mean():.2f}")
    figure.colorbar(ax.images[0], ax=axes[0], label="success rate", shrink=0.85)
    return figure


def draw_rates(
    ax: Any, rates: Array, fractions: Sequence[float], ranks: Sequence[str]
) -> None:
    """Draw one grid of success rates."""
    ax.imshow(rates, cmap="gray", vmin=0, vmax=1, origin="lower", aspect="auto")
    spacing = max(1, len(fractions) // 6)
    ax.set_xticks(
        range(0, len(fractions), spacing),
        [f"{100 * p:.0f}" for p in fractions[::spacing]],
    )
    spacing = max(1, len(ranks) // 7)
    ax.set_yticks(range(0, len(ranks), spacing), ranks[::spacing])
    ax.set(xlabel="corrupted entries, %", ylabel="rank r")

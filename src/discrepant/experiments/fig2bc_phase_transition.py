"""Figures 2b and 2c: for which ranks and shares of corruption recovery succeeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.plotting import new_figure, styled
from discrepant.experiments.runner import Outcome, Row, Runner
from discrepant.paper.stopping import Steps
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.sensing.recover import recover

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {
    "convex": "convex program",
    "convex-psd": "convex program with X ⪰ 0",
    "descent": "discrepant learning rates",
}


@dataclass(frozen=True)
class Config:
    """The paper's grid: n = 50, ten trials a cell, success below an error of 0.1."""

    method: str = "descent"
    n: int = 50
    ranks: tuple[int, ...] = tuple(range(1, 26, 2))
    shares: tuple[float, ...] = tuple(round(0.05 * k, 2) for k in range(1, 12))
    trials: int = 10
    steps: int = 20_000
    step: float = 1e-4
    success: float = 0.1

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take about a minute."""
        return cls(
            ranks=(1, 9, 17, 25), shares=(0.05, 0.2, 0.35, 0.5), trials=2, **settings
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """The panels of the figure."""
        if self.method == "convex":
            return ("convex", "convex-psd")
        return (self.method,)


def solve(method: str, observed: Array, config: Config, seed: list[int]) -> Array:
    """Return the low-rank part that a method finds, all at λ = 1/√n."""
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

    The implicit integrator gets there some ten times sooner than `baselines.convex`;
    a test holds the two to the same answer.
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
    method: str, rank: int, share: float, trial: int, config: Config, seed: int
) -> Row:
    """Return the error on one problem; all methods see the same ones."""
    where = [seed, rank, round(1000 * share), trial]
    problem = corrupted_matrix(config.n, rank, share, random_state=where)
    found = solve(method, problem.observed, config, [*where, 1])
    return {"error": relative_error(found, problem.low_rank)}


def run(config: Config, runner: Runner) -> Outcome:
    """Solve the grid."""
    name = "fig2b" if config.method == "convex" else "fig2c"
    keys = ("method", "rank", "share", "trial")
    grid = product(config.methods, config.ranks, config.shares, range(config.trials))
    tasks = [
        {**dict(zip(keys, at, strict=True)), "config": config, "seed": runner.seed}
        for at in grid
    ]
    results = runner.map(solve_grid_point, tasks, label=name, config=config)
    rows = [{key: row[key] for key in (*keys, "error")} for row in results]
    areas = {m: success_rates(rows, m, config).mean() for m in config.methods}
    finding = (
        "Success area (share of problems recovered): "
        + ", ".join(f"{TITLES[m]} {area:.3f}" for m, area in areas.items())
        + "."
    )
    return Outcome(config, rows, finding)


def success_rates(
    rows: list[Row], method: str, config: Any, trials: int | None = None
) -> Array:
    """Return the share of successes, (ranks, shares)."""
    trials = config.trials if trials is None else trials
    rates = np.zeros((len(config.ranks), len(config.shares)))
    for row in rows:
        if row["method"] == method and row["error"] < config.success:
            at = config.ranks.index(row["rank"]), config.shares.index(row["share"])
            rates[at] += 1 / trials
    return rates


@styled
def plot(outcome: Outcome) -> "Figure":
    """Draw the success rate over rank and share; white is always, black never."""
    config = outcome.config
    figure, axes = new_figure(
        len(config.methods), squeeze=False, size=(4.6 * len(config.methods), 4.0)
    )
    for ax, method in zip(axes[0], config.methods, strict=True):
        rates = success_rates(outcome.rows, method, config)
        draw_rates(ax, rates, config.shares, [str(r) for r in config.ranks])
        ax.set_title(f"{TITLES[method]}: area {rates.mean():.2f}")
    figure.colorbar(ax.images[0], ax=axes[0], label="success rate", shrink=0.85)
    return figure


def draw_rates(
    ax: Any, rates: Array, shares: Sequence[float], ranks: Sequence[str]
) -> None:
    """Draw one grid of success rates."""
    ax.imshow(rates, cmap="gray", vmin=0, vmax=1, origin="lower", aspect="auto")
    every = max(1, len(shares) // 6)
    ax.set_xticks(
        range(0, len(shares), every), [f"{100 * p:.0f}" for p in shares[::every]]
    )
    every = max(1, len(ranks) // 7)
    ax.set_yticks(range(0, len(ranks), every), ranks[::every])
    ax.set(xlabel="corrupted entries, %", ylabel="rank r")

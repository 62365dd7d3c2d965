"""Figures 2b and 2c, and beyond: success of recovery by rank and fraction corrupted.

Figure 2b solves the paper's problem by the convex program, at λ = 1/√n, without and
with X ⪰ 0; Figure 2c by the paper's descent. "beyond-fig2c" compares these on a coarser
grid, at two sizes, with ``RobustPCA(psd=True)``, which estimates everything and
searches beyond the convex program.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.plotting import Figure, new_figure, styled
from discrepant.experiments.runner import Outcome, Row, Runner, Table, markdown_table
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.robust_pca.estimator import RobustPCA
from discrepant.sensing.recover import recover

TITLES = {
    "convex": "convex program",
    "convex-psd": "convex program with X ⪰ 0",
    "descent": "discrepant learning rates",
    "default": "RobustPCA(psd=True)",
}
# Methods that each figure compares.
METHODS = {
    "fig2b": ("convex", "convex-psd"),
    "fig2c": ("descent",),
    "beyond-fig2c": tuple(TITLES),
}
# Largest n at which the descent runs: it takes minutes at larger ones.
DESCENT_UP_TO = 50


@dataclass(frozen=True)
class Config:
    """The paper's grid: n = 50, ten trials each, success is an error below 0.1."""

    figure: str = "fig2c"
    sizes: tuple[int, ...] = (50,)  # n
    trials: int = 10  # number of problems at n = 50; their time grows with n
    ranks: tuple[int, ...] = tuple(range(1, 26, 2))  # at n = 50, else proportional to n
    fractions: tuple[float, ...] = tuple(round(0.05 * k, 2) for k in range(1, 12))
    steps: int = 20_000
    step: float = 1e-4
    success: float = 0.1

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take about a minute."""
        few = {"ranks": (1, 9, 17, 25), "fractions": (0.05, 0.2, 0.35, 0.5)}
        return cls(**{**settings, **few, "trials": 1})

    def methods(self, n: int) -> list[str]:
        """Return the methods at one size."""
        methods = METHODS[self.figure]
        return [m for m in methods if m != "descent" or n <= DESCENT_UP_TO]

    def trials_at(self, n: int) -> int:
        """Return the number of problems at one size."""
        return max(1, round(self.trials * (50 / n) ** 2))


def solve(method: str, observed: Array, config: Config, seed: list[int]) -> Array:
    """Return the low-rank part by one of the methods."""
    root = float(np.sqrt(len(observed)))
    if method == "descent":
        # Single precision changes the error in its sixth digit and takes half the time;
        # benchmarks/monte_carlo.py shows both.
        return recover(
            observed.astype(np.float32),
            solver="descent",
            alpha=root,
            step=config.step,
            psd=True,
            tol=0,
            max_iter=config.steps,
            random_state=seed,
        ).low_rank
    if method == "default":
        model = RobustPCA(psd=True, random_state=0, n_jobs=1)
    else:  # the optimum of the convex program, ten times faster than `convex`
        model = RobustPCA(
            alpha=root,
            psd=method == "convex-psd",
            noise=0,
            polish=False,
            tol=1e-4,
            random_state=0,
            n_jobs=1,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of problems that cannot be recovered
        return np.asarray(model.fit(observed).low_rank_)


def solve_grid_point(
    n: int,
    method: str,
    rank: int,
    fraction: float,
    trial: int,
    config: Config,
    seed: int,
) -> Row:
    """Return the error on one problem; all methods solve the same problems."""
    rank = rank_at(rank, n)
    problem_seed = [seed, rank, round(1000 * fraction), trial]
    problem = corrupted_matrix(n, rank, fraction, random_state=problem_seed)
    low_rank = solve(method, problem.observed, config, [*problem_seed, 1])
    return {"error": relative_error(low_rank, problem.low_rank)}


def rank_at(rank: int, n: int) -> int:
    """Return the rank at size n that is as large, relative to n, as one at n = 50."""
    return max(1, round(rank * n / 50))


def run(config: Config, runner: Runner) -> Outcome:
    """Solve all problems of the grid at every size."""
    import pandas as pd

    grids = []
    for n in config.sizes:
        axes = {
            "n": (n,),
            "method": config.methods(n),
            "rank": config.ranks,
            "fraction": config.fractions,
            "trial": range(config.trials_at(n)),
        }
        grids.append(runner.grid(solve_grid_point, axes, config))
    points: Table = pd.concat(grids, ignore_index=True)
    success = points["error"] < config.success
    areas = success.groupby([points["n"], points["method"]]).mean()
    methods, first = METHODS[config.figure], config.sizes[0]
    table = markdown_table(
        ["n", *(TITLES[method] for method in methods)],
        [
            [n, *(f"{areas[n, m]:.3f}" if (n, m) in areas else "–" for m in methods)]
            for n in config.sizes
        ],
    )
    finding = (
        f"Success area at n = {first} (fraction of problems recovered): "
        + ", ".join(f"{TITLES[m]} {areas[first, m]:.3f}" for m in methods)
        + "."
    )
    return Outcome(config, points, finding, table)


def success_rates(outcome: Outcome, n: int, method: str) -> Array:
    """Return the success rates of a method at one size, as (ranks, fractions)."""
    at = outcome.points.query("n == @n and method == @method")
    success = at["error"] < outcome.config.success
    rates = success.groupby([at["rank"], at["fraction"]]).mean().unstack()
    return np.asarray(rates)


@styled
def plot(outcome: Outcome) -> Figure:
    """Draw success by rank and fraction, a row per n: white is one, black zero."""
    config, methods = outcome.config, METHODS[outcome.config.figure]
    size = (3.6 * len(methods) + 0.8, 3.4 * len(config.sizes))
    figure, axes = new_figure(len(methods), len(config.sizes), squeeze=False, size=size)
    percent = [f"{100 * p:.0f}" for p in config.fractions]
    for row, n in zip(axes, config.sizes, strict=True):
        for ax, method in zip(row, methods, strict=True):
            if method not in config.methods(n):
                ax.set_axis_off()
                continue
            rates = success_rates(outcome, n, method)
            image = ax.imshow(
                rates, cmap="gray", vmin=0, vmax=1, origin="lower", aspect="auto"
            )
            ranks = [str(rank_at(rank, n)) for rank in config.ranks]
            ax.set_xticks(range(len(percent))[::2], percent[::2])
            ax.set_yticks(range(len(ranks))[::2], ranks[::2])
            ax.set(xlabel="corrupted entries, %", ylabel="rank r")
            ax.set_title(f"{TITLES[method]}\nn = {n}: area {rates.mean():.2f}")
    figure.colorbar(image, ax=axes, label="success rate", shrink=0.85)
    return figure

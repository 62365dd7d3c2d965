"""Beyond Figure 2c: `RobustPCA` recovers more than twice as many problems.

The paper's problem, at two sizes with proportional ranks and fractions, is solved by
the convex program of other packages (no X ⪰ 0, λ = 1/√n), by the convex program with
X ⪰ 0 at the same λ, by the paper's descent (at the smallest size), and by
``RobustPCA(psd=True)``, which estimates everything and searches beyond that program.
"""

import warnings
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.plotting import new_figure, styled
from discrepant.experiments import fig2bc_phase_transition as phase
from discrepant.experiments.runner import Outcome, Row, Runner
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.robust_pca.estimator import RobustPCA

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {
    "packages": "convex, λ = 1/√n",
    "convex-psd": "convex, X ⪰ 0, λ = 1/√n",
    "descent": "the paper's descent",
    "default": "RobustPCA(psd=True)",
}


@dataclass(frozen=True)
class Config:
    """Sizes with their number of trials, and the grid in units of n and n²."""

    sizes: tuple[int, ...] = (50, 100)
    trials: tuple[int, ...] = (4, 1)
    ranks: tuple[float, ...] = (0.02, 0.1, 0.18, 0.26, 0.34, 0.42, 0.5)
    fractions: tuple[float, ...] = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55)
    descent_up_to: int = 50
    success: float = 0.1

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take about a minute."""
        return cls(
            sizes=(50, 100),
            trials=(2, 1),
            ranks=(0.02, 0.18, 0.34, 0.5),
            fractions=(0.05, 0.25, 0.45),
            **settings,
        )

    def methods(self, n: int) -> list[str]:
        """Return the methods at one size; the descent is too slow for large ones."""
        return [m for m in TITLES if m != "descent" or n <= self.descent_up_to]


def solve(method: str, observed: Array, seed: list[int]) -> Array:
    """Return the low-rank part by one of the methods."""
    if method == "descent":
        return phase.solve("descent", observed, phase.Config(), seed)
    if method == "default":
        model = RobustPCA(psd=True, random_state=0, n_jobs=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of problems that cannot be recovered
            return np.asarray(model.fit(observed).low_rank_)
    alpha = float(np.sqrt(len(observed)))
    return phase.solve_convex(observed, alpha, psd=method == "convex-psd")


def solve_grid_point(
    method: str, n: int, rank: float, fraction: float, trial: int, seed: int
) -> Row:
    """Return the error on one problem; all methods solve the same problems."""
    problem_seed = [seed, n, round(1000 * rank), round(1000 * fraction), trial]
    r = max(1, round(rank * n))
    problem = corrupted_matrix(n, r, fraction, random_state=problem_seed)
    low_rank = solve(method, problem.observed, [*problem_seed, 1])
    return {"error": relative_error(low_rank, problem.low_rank)}


def run(config: Config, runner: Runner) -> Outcome:
    """Solve the grid at every size."""
    keys = ("method", "n", "rank", "fraction", "trial")
    tasks = [
        {**dict(zip(keys, at, strict=True)), "seed": runner.seed}
        for n, trials in zip(config.sizes, config.trials, strict=True)
        for at in product(
            config.methods(n), (n,), config.ranks, config.fractions, range(trials)
        )
    ]
    results = runner.map(solve_grid_point, tasks, label="beyond-fig2c", config=config)
    rows = [{key: row[key] for key in (*keys, "error")} for row in results]
    lines = [
        "| n | " + " | ".join(TITLES.values()) + " |",
        "| --- |" + " --- |" * len(TITLES),
    ]
    for n in config.sizes:
        cells = [
            f"{success_rates(rows, m, n, config).mean():.3f}"
            if m in config.methods(n)
            else "–"
            for m in TITLES
        ]
        lines.append(f"| {n} | " + " | ".join(cells) + " |")
    first = config.sizes[0]
    areas = {
        m: success_rates(rows, m, first, config).mean() for m in config.methods(first)
    }
    finding = (
        f"At n = {first} the success area is {areas['default']:.3f} with RobustPCA, "
        f"against {areas['descent']:.3f} for the paper's descent and "
        f"{areas['packages']:.3f} for the convex program of other packages."
    )
    return Outcome(config, rows, finding, table="\n".join(lines))


def success_rates(rows: list[Row], method: str, n: int, config: Config) -> Array:
    """Return the success rates at one size as an array (ranks, fractions)."""
    of_size = [row for row in rows if row["n"] == n]
    trials = config.trials[config.sizes.index(n)]
    return phase.success_rates(of_size, method, config, trials)


@styled
def plot(outcome: Outcome) -> "Figure":
    """Draw the success rates: one row of panels per size, one column per method."""
    config = outcome.config
    figure, axes = new_figure(
        len(TITLES),
        len(config.sizes),
        squeeze=False,
        size=(3.1 * len(TITLES), 2.9 * len(config.sizes)),
    )
    for row, n in zip(axes, config.sizes, strict=True):
        for ax, method in zip(row, TITLES, strict=True):
            if method not in config.methods(n):
                ax.set_axis_off()
                continue
            rates = success_rates(outcome.rows, method, n, config)
            phase.draw_rates(
                ax, rates, config.fractions, [f"{100 * r:.0f}" for r in config.ranks]
            )
            ax.set_title(f"{TITLES[method]}\nn = {n}: area {rates.mean():.2f}")
            ax.set(ylabel="rank, % of n")
    return figure

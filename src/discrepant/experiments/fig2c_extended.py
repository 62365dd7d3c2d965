"""Beyond Figure 2c: X ⪰ 0 and an α read off the data recover twice as much.

The paper's problem, at three sizes with ranks and shares in proportion, solved by what
packages ship (no X ⪰ 0, λ = 1/√n), by the convex program with X ⪰ 0 at the same λ, by
the paper's descent (at the smallest size), and by ``RobustPCA(psd=True)``.
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
    "auto": "RobustPCA(psd=True)",
}


@dataclass(frozen=True)
class Config:
    """Sizes with their number of trials, and the grid as shares of n."""

    sizes: tuple[int, ...] = (50, 100, 200)
    trials: tuple[int, ...] = (10, 4, 2)
    ranks: tuple[float, ...] = (0.02, 0.1, 0.18, 0.26, 0.34, 0.42, 0.5)
    shares: tuple[float, ...] = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55)
    descent_up_to: int = 50
    success: float = 0.1

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take about a minute."""
        return cls(
            sizes=(50, 100),
            trials=(2, 1),
            ranks=(0.02, 0.18, 0.34, 0.5),
            shares=(0.05, 0.25, 0.45),
            **settings,
        )

    def methods(self, n: int) -> list[str]:
        """Methods compared at a size; the descent takes too long at the larger ones."""
        return [m for m in TITLES if m != "descent" or n <= self.descent_up_to]


def solve(method: str, observed: Array, seed: list[int]) -> Array:
    """Return the low-rank part that a method finds, told nothing."""
    if method == "descent":
        return phase.solve("descent", observed, phase.Config(), seed)
    if method == "auto":
        model = RobustPCA(psd=True, noise=0, tol=1e-4, random_state=0, n_jobs=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # beyond the limit it says so
            return np.asarray(model.fit(observed).low_rank_)
    alpha = float(np.sqrt(len(observed)))
    return phase.solve_convex(observed, alpha, psd=method == "convex-psd")


def cell(method: str, n: int, rank: float, share: float, trial: int, seed: int) -> Row:
    """Return the error on one problem; all methods see the same ones."""
    where = [seed, n, round(1000 * rank), round(1000 * share), trial]
    r = max(1, round(rank * n))
    problem = corrupted_matrix(n, r, share, random_state=where)
    found = solve(method, problem.observed, [*where, 1])
    return {"error": relative_error(found, problem.low_rank)}


def run(config: Config, runner: Runner) -> Outcome:
    """Solve the grid at every size."""
    keys = ("method", "n", "rank", "share", "trial")
    tasks = [
        {**dict(zip(keys, at, strict=True)), "seed": runner.seed}
        for n, trials in zip(config.sizes, config.trials, strict=True)
        for at in product(
            config.methods(n), (n,), config.ranks, config.shares, range(trials)
        )
    ]
    results = runner.map(cell, tasks, label="beyond-fig2c", config=config)
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
        f"At n = {first} the success area is {areas['auto']:.3f} with X ⪰ 0 and α read "
        f"off the data, against {areas['descent']:.3f} for the paper's descent and "
        f"{areas['packages']:.3f} for the convex program as packages ship it."
    )
    return Outcome(config, rows, finding, table="\n".join(lines))


def success_rates(rows: list[Row], method: str, n: int, config: Config) -> Array:
    """Return the share of successes, (ranks, shares)."""
    mine = [row for row in rows if row["n"] == n]
    trials = config.trials[config.sizes.index(n)]
    return phase.success_rates(mine, method, config, trials)


@styled
def plot(outcome: Outcome) -> "Figure":
    """Draw the success rates: one row of panels a size, one column a method."""
    config = outcome.config
    figure, axes = new_figure(
        len(TITLES),
        len(config.sizes),
        squeeze=False,
        size=(3.1 * len(TITLES), 2.9 * len(config.sizes)),
    )
    for line, n in zip(axes, config.sizes, strict=True):
        for ax, method in zip(line, TITLES, strict=True):
            if method not in config.methods(n):
                ax.set_axis_off()
                continue
            rates = success_rates(outcome.rows, method, n, config)
            phase.draw_rates(
                ax, rates, config.shares, [f"{100 * r:.0f}" for r in config.ranks]
            )
            ax.set_title(f"{TITLES[method]}\nn = {n}: area {rates.mean():.2f}")
            ax.set(ylabel="rank, % of n")
    return figure

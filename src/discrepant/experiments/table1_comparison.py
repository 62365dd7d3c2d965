"""Table 1: what each method must be told, and how its time grows with n."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.plotting import COLOURS, new_figure, styled
from discrepant.experiments.runner import Outcome, Row, Runner
from discrepant.paper.baselines import alternating_projections, convex, l1_factorisation
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.robust_pca.estimator import RobustPCA
from discrepant.sensing.recover import recover

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    """Problems of growing size at a fixed share of rank and corruption."""

    sizes: tuple[int, ...] = (50, 100, 200, 400)
    rank_share: float = 0.1
    share: float = 0.15

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take seconds."""
        return cls(sizes=(40, 80), **settings)


@dataclass(frozen=True)
class Method:
    """A method, what it is told, and how to run it on (y, rank, share)."""

    title: str
    told: tuple[str, ...]
    solve: Callable[[Array, int, float], Array]


def root(y: Array) -> float:
    """Return the paper's ratio α = √n."""
    return float(np.sqrt(len(y)))


METHODS = {
    "convex": Method(
        "convex program (proximal gradient)",
        (),
        lambda y, rank, share: convex(y, alpha=root(y), psd=True, tol=0.05).low_rank,
    ),
    "projections": Method(
        "alternating projections",
        ("rank", "sparsity"),
        lambda y, rank, share: (
            alternating_projections(y, rank=rank, fraction=share).low_rank
        ),
    ),
    "l1-exact": Method(
        "ℓ1 factorisation, r′ = r",
        ("rank",),
        lambda y, rank, share: (
            l1_factorisation(y, width=rank, psd=True, random_state=0).low_rank
        ),
    ),
    "l1-over": Method(
        "ℓ1 factorisation, r′ = n",
        ("when to stop",),
        lambda y, rank, share: l1_factorisation(y, psd=True, random_state=0).low_rank,
    ),
    "implicit": Method(
        "implicit integrator (RobustPCA)",
        (),
        lambda y, rank, share: (
            RobustPCA(psd=True, noise=0, random_state=0).fit(y).low_rank_
        ),
    ),
    "descent": Method(
        "discrepant learning rates, r′ = n",
        (),
        lambda y, rank, share: (
            recover(
                y, solver="descent", alpha=root(y), psd=True, random_state=0
            ).low_rank
        ),
    ),
}


def measure(method: str, n: int, config: Config, seed: int) -> Row:
    """Time a method told the truth, and again told twice the rank and share."""
    rank = max(1, round(config.rank_share * n))
    problem = corrupted_matrix(n, rank, config.share, random_state=[seed, n])
    solve, told = METHODS[method].solve, METHODS[method].told
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solve(problem.observed[:8, :8], 1, config.share)  # compile first
    started = time.perf_counter()
    found = solve(problem.observed, rank, config.share)
    seconds = time.perf_counter() - started
    row = {"error": relative_error(found, problem.low_rank), "seconds": seconds}
    if {"rank", "sparsity"} & set(told):
        found = solve(problem.observed, 2 * rank, 2 * config.share)
    return {**row, "error_told_wrong": relative_error(found, problem.low_rank)}


def run(config: Config, runner: Runner) -> Outcome:
    """Measure every method at every size, one after the other for honest times."""
    tasks = [
        {"method": method, "n": n, "config": config, "seed": runner.seed}
        for n in config.sizes
        for method in METHODS
    ]
    results = runner.map(measure, tasks, label="table1", config=config, jobs=1)
    columns = ("method", "n", "error", "error_told_wrong", "seconds")
    rows = [{key: row[key] for key in columns} for row in results]
    largest = config.sizes[-1]
    lines = [
        "| method | must be told | error | error if told double | "
        f"seconds at n = {largest} | time grows as |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, method in METHODS.items():
        at = {row["n"]: row for row in rows if row["method"] == name}
        told_wrong = (
            f"{at[largest]['error_told_wrong']:.1e}"
            if {"rank", "sparsity"} & set(method.told)
            else "–"
        )
        lines.append(
            f"| {method.title} | {', '.join(method.told) or 'nothing'} "
            f"| {at[largest]['error']:.1e} | {told_wrong} "
            f"| {at[largest]['seconds']:.2g} | n^{exponent(at):.1f} |"
        )
    free = [m.title for m in METHODS.values() if not m.told]
    finding = (
        f"At n = {largest}, rank {config.rank_share:.0%} of n and {config.share:.0%} "
        f"corrupted, {len(free)} of {len(METHODS)} methods need to be told nothing: "
        f"{', '.join(free)}."
    )
    return Outcome(config, rows, finding, table="\n".join(lines))


def exponent(at: dict[int, Row]) -> float:
    """Fit the power of n by which time grows, over the larger half of the sizes."""
    sizes = sorted(at)[len(at) // 2 - 1 :]
    seconds = [at[n]["seconds"] for n in sizes]
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@styled
def plot(outcome: Outcome) -> "Figure":
    """Draw time and error against n."""
    figure, (left, right) = new_figure(2)
    for (name, method), colour in zip(METHODS.items(), COLOURS, strict=False):
        at = [row for row in outcome.rows if row["method"] == name]
        sizes = [row["n"] for row in at]
        left.loglog(
            sizes,
            [row["seconds"] for row in at],
            "o-",
            color=colour,
            label=method.title,
        )
        right.loglog(sizes, [row["error"] for row in at], "o-", color=colour)
    left.set(title="seconds", xlabel="n")
    right.set(title="relative error of X", xlabel="n")
    for ax in (left, right):
        ax.set_xticks(outcome.config.sizes, [str(n) for n in outcome.config.sizes])
        ax.minorticks_off()
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return figure

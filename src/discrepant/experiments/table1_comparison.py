"""Table 1: the inputs that each method requires, and its time by n."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.plotting import COLOURS, Figure, new_figure, styled
from discrepant.core.results import Result
from discrepant.experiments.runner import Outcome, Row, Runner, Table, markdown_table
from discrepant.paper.baselines import alternating_projections, convex, l1_factorisation
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.sensing.recover import recover


@dataclass(frozen=True)
class Config:
    """Problems of growing size with fixed fractions of rank and corruption."""

    sizes: tuple[int, ...] = (50, 100, 200, 400)
    rank_fraction: float = 0.1
    fraction: float = 0.15

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take seconds."""
        return cls(sizes=(40, 80), **settings)


@dataclass(frozen=True)
class Method:
    """A method, the inputs it requires, and a function (y, r, p) → result.

    It may use the rank r and the fraction p of corrupted entries if it requires them.
    """

    title: str
    required_inputs: tuple[str, ...]
    solve: Callable[[Array, int, float], Result]

    @property
    def needs_truth(self) -> bool:
        """Whether the method requires the rank or the sparsity."""
        return bool({"rank", "sparsity"} & set(self.required_inputs))


def root(y: Array) -> float:
    """Return the paper's ratio α = √n."""
    return float(np.sqrt(len(y)))


METHODS = {
    "convex": Method(
        "convex program (proximal gradient)",
        (),
        lambda y, r, p: convex(y, alpha=root(y), psd=True, tol=0.05),
    ),
    "projections": Method(
        "alternating projections",
        ("rank", "sparsity"),
        lambda y, r, p: alternating_projections(y, rank=r, fraction=p),
    ),
    "l1-exact": Method(
        "ℓ1 factorisation, r′ = r",
        ("rank",),
        lambda y, r, p: l1_factorisation(y, width=r, psd=True, random_state=0),
    ),
    "l1-over": Method(
        "ℓ1 factorisation, r′ = n",
        ("when to stop",),
        lambda y, r, p: l1_factorisation(y, psd=True, random_state=0),
    ),
    "implicit": Method(
        "implicit integrator (RobustPCA)",
        (),
        lambda y, r, p: recover(y, psd=True, noise=0, random_state=0),
    ),
    "descent": Method(
        "discrepant learning rates, r′ = n",
        (),
        lambda y, r, p: recover(
            y, solver="descent", alpha=root(y), psd=True, random_state=0
        ),
    ),
}


def measure(method: str, n: int, config: Config, seed: int) -> Row:
    """Return time and error of a method, and its error with doubled inputs."""
    rank = max(1, round(config.rank_fraction * n))
    problem = corrupted_matrix(n, rank, config.fraction, random_state=[seed, n])
    solve = METHODS[method].solve
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solve(problem.observed[:8, :8], 1, config.fraction)  # compile first
    started = time.perf_counter()
    low_rank = solve(problem.observed, rank, config.fraction).low_rank
    seconds = time.perf_counter() - started
    error = error_if_doubled = relative_error(low_rank, problem.low_rank)
    if METHODS[method].needs_truth:
        low_rank = solve(problem.observed, 2 * rank, 2 * config.fraction).low_rank
        error_if_doubled = relative_error(low_rank, problem.low_rank)
    return {"error": error, "error_if_doubled": error_if_doubled, "seconds": seconds}


def run(config: Config, runner: Runner) -> Outcome:
    """Measure every method at every size, one after the other for comparable times."""
    axes = {"n": config.sizes, "method": METHODS}
    points = runner.grid(measure, axes, config, jobs=1)
    largest = config.sizes[-1]
    header = "method|required inputs|error|error with doubled inputs".split("|")
    table = markdown_table(
        [*header, f"seconds at n = {largest}", "time grows as"],
        [
            table_row(METHODS[name], of)
            for name, of in points.groupby("method", sort=False)
        ],
    )
    free = [m.title for m in METHODS.values() if not m.required_inputs]
    finding = (
        f"At n = {largest}, rank {config.rank_fraction:.0%} of n and "
        f"{config.fraction:.0%} corrupted, {len(free)} of {len(METHODS)} methods "
        f"require no such input: {', '.join(free)}."
    )
    return Outcome(config, points, finding, table)


def table_row(method: Method, points: Table) -> list[str]:
    """Return the cells of one method, given its points by increasing n."""
    last = points.iloc[-1]
    larger = points[len(points) // 2 - 1 :]  # where time grows by a power of n
    exponent = np.polyfit(np.log(larger["n"]), np.log(larger["seconds"]), 1)[0]
    return [
        method.title,
        ", ".join(method.required_inputs) or "none",
        f"{last['error']:.1e}",
        f"{last['error_if_doubled']:.1e}" if method.needs_truth else "–",
        f"{last['seconds']:.2g}",
        f"n^{exponent:.1f}",
    ]


@styled
def plot(outcome: Outcome) -> Figure:
    """Draw time and error against n."""
    figure, (left, right) = new_figure(2)
    for (name, method), colour in zip(METHODS.items(), COLOURS, strict=False):
        points = outcome.points[outcome.points["method"] == name]
        left.loglog(
            points["n"], points["seconds"], "o-", color=colour, label=method.title
        )
        right.loglog(points["n"], points["error"], "o-", color=colour)
    left.set(title="seconds", xlabel="n")
    right.set(title="relative error of X", xlabel="n")
    for ax in (left, right):
        ax.set_xticks(outcome.config.sizes, [str(n) for n in outcome.config.sizes])
        ax.minorticks_off()
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return figure

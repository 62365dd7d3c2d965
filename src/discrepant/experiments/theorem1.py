"""Theorem 1: the flow ends in the convex optimum as the start γ → 0.

For commuting Aᵢ = Q diag(aᵢ) Qᵀ, started from U = γI and g = h = γ1, the convex program
with λ = 1/α is a linear program in the eigenvalues x of X, which has an exact solution:

    min Σ xᵢ + λ‖s‖₁   s.t.   Wx + s = y,  x ≥ 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.plotting import COLOURS, Figure, new_figure, styled
from discrepant.experiments.runner import Outcome, Row, Runner
from discrepant.operators.measurements import Diagonal
from discrepant.paper.certificate import certify
from discrepant.paper.descent import descend
from discrepant.paper.recovery import Recovery
from discrepant.structures.factorisations import Hadamard, PSDFactor


@dataclass(frozen=True)
class Config:
    """Size of the commuting family, the ratio α, and the starts γ."""

    n: int = 20
    measurements: int = 14
    rank: int = 3
    corrupted: int = 2
    alpha: float = 3.0
    starts: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
    problems: int = 5
    steps: int = 200_000

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take seconds."""
        return cls(starts=(1e-2, 1e-4, 1e-8), problems=2, steps=40_000, **settings)


def commuting_problem(config: Config, seed: list[int]) -> tuple[Diagonal, Array]:
    """Return a random commuting family and corrupted measurements."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((config.n, config.n)))[0]
    weights = rng.standard_normal((config.measurements, config.n))
    weights /= np.sqrt(config.measurements)
    x = np.zeros(config.n)
    x[rng.choice(config.n, config.rank, replace=False)] = rng.uniform(1, 3, config.rank)
    y = weights @ x
    corrupt = rng.choice(config.measurements, config.corrupted, replace=False)
    y[corrupt] += rng.choice((-3.0, 3.0), config.corrupted)
    return Diagonal(weights, basis), y


def optimum(weights: Array, y: Array, lam: float) -> tuple[Array, Array]:
    """Return the exact optimum of the linear program: eigenvalues x, and s."""
    from scipy.optimize import linprog

    m, n = weights.shape
    cost = np.concatenate([np.ones(n), np.full(2 * m, lam)])
    equal = np.hstack([weights, np.eye(m), -np.eye(m)])
    z = linprog(cost, A_eq=equal, b_eq=y, bounds=(0, None), method="highs").x
    return z[:n], z[n : n + m] - z[n + m :]


def endpoint(gamma: float, problem: int, config: Config, seed: int) -> Row:
    """Return distance, gap and overlap at the end of the flow that starts from γ."""
    operator, y = commuting_problem(config, [seed, problem])
    signal = PSDFactor(gamma * np.eye(config.n))
    corruption = Hadamard(np.full(y.shape, gamma), np.full(y.shape, gamma))
    largest = max(
        np.linalg.norm(operator.adjoint(y), 2), config.alpha * np.abs(y).max()
    )
    status, history = descend(
        y,
        operator,
        signal,
        corruption,
        step=0.05 / largest,
        alpha=config.alpha,
        tol=1e-7,
        max_iter=config.steps,
        check_every=100,
    )
    recovery = Recovery(
        low_rank=signal.value(),
        sparse=corruption.value(),
        factors=(signal.U,),
        dual=corruption.dual(config.alpha),
        y=y,
        operator=operator,
        alpha=config.alpha,
        psd=True,
        status=status,
        history=history,
    )
    x, s = optimum(operator.weights, y, 1 / config.alpha)
    X = (operator.basis * x) @ operator.basis.T
    distance = np.hypot(
        np.linalg.norm(recovery.signal - X), np.linalg.norm(recovery.corruption - s)
    )
    certificate = certify(recovery)
    return {
        "distance": float(distance / np.hypot(np.linalg.norm(x), np.linalg.norm(s))),
        "gap": certificate.gap,
        "overlap": float(np.abs(corruption.g * corruption.h).max()),
        "residual": certificate.feasibility,
    }


def run(config: Config, runner: Runner) -> Outcome:
    """Run the flow from decreasing γ on several problems."""
    axes = {"gamma": config.starts, "problem": range(config.problems)}
    points = runner.grid(endpoint, axes, config)
    mean = points.groupby("gamma").mean()
    first, last = mean.loc[config.starts[0]], mean.loc[config.starts[-1]]
    finding = (
        f"As γ falls from {config.starts[0]:.0e} to {config.starts[-1]:.0e}, the end "
        f"point's distance to the convex optimum falls from {first['distance']:.2g} to "
        f"{last['distance']:.2g}, the certificate's gap from {first['gap']:.3f} to "
        f"{last['gap']:.3f}, and max|g∘h| from {first['overlap']:.0e} to "
        f"{last['overlap']:.0e}."
    )
    return Outcome(config, points, finding)


@styled
def plot(outcome: Outcome) -> Figure:
    """Draw distance, gap and overlap against γ."""
    mean = outcome.points.groupby("gamma").mean().sort_index(ascending=False)
    starts, gaps = mean.index, mean["gap"]
    figure, (left, right) = new_figure(2)
    for key, label, colour in (
        ("distance", "distance to the convex optimum", COLOURS[0]),
        ("overlap", "max|g∘h|", COLOURS[2]),
    ):
        left.loglog(starts, mean[key], "o-", color=colour, label=label)
    left.set(title="end point of the flow")
    inverse = 1 / np.log(1 / starts)
    guide = inverse * gaps.iloc[0] / inverse[0]
    right.semilogx(starts, gaps, "o-", color=COLOURS[1], label="relative duality gap")
    right.semilogx(starts, guide, "--", color=COLOURS[5], label="∝ 1/log(1/γ)")
    right.set(title="certificate", ylim=(0, None))
    for ax in (left, right):
        ax.set_xlabel("start γ")
        ax.invert_xaxis()
        ax.minorticks_off()
        ax.legend()
    return figure

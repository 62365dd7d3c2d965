"""Mixtures of structures: where the flow ends, on factors and in the mirror.

The paper's two parameterisations are one factorisation at two block sizes. For mixtures
of other blocks the two forms of the flow differ. The factor flow descends on U and V of
every block, from [U; V] = γI. The mirror flow integrates the dual, Ξ̇ = y − Σ Xᵢ, and
sets Xᵢ = γ² sinh(2Ξ/λᵢ) on the singular values of each block. Both are compared with
the convex optimum as γ → 0. Where the blocks commute (Theorem 1) both agree.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.linalg import Array, norm
from discrepant.core.plotting import COLOURS, Figure, new_figure, styled
from discrepant.core.threads import blas_threads
from discrepant.experiments.runner import Outcome, Row, Runner, column, markdown_table
from discrepant.structures.blocks import (
    Columns,
    Entries,
    Groups,
    Rows,
    Structure,
    Tiles,
    Whole,
)
from discrepant.structures.decompose import decompose

FLOWS = ("factor", "mirror")
# Second structure of each mixture; the first is the whole matrix.
SECOND = ("entries", "columns", "rows", "groups", "tiles")
# Step size relative to the largest one that is stable at the data.
STEP = 0.4
# Relative residual at which a flow ends.
RESIDUAL = 1e-3


@dataclass(frozen=True)
class Config:
    """Size of the matrix, the second structures, and the starts γ."""

    shape: tuple[int, int] = (12, 12)
    second: tuple[str, ...] = SECOND
    starts: tuple[float, ...] = (1e-2, 1e-4, 1e-8, 1e-16)
    problems: int = 2
    steps: int = 100_000

    @classmethod
    def quick(cls, **settings: Any) -> "Config":
        """Return settings that take seconds."""
        return cls(
            shape=(6, 6),
            second=("entries", "columns"),
            starts=(1e-2, 1e-6),
            problems=1,
            steps=20_000,
            **settings,
        )


def second_structure(name: str, shape: tuple[int, int]) -> Structure:
    """Return the structure that is mixed with the whole matrix."""
    m, n = shape
    pairs = np.arange(m * n).reshape(shape) // 2  # neighbours in a row
    structures = {
        "entries": Entries(),
        "columns": Columns(),
        "rows": Rows(),
        "groups": Groups(pairs),
        "tiles": Tiles(m // 4, n // 4),
    }
    return structures[name]


def mixture(name: str, shape: tuple[int, int], seed: list[int]) -> Array:
    """Return a matrix of low rank plus some blocks of a structure, of unit norm.

    There are too many of both for the convex program to recover them: its optimum then
    has parts that overlap, and the flow needs more than the right support to reach it.
    """
    rng = np.random.default_rng(seed)
    structure = second_structure(name, shape)
    blocks = structure.split(rng.standard_normal(shape))
    used = rng.choice(len(blocks), max(1, len(blocks) // 4), replace=False)
    kept = np.zeros(len(blocks))
    kept[used] = 1
    if min(blocks.shape[1:]) > 1:  # tiles of rank one
        blocks = blocks[:, :, :1] @ blocks[:, :1]
    corruption = structure.join(blocks * kept[:, None, None], shape)
    rank = max(2, min(shape) // 3)
    X = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    Y = X / norm(X) + corruption / norm(corruption)
    return np.asarray(Y / norm(Y))


@dataclass
class FactorPart:
    """One part of the factor flow: U and V of every block, from [U; V] = γI."""

    structure: Structure
    shape: tuple[int, int]
    gamma: float

    def __post_init__(self) -> None:
        count, a, b = self.structure.split(np.zeros(self.shape)).shape
        start = np.broadcast_to(self.gamma * np.eye(a + b), (count, a + b, a + b))
        self.U, self.V = start[:, :a].copy(), start[:, a:].copy()

    def value(self) -> Array:
        """Return the array with the blocks U Vᵀ."""
        return self.structure.join(self.U @ self.V.swapaxes(1, 2), self.shape)

    def descend(self, grad: Array, rate: float) -> None:
        """Take ``U ← U − rate·G V`` and ``V ← V − rate·Gᵀ U`` in every block."""
        G = self.structure.split(grad)
        self.U, self.V = (
            self.U - rate * (G @ self.V),
            self.V - rate * (G.swapaxes(1, 2) @ self.U),
        )


def flow_end(
    kind: str,
    y: Array,
    structures: list[Structure],
    weights: list[float],
    gamma: float,
    steps: int,
) -> tuple[list[Array], float]:
    """Return the parts at the end of a flow from γ, and their relative residual."""
    step = STEP / sum(2 * float(np.linalg.norm(y, 2)) / lam for lam in weights)
    factors = [FactorPart(s, y.shape, gamma) for s in structures]
    Xi, X, error = np.zeros_like(y), [np.zeros_like(y)], 1.0
    for _ in range(steps):
        if kind == "mirror":
            X = [
                s.mirror(Xi / lam, gamma)
                for s, lam in zip(structures, weights, strict=True)
            ]
        else:
            X = [factor.value() for factor in factors]
        rest = sum(X) - y
        error = norm(rest) / norm(y)
        if error < RESIDUAL:
            break
        Xi -= step * rest
        if kind == "factor":
            for factor, lam in zip(factors, weights, strict=True):
                factor.descend(rest, step / lam)
    return X, error


def endpoint(
    second: str, gamma: float, problem: int, flow: str, config: Config, seed: int
) -> Row:
    """Return the distance of a flow's end from the convex optimum."""
    y = mixture(second, config.shape, [seed, problem, SECOND.index(second)])
    structures = [Whole(), second_structure(second, config.shape)]
    with warnings.catch_warnings():  # parts that overlap have many free parameters
        warnings.simplefilter("ignore", UserWarning)
        best = decompose(y, structures, tol=1e-6, max_iter=5000)
    weights, optimum = list(best.weights.values()), list(best.parts.values())
    with blas_threads(y.size):
        X, error = flow_end(flow, y, structures, weights, gamma, config.steps)
    difference = [norm(x - z) for x, z in zip(X, optimum, strict=True)]
    size = np.linalg.norm([norm(z) for z in optimum])
    return {"distance": float(np.linalg.norm(difference) / size), "residual": error}


def run(config: Config, runner: Runner) -> Outcome:
    """Run both flows from decreasing γ on several mixtures."""
    axes = {
        "second": config.second,
        "gamma": config.starts,
        "problem": range(config.problems),
        "flow": FLOWS,
    }
    rows = runner.grid(endpoint, axes, label="structures", config=config)
    table = markdown_table(
        ["structures", "flow", *(f"γ = {gamma:.0e}" for gamma in config.starts)],
        [
            [
                f"whole + {second}",
                flow,
                *(f"{value:.3f}" for value in distances(rows, second, flow, config)),
            ]
            for second in config.second
            for flow in FLOWS
        ],
    )
    ends = {
        flow: [distances(rows, second, flow, config)[-1] for second in config.second]
        for flow in FLOWS
    }
    finding = (
        f"From γ = {config.starts[-1]:.0e} the mirror flow ends within "
        f"{max(ends['mirror']):.2g} of the convex optimum in all "
        f"{len(config.second)} mixtures; the factor flow is up to "
        f"{max(ends['factor']):.2g} away."
    )
    return Outcome(config, rows, finding, table)


def distances(rows: list[Row], second: str, flow: str, config: Config) -> list[float]:
    """Return the mean distance over the problems at each start γ."""
    return [
        float(column(rows, "distance", second=second, flow=flow, gamma=gamma).mean())
        for gamma in config.starts
    ]


@styled
def plot(outcome: Outcome) -> Figure:
    """Draw the distance to the convex optimum against γ, one panel per flow."""
    config = outcome.config
    figure, axes = new_figure(2)
    for ax, flow in zip(axes, FLOWS, strict=True):
        for second, colour in zip(config.second, COLOURS, strict=False):
            values = distances(outcome.rows, second, flow, config)
            label = f"whole + {second}"
            ax.semilogx(config.starts, values, "o-", color=colour, label=label)
        ax.set(title=f"{flow} flow", xlabel="start γ", ylim=(0, 1))
        if flow == "mirror":
            guide = 1.1 / np.log(1 / np.array(config.starts))
            label = "1.1 / log(1/γ)"
            ax.semilogx(config.starts, guide, "--", color=COLOURS[5], label=label)
        ax.invert_xaxis()
        ax.minorticks_off()
    axes[0].set_ylabel("distance to the convex optimum")
    axes[1].legend()
    return figure

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
from discrepant.experiments.runner import Outcome, Row, Runner, Table, markdown_table
from discrepant.operators.entrywise import Identity
from discrepant.paper.descent import descend
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

# Second structure of each mixture; the first is the whole matrix.
SECOND = ("entries", "columns", "rows", "groups", "tiles")
# Step size relative to the largest one that is stable at the data.
STEP = 0.4


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


class FactorPart:
    """One part of the factor flow: U and V of every block, from [U; V] = γI."""

    def __init__(
        self, structure: Structure, shape: tuple[int, int], gamma: float
    ) -> None:
        self.structure, self.shape = structure, shape
        count, a, b = structure.split(np.zeros(shape)).shape
        start = np.broadcast_to(gamma * np.eye(a + b), (count, a + b, a + b))
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


class MirrorPart:
    """One part of the mirror flow: the dual Ξ in units of the weight λ, from zero."""

    def __init__(
        self, structure: Structure, shape: tuple[int, int], gamma: float
    ) -> None:
        self.structure, self.gamma = structure, gamma
        self.scaled_dual = np.zeros(shape)

    def value(self) -> Array:
        """Return γ² sinh(2Ξ/λ) on the singular values of the blocks."""
        return self.structure.mirror(self.scaled_dual, self.gamma)

    def descend(self, grad: Array, rate: float) -> None:
        """Take ``Ξ/λ ← Ξ/λ − rate·grad``, where the rate is in units of 1/λ."""
        self.scaled_dual = self.scaled_dual - rate * grad


FLOWS: dict[str, Any] = {"factor": FactorPart, "mirror": MirrorPart}


def endpoint(
    second: str, gamma: float, problem: int, flow: str, config: Config, seed: int
) -> Row:
    """Return the distance of a flow's end from the convex optimum."""
    y = mixture(second, config.shape, [seed, problem, SECOND.index(second)])
    structures = [Whole(), second_structure(second, config.shape)]
    with warnings.catch_warnings():  # parts that overlap have many free parameters
        warnings.simplefilter("ignore", UserWarning)
        best = decompose(y, structures, tol=1e-6, max_iter=5000)
    lams, optimum = list(best.weights.values()), list(best.parts.values())
    step = STEP / sum(2 * float(np.linalg.norm(y, 2)) / lam for lam in lams)
    parts = [FLOWS[flow](structure, y.shape, gamma) for structure in structures]
    with blas_threads(y.size):
        _, history = descend(
            y,
            Identity(config.shape),
            *parts,
            step=step / lams[0],
            alpha=lams[0] / lams[1],
            max_iter=config.steps,
        )
    ends = [part.value() for part in parts]
    difference = [norm(x - z) for x, z in zip(ends, optimum, strict=True)]
    size = np.linalg.norm([norm(z) for z in optimum])
    return {
        "distance": float(np.linalg.norm(difference) / size),
        "residual": float(history["residual"][-1]),
    }


def run(config: Config, runner: Runner) -> Outcome:
    """Run both flows from decreasing γ on several mixtures."""
    axes = {
        "second": config.second,
        "gamma": config.starts,
        "problem": range(config.problems),
        "flow": FLOWS,
    }
    points = runner.grid(endpoint, axes, config)
    means = mean_distances(points)
    table = markdown_table(
        ["structures", "flow", *(f"γ = {gamma:.0e}" for gamma in config.starts)],
        [
            [f"whole + {second}", flow, *(f"{value:.3f}" for value in row)]
            for (second, flow), row in means.iterrows()
        ],
    )
    farthest = means[config.starts[-1]].groupby("flow").max()
    finding = (
        f"From γ = {config.starts[-1]:.0e} the mirror flow ends within "
        f"{farthest['mirror']:.2g} of the convex optimum in all "
        f"{len(config.second)} mixtures; the factor flow is up to "
        f"{farthest['factor']:.2g} away."
    )
    return Outcome(config, points, finding, table)


def mean_distances(points: Table) -> Table:
    """Return the mean over the problems by mixture and flow (rows) and start γ."""
    return points.pivot_table("distance", ["second", "flow"], "gamma", sort=False)


@styled
def plot(outcome: Outcome) -> Figure:
    """Draw the distance to the convex optimum against γ, one panel per flow."""
    config, means = outcome.config, mean_distances(outcome.points)
    figure, axes = new_figure(2)
    for ax, flow in zip(axes, FLOWS, strict=True):
        for second, colour in zip(config.second, COLOURS, strict=False):
            values, label = means.loc[(second, flow)], f"whole + {second}"
            ax.semilogx(means.columns, values, "o-", color=colour, label=label)
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

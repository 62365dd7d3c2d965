"""Weights λ of the parts of a mixture, from their shapes and operators alone."""

from dataclasses import replace
from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.structures.blocks import Structure
from discrepant.structures.solver import Part

# Factors c of λ = c·(expected dual norm of noise) / (that of the whole matrix), chosen
# on synthetic problems (`benchmarks/structures.py` measures them on others).
ENTRIES = 2.1  # single entries; relative to noise of size 1
VECTORS_WITH_ENTRIES, VECTORS = 1.2, 1.0  # rows, columns, groups
TILES = 0.8
BELOW_WHOLE = 0.97  # largest λ of a smaller block: at 1 it would never be used
DRAWS = 3  # random draws for the noise level behind an operator


def part_shape(structure: Structure, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a part: that of the data, or what its operator maps."""
    return shape if structure.through is None else tuple(structure.through.signal_shape)


def weighted_parts(
    groups: dict[str, Structure], observed: Array, rng: np.random.Generator
) -> dict[str, list[Part]]:
    """Return the parts of each structure with their weights λ.

    λ is the dual norm of noise in a structure relative to that of the whole matrix,
    times one factor per kind of block.
    """
    shape = observed.shape
    parts = {
        name: Part(s, part_shape(s, shape), s.weight, *_maps(s, observed))
        for name, s in groups.items()
    }
    blocks = {name: p.structure.split(np.zeros(p.shape)) for name, p in parts.items()}
    noise = {name: _noise_level(part, observed, rng) for name, part in parts.items()}
    whole = [noise[name] for name in parts if len(blocks[name]) == 1]
    matrix = np.sqrt([shape[0], observed.size // shape[0]]).sum()
    unit = max(whole) if whole else float(matrix * np.sqrt(observed.mean()))
    entries = any(b[0].size == 1 for b in blocks.values())
    terms = {}
    for name, part in parts.items():
        count, a, b = blocks[name].shape
        if a == b == 1:
            lam = ENTRIES * noise[name] / unit
        elif count == 1:
            lam = noise[name] / unit
        elif 1 in (a, b):
            factor = VECTORS_WITH_ENTRIES if entries else VECTORS
            lam = min(factor * noise[name] / unit, BELOW_WHOLE)
            if entries:  # above it, entries explain a whole vector at a lower cost
                lam = min(lam, BELOW_WHOLE * ENTRIES / unit * np.sqrt(max(a, b)))
        else:
            lam = min(TILES * noise[name] / unit, BELOW_WHOLE)
        terms[name] = [
            replace(part, structure=one, lam=float(part.lam * lam))
            for one in part.structure.parts()
        ]
    return terms


def _maps(structure: Structure, observed: Array) -> tuple[Any, Any]:
    """Return A and A* of a structure, restricted to the observed data."""
    A = structure.through
    if A is not None:
        return (
            lambda X: np.where(observed, A.forward(X), 0.0),
            lambda z: A.adjoint(np.where(observed, z, 0.0)),
        )
    if observed.all():
        return (lambda X: X), (lambda z: z)
    return (lambda X: np.where(observed, X, 0.0),) * 2


def _noise_level(part: Part, observed: Array, rng: np.random.Generator) -> float:
    """Return the expected γ°(A*z) of standard normal noise z on the observed data.

    For single entries it is the standard deviation of A*z, not its largest value.
    """
    structure = part.structure
    single = structure.split(np.zeros(part.shape))[0].size == 1
    if structure.through is None:
        fraction = float(np.sqrt(observed.mean()))
        return 1.0 if single else structure.noise_dual_norm(part.shape) * fraction
    draws = [
        part.adjoint(rng.standard_normal(observed.shape)).astype(np.float64)
        for _ in range(DRAWS)
    ]
    levels = [float(np.std(z)) if single else structure.dual_norm(z) for z in draws]
    return float(np.mean(levels)) or 1.0

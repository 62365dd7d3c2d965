"""Synthetic matrices that several test files use."""

import numpy as np

from discrepant.paper.synthetic import corrupted_matrix
from discrepant.robust_pca.problem import ConvexProblem, DataScale
from discrepant.robust_pca.rows.in_memory import ArrayRows


def draw(*shape, seed=0):
    """Return an array of standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def noisy(shape=(60, 50), rank=3, psd=False, seed=0):
    """Return a corrupted matrix with noise on every entry: no exact solution exists."""
    problem = corrupted_matrix(shape[0] if psd else shape, rank, 0.1, random_state=seed)
    noise = np.random.default_rng(seed + 1).standard_normal(problem.observed.shape)
    return problem.observed + 0.1 * noise


def paper_problem(rank=5, fraction=0.1, seed=0):
    """Return the problem of the paper's Section 4.1 at n = 50."""
    return corrupted_matrix(50, rank, fraction, random_state=seed)


def exact_program(Y, alpha):
    """Return the convex program of a matrix without noise, with λ = 1/α."""
    rows = ArrayRows(Y)
    with rows:
        return ConvexProblem(rows, DataScale.of(rows), 1 / alpha)

"""Made problems that several files of tests share."""

import numpy as np

from discrepant.paper.synthetic import corrupted_matrix


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def noisy(shape=(60, 50), rank=3, psd=False, seed=0):
    """Return a problem with noise on every entry: no exact solution exists."""
    made = corrupted_matrix(shape[0] if psd else shape, rank, 0.1, random_state=seed)
    noise = np.random.default_rng(seed + 1).standard_normal(made.observed.shape)
    return made.observed + 0.1 * noise


def paper_problem(rank=5, share=0.1, seed=0):
    return corrupted_matrix(50, rank, share, random_state=seed)

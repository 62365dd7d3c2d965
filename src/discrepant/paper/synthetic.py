"""Synthetic corrupted matrices with known truth, and the relative error."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array


@dataclass(frozen=True, eq=False)
class Problem:
    """A corrupted matrix and its two true parts.

    ``observed`` equals ``low_rank + sparse``, with NaN at missing entries.
    """

    observed: Array
    low_rank: Array
    sparse: Array


def corrupted_matrix(
    shape: int | tuple[int, int],
    rank: int,
    fraction: float,
    *,
    amplitude: float = 10.0,
    missing: float = 0.0,
    random_state: Any = None,
) -> Problem:
    """Return a random low-rank matrix with gross errors in a fraction of its entries.

    With an integer shape n this is the paper's problem (Section 4.1): X = U* U*ᵀ with
    standard normal U*, and N(0, amplitude²) added to n²p entries. With a shape (m, n)
    the matrix is U* V*ᵀ.

    Parameters
    ----------
    shape : int or tuple of int
        The size n of a positive semidefinite matrix, or the shape (m, n) of any matrix.
    rank : int
        The rank of the matrix.
    fraction : float
        The fraction p of corrupted entries.
    amplitude : float
        Standard deviation of the gross errors.
    missing : float
        The probability that an entry is missing (NaN).
    random_state : int, Generator or None
        Seed of the random numbers.
    """
    rng = np.random.default_rng(random_state)
    m, n = (shape, shape) if isinstance(shape, int | np.integer) else shape
    if not 0 <= rank <= min(m, n) or not 0 <= fraction <= 1 or not 0 <= missing < 1:
        raise InputError(
            f"A {m}×{n} problem needs a rank from 0 to {min(m, n)} and fractions "
            f"from 0 to 1, got rank {rank}, fraction {fraction} and missing {missing}."
        )
    U = rng.standard_normal((m, rank))
    V = U if isinstance(shape, int | np.integer) else rng.standard_normal((n, rank))
    low_rank = U @ V.T
    flat = np.zeros(m * n)
    corrupt = rng.choice(m * n, size=round(fraction * m * n), replace=False)
    flat[corrupt] = amplitude * rng.standard_normal(len(corrupt))
    sparse = flat.reshape(m, n)
    observed = low_rank + sparse
    if missing:
        observed[rng.random((m, n)) < missing] = np.nan
    return Problem(observed, low_rank, sparse)


def relative_error(X: Array, truth: Array) -> float:
    """Return ``‖X − truth‖ / ‖truth‖`` in the Frobenius norm."""
    return float(np.linalg.norm(X - truth) / np.linalg.norm(truth))

"""Made problems with a known answer, and scores that say how near one came."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array


@dataclass(frozen=True, eq=False)
class Problem:
    """A corrupted matrix and the truth behind it.

    ``observed`` equals ``low_rank + sparse`` with NaN where an entry is missing.
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
    """Draw a low-rank matrix and corrupt a share of its entries grossly.

    With an integer shape n this is the paper's problem (its Section 4.1): X = U* U*ᵀ
    with standard normal U*, and n²p entries get N(0, amplitude²) added. With a shape
    (m, n) the matrix is U* V*ᵀ.
    """
    rng = np.random.default_rng(random_state)
    m, n = (shape, shape) if isinstance(shape, int | np.integer) else shape
    if not 0 <= rank <= min(m, n) or not 0 <= fraction <= 1 or not 0 <= missing < 1:
        raise InputError(
            f"A {m}×{n} problem needs a rank from 0 to {min(m, n)} and shares from 0 "
            f"to 1, got rank {rank}, fraction {fraction} and missing {missing}."
        )
    U = rng.standard_normal((m, rank))
    V = U if isinstance(shape, int | np.integer) else rng.standard_normal((n, rank))
    low_rank = U @ V.T
    flat = np.zeros(m * n)
    where = rng.choice(m * n, size=round(fraction * m * n), replace=False)
    flat[where] = amplitude * rng.standard_normal(len(where))
    sparse = flat.reshape(m, n)
    observed = low_rank + sparse
    if missing:
        observed[rng.random((m, n)) < missing] = np.nan
    return Problem(observed, low_rank, sparse)


def relative_error(X: Array, truth: Array) -> float:
    """Return ``‖X − truth‖ / ‖truth‖`` in the Frobenius norm."""
    return float(np.linalg.norm(X - truth) / np.linalg.norm(truth))

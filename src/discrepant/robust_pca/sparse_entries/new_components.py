"""What a low-rank part still misses: directions that chance does not explain."""

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.sparse_entries import kernels
from discrepant.robust_pca.sparse_entries.entries import StoredEntries

MORE = 1.1  # times what chance gives: its own scatter, and power steps not taken
STEPS = 8  # of the power iteration
AT_ONCE = 8  # directions looked for


def directions(
    entries: StoredEntries, x: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return factors of the part of a residual x that stands out of chance.

    What chance gives is measured: the same residual with random signs has the same
    sizes in the same places, heavy lines and all, and no direction at all.
    """
    U, s, V = _leading(entries, x, AT_ONCE, rng)
    signs = rng.integers(0, 2, len(x)) * 2.0 - 1
    chance = _leading(entries, x * signs, 2, rng)[1][0]
    new = int(np.sum(s > MORE * chance))
    observed = len(x) / np.prod(entries.shape, dtype=np.float64)
    size = np.sqrt(s[:new] / observed)
    return U[:, :new] * size, V[:, :new] * size


def _leading(
    entries: StoredEntries, x: Array, k: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Return leading singular triplets of the table that is zero off the entries."""
    m, n = entries.shape
    k = min(k, m, n)
    V = np.linalg.qr(rng.standard_normal((n, k)))[0]
    P, Q = np.empty((m, k)), np.empty((n, k))
    for _ in range(STEPS):
        entries.each(entries.rows, kernels.product, x, V, P)
        U = np.linalg.qr(P)[0]
        entries.each(entries.columns, kernels.product, x, U, Q)
        V, s, turn = np.linalg.svd(Q, full_matrices=False)
    return U @ turn.T, s, V

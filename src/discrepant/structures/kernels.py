"""Compiled inner loops of the descent (importing this module loads Numba)."""

import numpy as np

from discrepant.core.jit import njit


@njit(cache=True, nogil=True)
def hadamard_step(
    g: np.ndarray, h: np.ndarray, s: np.ndarray, r: np.ndarray, rate: float
) -> None:
    """Take ``g ← g − rate·r∘g``, ``h ← h + rate·r∘h``, ``s ← g∘g − h∘h`` in one pass.

    All arrays are flat and contiguous; g, h and s change in place.
    """
    for i in range(g.size):
        d = rate * r[i]
        g[i] -= d * g[i]
        h[i] += d * h[i]
        s[i] = g[i] * g[i] - h[i] * h[i]


@njit(cache=True, nogil=True)
def symmetric_part(G: np.ndarray, scale: float, out: np.ndarray) -> None:
    """Write ``scale·(G + Gᵀ)/2`` to ``out``."""
    half = scale / 2
    for i in range(G.shape[0]):
        for j in range(G.shape[1]):
            out[i, j] = half * (G[i, j] + G[j, i])

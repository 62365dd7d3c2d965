"""α = "auto": the ratio of the learning rates, from the operator or from the data.

The convex program with λ = 1/α recovers X if a dual M exists with M = λ sign(S) on the
support of S, |M| ≤ λ off it, and P_T M = U Vᵀ with the rest of its spectrum below one.

*General.* The signs alone form a random matrix, A*(±λ). Its norm has to stay near a
constant, or corruption passes for signal. For A = identity this gives the well-known
α = √max(m, n). Written as α = ½‖A*(±1)‖₂, it applies to every operator. For long
matrices ½(√m + √n) would recover more of those with scattered errors. But it is below
√m, and a column that is wrong as a whole would then cost less as a component (√m times
its size) than as errors (m/α times its size).

*Positive semidefinite, corruption not symmetric.* Only the largest eigenvalue of the
symmetric part of M is bounded, and (i, j) and (j, i) are two observations of one entry
of X. If only one of them is corrupt, M on the other is free in [−λ, λ] and can cancel
it: no noise is forced. If both are corrupt (a fraction p² of the pairs), the symmetric
part is forced to ±λ for signs that agree, half the time, and 0 otherwise; its largest
eigenvalue is 2λ√(n p²/2). A larger λ makes P_T M = U Uᵀ easier and this noise worse. So
λ should be as large as the noise allows, λ√n ≈ 1/(√2 p), until (λ√n ≈ 3) the
cancellation itself exhausts the free entries.

*Positive semidefinite, corruption symmetric.* The second observation adds no
information, the signs are a symmetric random matrix, and as only its largest eigenvalue
matters, λ√n = √2 is allowed.

The data show which case applies, and p: a pair disagrees unless both of its entries are
clean, so the fraction of pairs that agree is (1 − p)².

*The descent keeps the general rule, under X ⪰ 0 too.* All of this concerns the optimum
of the convex program. A descent from a finite start γ ends near it, with a bias of
about 1/log(1/γ), which is largest where free entries have to cancel: on the paper's
problem of rank 5 with 30% corrupted its error is 0.04 with α = √n = 7.1, and 0.34 with
α = 2.7 from the data (tests/paper/test_descent.py makes the comparison).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from discrepant.core.linalg import Array, spectral_norm
from discrepant.operators.entrywise import Identity, Mask
from discrepant.operators.observation import nan_where_missing
from discrepant.operators.operator import Operator

# The first four set λ√n; `discrepant reproduce beyond-fig2c` shows the effect.
# Upper limit of λ√n: beyond it cancellation exhausts the clean entries.
_CEILING = 3.0
# λ√n relative to the limit that the forced noise alone sets.
_MARGIN = 1.1
# λ√n if the corruption is symmetric too.
_SYMMETRIC = float(np.sqrt(2))
# λ√n if noise on every entry hides which pairs agree.
_FALLBACK = 2.0
# Number of pairs of entries from which the fraction that agrees is estimated.
_SAMPLE = 1_000_000


def auto_alpha(
    data: Array, operator: Operator, psd: bool, *, exact: bool, rng: np.random.Generator
) -> float:
    """Return the value of ``alpha="auto"`` for a validated observation.

    For a positive semidefinite matrix that is observed entry by entry, and a solver
    that reaches the optimum of the convex program (`exact`), it is estimated from the
    data. Otherwise it follows from the operator, by random signs ±1. The descent does
    not reach the optimum: its finite start leaves a bias, which is largest where
    entries cancel.
    """
    if isinstance(operator, Identity | Mask):
        observed = operator.observed.mean() if isinstance(operator, Mask) else 1.0
        Y = nan_where_missing(data, operator)
        return alpha_from_data(Y, psd and exact, float(observed))
    return alpha_from_operator(operator, lambda Z: spectral_norm(Z, rng), rng)


def alpha_from_operator(
    operator: Any, norm: Callable[[Array], float], rng: np.random.Generator
) -> float:
    """Return ``½‖A*(±1)‖₂``, the α at which corruption cannot pass for signal."""
    signs = rng.choice((-1.0, 1.0), size=operator.data_shape)
    return norm(operator.adjoint(signs)) / 2


def alpha_from_data(Y: Array, psd: bool, observed: float = 1.0) -> float:
    """Return the default α of a matrix with an observed fraction (NaN is missing)."""
    return alpha_from_entries(Y.shape, lambda i, j: np.asarray(Y[i, j]), psd, observed)


def alpha_from_entries(
    shape: tuple[int, ...],
    entries: Callable[[Array, Array], Array],
    psd: bool,
    observed: float = 1.0,
) -> float:
    """Return the default α, given the shape and a function that returns entries."""
    m, n = shape
    root = float(np.sqrt(max(1.0, observed * max(shape))))
    if not psd or m < 2 or m != n:
        return root
    agree = _symmetric_pair_fraction(n, entries)
    if agree > 0.99:  # symmetric corruption, or none
        return root / _SYMMETRIC
    if agree < 0.05:
        return root / _FALLBACK
    p = 1 - float(np.sqrt(agree))
    return root / min(_CEILING, _MARGIN / (float(np.sqrt(2)) * p))


def _symmetric_pair_fraction(n: int, entries: Callable[[Array, Array], Array]) -> float:
    """Return the fraction of observed pairs with Y_ij = Y_ji.

    Equality is to within a thousandth of the median |entry|.
    """
    rng = np.random.default_rng(0)
    if n * (n - 1) // 2 <= _SAMPLE:
        i, j = np.triu_indices(n, 1)
    else:
        i = rng.integers(0, n, _SAMPLE)
        j = (i + rng.integers(1, n, _SAMPLE)) % n
    upper, lower = (entries(*ij).astype(np.float64) for ij in ((i, j), (j, i)))
    observed = np.isfinite(upper) & np.isfinite(lower)
    if not observed.any():
        return 1.0
    upper, lower = upper[observed], lower[observed]
    median = np.median(np.abs(np.concatenate([upper, lower])))
    return float(np.mean(np.abs(upper - lower) <= 1e-3 * median))

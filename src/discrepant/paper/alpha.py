"""α = "auto": the ratio of the learning rates, from the operator or from the data.

The convex program with λ = 1/α recovers X when some dual M has M = λ sign(S) on the
support, |M| ≤ λ off it, and P_T M = U Vᵀ with the rest of its spectrum below one.

*General.* The signs alone are a random matrix, A*(±λ); its norm has to stay near a
constant, or corruption passes for signal. For A = identity that gives the well-known
α = √max(m, n), and read backwards, α = ½‖A*(±1)‖₂, it serves every operator.

*Positive semidefinite, corruption not symmetric.* Only the largest eigenvalue of the
symmetric part of M is bound, and (i, j) and (j, i) are two looks at one entry of X. If
only one of them is corrupt, M on the other is free in [−λ, λ] and can cancel it: no
noise is forced. If both are (a share p² of the pairs), the symmetric part is forced to
±λ for signs that agree, half the time, and 0 otherwise; its largest eigenvalue is
2λ√(n p²/2). A larger λ makes P_T M = U Uᵀ easier and that noise worse, so λ should be
as large as the noise allows, λ√n ≈ 1/(√2 p), until (λ√n ≈ 3) the cancelling itself
exhausts the free entries.

*Positive semidefinite, corruption symmetric.* The second look tells nothing, the signs
are a symmetric random matrix, and its one side that matters allows λ√n = √2.

Which of the two it is, and p, can be read from the data: a pair disagrees unless both
of its entries are clean, so the share of pairs that agree is (1 − p)².

*The descent keeps the general rule, under X ⪰ 0 too.* All this is about the optimum of
the convex program. A descent from a finite start γ ends near it, with a bias of about
1/log(1/γ), which is largest where free entries have to cancel: on the paper's problem
of rank 5 with 30% corrupted it ends at an error of 0.04 with α = √n = 7.1, and of 0.34
with α = 2.7 read off the data (tests/test_descent.py holds the comparison).
"""

from collections.abc import Callable

import numpy as np

from discrepant.core.linalg import Array, spectral_norm
from discrepant.operators.entrywise import Identity, Mask
from discrepant.operators.observation import nan_where_missing
from discrepant.operators.operator import Operator

# In units of λ√n. The area that they recover: `discrepant reproduce beyond-fig2c`.
_CEILING = 3.0  # λ√n beyond which cancelling exhausts the clean entries
_MARGIN = 1.1  # how far beyond the forced noise alone λ√n may go
_SYMMETRIC = float(np.sqrt(2))  # λ√n when the corruption is symmetric too
_FALLBACK = 2.0  # λ√n when noise on every entry hides which pairs agree
_SAMPLE = 1_000_000  # pairs looked at


def auto_alpha(
    data: Array, operator: Operator, psd: bool, *, exact: bool, rng: np.random.Generator
) -> float:
    """Return what ``alpha="auto"`` stands for: the one place where that is decided.

    Where a positive semidefinite matrix is seen entry by entry, the data tell;
    elsewhere the operator does. The data tell only solvers that reach the optimum of
    the convex program.

    Parameters
    ----------
    data, operator
        As `discrepant.operators.observation.validate_observation` returns them.
    psd : bool
        Whether X ⪰ 0 is demanded.
    exact : bool
        Whether the solver reaches the optimum. The descent does not: its finite start
        leaves a bias, most of all where entries have to cancel.
    rng : Generator
        Draws the signs ±1 for an operator.
    """
    if exact and psd and isinstance(operator, Identity | Mask):
        return alpha_from_data(
            nan_where_missing(data, operator), True, _share(operator)
        )
    return alpha_from_operator(operator, lambda Z: spectral_norm(Z, rng), rng)


def alpha_from_operator(
    operator: Operator, norm: Callable[[Array], float], rng: np.random.Generator
) -> float:
    """Return the α at which corruption cannot pass for signal: ``½‖A*(±1)‖₂``."""
    if isinstance(operator, Identity | Mask):
        return alpha_of_entrywise(operator)
    signs = rng.choice((-1.0, 1.0), size=operator.data_shape)
    return norm(operator.adjoint(signs)) / 2


def alpha_of_entrywise(operator: Operator) -> float:
    """Return √max(m, n), of which only the share that is observed counts."""
    return _root(operator.signal_shape, _share(operator))


def _share(operator: Operator) -> float:
    """Return the share of the entries that is observed."""
    return float(operator.observed.mean()) if isinstance(operator, Mask) else 1.0


def _root(shape: tuple[int, ...], observed: float) -> float:
    return float(np.sqrt(max(1.0, observed * max(shape))))


def alpha_from_data(Y: Array, psd: bool, observed: float = 1.0) -> float:
    """Return the default α for a matrix of which a share is observed (NaN is not)."""
    return alpha_from_entries(Y.shape, lambda i, j: np.asarray(Y[i, j]), psd, observed)


def alpha_from_entries(
    shape: tuple[int, ...],
    entries: Callable[[Array, Array], Array],
    psd: bool,
    observed: float = 1.0,
) -> float:
    """Return the default α, given the shape and a way to see some entries."""
    m, n = shape
    root = _root(shape, observed)
    if not psd or m < 2 or m != n:
        return root
    agree = _share_of_pairs_that_agree(n, entries)
    if agree > 0.99:  # symmetric corruption, or none
        return root / _SYMMETRIC
    if agree < 0.05:
        return root / _FALLBACK
    p = 1 - float(np.sqrt(agree))
    return root / min(_CEILING, _MARGIN / (float(np.sqrt(2)) * p))


def _share_of_pairs_that_agree(
    n: int, entries: Callable[[Array, Array], Array]
) -> float:
    """Share of observed pairs with Y_ij = Y_ji to a thousandth of the usual size."""
    rng = np.random.default_rng(0)
    if n * (n - 1) // 2 <= _SAMPLE:
        i, j = np.triu_indices(n, 1)
    else:
        i = rng.integers(0, n, _SAMPLE)
        j = (i + rng.integers(1, n, _SAMPLE)) % n
    one, two = (entries(*ij).astype(np.float64) for ij in ((i, j), (j, i)))
    seen = np.isfinite(one) & np.isfinite(two)
    if not seen.any():
        return 1.0
    one, two = one[seen], two[seen]
    usual = np.median(np.abs(np.concatenate([one, two])))
    return float(np.mean(np.abs(one - two) <= 1e-3 * usual))

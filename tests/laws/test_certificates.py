"""One law for the certificates of all solvers: dual ≤ optimum ≤ primal.

CVXPY solves the same convex program, ``‖X‖_* + λ‖s‖₁ + (κ/2)‖y − A(X) − s‖²`` with
gross entries clipped as the solver clips them.
"""

import warnings
from functools import partial

import numpy as np
import pytest

from discrepant import Entries, Mask, Outer, RobustPCA, Sensing, convex
from discrepant import recover as recover_at_random
from discrepant.core.results import Certificate
from discrepant.paper.baselines import alternating_projections, l1_factorisation
from discrepant.paper.synthetic import corrupted_matrix

cvxpy = pytest.importorskip("cvxpy")

M, N = 9, 7
Y = corrupted_matrix((M, N), 1, 0.1, random_state=3).observed
SQUARE = corrupted_matrix(N, 1, 0.1, random_state=4).observed
NOISY = Y + 0.3 * np.random.default_rng(5).standard_normal(Y.shape)
GAPS = np.where(np.random.default_rng(6).random(Y.shape) < 0.15, np.nan, Y)
GROSS = Y.copy()
GROSS[2, 3] = 1e6
HERMITIAN = np.outer([1, 2, -1, 0.5, 1], [1, 2, -1, 0.5, 1.0]) - 2 * np.eye(5)


def measured(operator, X, seed=7, noise=0.0):
    """Return an operator and measurements of X, a tenth of them corrupted."""
    rng = np.random.default_rng(seed)
    y = operator.forward(X)
    y = y + noise * rng.standard_normal(y.shape)
    y[: len(y) // 10] += 20
    return y, operator


RNG = np.random.default_rng(8)
DENSE = Sensing(RNG.standard_normal((60, N, N)))
RANK_ONE = np.outer(RNG.standard_normal(N), RNG.standard_normal(N))
PSD = np.outer(*[RNG.standard_normal(N)] * 2)
VECTORS = Outer(RNG.standard_normal((60, N)))
ENTRIES = Entries(*np.nonzero(RNG.random((N, N)) < 0.9), (N, N))

recover = partial(recover_at_random, random_state=0)
descent = partial(recover, solver="descent", max_iter=3000)
CASES = {
    "matrix": lambda: recover(Y),
    "matrix without noise": lambda: recover(Y, noise=0),
    "matrix, own alpha": lambda: recover(Y, alpha=2.0),
    "matrix, missing": lambda: recover(GAPS, noise=0),
    "matrix, gross": lambda: recover(GROSS, noise=0),
    "matrix, float32": lambda: recover(Y.astype(np.float32), noise=0),
    "matrix, noise given": lambda: recover(NOISY, noise=0.3),
    "matrix, X ⪰ 0": lambda: recover(SQUARE, psd=True, noise=0),
    "matrix, not converged": lambda: recover(NOISY, noise=0, max_iter=4),
    "mask": lambda: recover(np.nan_to_num(GAPS), Mask(~np.isnan(GAPS)), noise=0),
    "estimator": lambda: (
        RobustPCA(noise=0, polish=False, random_state=0).fit(NOISY)._result
    ),
    "measurements": lambda: recover(*measured(DENSE, RANK_ONE)),
    "measurements, own alpha": lambda: recover(*measured(DENSE, RANK_ONE), alpha=5.0),
    "measurements, noise": lambda: recover(*measured(DENSE, RANK_ONE, noise=0.3)),
    "measurements, X ⪰ 0": lambda: recover(*measured(VECTORS, PSD), psd=True),
    "entries": lambda: recover(*measured(ENTRIES, RANK_ONE)),
    "symmetric": lambda: recover(HERMITIAN, symmetric=True),
    "descent": lambda: descent(Y),
    "descent, X ⪰ 0": lambda: descent(SQUARE, psd=True),
    "descent, measurements": lambda: descent(*measured(DENSE, RANK_ONE)),
    "convex": lambda: convex(Y),
    "convex, X ⪰ 0": lambda: convex(SQUARE, psd=True),
    "projections": lambda: alternating_projections(Y, rank=1, fraction=0.1),
    "l1 factorisation": lambda: l1_factorisation(Y, width=2, random_state=0),
}


def optimum(result):
    """Return the optimum of the program of a result, by CVXPY."""
    A, y = result.operator, np.clip(result.y, -result.bound, result.bound)
    m, n = A.signal_shape
    symmetric = getattr(result, "symmetric", False) and not result.psd
    X = cvxpy.Variable((m, n), PSD=bool(result.psd), symmetric=symmetric)
    basis = np.eye(m * n).reshape(-1, m, n)
    columns = np.array([A.forward(E).ravel() for E in basis]).T
    kappa = getattr(result, "kappa", np.inf)
    s = cvxpy.Variable(y.size)
    left = y.ravel().astype(float) - columns @ cvxpy.vec(X, order="C")
    objective = cvxpy.normNuc(X) + result.lam * cvxpy.norm1(s)
    constraints = []
    if np.isfinite(kappa):
        objective += kappa / 2 * cvxpy.sum_squares(left - s)
    else:
        constraints = [left == s]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = cvxpy.Problem(cvxpy.Minimize(objective), constraints)
        return program.solve(solver="CLARABEL")


@pytest.mark.parametrize("name", CASES)
def test_the_dual_is_below_the_optimum_and_the_primal_above(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CASES[name]()
    certificate, best = result.certificate, optimum(result)
    close = 1e-4 if result.low_rank.dtype == np.float32 else 1e-5
    assert certificate.dual <= best * (1 + close)
    assert certificate.primal >= best * (1 - close)
    gap = (certificate.primal - certificate.dual) / certificate.primal
    assert certificate.gap == pytest.approx(gap, abs=1e-12)


def test_a_dual_that_is_not_feasible_shows_as_a_negative_gap():
    certificate = Certificate(primal=1.0, dual=1.1, feasibility=0.0)
    assert certificate.gap == pytest.approx(-0.1)
    assert "not feasible" in str(certificate)

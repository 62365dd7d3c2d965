"""The baselines: the convex program against CVXPY, and ℓ1 factorisation."""

import cvxpy as cp
import numpy as np
import pytest

from discrepant import InputError, certify, convex, l1_factorisation
from discrepant.paper.baselines import alternating_projections
from discrepant.paper.descent import ErrorToTruth
from discrepant.paper.synthetic import corrupted_matrix, relative_error


def optimum_by_cvxpy(Y, lam, psd):
    """Return the optimal value by an independent solver."""
    X = cp.Variable(Y.shape, PSD=True) if psd else cp.Variable(Y.shape)
    norm = cp.trace(X) if psd else cp.normNuc(X)
    observed = ~np.isnan(Y)
    misfit = cp.multiply(observed.astype(float), np.where(observed, Y, 0.0) - X)
    problem = cp.Problem(cp.Minimize(norm + lam * cp.sum(cp.abs(misfit))))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("psd", [False, True])
@pytest.mark.parametrize(
    ("n", "rank", "fraction", "factor", "missing"),
    [
        (12, 1, 0.1, 1, 0),
        (15, 5, 0.5, 1, 0),
        (20, 3, 0.2, 2, 0),
        (14, 2, 0.1, 0.7, 0.2),
    ],
)
def test_convex_agrees_with_cvxpy(n, rank, fraction, factor, missing, psd):
    problem = corrupted_matrix(n, rank, fraction, missing=missing, random_state=n)
    alpha = factor * np.sqrt(n)
    result = convex(problem.observed, alpha=alpha, psd=psd)
    value = optimum_by_cvxpy(problem.observed, 1 / alpha, psd)
    certificate = certify(result)
    assert certificate.primal == pytest.approx(value, rel=1e-4)
    assert certificate.gap < 5e-3
    if psd:
        assert np.linalg.eigvalsh(result.signal)[0] > -1e-8


def test_convex_recovers():
    problem = corrupted_matrix((40, 30), 2, 0.1, random_state=0)
    result = convex(problem.observed)
    assert result.status.converged
    assert relative_error(result.low_rank, problem.low_rank) < 1e-3
    assert certify(result).gap < 1e-2


def test_invalid_parameters_are_refused():
    with pytest.raises(InputError, match="alpha"):
        convex(np.eye(3), alpha=0)
    with pytest.raises(InputError, match="square"):
        convex(np.ones((3, 4)), psd=True)
    with pytest.raises(InputError, match="square"):
        l1_factorisation(np.ones((3, 4)), psd=True)
    with pytest.raises(InputError, match="max_iter"):
        convex(np.eye(3), max_iter=0)
    with pytest.raises(InputError, match="max_iter"):
        alternating_projections(np.eye(3), rank=1, fraction=0.1, max_iter=0)


def test_default_alpha_is_the_one_of_the_estimator():
    problem = corrupted_matrix((np.int64(20)), 2, 0.1, missing=0.3, random_state=0)
    fraction = 1 - np.isnan(problem.observed).mean()
    result = convex(problem.observed, alpha="auto", max_iter=5)
    assert result.alpha == pytest.approx(np.sqrt(fraction * 20))


def test_l1_factorisation_recovers_with_the_true_rank_and_overfits_otherwise():
    problem = corrupted_matrix(30, 2, 0.2, random_state=0)
    exact, over = (
        l1_factorisation(
            problem.observed,
            width=width,
            psd=True,
            callback=ErrorToTruth(problem.low_rank),
            random_state=0,
        ).history["error"]
        for width in (2, None)
    )
    assert exact[-1] < 0.01
    assert over.min() < 0.2 < over[-1]


def test_alternating_projections_need_the_true_rank():
    problem = corrupted_matrix(40, 2, 0.1, random_state=0)
    right, wrong = (
        alternating_projections(problem.observed, rank=rank, fraction=0.1)
        for rank in (2, 8)
    )
    assert relative_error(right.low_rank, problem.low_rank) < 1e-3
    assert relative_error(wrong.low_rank, problem.low_rank) > 0.01

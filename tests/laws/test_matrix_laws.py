"""Laws of RobustPCA and recover, on random problems (Hypothesis).

Each law holds for every problem of its family. `make test` draws eight for each law,
`make test-slow` 200 (profiles in `conftest.py`).
"""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.base import clone

from discrepant import RobustPCA, recover
from discrepant.paper.synthetic import corrupted_matrix

pytestmark = pytest.mark.law

# Relative tolerance: far above rounding, far below the distance to other solutions.
CLOSE = 1e-6


def incoherent(X, rank):
    """Return whether |UVᵀ| ≤ λ: UVᵀ is then a dual that proves X optimal.

    A row or column with a direction of its own becomes part of the sparse matrix
    (docs/limitations.md).
    """
    U, _, Vt = np.linalg.svd(X, full_matrices=False)
    return np.abs(U[:, :rank] @ Vt[:rank]).max() <= 1 / np.sqrt(max(X.shape))


class RandomProblem(SimpleNamespace):
    """A problem whose `repr` is the call that returns it."""

    def __repr__(self):
        return f"corrupted_matrix{self.arguments}"


@st.composite
def exact_problems(draw, missing=True):
    """Matrices with a unique low-rank part: it is incoherent, and errors are few.

    With five errors in one row of a small matrix the convex program sometimes has
    another optimum, for which the laws need not hold.
    """
    m, n, rank = (draw(st.integers(*ends)) for ends in ((24, 40), (24, 40), (1, 2)))
    fraction = draw(st.sampled_from([0.0, 0.01, 0.03]))
    gaps = draw(st.sampled_from([0.0, 0.03])) if missing else 0.0
    seed = draw(st.integers(0, 2**32 - 1))
    result = corrupted_matrix((m, n), rank, fraction, missing=gaps, random_state=seed)
    bad = (result.sparse != 0) | np.isnan(result.observed)
    assume(max(bad.sum(axis=axis).max() for axis in (0, 1)) <= 3)
    assume(incoherent(result.low_rank, rank))
    return RandomProblem(**vars(result), arguments=((m, n), rank, fraction, gaps, seed))


@st.composite
def any_matrices(draw):
    """Matrices of any kind: noise, gaps, errors, full rank, integers, one huge cell."""
    m, n = draw(st.integers(5, 25)), draw(st.integers(5, 25))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    Y = rng.standard_normal((m, 2)) @ rng.standard_normal((2, n))
    Y = Y + draw(st.sampled_from([0.0, 0.1, 2.0])) * rng.standard_normal((m, n))
    if draw(st.booleans()):
        Y = np.round(4 * Y)
    corrupt = rng.random((m, n)) < draw(st.sampled_from([0.0, 0.1, 0.4]))
    Y[corrupt] += draw(st.sampled_from([5.0, 1e6])) * rng.standard_normal(corrupt.sum())
    Y[rng.random((m, n)) < draw(st.sampled_from([0.0, 0.1]))] = np.nan
    assume(np.isfinite(Y).any() and np.nanmax(np.abs(Y)) > 0)
    return Y


def fitted(Y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RobustPCA(**{"random_state": 0, **settings}).fit(Y)


def assert_close(result, expected, tolerance=CLOSE):
    assert np.linalg.norm(result - expected) <= tolerance * np.linalg.norm(expected)


@given(exact_problems())
def test_the_truth_is_recovered(problem):
    assert_close(fitted(problem.observed).low_rank_, problem.low_rank)


@given(exact_problems(), st.randoms(use_true_random=False))
def test_permuting_rows_and_columns(problem, random):
    m, n = problem.observed.shape
    rows, columns = (random.sample(range(k), k) for k in (m, n))
    mixed = np.ix_(rows, columns)
    result = fitted(problem.observed[mixed]).low_rank_
    assert_close(result, fitted(problem.observed).low_rank_[mixed])


@given(exact_problems())
def test_transposing(problem):
    result = fitted(problem.observed.T).low_rank_.T
    assert_close(result, fitted(problem.observed).low_rank_)


@given(any_matrices(), st.integers(-300, 300))
def test_scaling_by_a_power_of_two_is_exact(Y, power):
    one, other = fitted(Y), fitted(np.ldexp(Y, power))
    assert np.array_equal(np.ldexp(one.low_rank_, power), other.low_rank_)
    assert np.array_equal(one.outliers_, other.outliers_)


@given(exact_problems(), st.integers(-100, 100))
def test_scaling_by_a_power_of_ten(problem, power):
    result = fitted(problem.observed * 10.0**power).low_rank_ / 10.0**power
    assert_close(result, fitted(problem.observed).low_rank_)


@given(any_matrices())
def test_negating(Y):
    """Exact but for the rounding of the pursuit: LAPACK's signs are conventions."""
    one, other = fitted(Y, effort="fast"), fitted(-Y, effort="fast")
    assert_close(one.low_rank_, -other.low_rank_, 1e-12)
    assert np.array_equal(one.outliers_, other.outliers_)


@given(exact_problems())
def test_the_order_in_memory_does_not_matter(problem):
    Y = problem.observed
    wide = np.repeat(np.repeat(Y, 2, axis=0), 2, axis=1)
    for same in (np.asfortranarray(Y), wide[::2, ::2]):
        assert_close(fitted(same).low_rank_, fitted(Y).low_rank_)


@given(exact_problems())
def test_single_precision(problem):
    result = fitted(problem.observed.astype(np.float32)).low_rank_
    assert result.dtype == np.float32
    assert_close(result, problem.low_rank, 1e-3)


@given(any_matrices())
def test_threads_and_files_change_nothing(Y):
    one, threads, files = (
        fitted(Y, effort="fast", **settings)
        for settings in ({"n_jobs": 1}, {"n_jobs": 3}, {"memory_limit": 0})
    )
    assert np.array_equal(threads.low_rank_, one.low_rank_)
    assert np.array_equal(files.sparse_, one.sparse_)


@given(any_matrices())
def test_results_are_deterministic(Y):
    before = Y.tobytes()
    model = fitted(Y)
    again = fitted(Y)
    copy = pickle.loads(pickle.dumps(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cloned = clone(model).fit(Y)
    for other in (again, copy, cloned):
        for name in ("low_rank_", "sparse_", "probability_", "components_"):
            assert getattr(model, name).tobytes() == getattr(other, name).tobytes()
    assert Y.tobytes() == before  # and the data are not changed


@given(exact_problems(missing=False), st.integers(0, 2**32 - 1))
def test_adding_a_clean_row(problem, seed):
    X = problem.low_rank
    row = np.random.default_rng(seed).standard_normal(len(X)) @ X / np.sqrt(len(X))
    assume(incoherent(np.vstack([X, row]), np.linalg.matrix_rank(X)))
    result = fitted(np.vstack([problem.observed, row])).low_rank_
    assert_close(result[:-1], X)
    assert_close(result[-1], row)


@given(exact_problems())
def test_masking_corrupt_entries_changes_nothing(problem):
    masked = np.where(problem.sparse != 0, np.nan, problem.observed)
    assert_close(fitted(masked).low_rank_, fitted(problem.observed).low_rank_)


@given(any_matrices())
def test_the_parts_add_up(Y):
    model = fitted(Y)
    whole = model.low_rank_ + model.sparse_ + model.residual_
    observed = ~np.isnan(Y)
    size = np.abs(Y[observed]).max() * np.finfo(float).eps
    assert np.abs(whole[observed] - Y[observed]).max() <= 64 * size
    assert np.isnan(whole[~observed]).all()
    assert not model.sparse_[~observed].any()
    assert ((model.sparse_ != 0) <= model.outliers_).all()
    assert ((model.probability_ >= 0) & (model.probability_ <= 1)).all()
    gram = model.components_ @ model.components_.T
    assert np.allclose(gram, np.eye(model.rank_), atol=1e-8)


@given(any_matrices(), st.booleans())
def test_the_certificate_is_a_bound(Y, descent):
    if descent:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = recover(
                Y, solver="descent", random_state=0, max_iter=50
            ).certificate
    else:
        result = fitted(Y).certificate_
    assert -1e-9 <= result.gap <= 1
    assert result.dual <= result.primal * (1 + 1e-12)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.2]), st.integers(4, 7))
def test_the_certificate_bounds_the_optimum_of_cvxpy(seed, missing, n):
    cvxpy = pytest.importorskip("cvxpy")
    problem = corrupted_matrix((n + 1, n), 1, 0.1, missing=missing, random_state=seed)
    Y, observed = problem.observed, ~np.isnan(problem.observed)
    assume(np.abs(Y[observed]).max() > 0)
    model = fitted(Y, noise=0)
    bound = model._result.program.scale.bound  # gross entries count as they are clipped
    Y = np.clip(Y, -bound, bound)
    X, lam = cvxpy.Variable(Y.shape), 1 / model.alpha_
    left = cvxpy.multiply(observed.astype(float), np.where(observed, Y, 0) - X)
    objective = cvxpy.normNuc(X) + lam * cvxpy.sum(cvxpy.abs(left))
    best = cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver="CLARABEL")
    result = model.certificate_
    assert result.dual <= best * (1 + 1e-6)
    if result.feasibility < 1e-6:
        assert result.primal >= best * (1 - 1e-6)


@given(exact_problems(missing=False), st.integers(-30, 30))
def test_the_descent_is_equivariant_to_the_unit(problem, power):
    def steps(Y):
        return recover(Y, solver="descent", random_state=0, max_iter=20).signal

    one = steps(problem.observed)
    # U scales with the root of the unit, which is exact for powers of four.
    result = steps(np.ldexp(problem.observed, 2 * power))
    assert np.array_equal(result, np.ldexp(one, 2 * power))
    assert np.array_equal(steps(problem.observed), one)

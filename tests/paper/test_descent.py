"""The paper's descent: recovery, invariances, defaults and invalid arguments."""

import inspect
from functools import partial

import numpy as np
import pytest

from discrepant import (
    Identity,
    InputError,
    Mask,
    Result,
    RobustPCA,
    Sensing,
    certify,
    convex,
    l1_factorisation,
)
from discrepant import recover as recover_by_any
from discrepant.core.linalg import rank_at_gap
from discrepant.paper.alpha import alpha_from_data
from discrepant.paper.baselines import alternating_projections
from discrepant.paper.descent import ErrorToTruth
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from support.matrices import paper_problem

recover = partial(recover_by_any, solver="descent")
PAPER = {"alpha": np.sqrt(50), "step": 1e-4, "init_scale": 1e-4, "psd": True}


class TestMethod:
    def test_recovers_with_the_settings_of_the_paper_and_does_not_overfit(self):
        problem = paper_problem(fraction=0.3)
        result = recover(
            problem.observed,
            **PAPER,
            max_iter=20_000,
            callback=ErrorToTruth(problem.low_rank),
            random_state=0,
        )
        errors = result.history["error"]
        assert errors[-1] < 0.1
        assert errors[-1] < 1.01 * errors.min()

    def test_one_step_is_the_step_of_the_paper(self):
        problem = paper_problem()
        states = {}

        def record(iteration, signal, corruption):
            states[iteration.step] = [
                a.copy() for a in (signal.U, corruption.g, corruption.h)
            ]

        recover(problem.observed, **PAPER, max_iter=10, callback=record, random_state=0)
        U, g, h = states[0]
        tau, alpha = PAPER["step"], PAPER["alpha"]
        for _ in range(10):
            r = U @ U.T + g * g - h * h - problem.observed
            U = U - tau * (r + r.T) / 2 @ U
            g, h = g - alpha * tau * r * g, h + alpha * tau * r * h
        for actual, expected in zip(states[10], (U, g, h), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-10)

    def test_certificate_of_a_descent(self):
        problem = paper_problem()
        result = recover(problem.observed, psd=True, random_state=0)
        certificate = certify(result)
        assert result.status.converged
        assert -1e-9 < certificate.gap < 0.1
        assert certificate.feasibility <= 1.001e-3
        assert "of the global optimum" in str(certificate)

    def test_rectangular(self):
        problem = corrupted_matrix((60, 40), 2, 0.05, random_state=0)
        result = recover(problem.observed, random_state=0)
        assert relative_error(result.low_rank, problem.low_rank) < 0.05
        np.testing.assert_allclose(
            result.factors[0] @ result.factors[1].T, result.signal
        )
        assert certify(result).gap < 0.1

    @pytest.mark.parametrize("as_mask", [False, True])
    def test_missing_entries(self, as_mask):
        problem = corrupted_matrix(50, 3, 0.1, missing=0.2, random_state=0)
        observed = ~np.isnan(problem.observed)
        if as_mask:
            y = np.where(observed, problem.observed, 0)
            result = recover(y, Mask(observed), psd=True, random_state=0)
        else:
            result = recover(problem.observed, psd=True, random_state=0)
        assert relative_error(result.low_rank, problem.low_rank) < 0.1
        assert not result.sparse[~observed].any()

    def test_sensing(self):
        rng = np.random.default_rng(0)
        U = rng.standard_normal((12, 1))
        X = U @ U.T
        operator = Sensing(rng.standard_normal((100, 12, 12)))
        y = operator.forward(X)
        y[:10] += 50 * rng.standard_normal(10)
        result = recover(y, operator, psd=True, random_state=0)
        assert relative_error(result.signal, X) < 0.05
        assert certify(result).gap < 0.1

    def test_a_larger_alpha_puts_more_into_the_corruption(self):
        y = paper_problem().observed
        sizes = [
            np.linalg.norm(recover(y, alpha=alpha, psd=True, random_state=0).sparse)
            for alpha in (3.0, 30.0)
        ]
        assert sizes[0] < sizes[1]


class TestDefaults:
    """Defaults are the same in all functions."""

    @pytest.mark.parametrize(
        "function", [recover, convex, l1_factorisation, RobustPCA, RobustPCA.__init__]
    )
    def test_positive_semidefinite_is_no_default(self, function):
        assert inspect.signature(function).parameters["psd"].default is False

    def test_square_matrices_are_recovered_without_psd(self):
        problem = corrupted_matrix((50, 50), 2, 0.05, random_state=0)
        result = recover(problem.observed, random_state=0)
        assert relative_error(result.low_rank, problem.low_rank) < 0.05

    @pytest.mark.parametrize("psd", [False, True])
    @pytest.mark.parametrize("missing", [0, 0.2])
    def test_alpha_auto_is_one_rule_for_the_descent_and_one_for_the_optimum(
        self, psd, missing
    ):
        y = corrupted_matrix(40, 2, 0.1, missing=missing, random_state=0).observed
        fraction = 1 - np.isnan(y).mean()
        descents = [
            recover(y, psd=psd, max_iter=1, random_state=0).alpha,
            RobustPCA("descent", psd=psd, random_state=0).fit(y).alpha_,
        ]
        assert descents == pytest.approx([np.sqrt(40 * fraction)] * 2)
        optima = [
            convex(y, psd=psd, max_iter=1).alpha,
            RobustPCA(psd=psd, random_state=0).fit(y).alpha_,
        ]
        assert optima == pytest.approx([alpha_from_data(y, psd, fraction)] * 2)

    def test_alpha_from_the_data_is_worse_for_the_descent(self):
        problem = corrupted_matrix(50, 5, 0.3, random_state=[5, 1])
        y = problem.observed.astype(np.float32)
        auto, from_data = (
            relative_error(
                recover(y, psd=True, alpha=alpha, random_state=0).low_rank,
                problem.low_rank,
            )
            for alpha in ("auto", alpha_from_data(y, psd=True))
        )
        assert auto < 0.05
        assert from_data > 0.2

    def test_alpha_auto_of_an_operator_does_not_depend_on_psd(self):
        entries = np.random.default_rng(0).standard_normal((400, 5, 5))
        y = Sensing(entries).forward(np.eye(5))
        alphas = [
            recover(y, Sensing(entries), psd=psd, max_iter=1, random_state=0).alpha
            for psd in (False, True)
        ]
        assert alphas[0] == alphas[1]


class TestResult:
    """Results of all solvers have the same attributes and first history columns."""

    @pytest.mark.parametrize(
        "solve",
        [
            lambda y: recover(y, random_state=0),
            convex,
            lambda y: alternating_projections(y, rank=2, fraction=0.05),
            lambda y: l1_factorisation(y, width=2, max_iter=3000, random_state=0),
        ],
        ids=["descent", "convex", "projections", "factorisation"],
    )
    def test_protocol(self, solve):
        problem = corrupted_matrix((30, 20), 2, 0.05, random_state=0)
        result: Result = solve(problem.observed)
        assert result.rank == 2
        assert result.singular_values.shape == (2,)
        assert result.components.shape == (2, 20)
        np.testing.assert_allclose(
            result.components @ result.components.T, np.eye(2), atol=1e-6
        )
        assert result.low_rank.shape == result.sparse.shape == (30, 20)
        assert result.certificate is result.certificate
        assert result.certificate == certify(result)
        assert list(result.history)[:3] == ["step", "residual", "seconds"]
        assert len({len(column) for column in result.history.values()}) == 1
        assert np.all(np.diff(result.history["seconds"]) >= 0)
        assert result.history["step"][-1] == result.n_steps
        assert result.lam > 0
        assert str(result.status)

    def test_rank_of_half_precision(self):
        result = recover(np.ones((6, 6), np.float16), random_state=0)
        assert result.rank == 1
        assert result.components.dtype == np.float16

    def test_rank_is_at_the_largest_gap_of_the_spectrum(self):
        assert rank_at_gap(np.array([5.0, 4.0, 1e-3, 9e-4])) == 2
        assert rank_at_gap(np.array([1.0, 1e-9])) == 1
        assert rank_at_gap(np.zeros(3)) == 0
        assert rank_at_gap(np.zeros(0)) == 0


class TestInvariance:
    @pytest.mark.parametrize("scale", [1e-6, 1e6])
    def test_scale_of_the_data(self, scale):
        y = paper_problem().observed
        truth = scale * paper_problem().low_rank
        settings = {"psd": True, "max_iter": 2000, "random_state": 0}
        plain = recover(y, **settings)
        scaled = recover(scale * y, callback=ErrorToTruth(truth), **settings)
        error = relative_error(scaled.signal, truth)
        assert scaled.history["error"][-1] == pytest.approx(error)
        np.testing.assert_allclose(
            scaled.signal / scale, plain.signal, rtol=1e-6, atol=1e-6
        )

    @pytest.mark.parametrize(
        ("scale", "dtype"),
        [
            (1e-25, np.float32),
            (1e20, np.float32),
            (1e-200, np.float64),
            (1e200, np.float64),
        ],
    )
    def test_extreme_scales(self, scale, dtype):
        problem = corrupted_matrix(30, 2, 0.05, random_state=0)
        y = (scale * problem.observed).astype(dtype)
        result = recover(y, psd=True, random_state=0)
        assert relative_error(result.signal / scale, problem.low_rank) < 0.02
        assert certify(result).feasibility <= 1.01e-3

    @pytest.mark.parametrize("amplitude", [1e2, 1e4, -1e6, 1e12])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_one_huge_entry(self, amplitude, dtype):
        problem = corrupted_matrix(30, 2, 0.05, missing=0.05, random_state=0)
        y = problem.observed.astype(dtype)
        y[3, 4] = amplitude
        result = recover(y, psd=True, random_state=0)
        assert relative_error(result.signal, problem.low_rank) < 0.02
        assert result.sparse[3, 4] == pytest.approx(amplitude, rel=0.1)
        assert certify(result).gap < 0.1
        assert certify(result).feasibility <= 1.01e-3

    def test_rows_that_are_large_as_a_whole_are_kept(self):
        X = np.ones((20, 20))
        X[:8] *= 300
        y = X.copy()
        y[15, 15] = 1e9
        result = recover(y, random_state=0)
        assert relative_error(result.signal, X) < 0.05

    def test_scale_of_the_operator(self):
        rng = np.random.default_rng(0)
        matrices = rng.standard_normal((60, 8, 8))
        y = Sensing(matrices).forward(np.ones((8, 8)))
        settings = {"psd": True, "random_state": 0}
        plain = recover(y, Sensing(matrices), **settings)
        scaled = recover(1e4 * y, Sensing(1e4 * matrices), **settings)
        np.testing.assert_allclose(scaled.signal, plain.signal, rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_dtype_is_kept(self, dtype):
        problem = paper_problem()
        y = problem.observed.astype(dtype)
        before = y.copy()
        result = recover(y, psd=True, random_state=0)
        assert result.signal.dtype == result.sparse.dtype == dtype
        assert np.array_equal(y, before)
        assert relative_error(result.signal.astype(float), problem.low_rank) < 0.05

    @pytest.mark.parametrize("dtype", [bool, int, np.uint8])
    def test_whole_numbers_become_floats(self, dtype):
        result = recover(np.ones((6, 6), dtype), random_state=0)
        assert result.signal.dtype == np.float64
        np.testing.assert_allclose(result.signal + result.sparse, 1, atol=0.02)

    def test_seed(self):
        y = paper_problem().observed
        first, second = (recover(y, random_state=7, max_iter=300) for _ in "ab")
        assert np.array_equal(first.signal, second.signal)


class TestUnusualMatrices:
    @pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)])
    def test_thin(self, shape):
        result = recover(np.full(shape, 2.0), random_state=0)
        np.testing.assert_allclose(result.signal + result.sparse, 2, rtol=0.01)

    def test_zeros(self):
        result = recover(np.zeros((4, 4)), random_state=0)
        assert not result.signal.any()
        assert not result.sparse.any()
        assert certify(result).gap == 0

    def test_asymmetric_with_psd(self):
        result = recover(np.triu(np.ones((5, 5))), psd=True, random_state=0)
        np.testing.assert_allclose(result.signal, result.signal.T)


SQUARE = np.ones((4, 4))
ASCENDING = np.arange(9.0).reshape(3, 3)


class TestInvalidArguments:
    @pytest.mark.parametrize(
        ("y", "settings", "word"),
        [
            (np.zeros((0, 4)), {}, "empty"),
            (np.ones(4), {}, "2-D"),
            (np.ones((2, 3)), {"psd": True}, "psd=False"),
            (np.full((3, 3), np.nan), {}, "missing"),
            (np.where(np.eye(3) > 0, np.inf, 1.0), {}, "infinite"),
            (np.ones((3, 3), complex), {}, "Complex"),
            (np.array([["a", "b"], ["c", "d"]]), {}, "numbers"),
            (np.array([["a", 1], [2, 3]], object), {}, "numbers"),
            (SQUARE, {"alpha": 0}, "alpha"),
            (SQUARE, {"alpha": -1}, "alpha"),
            (SQUARE, {"alpha": None}, "alpha"),
            (SQUARE, {"alpha": "much"}, "alpha"),
            (SQUARE, {"step": -1e-4}, "step"),
            (SQUARE, {"step": np.nan}, "step"),
            (SQUARE, {"init_scale": 0}, "init_scale"),
            (SQUARE, {"width": 0}, "width"),
            (SQUARE, {"width": 5}, "width"),
            (SQUARE, {"operator": Identity((3, 3))}, "shape"),
            (np.full(2, np.nan), {"operator": Sensing(np.ones((2, 3, 3)))}, "NaN"),
            (ASCENDING, {"step": 1.0}, "step='auto'"),
            (SQUARE, {"solver": "magic"}, 'solver must be "implicit" or "descent"'),
            (SQUARE, {"tol": "small"}, "tol must be"),
        ],
    )
    def test_is_refused_with_one_sentence(self, y, settings, word):
        with pytest.raises(InputError, match=word):
            recover(y, random_state=0, **settings)

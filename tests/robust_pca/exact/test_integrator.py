"""The implicit integrator: the same answer in a few passes, certified."""

import signal
import threading

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from discrepant import InputError, RobustPCA, convex
from discrepant.paper.alpha import alpha_from_data
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.robust_pca.exact.integrator import integrate
from support.matrices import draw, exact_program, noisy

SHAPES = {
    "square": (120, 120),
    "tall": (400, 60),
    "wide": (60, 400),
    "very tall": (2000, 100),
    "psd": 120,
}


class TestRecovery:
    @pytest.mark.parametrize("name", SHAPES)
    def test_exact_to_rounding(self, name):
        shape = SHAPES[name]
        problem = corrupted_matrix(shape, 2, 0.1, random_state=1)
        model = RobustPCA(psd=name == "psd", random_state=0).fit(problem.observed)
        assert model.rank_ == 2
        assert relative_error(model.low_rank_, problem.low_rank) < 1e-12
        assert model.certificate_.gap < 1e-5
        assert model.status_.converged
        assert np.array_equal(model.sparse_ != 0, problem.sparse != 0)

    @pytest.mark.parametrize("psd", [False, True])
    def test_missing_entries(self, psd):
        shape = 200 if psd else (200, 150)
        problem = corrupted_matrix(shape, 3, 0.1, missing=0.3, random_state=2)
        model = RobustPCA(psd=psd, random_state=0).fit(problem.observed)
        assert model.rank_ == 3
        assert relative_error(model.low_rank_, problem.low_rank) < 1e-10
        assert model.certificate_.gap < 1e-5
        assert not model.sparse_[np.isnan(problem.observed)].any()

    def test_the_paper_s_problem_at_fifty(self):
        problem = corrupted_matrix(50, 10, 0.2, random_state=3)
        model = RobustPCA(psd=True, random_state=0).fit(problem.observed)
        assert model.rank_ == 10
        assert relative_error(model.low_rank_, problem.low_rank) < 1e-12

    def test_rank_grows_far_beyond_the_start(self):
        problem = corrupted_matrix((300, 300), 40, 0.05, random_state=4)
        model = RobustPCA(random_state=0).fit(problem.observed)
        assert model.rank_ == 40
        assert relative_error(model.low_rank_, problem.low_rank) < 1e-12

    def test_polish_can_be_left_out(self):
        problem = corrupted_matrix((100, 80), 3, 0.1, random_state=5)
        model = RobustPCA(polish=False, random_state=0).fit(problem.observed)
        assert 1e-12 < relative_error(model.low_rank_, problem.low_rank) < 1e-5
        assert model.certificate_.gap < 1e-5


class TestGrossEntries:
    """However large an error is, the answer is the same."""

    @pytest.mark.parametrize("amplitude", [1e2, 1e4, 1e7, -1e10, 1e12])
    @pytest.mark.parametrize("shape", [(100, 80), (80, 100), 80])
    def test_one_huge_entry(self, shape, amplitude):
        problem = corrupted_matrix(shape, 3, 0.05, missing=0.1, random_state=0)
        Y = problem.observed.copy()
        Y[5, 7] = amplitude
        model = RobustPCA(psd=shape == 80, random_state=0).fit(Y)
        assert model.rank_ == 3
        assert relative_error(model.low_rank_, problem.low_rank) < 1e-12
        assert model.sparse_[5, 7] == amplitude - model.low_rank_[5, 7]
        seen = ~np.isnan(Y)
        total = model.low_rank_ + model.sparse_
        np.testing.assert_allclose(total[seen], Y[seen], rtol=1e-12, atol=1e-10)
        assert model.certificate_.gap < 1e-5

    @pytest.mark.parametrize("sentinel", [-1e3, -1e4, -1e5, -999999, 1e30])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_many_huge_entries(self, sentinel, dtype):
        X = corrupted_matrix((100, 80), 3, 0, random_state=1).low_rank
        Y = X.astype(dtype)
        Y[np.random.default_rng(0).random(X.shape) < 0.1] = sentinel
        model = RobustPCA(random_state=0).fit(Y)
        assert model.rank_ == 3
        assert model.n_iter_ < 100
        assert relative_error(model.low_rank_, X) < (
            1e-6 if dtype == np.float64 else 1e-4
        )

    def test_on_file(self, tmp_path):
        problem = corrupted_matrix((500, 100), 3, 0.1, random_state=7)
        Y = problem.observed.copy()
        Y[400, 3] = 1e11
        np.save(tmp_path / "y.npy", Y)
        Y = np.load(tmp_path / "y.npy", mmap_mode="r")
        model = RobustPCA(memory_limit=1000, random_state=0).fit(Y)
        assert relative_error(model.low_rank_, problem.low_rank) < 1e-12

    @pytest.mark.parametrize("transposed", [False, True])
    @pytest.mark.filterwarnings("ignore:.*columns differ in size:UserWarning")
    def test_rows_that_are_large_as_a_whole_are_kept(self, transposed):
        X = corrupted_matrix((100, 80), 2, 0, random_state=0).low_rank
        X[:40] *= 300
        Y = X.copy()
        Y[50, 50] = 1e9
        model = RobustPCA(random_state=0).fit(Y.T if transposed else Y)
        assert model.rank_ == 2
        low_rank = model.low_rank_.T if transposed else model.low_rank_
        assert relative_error(low_rank, X) < 1e-6

    @pytest.mark.parametrize("transposed", [False, True])
    @pytest.mark.parametrize("n_errors", [1, 3, 12])
    def test_a_few_errors_in_low_rank_are_no_components(self, n_errors, transposed):
        X = corrupted_matrix((120, 90), 4, 0, random_state=1).low_rank
        rng = np.random.default_rng(n_errors)
        Y = X.copy()
        Y.ravel()[rng.permutation(X.size)[:n_errors]] += 10
        Y[3, rng.integers(0, 90)] = 1e6
        model = RobustPCA(random_state=0).fit(Y.T if transposed else Y)
        low_rank = model.low_rank_.T if transposed else model.low_rank_
        assert relative_error(low_rank, X) < 1e-12
        flags = model.outliers_.T if transposed else model.outliers_
        assert np.array_equal(flags, Y != X)

    @pytest.mark.filterwarnings("ignore:.*columns differ in size:UserWarning")
    @pytest.mark.filterwarnings("ignore:.*is a guess:UserWarning")  # of the dead one
    def test_a_dead_row_or_column_does_not_drown_the_rest(self):
        X = corrupted_matrix((200, 150), 2, 0, random_state=0).low_rank
        for dead in (np.s_[7], np.s_[:, 7]):
            Y = X.copy()
            Y[dead] = 1e9
            low_rank = RobustPCA(random_state=0).fit(Y).low_rank_
            low_rank[dead] = X[dead]
            assert relative_error(low_rank, X) < 1e-4

    def test_an_entry_that_was_clipped_for_no_reason_is_taken_back(self):
        problem = corrupted_matrix((100, 80), 3, 0.1, random_state=0)
        program = exact_program(problem.observed, alpha=10.0).clipped_at(2.0)
        result = integrate(program, rng=np.random.default_rng(0))
        assert relative_error(result.low_rank, problem.low_rank) < 1e-10


class TestConvexOptimum:
    @pytest.mark.parametrize("psd", [False, True])
    @pytest.mark.parametrize("factor", [0.6, 1.0, 2.0])
    def test_agrees_with_the_baseline_where_nothing_is_exact(self, psd, factor):
        Y = noisy((40, 30), psd=psd)
        alpha = factor * np.sqrt(40)
        model = RobustPCA(alpha=alpha, psd=psd, random_state=0).fit(Y)
        result = convex(Y, alpha=alpha, psd=psd, tol=1e-2)
        objective = np.linalg.svd(result.signal, compute_uv=False).sum()
        objective += np.abs(Y - result.signal).sum() / alpha
        assert model.certificate_.primal == pytest.approx(objective, rel=2e-4)
        assert model.certificate_.gap < 1e-4

    def test_told_an_odd_alpha_it_solves_that_program(self):
        problem = corrupted_matrix((80, 80), 4, 0.1, random_state=0)
        model = RobustPCA(alpha=np.sqrt(80) / 4, random_state=0).fit(problem.observed)
        assert model.certificate_.gap < 1e-3

    @pytest.mark.parametrize(
        ("shape", "psd"), [((60, 50), False), ((60, 6), False), (30, True), (7, True)]
    )
    @pytest.mark.parametrize("max_iter", [3, 8, 500])
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_certificate_is_a_bound(self, shape, psd, max_iter):
        Y = corrupted_matrix(shape, 3, 0.1, random_state=0).observed
        Y += 0.1 * np.random.default_rng(1).standard_normal(Y.shape)
        options = {"psd": psd, "noise": 0, "random_state": 0}
        model = RobustPCA(max_iter=max_iter, **options).fit(Y)
        X, lam = model.low_rank_, 1 / model.alpha_
        M = model._result.dual
        top = np.linalg.eigvalsh((M + M.T) / 2)[-1] if psd else np.linalg.norm(M, 2)
        bound = np.sum(M * Y) / max(top, np.abs(M).max() / lam, 1.0)
        primal = np.linalg.svd(X, compute_uv=False).sum() + lam * np.abs(Y - X).sum()
        certificate = model.certificate_
        assert certificate.primal == pytest.approx(primal, rel=1e-6)
        assert certificate.dual <= bound * (1 + 1e-9)
        assert certificate.dual == pytest.approx(bound, rel=1e-4)
        best = RobustPCA(alpha=model.alpha_, **options).fit(Y)
        assert certificate.dual <= best.certificate_.primal * (1 + 1e-9)
        assert -1e-9 < certificate.gap

    def test_running_out_of_steps_is_said(self):
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            RobustPCA(max_iter=5, polish=False, random_state=0).fit(noisy())


class TestInvariance:
    problem = corrupted_matrix((90, 70), 3, 0.1, random_state=6)

    @pytest.mark.parametrize("scale", [1e-150, 1e-6, 1e6, 1e150])
    def test_scale(self, scale):
        model = RobustPCA(random_state=0).fit(scale * self.problem.observed)
        assert relative_error(model.low_rank_ / scale, self.problem.low_rank) < 1e-12

    def test_float32_in_float32_out(self):
        model = RobustPCA(random_state=0).fit(self.problem.observed.astype(np.float32))
        assert model.low_rank_.dtype == model.sparse_.dtype == np.float32
        assert model.components_.dtype == np.float32
        assert model.rank_ == 3
        assert relative_error(model.low_rank_, self.problem.low_rank) < 1e-5

    @pytest.mark.parametrize("layout", ["F", "strided", "reversed", "read-only", "int"])
    def test_layout_and_type_of_the_array(self, layout):
        Y = self.problem.observed
        given = {
            "F": np.asfortranarray(Y),
            "strided": np.repeat(np.repeat(Y, 2, 0), 3, 1)[::2, ::3],
            "reversed": Y[::-1, ::-1],
            "read-only": Y.copy(),
            "int": np.rint(1000 * Y).astype(int),
        }[layout]
        if layout == "read-only":
            given.flags.writeable = False
        before = given.copy()
        model = RobustPCA(random_state=0).fit(given)
        assert np.array_equal(given, before)
        total = model.low_rank_ + model.sparse_ + model.residual_
        np.testing.assert_allclose(total, given, rtol=1e-6, atol=1e-2)
        truth = self.problem.low_rank[::-1, ::-1] if layout == "reversed" else None
        truth = self.problem.low_rank if truth is None else truth
        if layout == "int":  # rounding is noise of 3e-4
            assert relative_error(model.low_rank_ / 1000, truth) < 1e-3
        else:
            assert relative_error(model.low_rank_, truth) < 1e-12

    def test_transposing_changes_nothing(self):
        there = RobustPCA(random_state=0).fit(self.problem.observed).low_rank_
        back = RobustPCA(random_state=0).fit(self.problem.observed.T).low_rank_
        np.testing.assert_allclose(there, back.T, atol=1e-10)

    def test_seed_and_threads(self):
        Y = noisy((300, 300))
        runs = [
            RobustPCA(random_state=1, n_jobs=jobs).fit(Y).low_rank_ for jobs in (1, 1)
        ]
        assert np.array_equal(*runs)
        other = RobustPCA(random_state=1, n_jobs=2).fit(Y).low_rank_
        np.testing.assert_allclose(other, runs[0], atol=1e-4)


class TestOddData:
    @pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (2, 2)])
    @pytest.mark.parametrize("value", [0.0, 3.0, -2.0])
    @pytest.mark.filterwarnings("ignore:.*optimum of the convex program:UserWarning")
    def test_tiny_and_constant(self, shape, value):
        model = RobustPCA(random_state=0).fit(np.full(shape, value))
        np.testing.assert_allclose(model.low_rank_ + model.sparse_, value, atol=1e-6)
        if min(shape) > 1:  # else X and S cost the same
            np.testing.assert_allclose(model.low_rank_, value, atol=1e-5)
        assert abs(model.certificate_.gap) < 1e-4

    def test_rows_and_columns_that_are_missing(self):
        problem = corrupted_matrix((100, 80), 2, 0.05, random_state=8)
        Y = problem.observed.copy()
        Y[7], Y[:, 3] = np.nan, np.nan
        model = RobustPCA(random_state=0).fit(Y)
        seen = np.ix_(np.arange(100) != 7, np.arange(80) != 3)
        assert relative_error(model.low_rank_[seen], problem.low_rank[seen]) < 1e-10
        assert np.isfinite(model.low_rank_).all()

    @pytest.mark.parametrize(
        ("Y", "word"),
        [
            (np.full((4, 4), np.nan), "missing"),
            (np.full((4, 4), np.inf), "infinite"),
            (np.ones((4, 4), complex), "Complex"),
            (np.array([["a", "b"], ["c", "d"]]), "convert|numeric"),
            (np.zeros((0, 3)), "0 sample"),
            (np.ones(4), "1D|1-D|2D"),
        ],
    )
    def test_refusals(self, Y, word):
        with pytest.raises(InputError, match=word):
            RobustPCA().fit(Y)

    def test_an_interrupted_fit_leaves_nothing_behind(self, request):
        # In the background of a shell the signal is ignored, and never comes.
        ours = signal.signal(signal.SIGINT, signal.default_int_handler)
        request.addfinalizer(lambda: signal.signal(signal.SIGINT, ours))
        Y = noisy((400, 400))
        before = Y.copy()
        model = RobustPCA(random_state=0).fit(Y[:50, :50])
        main = threading.main_thread().ident
        timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                model.fit(Y)
        with pytest.raises(NotFittedError):
            model.transform(Y)
        assert np.array_equal(Y, before)


class TestAlpha:
    def test_rule(self):
        assert alpha_from_data(np.ones((30, 20)), psd=False) == np.sqrt(30)
        symmetric = np.ones((40, 40))
        assert alpha_from_data(symmetric, psd=True) == pytest.approx(np.sqrt(40 / 2))
        dense = draw(40, 40)
        assert alpha_from_data(dense, psd=True) == pytest.approx(np.sqrt(40) / 2)
        alphas = [
            alpha_from_data(
                corrupted_matrix(60, 3, p, random_state=0).observed, psd=True
            )
            for p in (0.1, 0.35, 0.5)
        ]
        assert np.sqrt(60) / 3 == pytest.approx(alphas[0])
        assert alphas[0] < alphas[1] < alphas[2]

    def test_alpha_selects_lambda(self):
        Y = noisy()
        small, large = (
            RobustPCA(alpha=alpha, random_state=0).fit(Y) for alpha in (4.0, 12.0)
        )
        assert small.rank_ > large.rank_
        assert large.alpha_ == pytest.approx(12.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "rank", "share", "missing"),
    [
        ((1000, 1000), 50, 0.1, 0.0),
        ((20000, 500), 10, 0.1, 0.0),
        ((500, 20000), 10, 0.1, 0.0),
        ((1000, 1000), 10, 0.3, 0.0),
        ((1000, 1000), 10, 0.1, 0.3),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_problems(shape, rank, share, missing, dtype):
    problem = corrupted_matrix(shape, rank, share, missing=missing, random_state=3)
    model = RobustPCA(random_state=0).fit(problem.observed.astype(dtype))
    double = dtype == np.float64
    assert model.rank_ == rank
    error = relative_error(model.low_rank_, problem.low_rank)
    assert error < (1e-12 if double else 1e-4)
    assert model.certificate_.gap < (1e-5 if double else 1e-3)

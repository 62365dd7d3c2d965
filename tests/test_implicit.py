"""The implicit integrator: the same answer in a few passes, certified."""

import pickle
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from discrepant import InputError, RobustPCA, convex
from discrepant.matrix.integrator import integrate
from discrepant.matrix.program import Program
from discrepant.matrix.spectra import largest_value
from discrepant.matrix.sweep import Rows
from discrepant.paper.alpha import alpha_for
from discrepant.paper.problems import corrupted_matrix, relative_error


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def noisy(shape=(60, 50), rank=3, psd=False, seed=0):
    """Return a problem with noise on every entry: no exact solution exists."""
    made = corrupted_matrix(shape[0] if psd else shape, rank, 0.1, random_state=seed)
    noise = np.random.default_rng(seed + 1).standard_normal(made.observed.shape)
    return made.observed + 0.1 * noise


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

    @pytest.mark.parametrize("turned", [False, True])
    @pytest.mark.filterwarnings("ignore:.*columns differ in size:UserWarning")
    def test_rows_that_are_large_as_a_whole_are_kept(self, turned):
        X = corrupted_matrix((100, 80), 2, 0, random_state=0).low_rank
        X[:40] *= 300
        Y = X.copy()
        Y[50, 50] = 1e9
        model = RobustPCA(random_state=0).fit(Y.T if turned else Y)
        assert model.rank_ == 2
        found = model.low_rank_.T if turned else model.low_rank_
        assert relative_error(found, X) < 1e-6

    @pytest.mark.filterwarnings("ignore:.*columns differ in size:UserWarning")
    def test_a_dead_row_or_column_does_not_drown_the_rest(self):
        X = corrupted_matrix((200, 150), 2, 0, random_state=0).low_rank
        for dead in (np.s_[7], np.s_[:, 7]):
            Y = X.copy()
            Y[dead] = 1e9
            found = RobustPCA(random_state=0).fit(Y).low_rank_
            found[dead] = X[dead]
            assert relative_error(found, X) < 1e-4

    def test_an_entry_that_was_clipped_for_no_reason_is_taken_back(self):
        problem = corrupted_matrix((100, 80), 3, 0.1, random_state=0)
        program = Program.of(problem.observed, alpha=10.0).clipped_at(2.0)
        found = integrate(program, rng=np.random.default_rng(0))
        assert relative_error(found.low_rank, problem.low_rank) < 1e-10


class TestConvexOptimum:
    @pytest.mark.parametrize("psd", [False, True])
    @pytest.mark.parametrize("factor", [0.6, 1.0, 2.0])
    def test_agrees_with_the_baseline_where_nothing_is_exact(self, psd, factor):
        Y = noisy((40, 30), psd=psd)
        alpha = factor * np.sqrt(40)
        model = RobustPCA(alpha=alpha, psd=psd, random_state=0).fit(Y)
        found = convex(Y, alpha=alpha, psd=psd, tol=1e-2)
        objective = np.linalg.svd(found.signal, compute_uv=False).sum()
        objective += np.abs(Y - found.signal).sum() / alpha
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
        M = model._found.dual
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


class TestBlocks:
    def test_memory_map_and_memory_limit(self, tmp_path):
        problem = corrupted_matrix((500, 100), 3, 0.1, random_state=7)
        np.save(tmp_path / "y.npy", problem.observed)
        Y = np.load(tmp_path / "y.npy", mmap_mode="r")
        model = RobustPCA(memory_limit=1000, random_state=0).fit(Y)
        assert relative_error(model.low_rank_, problem.low_rank) < 1e-12
        assert model.certificate_.gap < 1e-5

    def test_a_file_shorter_than_its_header_is_refused(self, tmp_path):
        from discrepant.table.files import read_table

        np.save(tmp_path / "y.npy", np.ones((100, 100)))
        content = (tmp_path / "y.npy").read_bytes()
        (tmp_path / "y.npy").write_bytes(content[:-800])
        with pytest.raises(InputError, match="cannot be read"):
            read_table(tmp_path / "y.npy")

    def test_sweep_multiplies_what_the_kernel_leaves(self):
        for shape in ((50, 7), (7, 50)):
            Y = draw(*shape)
            rows = Rows(Y)
            tall = Y if shape[0] > shape[1] else Y.T
            V = draw(7, 3)
            with rows:
                P, B, sums = rows.sweep("data", scalars=(0.1,), right=V, power=True)
            np.testing.assert_allclose(P, 0.1 * tall @ V)
            np.testing.assert_allclose(B, 0.01 * tall.T @ (tall @ V))
            assert sums.sum() == pytest.approx(0.01 * np.sum(Y**2))

    @pytest.mark.parametrize("psd", [False, True])
    @pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 8, 9, 10, 11, 63, 64, 65, 80, 150])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_largest_value_is_a_bound_and_close(self, psd, n, dtype):
        M = draw(n if psd else n + 5, n).astype(dtype)
        exact = np.linalg.eigvalsh((M + M.T) / 2)[-1] if psd else np.linalg.norm(M, 2)
        rows = Rows(M)
        with rows:
            found = largest_value(rows, M.copy(), psd)
        rounding = 1e-12 if dtype == np.float64 else 1e-6
        slack = rounding * abs(exact)
        assert exact - slack <= found <= exact + 1e-5 * abs(exact) + 1e-5

    def test_largest_eigenvalue_among_negative_ones(self):
        v = np.linalg.qr(draw(100, 1))[0]
        for top in (2.5, -0.1):
            M = (top + 0.5) * v @ v.T - 0.5 * np.eye(100)
            rows = Rows(M)
            with rows:
                assert largest_value(rows, M.copy(), True) == pytest.approx(top)


class TestThreads:
    """Tiles and threads are seams: a result must not show where they are."""

    Y = 1e-3 * noisy((2000, 400))  # 6.4 MB: several tiles for each of two threads

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_second_tiles_on_second_threads(self, order):
        Y = np.array(self.Y, order=order)
        V = draw(400, 3)
        answers = []
        for jobs in (1, 2):
            rows = Rows(Y, n_jobs=jobs)
            assert len(rows._shares) == jobs
            assert rows._tile_rows * 2 * jobs <= rows.m
            with rows:
                answers.append(
                    rows.sweep("data", scalars=(1.0,), right=V, power=True)[:2]
                )
        for one, two in zip(*answers, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-9)
        np.testing.assert_allclose(answers[1][0], self.Y @ V, atol=1e-9)
        np.testing.assert_allclose(answers[1][1], self.Y.T @ (self.Y @ V), atol=1e-9)

    def test_parts_asked_for_by_many_threads(self):
        Y = noisy((300, 200))
        model = RobustPCA(random_state=0, n_jobs=2).fit(Y)
        alone = RobustPCA(random_state=0, n_jobs=2).fit(Y)
        sparse, gap = alone.sparse_, alone.certificate_.gap
        with ThreadPoolExecutor(8) as pool:
            asked = [
                pool.submit(getattr, model, name)
                for name in ("sparse_", "certificate_") * 4
            ]
        for future in asked[::2]:
            assert future.result() is asked[0].result()  # computed once
            np.testing.assert_allclose(future.result(), sparse, atol=1e-12)
        for future in asked[1::2]:
            assert future.result().gap == pytest.approx(gap, abs=1e-12)

    def test_overlapping_fits_give_blas_its_threads_back(self):
        def threads():
            return [
                pool["num_threads"]
                for pool in threadpool_info()
                if pool["user_api"] == "blas"
            ]

        before = threads()
        first, second = Rows(self.Y), Rows(self.Y)
        first.__enter__()
        second.__enter__()
        assert set(threads()) == {1}
        first.__exit__(None, None, None)
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert threads() == before


class TestPassiveResult:
    """Asking a result for its parts changes nothing."""

    def test_an_interrupted_certificate_can_be_asked_for_again(self, monkeypatch):
        for Y in (noisy(), corrupted_matrix((90, 70), 3, 0.1, random_state=6).observed):
            expected = RobustPCA(random_state=0).fit(Y)
            model = RobustPCA(random_state=0).fit(Y)
            sweep, calls = Rows.sweep, []

            def interrupted(self, *args, sweep=sweep, calls=calls, **kwargs):
                calls.append(args[0])
                if len(calls) == 2:
                    raise KeyboardInterrupt
                return sweep(self, *args, **kwargs)

            monkeypatch.setattr(Rows, "sweep", interrupted)
            with pytest.raises(KeyboardInterrupt):
                _ = model.certificate_
            monkeypatch.setattr(Rows, "sweep", sweep)
            assert model.certificate_ == expected.certificate_
            assert np.array_equal(model.sparse_, expected.sparse_)

    def test_an_interrupt_in_the_last_moment_leaves_nothing_fitted(self, monkeypatch):
        def interrupt(*args):
            raise KeyboardInterrupt

        model = RobustPCA(random_state=0)
        monkeypatch.setattr("discrepant.matrix.estimator.caveats", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(noisy())
        with pytest.raises(NotFittedError):
            _ = model.sparse_

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_the_dual_is_turned_as_the_data_are(self, order):
        Y = np.array(noisy(), order=order)
        found = integrate(Program.of(Y, alpha=8.0), rng=np.random.default_rng(0))
        M, X = found.dual, found.low_rank
        assert M.shape == Y.shape
        aligned = np.vdot(M, X) / found.singular_values.sum()
        assert aligned == pytest.approx(1, abs=1e-3)


class TestOddData:
    @pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (2, 2)])
    @pytest.mark.parametrize("value", [0.0, 3.0, -2.0])
    @pytest.mark.filterwarnings("ignore:.*taken for corrupt:UserWarning")
    def test_tiny_and_constant(self, shape, value):
        model = RobustPCA(random_state=0).fit(np.full(shape, value))
        np.testing.assert_allclose(model.low_rank_ + model.sparse_, value, atol=1e-6)
        if min(shape) > 1:  # else X and S cost the same
            np.testing.assert_allclose(model.low_rank_, value, atol=1e-5)
        certificate = model.certificate_
        assert abs(certificate.gap) < 1e-4
        assert certificate.signal_alignment == pytest.approx(1, abs=1e-4)
        assert certificate.corruption_alignment == pytest.approx(1, abs=1e-4)

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

    def test_an_interrupted_fit_leaves_nothing_behind(self):
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
        assert alpha_for(np.ones((30, 20)), psd=False) == np.sqrt(30)
        symmetric = np.ones((40, 40))
        assert alpha_for(symmetric, psd=True) == pytest.approx(np.sqrt(40 / 2))
        dense = draw(40, 40)
        assert alpha_for(dense, psd=True) == pytest.approx(np.sqrt(40) / 2)
        alphas = [
            alpha_for(corrupted_matrix(60, 3, p, random_state=0).observed, psd=True)
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


class TestEstimator:
    problem = corrupted_matrix((120, 60), 3, 0.1, random_state=9)

    def test_new_rows(self):
        Y, X = self.problem.observed.copy(), self.problem.low_rank
        Y[100:, ::7] = np.nan
        model = RobustPCA(random_state=0).fit(Y[:100])
        cleaned = model.inverse_transform(model.transform(Y[100:]))
        assert relative_error(cleaned, X[100:]) < 1e-6
        assert model.score(X[100:]) > 0.999 > model.score(Y[100:])
        with pytest.raises(InputError, match="Coordinates"):
            model.inverse_transform(np.ones((2, 7)))

    def test_warm_start(self):
        Y = noisy((150, 120))
        model = RobustPCA(noise=0, warm_start=True, random_state=0).fit(Y)
        cold = model.n_iter_
        again = model.fit(Y + 1e-6 * draw(*Y.shape, seed=5))
        assert again.n_iter_ < cold / 2
        assert again.certificate_.gap < 1e-5
        model.fit(1e200 * Y)  # another scale: starts afresh
        assert model.certificate_.gap < 1e-5
        model.fit(Y[:50])  # another shape: likewise
        assert model.low_rank_.shape == (50, 120)

    def test_pipeline_grid_search_clone_pickle_and_joblib(self):
        Y = np.nan_to_num(self.problem.observed)
        pipeline = make_pipeline(StandardScaler(), RobustPCA(random_state=0))
        assert pipeline.fit_transform(Y).shape[0] == len(Y)
        grid = {"alpha": ["auto", 8.0]}
        search = GridSearchCV(RobustPCA(random_state=0), grid, cv=2, n_jobs=1).fit(Y)
        assert search.best_params_["alpha"] in grid["alpha"]
        model = search.best_estimator_
        assert clone(model).get_params() == model.get_params()
        for back in (
            pickle.loads(pickle.dumps(model)),
            joblib.Parallel(n_jobs=2)([joblib.delayed(clone(model).fit)(Y)])[0],
        ):
            np.testing.assert_allclose(back.low_rank_, model.low_rank_, atol=1e-8)

    def test_pandas_in_pandas_out(self):
        frame = pd.DataFrame(self.problem.observed).add_prefix("x")
        model = RobustPCA(random_state=0).set_output(transform="pandas").fit(frame)
        assert list(model.transform(frame).columns) == list(
            model.get_feature_names_out()
        )
        assert model.low_rank_.columns.equals(frame.columns)

    def test_history_tells_the_phases(self):
        history = RobustPCA(random_state=0).fit(self.problem.observed).history_
        assert list(history)[:3] == ["step", "residual", "seconds"]
        assert history["phase"][0] == "fast"
        assert history["phase"][-1] == "polish"
        assert (np.diff(history["seconds"]) >= 0).all()

    def test_integrate_can_be_stopped(self):
        told = []

        def report(share, note):
            told.append((share, note))
            return len(told) < 3

        split = integrate(Program.of(self.problem.observed, alpha=10.0), report=report)
        assert split.n_steps == 3
        assert all(0 <= share <= 1 and "residual" in note for share, note in told)
        assert "stopped" in str(split.status)


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

"""Where the integrator's rows lie: files, tiles, threads, and what results hold."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info

from discrepant import InputError, RobustPCA
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.robust_pca.exact.factored_svd import spectral_bound
from discrepant.robust_pca.exact.integrator import integrate
from discrepant.robust_pca.rows import passes
from discrepant.robust_pca.rows.in_memory import ArrayRows
from support.matrices import draw, exact_program, noisy


class TestBlocks:
    def test_memory_map_and_memory_limit(self, tmp_path):
        problem = corrupted_matrix((500, 100), 3, 0.1, random_state=7)
        np.save(tmp_path / "y.npy", problem.observed)
        Y = np.load(tmp_path / "y.npy", mmap_mode="r")
        model = RobustPCA(memory_limit=1000, random_state=0).fit(Y)
        assert relative_error(model.low_rank_, problem.low_rank) < 1e-12
        assert model.certificate_.gap < 1e-5

    def test_a_file_shorter_than_its_header_is_refused(self, tmp_path):
        from discrepant.table.io.table_file import read_table_file

        np.save(tmp_path / "y.npy", np.ones((100, 100)))
        content = (tmp_path / "y.npy").read_bytes()
        (tmp_path / "y.npy").write_bytes(content[:-800])
        with pytest.raises(InputError, match="cannot be read"):
            read_table_file(tmp_path / "y.npy")

    def test_a_pass_multiplies_the_tiles_by_both_factors(self):
        for shape in ((50, 7), (7, 50)):
            Y = draw(*shape)
            rows = ArrayRows(Y)
            tall = Y if shape[0] > shape[1] else Y.T
            V = draw(7, 3)
            with rows:
                out = passes.multiply_data(rows, unit=0.1, right=V, power=True)
            np.testing.assert_allclose(out.right, 0.1 * tall @ V)
            np.testing.assert_allclose(out.left, 0.01 * tall.T @ (tall @ V))
            assert out.square == pytest.approx(0.01 * np.sum(Y**2))

    @pytest.mark.parametrize("psd", [False, True])
    @pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 8, 9, 10, 11, 63, 64, 65, 80, 150])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_largest_value_is_a_bound_and_close(self, psd, n, dtype):
        M = draw(n if psd else n + 5, n).astype(dtype)
        exact = np.linalg.eigvalsh((M + M.T) / 2)[-1] if psd else np.linalg.norm(M, 2)
        rows = ArrayRows(M)
        with rows:
            bound = spectral_bound(rows, M.copy(), psd)
        rounding = 1e-12 if dtype == np.float64 else 1e-6
        slack = rounding * abs(exact)
        assert exact - slack <= bound <= exact + 1e-5 * abs(exact) + 1e-5

    def test_largest_eigenvalue_among_negative_ones(self):
        v = np.linalg.qr(draw(100, 1))[0]
        for top in (2.5, -0.1):
            M = (top + 0.5) * v @ v.T - 0.5 * np.eye(100)
            rows = ArrayRows(M)
            with rows:
                assert spectral_bound(rows, M.copy(), True) == pytest.approx(top)


class TestThreads:
    """Tiles and threads are seams: a result must not show where they are."""

    Y = 1e-3 * noisy((2000, 400))  # 6.4 MB: several tiles for each of two threads

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_second_tiles_on_second_threads(self, order):
        Y = np.array(self.Y, order=order)
        V = draw(400, 3)
        answers = []
        for jobs in (1, 2):
            rows = ArrayRows(Y, n_jobs=jobs)
            assert len(rows._thread_ranges) == jobs
            assert rows._tile_rows * 2 * jobs <= rows.m
            with rows:
                out = passes.multiply_data(rows, unit=1.0, right=V, power=True)
            answers.append((out.right, out.left))
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
        first, second = ArrayRows(self.Y), ArrayRows(self.Y)
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
            run, calls = ArrayRows.run, []

            def interrupted(self, *args, run=run, calls=calls, **kwargs):
                calls.append(args[0])
                if len(calls) == 2:
                    raise KeyboardInterrupt
                return run(self, *args, **kwargs)

            monkeypatch.setattr(ArrayRows, "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                _ = model.certificate_
            monkeypatch.setattr(ArrayRows, "run", run)
            assert model.certificate_ == expected.certificate_
            assert np.array_equal(model.sparse_, expected.sparse_)

    def test_an_interrupt_in_the_last_moment_leaves_nothing_fitted(self, monkeypatch):
        def interrupt(*args):
            raise KeyboardInterrupt

        model = RobustPCA(random_state=0)
        monkeypatch.setattr("discrepant.robust_pca.estimator.fit_warnings", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(noisy())
        with pytest.raises(NotFittedError):
            _ = model.sparse_

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_the_dual_is_turned_as_the_data_are(self, order):
        Y = np.array(noisy(), order=order)
        result = integrate(exact_program(Y, alpha=8.0), rng=np.random.default_rng(0))
        M, X = result.dual, result.low_rank
        assert M.shape == Y.shape
        aligned = np.vdot(M, X) / result.singular_values.sum()
        assert aligned == pytest.approx(1, abs=1e-3)

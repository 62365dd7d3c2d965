"""Row sampling: a sample gives the row space, and no direction is lost."""

import numpy as np
import pytest

from discrepant import RobustPCA
from discrepant.core.recorder import Recorder
from discrepant.paper.synthetic import relative_error
from discrepant.robust_pca import row_sample as sample
from discrepant.robust_pca.exact.integrator import integrate
from discrepant.robust_pca.rows.in_memory import ArrayRows
from discrepant.robust_pca.rows.rows import RowSpace
from support.matrices import exact_program

SHAPE, RANK = (4000, 100), 3


@pytest.fixture(autouse=True)
def small_samples(monkeypatch):
    """Make sampling worthwhile at a few thousand rows."""
    monkeypatch.setattr(sample, "SAMPLE_ENTRIES", 1 << 14)


def low_rank_data(sigma=0.0, corrupt=0.1, seed=40, own=(), shape=SHAPE):
    """Return data and their low-rank part; the rows `own` share one more direction."""
    rng = np.random.default_rng(seed)
    m, n = shape
    L = rng.standard_normal((m, RANK)) @ rng.standard_normal((RANK, n))
    L[list(own)] += rng.uniform(2, 4, (len(own), 1)) * rng.standard_normal(n)
    Y = L + sigma * rng.standard_normal(shape)
    bad = rng.random(shape) < corrupt
    Y[bad] += rng.uniform(-8, 8, bad.sum())
    return Y, L


def fit_without_sample(Y, monkeypatch, **options):
    """Fit without a sample."""
    with monkeypatch.context() as patch:
        patch.setattr(
            "discrepant.robust_pca.solve.choose_sample_rows", lambda rows, rng: None
        )
        return RobustPCA(random_state=0, **options).fit(Y)


class TestExact:
    @pytest.mark.parametrize("transposed", [False, True])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_one_pass_and_a_certificate(self, transposed, order):
        Y, L = low_rank_data()
        Y, L = (Y.T, L.T) if transposed else (Y, L)
        pca = RobustPCA(random_state=0).fit(np.asarray(Y, order=order))
        assert list(pca.history_["phase"]) == ["sweep"]
        assert pca.rank_ == RANK and pca.noise_ == 0
        assert relative_error(pca.low_rank_, L) < 1e-12
        assert pca.certificate_.gap < 1e-5

    def test_nothing_of_the_size_of_the_data_is_kept(self):
        pca = RobustPCA(random_state=0).fit(low_rank_data()[0])
        assert pca._result.state.T is None

    def test_the_data_are_read_three_times(self, monkeypatch):
        shapes, run_in_threads = [], ArrayRows._run_in_threads

        def counted(rows, *args):
            shapes.append(rows.shape)
            return run_in_threads(rows, *args)

        monkeypatch.setattr(ArrayRows, "_run_in_threads", counted)
        RobustPCA(random_state=0).fit(low_rank_data()[0])
        assert shapes.count(SHAPE) <= 3  # scan, regression, check

    def test_missing_entries_and_rows(self):
        Y, L = low_rank_data()
        gone = np.random.default_rng(41).random(SHAPE) < 0.1
        Y[gone] = np.nan
        Y[100:110] = np.nan
        pca = RobustPCA(random_state=0).fit(Y)
        assert list(pca.history_["phase"]) == ["sweep"]
        kept = np.delete(np.arange(len(Y)), np.arange(100, 110))
        assert relative_error(pca.low_rank_[kept], L[kept]) < 1e-12
        assert not pca.low_rank_[100:110].any()

    def test_float32(self):
        Y, L = low_rank_data()
        pca = RobustPCA(random_state=0).fit(Y.astype(np.float32))
        assert list(pca.history_["phase"]) == ["sweep"]
        assert pca.low_rank_.dtype == np.float32
        assert relative_error(pca.low_rank_, L) < 1e-5

    def test_sentinels_are_clipped_but_reported_in_full(self):
        Y, L = low_rank_data()
        Y[::100, ::7] = -1e6
        pca = RobustPCA(random_state=0).fit(Y)
        assert relative_error(pca.low_rank_, L) < 1e-10
        np.testing.assert_allclose(pca.sparse_[0, 0], -1e6 - L[0, 0])

    @pytest.mark.parametrize("options", [{"alpha": 60.0}, {"polish": False}])
    def test_a_given_alpha_or_no_polish_disables_sampling(self, options):
        pca = RobustPCA(random_state=0, max_iter=20, **options)
        with pytest.warns():
            pca.fit(low_rank_data(corrupt=0.3)[0])
        assert "sweep" not in pca.history_["phase"]

    @pytest.mark.parametrize("own", [[7], range(10, 20), range(10, 210)])
    def test_a_direction_outside_of_the_sample_is_not_lost(self, own):
        Y, _ = low_rank_data(own=own)
        program = exact_program(Y, alpha=np.sqrt(len(Y)))
        others = np.delete(np.arange(len(Y)), own)[::10]
        rng = np.random.default_rng(0)
        small = exact_program(Y[others], alpha=np.sqrt(len(others)))
        known = integrate(small, rng=rng)
        assert known.polished and known.rank == RANK
        log = Recorder(lambda fraction, note: True, 1e-7, 100)
        assert sample.extend_exact_fit(program, known, rng, log) is None

    def test_all_rows_are_solved_if_the_sample_does_not_represent_them(
        self, monkeypatch
    ):
        Y, _ = low_rank_data(own=range(10, 1000))
        first = np.arange(1000, 4000, 10)
        monkeypatch.setattr(
            "discrepant.robust_pca.solve.choose_sample_rows", lambda rows, rng: first
        )
        pca = RobustPCA(random_state=0).fit(Y)
        assert pca.rank_ == RANK + 1
        assert "sweep" not in pca.history_["phase"][1:]


class TestNoise:
    @pytest.mark.parametrize("transposed", [False, True])
    def test_agrees_with_a_fit_without_sample(self, transposed, monkeypatch):
        Y, L = low_rank_data(sigma=0.2)
        Y, L = (Y.T, L.T) if transposed else (Y, L)
        pca, other = (
            RobustPCA(random_state=0).fit(Y),
            fit_without_sample(Y, monkeypatch),
        )
        assert set(pca.history_["phase"]) == {"weighed"}
        assert pca.rank_ == other.rank_ == RANK
        assert pca.noise_ == pytest.approx(np.median(other.noise_), rel=0.02)
        error = np.linalg.norm(other.low_rank_ - L)
        assert np.linalg.norm(pca.low_rank_ - other.low_rank_) < 0.2 * error
        assert np.mean(pca.outliers_ != other.outliers_) < 1e-3

    @pytest.mark.parametrize("transposed", [False, True])
    def test_noise_of_another_size_in_each_column(self, transposed):
        Y, L = low_rank_data(corrupt=0.0)
        Y, L = (Y.T, L.T) if transposed else (Y, L)
        rng = np.random.default_rng(42)
        sigma = 0.1 * np.exp(rng.normal(0, 0.7, Y.shape[1]))
        Y = Y + sigma * rng.standard_normal(Y.shape)
        Y[rng.random(Y.shape) < 0.05] += 8
        pca = RobustPCA(noise="column", random_state=0).fit(Y)
        assert set(pca.history_["phase"]) == {"weighed"}
        assert pca.rank_ == RANK
        assert np.std(np.log(pca.noise_ / sigma)) < 0.15

    def test_one_row_with_a_direction_of_its_own_is_flagged(self, monkeypatch):
        Y, _ = low_rank_data(sigma=0.2, own=[7])
        pca, other = (
            RobustPCA(random_state=0).fit(Y),
            fit_without_sample(Y, monkeypatch),
        )
        assert pca.rank_ == other.rank_ == RANK
        assert pca.outliers_[7].mean() > 0.3
        assert np.mean(pca.outliers_[7] != other.outliers_[7]) < 0.2

    def test_a_block_of_rows_outside_of_the_sample(self, monkeypatch):
        Y, _ = low_rank_data(sigma=0.2, own=range(10, 1000))
        first = np.arange(1000, 4000, 10)
        monkeypatch.setattr(
            "discrepant.robust_pca.solve.choose_sample_rows", lambda rows, rng: first
        )
        pca = RobustPCA(random_state=0).fit(Y)
        assert pca.rank_ == RANK + 1

    def test_given_noise(self):
        Y, _ = low_rank_data(sigma=0.2)
        for given, data in ((0.2, Y), (np.full(len(Y), 0.2), Y.T)):
            pca = RobustPCA(noise=given, random_state=0).fit(data)
            assert pca.rank_ == RANK
            np.testing.assert_allclose(pca.noise_, 0.2)


class TestWarmStart:
    @pytest.mark.parametrize("shape", [(300, 200), (90, 500), (500, 90)])
    def test_the_same_answer_in_fewer_passes(self, shape):
        Y, L = low_rank_data(sigma=0.3, shape=shape)
        other = np.where(np.random.default_rng(46).random(shape) < 0.02, 6.0, Y)
        cold = RobustPCA(random_state=0).fit(other)
        warm = RobustPCA(random_state=0, warm_start=True).fit(Y).fit(other)
        assert 2 * warm.n_iter_ < cold.n_iter_
        assert warm.rank_ == cold.rank_ == RANK
        error = np.linalg.norm(cold.low_rank_ - L)
        assert np.linalg.norm(warm.low_rank_ - cold.low_rank_) < 0.2 * error
        assert np.mean(warm.outliers_ != cold.outliers_) < 2e-3

    def test_other_data_of_the_same_shape_start_from_scratch(self):
        one, two = (
            low_rank_data(sigma=0.3, seed=s, shape=(300, 200))[0] for s in (43, 44)
        )
        cold = RobustPCA(random_state=0).fit(two)
        warm = RobustPCA(random_state=0, warm_start=True).fit(one).fit(two)
        assert warm.rank_ == cold.rank_ == RANK
        np.testing.assert_allclose(warm.low_rank_, cold.low_rank_, atol=0.1)

    def test_exact_after_noisy_and_noisy_after_exact(self):
        exact, noisy = (low_rank_data(sigma=s, shape=(300, 200))[0] for s in (0.0, 0.3))
        pca = RobustPCA(random_state=0, warm_start=True)
        assert pca.fit(noisy).fit(exact).noise_ == 0
        assert pca.fit(exact).fit(noisy).noise_ == pytest.approx(0.3, rel=0.05)


class TestRegression:
    @pytest.mark.parametrize("wide", [False, True])
    def test_coordinates_with_a_fifth_of_each_row_corrupted(self, wide):
        Y, L = low_rank_data(corrupt=0.2, shape=(500, 80))
        Y[np.random.default_rng(45).random(Y.shape) < 0.1] = np.nan
        basis = np.linalg.svd(L, full_matrices=False)[2][:RANK].T
        rows = ArrayRows(np.ascontiguousarray(Y.T) if wide else Y)
        with rows:
            space = RowSpace(np.arange(80), basis, np.ones(80), 1e-3)
            fits = rows.regress(np.arange(500), space)
        np.testing.assert_allclose(1e3 * fits.coordinates @ basis.T, L, atol=1e-9)
        assert (fits.residual < 1e-12).all()

    def test_rows_of_few_or_no_entries(self):
        Y, L = low_rank_data(corrupt=0.0, shape=(20, 10))
        Y[0], Y[1, 2:] = np.nan, np.nan
        Y[2] = 0
        basis = np.linalg.svd(L, full_matrices=False)[2][:RANK].T
        rows = ArrayRows(Y)
        with rows:
            space = RowSpace(np.arange(10), basis, np.ones(10), 0.01)
            fits = rows.regress(np.arange(20), space)
        assert not fits.coordinates[:3].any()
        assert list(fits.n_clean[:3]) == [0, 0, 10]
        X = 100 * fits.coordinates[3:] @ basis.T
        np.testing.assert_allclose(X, L[3:], atol=1e-9)

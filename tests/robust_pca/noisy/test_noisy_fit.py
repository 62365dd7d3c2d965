"""Noise on every entry: three parts, without rank, noise or support given."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from discrepant import InputError, RobustPCA
from discrepant.core.recorder import Recorder
from support.matrices import exact_program


def made(
    m=200, n=160, rank=5, fraction=0.1, sigma=0.3, seed=0, missing=0.0, errors=10.0
):
    """Return data, low-rank part, noise and which entries are wrong."""
    rng = np.random.default_rng([seed, m, n])
    L = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    L /= np.sqrt(max(rank, 1))
    N = rng.standard_normal((m, n)) * sigma
    wrong = rng.random((m, n)) < fraction
    Y = L + N
    Y[wrong] = errors * rng.standard_normal(wrong.sum())
    gone = rng.random((m, n)) < missing
    Y[gone] = np.nan
    return Y, L, wrong & ~gone


def oracle_error(Y, L, wrong, rank, rounds=30):
    """Return the error of least squares that knows the rank and the wrong entries."""
    seen = ~wrong & ~np.isnan(Y)
    X = L
    for _ in range(rounds):
        T = np.where(seen, Y, X)
        U, s, Vt = np.linalg.svd(T, full_matrices=False)
        X = (U[:, :rank] * s[:rank]) @ Vt[:rank]
    return np.sqrt(np.mean((X - L) ** 2))


def fitted(Y, **options):
    return RobustPCA(random_state=0, **options).fit(Y)


class TestThreeParts:
    @pytest.mark.parametrize("sigma", [0.03, 0.3, 0.8])
    @pytest.mark.parametrize(("shape"), [(200, 160), (120, 500)])
    def test_near_the_oracle(self, shape, sigma):
        Y, L, wrong = made(*shape, sigma=sigma, seed=11)
        model = fitted(Y)
        error = np.sqrt(np.mean((model.low_rank_ - L) ** 2))
        assert model.rank_ == 5
        assert error < 1.1 * oracle_error(Y, L, wrong, 5)
        assert model.noise_ == pytest.approx(sigma, rel=0.03)
        assert model.status_.converged
        large = wrong & (np.abs(Y - L) > 6 * sigma)
        assert model.outliers_[large].mean() > 0.99
        assert model.outliers_[~wrong].mean() < 2e-3

    def test_missing_entries(self):
        Y, L, wrong = made(missing=0.3, seed=12)
        model = fitted(Y)
        error = np.sqrt(np.mean((model.low_rank_ - L) ** 2))
        assert model.rank_ == 5
        assert error < 1.15 * oracle_error(Y, L, wrong, 5)
        gone = np.isnan(Y)
        assert not model.outliers_[gone].any()
        assert not model.sparse_[gone].any()
        assert not model.probability_[gone].any()
        assert np.isnan(model.residual_[gone]).all()

    def test_the_parts_add_up(self):
        Y, *_ = made(seed=13)
        model = fitted(Y)
        total = model.low_rank_ + model.sparse_ + model.residual_
        np.testing.assert_allclose(total, Y, atol=1e-12)
        assert np.array_equal(model.sparse_ != 0, model.outliers_)
        assert np.abs(model.residual_[model.outliers_]).max() < 1e-12
        fraction = model.explained_variance_ratio_
        assert fraction.shape == (5,)
        assert 0.8 < fraction.sum() < 1
        assert (np.diff(fraction) <= 0).all()

    @pytest.mark.parametrize("transposed", [False, True])
    def test_noise_of_another_size_in_each_column(self, transposed):
        sigma = np.where(np.arange(160) % 4 == 0, 2.0, 0.2)
        Y, L, _ = made(sigma=sigma, seed=14)
        model = fitted(np.asfortranarray(Y) if transposed else Y)
        assert model.rank_ == 5
        assert model.noise_.shape == (160,)
        np.testing.assert_allclose(model.noise_, sigma, rtol=0.35)
        plain = fitted(Y, noise=float(np.sqrt(np.mean(sigma**2))))
        error, worse = (
            np.sqrt(np.mean(((low_rank - L) / sigma) ** 2))
            for low_rank in (model.low_rank_, plain.low_rank_)
        )
        assert error < 0.6 * worse

    def test_units_of_columns_do_not_matter(self):
        Y, L, wrong = made(seed=20)
        unit = 10.0 ** np.random.default_rng(5).uniform(-3, 3, 160)
        model = fitted(Y * unit)
        assert model.rank_ == 5
        error = np.sqrt(np.mean((model.low_rank_ / unit - L) ** 2))
        assert error < 1.1 * oracle_error(Y, L, wrong, 5)
        np.testing.assert_allclose(model.noise_ / unit, 0.3, rtol=0.25)
        assert model.outliers_[~wrong].mean() < 2e-3

    def test_heavy_tails_are_noise(self):
        Y, _, _ = made(fraction=0.0, sigma=0.0, seed=15)
        Y += 0.2 * np.random.default_rng(3).standard_t(3, Y.shape)
        model = fitted(Y)
        assert model.rank_ == 5
        assert model.outliers_.mean() < 0.005

    def test_nothing_wrong(self):
        Y, _, _ = made(fraction=0.0, seed=16)
        model = fitted(Y)
        assert model.rank_ == 5
        assert model.outliers_.sum() <= 3

    def test_nothing_but_noise_is_said(self):
        Y = np.random.default_rng(0).standard_normal((150, 60))
        with pytest.warns(UserWarning, match="No component is significant"):
            model = fitted(Y)
        assert model.rank_ == 0
        assert model.noise_ == pytest.approx(1, rel=0.03)
        assert not model.low_rank_.any()
        assert model.transform(Y).shape == (150, 0)

    def test_rounding_to_four_decimals(self):
        _, L, _ = made(seed=17)
        Y = np.round(L, 4)
        Y[np.random.default_rng(1).random(L.shape) < 0.05] = 3
        model = fitted(Y)
        assert model.rank_ == 5
        assert model.noise_ == pytest.approx(1e-4 / np.sqrt(12), rel=0.1)
        assert model.outliers_.mean() == pytest.approx(0.05, abs=0.005)

    @pytest.mark.parametrize("sentinel", [-20.0, -999.0, 1e6])
    def test_sentinels(self, sentinel):
        Y, _, _ = made(fraction=0.0, sigma=0.1, seed=18)
        wrong = np.random.default_rng(2).random(Y.shape) < 0.1
        Y[wrong] = sentinel
        model = fitted(Y)
        assert model.rank_ == 5
        assert model.outliers_[wrong].all()
        assert model.outliers_[~wrong].mean() < 1e-3

    def test_rows_that_are_wrong_from_end_to_end(self):
        Y, L, _ = made(seed=19)
        Y[[3, 70]] = 10 * np.random.default_rng(4).standard_normal((2, 160))
        model = fitted(Y)
        right = np.setdiff1d(np.arange(200), [3, 70])
        assert model.rank_ == 5
        assert model.outliers_[[3, 70]].mean() > 0.8
        error = np.sqrt(np.mean((model.low_rank_ - L)[right] ** 2))
        assert error < 0.1

    def test_a_narrow_table_is_said_to_be_one(self):
        Y, _, _ = made(60, 8, rank=2, sigma=0.1, seed=23)
        with pytest.warns(UserWarning, match="narrow"):
            fitted(Y)


class TestWhatIsTold:
    Y, L, wrong = made(seed=21)

    def test_exact_data_have_no_noise(self):
        _, L, wrong = made(seed=22)
        Y = np.where(wrong, 9.0, L)
        model = fitted(Y)
        assert model.noise_ == 0
        assert model.rank_ == 5
        assert np.array_equal(model.outliers_, wrong)
        assert np.array_equal(model.probability_, wrong)
        assert np.linalg.norm(model.low_rank_ - L) < 1e-10 * np.linalg.norm(L)

    def test_noise_zero_is_the_exact_program(self):
        model = fitted(self.Y[:60, :50], noise=0)
        assert model.noise_ == 0
        assert model.rank_ > 15
        assert model.certificate_.gap < 1e-4

    def test_alpha_of_one_s_own_is_the_exact_program(self):
        model = fitted(self.Y[:60, :50], alpha=8.0)
        assert model.noise_ == 0
        assert model.certificate_.gap < 1e-4

    @pytest.mark.parametrize("noise", [0.3, np.full(160, 0.3), list(np.full(160, 0.3))])
    def test_a_number_or_one_a_column(self, noise):
        model = fitted(self.Y, noise=noise)
        assert model.rank_ == 5
        assert model.noise_ == pytest.approx(0.3)

    def test_by_column(self):
        model = fitted(self.Y, noise="column")
        assert model.rank_ == 5
        np.testing.assert_allclose(model.noise_, 0.3, rtol=0.2)

    def test_flags_follow_the_rate(self):
        few, many = (fitted(self.Y, fdr=rate).outliers_ for rate in (1e-4, 0.1))
        assert few.sum() < many.sum()
        assert (many & ~self.wrong).sum() < 0.2 * many.sum()

    @pytest.mark.parametrize(
        ("options", "word"),
        [
            ({"noise": "none"}, "noise must be"),
            ({"noise": -1}, "zero or more"),
            ({"noise": np.nan}, "zero or more"),
            ({"noise": [1.0, 2.0]}, "one for each"),
            ({"noise": {}}, "one for each"),
            ({"noise": np.r_[0, np.ones(159)]}, "zero for some"),
            ({"fdr": 0}, "fdr must"),
            ({"fdr": 1.5}, "fdr must"),
            ({"fdr": "low"}, "fdr must"),
        ],
    )
    def test_refusals(self, options, word):
        with pytest.raises(InputError, match=word):
            fitted(self.Y, **options)

    def test_labels_types_and_parameters(self):
        frame = pd.DataFrame(self.Y).add_prefix("x")
        model = fitted(frame.astype(np.float32))
        for part in ("low_rank_", "sparse_", "outliers_", "probability_", "residual_"):
            assert getattr(model, part).columns.equals(frame.columns)
        assert (model.low_rank_.dtypes == np.float32).all()
        assert {str(kind) for kind in model.outliers_.dtypes} == {"bool"}
        assert clone(model).get_params()["noise"] == "auto"


class TestCalibration:
    def test_of_cells_said_nine_in_ten(self):
        said, true = [], []
        for seed in range(4):
            Y, _, wrong = made(300, 250, errors=3.0, seed=30 + seed)
            said.append(fitted(Y).probability_.ravel())
            true.append(wrong.ravel())
        said, true = np.concatenate(said), np.concatenate(true)
        for low, high in ((0.3, 0.6), (0.6, 0.85), (0.85, 0.95)):
            some = (said > low) & (said < high)
            assert some.sum() > 100
            assert true[some].mean() == pytest.approx(said[some].mean(), abs=0.07)

    def test_false_discoveries(self):
        false = flags = 0
        for seed in range(4):
            Y, _, wrong = made(errors=5.0, seed=40 + seed)
            flagged = fitted(Y, fdr=0.05).outliers_
            false, flags = false + (flagged & ~wrong).sum(), flags + flagged.sum()
        assert 0.01 < false / flags < 0.07


class TestNewRows:
    Y, L, wrong = made(300, 80, sigma=np.where(np.arange(80) < 20, 1.5, 0.15), seed=51)

    def test_coordinates_weigh_by_the_noise(self):
        model = fitted(self.Y[:200])
        new = self.Y[200:].copy()
        new[:, 5::9] = np.nan
        predicted = model.inverse_transform(model.transform(new))
        error = np.sqrt(np.mean((predicted - self.L[200:]) ** 2))
        seen = ~np.isnan(new) & ~self.wrong[200:]
        V = model.components_
        oracle = np.array(
            [
                np.linalg.lstsq(V[:, ok].T, row[ok], rcond=None)[0] @ V
                for row, ok in zip(new, seen, strict=True)
            ]
        )
        assert error < 0.7 * np.sqrt(np.mean((oracle - self.L[200:]) ** 2))

    def test_each_row_by_itself(self):
        model = fitted(self.Y[:200])
        together = model.transform(self.Y[200:])
        alone = np.vstack([model.transform(row[None]) for row in self.Y[200:205]])
        np.testing.assert_allclose(together[:5], alone, atol=1e-9)

    def test_rows_of_few_or_no_entries(self):
        model = fitted(self.Y[:200])
        new = np.full((2, 80), np.nan)
        new[0, :2] = self.Y[200, :2]
        assert np.isfinite(model.transform(new)).all()


class TestInvariance:
    Y, L, _ = made(seed=61)

    @pytest.mark.parametrize("power", [-300, -7, 20, 300])
    def test_scale(self, power):
        there, back = fitted(self.Y), fitted(self.Y * 2.0**power)
        assert np.array_equal(back.low_rank_ / 2.0**power, there.low_rank_)
        assert np.array_equal(there.outliers_, back.outliers_)

    def test_units_of_ten(self):
        there, back = fitted(self.Y), fitted(self.Y / 1000)
        assert back.rank_ == there.rank_
        np.testing.assert_allclose(1000 * back.low_rank_, there.low_rank_, atol=3e-3)

    def test_transposing_and_order(self):
        plain = fitted(self.Y)
        for other in (fitted(np.asfortranarray(self.Y)), fitted(self.Y.T.copy())):
            low_rank = other.low_rank_
            low_rank = low_rank.T if low_rank.shape != self.Y.shape else low_rank
            assert other.rank_ == 5
            np.testing.assert_allclose(low_rank, plain.low_rank_, atol=0.02)

    def test_float32(self):
        single = fitted(self.Y.astype(np.float32))
        double = fitted(self.Y)
        assert single.low_rank_.dtype == np.float32
        np.testing.assert_allclose(single.low_rank_, double.low_rank_, atol=2e-3)

    def test_seed_and_threads(self):
        one, again, two = (
            RobustPCA(random_state=3, n_jobs=jobs).fit(self.Y) for jobs in (1, 1, 2)
        )
        assert np.array_equal(one.low_rank_, again.low_rank_)
        np.testing.assert_allclose(one.low_rank_, two.low_rank_, atol=1e-8)

    def test_memory_map(self, tmp_path):
        np.save(tmp_path / "y.npy", self.Y)
        Y = np.load(tmp_path / "y.npy", mmap_mode="r")
        model = fitted(Y, memory_limit=1000)
        assert model.rank_ == 5
        assert model.outliers_.sum() == fitted(self.Y).outliers_.sum()

    def test_a_covariance_with_noise(self):
        rng = np.random.default_rng(7)
        G = rng.standard_normal((120, 4))
        Y = G @ G.T + 0.3 * rng.standard_normal((120, 120))
        model = fitted(Y, psd=True)
        X = model.low_rank_
        assert model.rank_ == 4
        np.testing.assert_allclose(X, X.T, atol=1e-10)
        assert np.linalg.eigvalsh(X)[0] > -1e-10
        assert np.linalg.norm(X - G @ G.T) < 0.1 * np.linalg.norm(G @ G.T)


class TestCertificate:
    def test_of_the_penalised_program(self):
        Y, *_ = made(60, 50, rank=2, seed=71)
        model = fitted(Y)
        assert model.certificate_.gap < 1e-3
        assert model.certificate_.gap > -1e-9

    def test_it_is_a_bound_on_what_cvxpy_finds(self):
        cvxpy = pytest.importorskip("cvxpy")
        from dataclasses import replace

        from discrepant.robust_pca.exact.integrator import integrate

        Y, *_ = made(14, 10, rank=1, seed=72)
        program = replace(exact_program(Y, alpha=np.sqrt(14)), kappa=0.7)
        result = integrate(program, polish=False, rng=np.random.default_rng(0))
        X = cvxpy.Variable(Y.shape)
        S = cvxpy.Variable(Y.shape)
        objective = cvxpy.normNuc(X) + program.lam * cvxpy.sum(cvxpy.abs(S))
        objective += 0.35 * cvxpy.sum_squares(Y - X - S)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best = cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver="CLARABEL")
        certificate = result.certificate
        assert certificate.dual <= best * (1 + 1e-6)
        assert certificate.primal >= best * (1 - 1e-6)
        assert certificate.gap < 1e-4


def test_passes_are_reported_and_can_be_stopped():
    reports = []

    def report(fraction, note):
        reports.append(fraction)
        return len(reports) < 3

    from discrepant.robust_pca.noisy.solve import fit_noisy

    Y, *_ = made(seed=81)
    log = Recorder(report, 1e-7, 100)
    rng = np.random.default_rng(0)
    result = fit_noisy(exact_program(Y, alpha=10.0), rng=rng, log=log)
    assert len(reports) == 3
    assert "stopped early" in str(result.status)
    assert list(result.history)[:3] == ["step", "residual", "seconds"]

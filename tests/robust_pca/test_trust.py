"""Answers of the matrix solvers that must not be wrong in silence."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discrepant import Outcome, RobustPCA, certify, recover
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.robust_pca.doubts import Doubt, FitWarning
from discrepant.robust_pca.fit_warnings import fit_warnings
from support.matrices import draw, noisy


def wrong_rows(seed, shape=(60, 200), rank=5, fraction=0.65):
    """Return a matrix of low rank of which most rows are replaced by noise."""
    rng = np.random.default_rng(seed)
    m, n = shape
    Y = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) / np.sqrt(rank)
    bad = rng.permutation(m)[: int(fraction * m)]
    Y[bad] = 3 * rng.standard_normal((len(bad), n))
    return Y


class TestOutcome:
    def test_stopped_runs_say_so_whatever_the_solver(self):
        Y = noisy()

        def stop(fraction, note):
            return False

        with pytest.warns(UserWarning):
            measured = recover(Y[Y > 0], _entries(Y > 0), progress=stop, random_state=0)
        descent = recover(Y, solver="descent", progress=stop, random_state=0)
        with pytest.warns(UserWarning):
            whole = recover(Y, progress=stop, random_state=0)
        for result in (measured, descent, whole):
            assert result.status.outcome is Outcome.STOPPED
            assert result.status.stopped
            assert not result.status.converged

    def test_a_stopped_descent_is_not_advised_to_take_more_steps(self):
        pca = RobustPCA("descent", verbose=lambda fraction, note: False, random_state=0)
        with pytest.warns(UserWarning, match="stopped") as caught:
            pca.fit(noisy())
        assert not any("max_iter" in str(warning.message) for warning in caught)


def test_the_documentation_lists_every_doubt():
    page = Path(__file__).parents[2] / "docs" / "matrices.md"
    text = page.read_text(encoding="utf-8")
    assert [doubt.name for doubt in Doubt if f"`{doubt.name}`" not in text] == []


def _entries(seen):
    from discrepant import Entries

    return Entries(*np.nonzero(seen), seen.shape)


class TestCertificates:
    @pytest.mark.parametrize("gaps", [False, True])
    @pytest.mark.parametrize("psd", [False, True])
    def test_what_recover_returns_for_a_matrix_can_be_certified(self, psd, gaps):
        shape = 40 if psd else (40, 30)
        Y = corrupted_matrix(shape, 2, 0.1, random_state=0).observed
        if gaps:
            Y[::7, ::5] = np.nan
        result = recover(Y, psd=psd, random_state=0)
        assert certify(result).gap == pytest.approx(result.certificate.gap, abs=1e-4)

    def test_so_can_a_fit_with_noise(self):
        result = recover(noisy(), random_state=0)
        assert 0 <= certify(result).gap < 0.1

    # Powers of two, about 1e±200: other factors round, and change the gap by a tenth.
    @pytest.mark.parametrize("scale", [2.0**-664, 2.0**664])
    def test_certificates_of_data_of_any_scale(self, scale):
        usual = recover(noisy(), random_state=0).certificate.gap
        result = recover(noisy() * scale, random_state=0)
        assert result.certificate.gap == pytest.approx(usual, rel=1e-3)


class TestSize:
    def test_values_far_beyond_the_data_are_reported(self):
        Y = noisy()
        result = recover(Y, random_state=0)
        far = replace(result, singular_values=1e3 * result.singular_values)
        assert not any(
            "far beyond" in str(warning) for warning in fit_warnings(Y, result)
        )
        assert any("far beyond" in str(warning) for warning in fit_warnings(Y, far))

    @pytest.mark.parametrize("seed", [3, 24])
    @pytest.mark.parametrize("effort", ["fast", "best"])
    def test_wrong_rows_are_reported_and_do_not_reach_far_beyond_the_data(
        self, effort, seed
    ):
        Y = wrong_rows(seed)
        with pytest.warns(FitWarning, match="rows"):
            pca = RobustPCA(random_state=0, effort=effort).fit(Y)
        assert Doubt.UNDETERMINED in pca.status_.doubts
        assert pca.rank_ == 5
        assert np.abs(pca.low_rank_).max() < 2 * np.abs(Y).max()

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_nor_do_constant_columns(self, seed):
        from sklearn.datasets import load_digits

        Y = load_digits().data[:600]
        with pytest.warns(UserWarning):
            pca = RobustPCA(random_state=seed, effort="fast").fit(Y)
        assert np.abs(pca.low_rank_).max() < 2 * np.abs(Y).max()

    def test_a_psd_fit_whose_columns_fit_exactly_does_not_end_in_infinities(self):
        Y = corrupted_matrix(50, 1, 0.55, random_state=113).observed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pca = RobustPCA(psd=True, random_state=0, effort="fast").fit(Y)
        assert np.isfinite(pca.low_rank_).all()


class TestNothingWrong:
    @pytest.mark.parametrize(
        ("shape", "rank", "psd"),
        [
            ((8, 8), 1, False),
            ((30, 30), 7, False),
            ((70, 25), 5, False),
            ((12, 60), 4, False),
            ((50, 50), 10, True),
            ((3000, 40), 8, False),
            ((700, 650), 120, False),
        ],
    )
    @pytest.mark.parametrize("scale", [1e-6, 1e7])
    def test_a_matrix_of_low_rank_comes_back_as_it_is(self, shape, rank, psd, scale):
        left = draw(shape[0], rank)
        right = left.T if psd else draw(rank, shape[1], seed=1)
        Y = scale * left @ right
        pca = RobustPCA(psd=psd, random_state=0).fit(Y)
        for result in (pca.low_rank_, recover(Y, psd=psd, random_state=0).low_rank):
            assert relative_error(result, Y) < 1e-12
        assert pca.rank_ == rank
        assert not pca.outliers_.any()
        assert pca.noise_ == 0
        assert pca.certificate_.feasibility < 1e-12

    def test_in_single_precision(self):
        Y = (draw(60, 4) @ draw(4, 50, seed=1)).astype(np.float32)
        pca = RobustPCA(random_state=0).fit(Y)
        assert pca.rank_ == 4
        assert not pca.outliers_.any()

    @pytest.mark.parametrize("count", [1, 5])
    def test_a_few_wrong_entries_give_a_low_rank_too_but_are_wrong(self, count):
        X = draw(50, 2) @ draw(2, 40, seed=1)
        Y = X.copy()
        for k in range(count):
            Y[3 * k, 7 * k] += 20
        assert np.linalg.matrix_rank(Y) == 2 + count  # with few degrees of freedom
        pca = RobustPCA(random_state=0).fit(Y)
        assert relative_error(pca.low_rank_, X) < 1e-12
        assert pca.outliers_.sum() == count

    @pytest.mark.parametrize("size", [1e16, 1e300])
    def test_an_entry_beside_which_all_others_are_rounding_is_wrong(self, size):
        X = draw(50, 2) @ draw(2, 40, seed=1)
        Y = X.copy()
        Y[3, 5] = size
        pca = RobustPCA(random_state=0).fit(Y)
        assert relative_error(pca.low_rank_, X) < 1e-12
        assert np.argwhere(pca.outliers_).tolist() == [[3, 5]]


class TestThePapersProblem:
    """n = 50; the convex program recovers none of these."""

    @pytest.mark.parametrize(
        ("rank", "fraction", "psd", "seed"),
        [
            (10, 0.15, False, 15),
            (5, 0.35, False, 10),
            (20, 0.05, False, 28),
            (5, 0.45, True, 11),
            (10, 0.35, True, 17),
            (25, 0.15, True, 36),
            (10, 0.35, False, 17),  # from here on by empirical Bayes
            (15, 0.35, True, 24),
        ],
    )
    def test_an_exact_fit_that_proves_itself_is_returned(
        self, rank, fraction, psd, seed
    ):
        problem = corrupted_matrix(
            50 if psd else (50, 50), rank, fraction, random_state=seed
        )
        pca = RobustPCA(psd=psd, random_state=0).fit(problem.observed)
        assert relative_error(pca.low_rank_, problem.low_rank) < 1e-11
        assert pca.status_.outcome is Outcome.EXACT
        assert (pca.outliers_ == (problem.sparse != 0)).all()
        assert not pca.status_.doubts

    @pytest.mark.parametrize("psd", [False, True])
    @pytest.mark.parametrize(
        "effort", ["fast", pytest.param("best", marks=pytest.mark.slow)]
    )
    def test_what_cannot_be_recovered_is_not_wrong_in_silence(self, psd, effort):
        problem = corrupted_matrix(50 if psd else (50, 50), 20, 0.35, random_state=0)
        pca = RobustPCA(psd=psd, effort=effort, random_state=0)
        with pytest.warns(FitWarning):
            pca.fit(problem.observed)
        assert relative_error(pca.low_rank_, problem.low_rank) > 0.1
        assert pca.status_.doubts

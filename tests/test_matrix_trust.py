"""Answers of the matrix solvers that must not be wrong in silence."""

import warnings

import numpy as np
import pytest

from discrepant import Outcome, RobustPCA, certify, recover
from discrepant.paper.problems import corrupted_matrix
from problems import noisy


def wrong_rows(seed, shape=(60, 200), rank=5, share=0.65):
    """Return a matrix of low rank of which most rows are replaced by noise."""
    rng = np.random.default_rng(seed)
    m, n = shape
    Y = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) / np.sqrt(rank)
    bad = rng.permutation(m)[: int(share * m)]
    Y[bad] = 3 * rng.standard_normal((len(bad), n))
    return Y


class TestOutcome:
    def test_stopped_runs_say_so_whatever_the_solver(self):
        Y = noisy()

        def stop(share, note):
            return False

        with pytest.warns(UserWarning):
            measured = recover(Y[Y > 0], _entries(Y > 0), progress=stop, random_state=0)
        descent = recover(Y, solver="descent", progress=stop, random_state=0)
        with pytest.warns(UserWarning):
            whole = recover(Y, progress=stop, random_state=0)
        for found in (measured, descent, whole):
            assert found.status.outcome is Outcome.STOPPED
            assert found.status.stopped
            assert not found.status.converged

    def test_a_stopped_descent_is_not_advised_to_take_more_steps(self):
        pca = RobustPCA("descent", verbose=lambda share, note: False, random_state=0)
        with pytest.warns(UserWarning, match="stopped") as caught:
            pca.fit(noisy())
        assert not any("max_iter" in str(warning.message) for warning in caught)


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
        found = recover(Y, psd=psd, random_state=0)
        assert certify(found).gap == pytest.approx(found.certificate.gap, abs=1e-4)

    def test_so_can_a_fit_with_noise(self):
        found = recover(noisy(), random_state=0)
        assert 0 <= certify(found).gap < 0.1

    @pytest.mark.parametrize("scale", [1e-200, 1e200])
    def test_certificates_of_data_of_any_scale(self, scale):
        usual = recover(noisy(), random_state=0).certificate.gap
        found = recover(noisy() * scale, random_state=0)
        assert found.certificate.gap == pytest.approx(usual, rel=1e-3)


class TestSize:
    @pytest.mark.parametrize("seed", [3, 8, 21, 24])
    def test_wrong_rows_do_not_make_values_far_beyond_the_data(self, seed):
        Y = wrong_rows(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pca = RobustPCA(random_state=0).fit(Y)
        assert np.abs(pca.low_rank_).max() < 2 * np.abs(Y).max()

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_nor_do_constant_columns(self, seed):
        from sklearn.datasets import load_digits

        Y = load_digits().data[:600]
        with pytest.warns(UserWarning):
            pca = RobustPCA(random_state=seed).fit(Y)
        assert np.abs(pca.low_rank_).max() < 2 * np.abs(Y).max()

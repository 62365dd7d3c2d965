"""Empirical Bayes and the exact fits that it leads to."""

import pickle

import numpy as np
import pytest

from discrepant import InputError, RobustPCA, recover
from discrepant.fixed_rank.tangent_space import FixedRankMatrix
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.robust_pca.doubts import Doubt
from discrepant.robust_pca.search.empirical_bayes import posterior, regress_by_annealing
from discrepant.robust_pca.search.exact_search import (
    EXACT,
    ExactSearch,
)
from support.matrices import draw


def search(Y, psd=False):
    """Return an exact search of a matrix in units of its size, and the size."""
    size = np.nanmedian(np.abs(Y)) / 0.6745
    rng = np.random.default_rng(0)
    return ExactSearch(Y / size, psd, EXACT, rng, lambda stage: True), size


class TestEmpiricalBayes:
    def test_posterior_of_each_column_is_that_of_a_normal_model(self):
        k, n = 6, 4
        prior = draw(k, 9) @ draw(k, 9).T / 9
        noise = np.exp(draw(k, n, seed=1))
        y = draw(k, n, seed=2)
        mean, variance, _ = posterior(y, noise, prior)
        for j in range(n):
            gain = prior @ np.linalg.inv(prior + np.diag(noise[:, j]))
            covariance = prior - gain @ prior
            np.testing.assert_allclose(mean[:, j], gain @ y[:, j], rtol=1e-10)
            np.testing.assert_allclose(variance[:, j], np.diag(covariance), rtol=1e-8)

    def test_regression_is_exact_though_almost_half_of_the_entries_are_wrong(self):
        basis, coordinates = draw(60, 4), draw(5, 4, seed=1)
        lines = coordinates @ basis.T
        wrong = np.random.default_rng(2).random(lines.shape) < 0.45
        lines[wrong] += 10 * draw(*lines.shape, seed=3)[wrong]
        result = regress_by_annealing(
            lines, np.ones(lines.shape, bool), basis, np.eye(4)
        )
        np.testing.assert_allclose(result, coordinates, atol=1e-8)


class TestExactSearch:
    @pytest.mark.parametrize(
        ("shape", "rank", "fraction"), [((90, 110), 4, 0.4), (90, 8, 0.4)]
    )
    def test_a_sample_of_rows_extends_to_all_rows(self, shape, rank, fraction):
        psd = isinstance(shape, int)
        problem = corrupted_matrix(shape, rank, fraction, random_state=0)
        exact, size = search(problem.observed, psd)
        fit = exact.proven(next(exact.proposals()))
        assert relative_error(fit.value() * size, problem.low_rank) < 1e-8
        assert exact.undetermined(fit) == (0, 0)

    def test_components_of_errors_in_a_few_rows_are_dropped(self):
        low_rank = draw(40, 3) @ draw(40, 3, seed=1).T
        spurious = np.zeros_like(low_rank)
        spurious[:5] = np.outer(20 * draw(5, seed=2), draw(40, seed=3))
        Y = low_rank.copy()
        Y[:5, :9] += spurious[:5, :9]  # errors that one more component explains
        exact, size = search(Y)
        at = FixedRankMatrix.of((low_rank + spurious) / size, "general", 4)
        fit = exact.proven(at)
        assert fit.rank == 3
        assert relative_error(fit.value() * size, low_rank) < 1e-8

    def test_noise_has_no_proof(self):
        exact, _ = search(draw(20, 20))
        assert not list(exact.proposals())

    def test_fast_leaves_the_search_out(self):
        Y = corrupted_matrix((50, 50), 10, 0.35, random_state=17).observed
        with pytest.warns(UserWarning):
            fast = RobustPCA(effort="fast", random_state=0).fit(Y)
        assert fast.status_.doubts
        with pytest.warns(UserWarning):
            same = recover(Y, effort="fast", random_state=0)
        np.testing.assert_array_equal(same.low_rank, fast.low_rank_)
        with pytest.raises(InputError, match="effort"):
            recover(Y, effort="quick")

    def test_stopping_ends_the_search(self):
        Y = corrupted_matrix((50, 50), 10, 0.35, random_state=17).observed

        def stop(fraction, note):
            return "empirical" not in note

        with pytest.warns(UserWarning):
            pca = RobustPCA(verbose=stop, random_state=0).fit(Y)
        assert "empirical" not in str(pca.status_)


def test_doubts_can_be_pickled_with_their_sentences():
    warning = Doubt.FEW_STORED.warning(rows=1, columns=2, rank=3)
    copy = pickle.loads(pickle.dumps(warning))
    assert copy.doubt is Doubt.FEW_STORED
    assert str(copy) == str(warning)

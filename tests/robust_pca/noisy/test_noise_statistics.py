"""What the size of the noise is read off: histograms, edges, two groups of cells."""

import numpy as np
import pytest

from discrepant.core.robust_statistics import MAD
from discrepant.robust_pca.noisy.histogram import BINS, EDGES, quantile
from discrepant.robust_pca.noisy.mixture import (
    NORMAL,
    fit_mixture,
    leave_one_out_posterior,
)
from discrepant.robust_pca.noisy.spectrum_edge import noise_edge


class TestStatistics:
    def test_quantiles_of_a_histogram(self):
        z = np.abs(np.random.default_rng(0).standard_normal(100_000))
        counts = np.histogram(z, EDGES)[0]
        assert quantile(counts, 0.5)[0] == pytest.approx(MAD, rel=0.01)
        assert len(counts) == BINS

    def test_the_edge_is_that_of_even_noise(self):
        rng = np.random.default_rng(1)
        for m, n in ((400, 300), (2000, 50)):
            N = rng.standard_normal((m, n))
            edge = noise_edge((N**2).sum(axis=1), (N**2).sum(axis=0))
            assert np.linalg.norm(N, 2) < edge < 1.08 * (np.sqrt(m) + np.sqrt(n))

    def test_the_edge_follows_uneven_noise(self):
        rng = np.random.default_rng(2)
        N = rng.standard_normal((400, 300)) * np.where(np.arange(300) < 50, 5.0, 1.0)
        edge = noise_edge((N**2).sum(axis=1), (N**2).sum(axis=0))
        assert 0.93 * edge < np.linalg.norm(N, 2) < edge

    def test_two_groups_are_told_apart(self):
        rng = np.random.default_rng(3)
        z = np.abs(np.append(rng.standard_normal(90_000), rng.uniform(-20, 20, 10_000)))
        counts = np.histogram(z, EDGES)[0]
        mixture = fit_mixture(counts, 1.3)
        assert mixture.nu == NORMAL
        assert mixture.tau == pytest.approx(1, rel=0.01)
        assert mixture.clean == pytest.approx(0.9, abs=0.01)
        assert (np.diff(mixture.corrupt) >= 0).all()
        assert 0.5 < leave_one_out_posterior(counts, 0.01).fdr_threshold < 1

    def test_heavy_tails_are_recognised(self):
        z = np.abs(np.random.default_rng(4).standard_t(4, 100_000))
        mixture = fit_mixture(np.histogram(z, EDGES)[0])
        assert 3 <= mixture.nu <= 5
        assert mixture.clean > 0.99

"""Noise by column stays within reason, whatever a column is."""

import warnings

import numpy as np
import pytest

from discrepant import InputError, RobustPCA


@pytest.mark.parametrize(
    ("seed", "shape", "noise"), [(856912306, (20, 24), 0.0), (306697588, (12, 21), 0.1)]
)
def test_the_noise_of_a_column_neither_vanishes_nor_explodes(seed, shape, noise):
    """Rounded data, few rows, gross errors: σ fell by ten a pass until it was zero."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    Y = np.round(4 * (Y + noise * rng.standard_normal(shape)))
    wrong = rng.random(shape) < 0.1
    Y[wrong] += 1e6 * rng.standard_normal(wrong.sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pca = RobustPCA(random_state=0).fit(Y)
    assert np.abs(pca.low_rank_ + pca.sparse_ + pca.residual_ - Y).max() < 1e-6
    assert np.all(pca.noise_ >= 0) and np.all(pca.noise_ <= np.abs(Y).max())


@pytest.mark.parametrize("size", [5e-324, 1.7e308])
def test_data_at_the_end_of_the_floats_get_a_sentence(size):
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (30, 20))
    with pytest.raises(InputError, match="at the limit of float64; multiply them"):
        RobustPCA().fit(signs * size)


@pytest.mark.parametrize("name", ["breast_cancer", "diabetes", "wine"])
def test_the_noise_of_a_real_table_does_not_fall_to_that_of_half_of_it(name):
    """Half of the entries were interpolated, and the fit took all of 500 passes."""
    from sklearn import datasets

    Y = getattr(datasets, f"load_{name}")().data
    wrong = np.random.default_rng(0).random(Y.shape) < 0.05
    Y = np.where(wrong, Y + 8 * Y.std(axis=0), Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pca = RobustPCA(random_state=0).fit(Y)
    assert pca._result.mixture.clean > 0.8
    assert len(pca.history_["step"]) < 300
    flags = pca.outliers_
    assert flags[wrong].mean() > 0.95
    assert flags[~wrong].mean() < 0.01


def test_integers_cost_no_warning():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 40))
    Y[rng.random(Y.shape) < 0.05] += 10
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        RobustPCA(random_state=0).fit(Y.astype(int)).transform(Y.astype(int))


def test_the_gap_is_not_below_zero_beyond_rounding():
    assert RobustPCA().fit(np.ones((20, 20))).certificate_.gap >= -1e-13

"""Flags by the Gaussian model of rows: where it applies, and its warnings."""

import warnings

import numpy as np
import pytest

from discrepant import RobustPCA
from discrepant.robust_pca.noisy import result as noisy_result


def table(rows=300, columns=10, wrong=0.05, seed=0):
    """Return rows of a slowly decaying covariance, with wrong cells, and these."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((columns, columns)) * 0.7 ** np.arange(columns)
    Y = rng.standard_normal((rows, columns)) @ mixing.T
    Y = Y * 10.0 ** rng.uniform(-1, 2, columns) + rng.uniform(0, 50, columns)
    bad = rng.random(Y.shape) < wrong
    size = rng.choice([-1, 1], Y.shape) * rng.uniform(6, 10, Y.shape)
    return Y + np.where(bad, size * Y.std(axis=0), 0.0), bad


def fitted(Y, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = RobustPCA(random_state=0, **settings).fit(Y)
    return model, " ".join(str(w.message) for w in caught)


@pytest.fixture(scope="module")
def real_table():
    Y, bad = table()
    return Y, bad, *fitted(Y)


def test_flags_of_a_table_of_full_rank_are_right(real_table):
    _, bad, model, _ = real_table
    flags = model.outliers_
    assert model._result.row_model is not None
    assert (flags & bad).sum() >= 0.9 * flags.sum()
    assert (flags & bad).sum() >= 0.95 * bad.sum()


def test_probabilities_order_the_entries_as_the_flags_do(real_table):
    _, _, model, _ = real_table
    flags, probability = model.outliers_, model.probability_
    assert probability[flags].min() >= probability[~flags].max()
    np.testing.assert_array_equal(model.sparse_ != 0, flags)


def test_an_uncorrupted_table_has_next_to_no_flags():
    model, _ = fitted(table(wrong=0.0)[0])
    assert model.outliers_.mean() < 0.005


def test_low_rank_and_noise_keep_their_flags():
    m, n, rank = 400, 20, 3
    rng = np.random.default_rng(1)
    Y = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    Y += 0.1 * rng.standard_normal((m, n))
    bad = rng.random((m, n)) < 0.1
    Y[bad] = rng.normal(0, 10, bad.sum())
    model, _ = fitted(Y)
    assert model._result.row_model is None
    assert (model.outliers_ & ~bad).sum() < 0.03 * model.outliers_.sum()


def test_noise_given_by_the_user_is_the_null(real_table):
    Y, *_ = real_table
    model, _ = fitted(Y, noise=np.std(Y, axis=0) / 10)
    assert model._result.row_model is None


def test_columns_without_spread_are_named_and_not_flagged():
    Y, bad = table()
    Y = np.insert(Y, 4, 0.0, axis=1)
    Y[7, 4] = 5.0
    model, messages = fitted(Y)
    assert "equal in column 4" in messages
    assert not model.outliers_[:, 4].any()
    assert np.delete(model.outliers_, 4, axis=1)[bad].mean() > 0.9
    assert np.abs(model.low_rank_).max() <= 2 * np.abs(Y).max()


def test_missing_entries_are_not_flagged(real_table):
    Y, bad, *_ = real_table
    missing = np.random.default_rng(2).random(Y.shape) < 0.1
    model, _ = fitted(np.where(missing, np.nan, Y))
    assert model._result.row_model is not None
    assert not model.outliers_[missing].any()
    assert not model.probability_[missing].any()
    assert model.outliers_[bad & ~missing].mean() > 0.9


def test_flags_that_gather_in_a_column_have_a_warning():
    Y, _ = table(wrong=0.0)
    rng = np.random.default_rng(3)
    spread = Y[:, 2].std()
    Y[rng.random(len(Y)) < 0.12, 2] += 12 * spread
    _, messages = fitted(Y)
    assert "of the flags lie in columns" in messages


def test_blocks_of_rows_change_nothing(real_table, monkeypatch):
    Y, _, model, _ = real_table
    monkeypatch.setattr(noisy_result, "SCORED_ROWS", 37)
    again, _ = fitted(Y, memory_limit=1)
    np.testing.assert_array_equal(again.outliers_, model.outliers_)
    np.testing.assert_array_equal(again.probability_, model.probability_)


def test_dask_arrays_have_a_warning_instead(real_table):
    da = pytest.importorskip("dask.array")
    Y, *_ = real_table
    large = da.from_array(np.tile(Y, (6, 1)), chunks=(900, 5))
    _, messages = fitted(large, memory_limit=1 << 10, max_iter=60)
    assert "predict an entry better" in messages


@pytest.mark.parametrize("low_rank", [False, True])
def test_rows_of_another_population_have_the_largest_scores(low_rank):
    if low_rank:
        rng = np.random.default_rng(1)
        Y = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 20))
        Y += 0.1 * rng.standard_normal(Y.shape)
    else:
        Y, _ = table(wrong=0.02)
    rng = np.random.default_rng(4)
    for j in range(Y.shape[1]):  # break the relations between columns
        Y[:15, j] = rng.permutation(Y[:, j])[:15]
    model, _ = fitted(Y)
    assert (model._result.row_model is None) == low_rank
    ranks = np.argsort(np.argsort(model.row_score_))
    assert ranks[:15].mean() > 0.85 * len(Y)

"""Sparse tables of which only the stored entries are known."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse

from discrepant import InputError, RobustPCA
from discrepant.robust_pca.doubts import Doubt


def problem(shape=(400, 150), observed=0.2, rank=3, wrong=0.05, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((shape[0], rank)), rng.standard_normal((shape[1], rank))
    X = U @ V.T
    i, j = np.nonzero(rng.random(shape) < observed)
    y = X[i, j] + noise * rng.standard_normal(len(i))
    bad = rng.random(len(y)) < wrong
    y[bad] += rng.uniform(-15, 15, bad.sum())
    return sparse.coo_array((y, (i, j)), shape), X, bad


def error(pca, X):
    low_rank = pca._result.block(slice(None), slice(None))
    return np.linalg.norm(low_rank - X) / np.linalg.norm(X)


def fitted(table, **settings):
    return RobustPCA(missing="unstored", random_state=0, **settings).fit(table)


@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
def test_an_exact_table_is_recovered_to_rounding(form):
    table, X, bad = problem()
    pca = fitted(table.asformat(form))
    assert (pca.rank_, pca.noise_) == (3, 0)
    assert error(pca, X) < 1e-9
    assert pca.low_rank_.format == form
    marks = pca.outliers_.tocsr()[table.coords[0], table.coords[1]]
    assert (np.asarray(marks) == bad).all()


def test_with_noise_it_is_fitted_at_its_level():
    table, X, bad = problem(noise=0.2)
    pca = fitted(table)
    assert pca.rank_ == 3
    assert pca.noise_ == pytest.approx(0.2, rel=0.1)
    assert error(pca, X) < 0.08
    parts = pca.low_rank_ + pca.sparse_ + pca.residual_
    np.testing.assert_allclose((parts - table).data, 0, atol=1e-9)
    chance = pca.probability_.tocsr()[table.coords[0], table.coords[1]]
    assert np.asarray(chance)[bad].mean() > 0.8


def test_it_agrees_with_the_dense_fit():
    table, _, _ = problem(noise=0.2, observed=0.6)
    dense = np.full(table.shape, np.nan)
    dense[table.coords] = table.data
    one, other = fitted(table), RobustPCA(random_state=0).fit(dense)
    low_rank = one._result.block(slice(None), slice(None))
    distance = np.linalg.norm(low_rank - other.low_rank_) / np.linalg.norm(low_rank)
    assert distance < 0.03
    assert one.rank_ == other.rank_


def test_nothing_wrong_and_nothing_there():
    table, X, _ = problem(wrong=0.0)
    pca = fitted(table)
    assert pca.outliers_.sum() == 0
    assert error(pca, X) < 1e-9
    rng = np.random.default_rng(0)
    noise = sparse.coo_array(
        (rng.standard_normal(table.nnz), table.coords), table.shape
    )
    with pytest.warns(UserWarning, match="No component"):
        assert fitted(noise).rank_ == 0


@pytest.mark.parametrize("seed", range(8))
def test_too_few_entries_are_not_wrong_in_silence(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 3)) @ rng.standard_normal((3, 20))
    Y = X + 0.1 * rng.standard_normal(X.shape)
    bad = rng.random(X.shape) < 0.05
    Y[bad] += rng.choice([-1, 1], bad.sum()) * rng.uniform(5, 10, bad.sum())
    table = sparse.csr_array(np.where(rng.random(X.shape) < 0.5, Y, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pca = fitted(table)
    assert error(pca, X) < 0.1 or Doubt.UNDETERMINED in pca.status_.doubts


def test_new_rows_are_placed_by_what_they_store():
    table, X, _ = problem(noise=0.1)
    pca = fitted(table.tocsr()[:300])
    new = pca.transform(table.tocsr()[300:])
    distance = np.linalg.norm(new @ pca.components_ - X[300:]) / np.linalg.norm(X[300:])
    assert distance < 0.2


def test_transposing_and_scaling_change_nothing():
    table, _, _ = problem(noise=0.2)
    pca, turned, large = fitted(table), fitted(table.T.tocsr()), fitted(1e6 * table)
    X = pca._result.block(slice(None), slice(None))
    Z = turned._result.block(slice(None), slice(None))
    assert np.linalg.norm(Z.T - X) < 0.02 * np.linalg.norm(X)
    W = large._result.block(slice(None), slice(None))
    np.testing.assert_allclose(W / 1e6, X, atol=1e-6 * np.abs(X).max())


def test_dtype_pickling_and_the_input_are_kept():
    table, _, _ = problem(noise=0.2)
    before = table.copy()
    pca = pickle.loads(pickle.dumps(fitted(table.astype(np.float32))))
    assert pca.low_rank_.dtype == np.float32
    assert (table != before).nnz == 0


def test_lines_without_entries_are_said():
    table, _, _ = problem(noise=0.2)
    table = table.tolil()
    table[5] = 0
    with pytest.warns(UserWarning, match="1 rows and 0 columns store fewer"):
        pca = fitted(table.tocoo())
    assert not pca._result.block(slice(5, 6), slice(None)).any()


def test_mistakes_get_a_sentence():
    table, _, _ = problem(shape=(30, 20))
    with pytest.raises(TypeError, match='missing="unstored"'):
        RobustPCA().fit(table)
    with pytest.raises(TypeError, match="for sparse matrices"):
        fitted(table.toarray())
    with pytest.raises(InputError, match="stored twice"):
        twice = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), (3, 3))
        fitted(twice)
    with pytest.raises(InputError, match="No entry"):
        fitted(sparse.coo_array((30, 20)))
    with pytest.raises(InputError, match="one positive number"):
        fitted(table, noise="column")
    with pytest.raises(InputError, match="psd is not used with missing"):
        fitted(table, psd=True)
    with pytest.raises(InputError, match="no certificate"):
        _ = fitted(problem()[0]).certificate_

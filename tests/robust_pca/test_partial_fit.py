"""`RobustPCA.partial_fit`: an exact stream is followed exactly, changes too."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from discrepant import InputError, RobustPCA


def corrupted_rows(basis, count, rng, noise=0.0):
    rows = rng.standard_normal((count, len(basis))) @ basis
    rows += noise * rng.standard_normal(rows.shape)
    corrupt = rng.random(rows.shape) < 0.1
    rows[corrupt] += rng.normal(0, 20, corrupt.sum())
    return rows


def subspace_error(model, basis):
    Q = np.linalg.qr(basis.T)[0]
    V = model.components_
    return np.linalg.norm(V - (V @ Q) @ Q.T, 2) if len(V) == len(basis) else 1.0


def test_an_exact_stream_and_a_change_of_its_subspace():
    rng = np.random.default_rng(7)
    before, after = rng.standard_normal((2, 3, 200))
    model = RobustPCA(random_state=0)
    for _ in range(10):
        model.partial_fit(corrupted_rows(before, 10, rng))
    assert subspace_error(model, before) < 1e-6
    for _ in range(10):
        model.partial_fit(corrupted_rows(after, 10, rng))
    assert subspace_error(model, after) < 1e-6
    assert model.n_samples_seen_ == 200
    assert model.transform(corrupted_rows(after, 4, rng)).shape == (4, 3)


def test_a_stream_with_noise():
    rng = np.random.default_rng(8)
    basis = rng.standard_normal((2, 120))
    model = RobustPCA(random_state=0).partial_fit(corrupted_rows(basis, 150, rng, 0.1))
    assert model.rank_ == 2
    assert subspace_error(model, basis) < 0.1
    assert np.mean(model.noise_) == pytest.approx(0.1, rel=0.3)


def test_too_few_rows_are_kept_until_there_are_enough():
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((25, 2)) @ rng.standard_normal((2, 60))
    model = RobustPCA(random_state=0).partial_fit(rows[:5])
    with pytest.raises(NotFittedError):
        model.transform(rows)
    assert model.partial_fit(rows[5:]).rank_ == 2


def test_fit_starts_afresh_and_columns_must_stay():
    rng = np.random.default_rng(10)
    rows = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 60))
    model = RobustPCA(random_state=0).partial_fit(rows)
    for _ in range(2):
        with pytest.raises(InputError, match="features"):
            model.partial_fit(rows[:, :50])
        model.fit(rows)
    assert model.partial_fit(rows).n_samples_seen_ == 40
    assert model.fit(rows[:, :50]).n_features_in_ == 50
    with pytest.raises(InputError, match="psd=False"):
        RobustPCA(psd=True).partial_fit(rows)


def test_after_a_fit_the_stream_goes_on_from_there():
    rng = np.random.default_rng(11)
    before, after = rng.standard_normal((2, 3, 200))
    model = RobustPCA(random_state=0).fit(corrupted_rows(before, 60, rng))
    model.partial_fit(corrupted_rows(before, 5, rng))
    assert subspace_error(model, before) < 1e-6  # fitted still
    model.partial_fit(corrupted_rows(after, 60, rng))
    assert subspace_error(model, after) < 1e-6


def test_rows_that_are_missing_are_no_change():
    rng = np.random.default_rng(12)
    basis = rng.standard_normal((3, 200))
    model = RobustPCA(random_state=0).partial_fit(corrupted_rows(basis, 60, rng))
    model.partial_fit(np.full((10, 200), np.nan))
    model.partial_fit(corrupted_rows(basis, 5, rng))
    assert subspace_error(model, basis) < 1e-6


def test_a_stream_is_pickled_in_the_middle_and_cloned_empty():
    rng = np.random.default_rng(13)
    rows = corrupted_rows(rng.standard_normal((3, 200)), 120, rng)
    one = RobustPCA(random_state=0).partial_fit(rows[:50])
    two = pickle.loads(pickle.dumps(one))
    for model in (one, two):
        model.partial_fit(rows[50:])
    assert np.array_equal(one.components_, two.components_)
    assert not hasattr(clone(one), "n_samples_seen_")


def test_the_rank_follows():
    rng = np.random.default_rng(14)
    basis = rng.standard_normal((8, 150))
    model = RobustPCA(random_state=0)
    for rank, rows in ((3, 100), (8, 100), (5, 300)):
        model.partial_fit(rng.standard_normal((rows, rank)) @ basis[:rank])
        assert model.rank_ == rank

"""Cleaner: scikit-learn's conventions, and new rows scored by themselves."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from discrepant import Cleaner, InputError, clean
from support.tables import correlated, corrupted, sensors


@parametrize_with_checks([Cleaner()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted():
    return Cleaner().fit(correlated())


def test_the_training_table_is_cleaned_as_by_clean():
    frame = sensors()[0]
    cleaner = Cleaner().fit(frame)
    result = clean(frame, order=None)
    pd.testing.assert_frame_equal(cleaner.transform(frame), result.table)
    pd.testing.assert_frame_equal(cleaner.clean(frame).mask, result.mask)
    assert cleaner.rank_ == result.rank
    assert repr(cleaner.columns_) == repr(result.columns)
    pd.testing.assert_series_equal(cleaner.noise_, result.noise)


def test_errors_in_new_rows_are_flagged(fitted):
    data, wrong = corrupted(seed=0)
    flagged = fitted.clean(data).mask.to_numpy()
    assert (flagged & wrong).sum() >= 14
    assert (flagged & ~wrong).sum() <= 1


def test_each_row_is_scored_by_itself(fitted):
    data, _ = corrupted(seed=0)
    together = fitted.transform(data)
    apart = np.vstack([fitted.transform(row[None]) for row in data[:40]])
    np.testing.assert_array_equal(apart, together[:40])


def test_frames_are_returned_as_frames():
    frame = sensors()[0]
    cleaner = Cleaner(fill=True).fit(frame)
    new = frame.iloc[100:120].copy()
    new.iloc[3, 4] = 1e9
    out = cleaner.transform(new)
    assert out.dtypes.equals(new.dtypes)
    assert out.index.equals(new.index)
    assert list(cleaner.get_feature_names_out()) == list(frame.columns)
    named = cleaner.set_output(transform="pandas").transform(new)
    pd.testing.assert_frame_equal(named, out)
    array = Cleaner().set_output(transform="pandas").fit(correlated())
    assert isinstance(array.transform(correlated()), pd.DataFrame)


def test_new_rows_may_hold_text_where_numbers_were():
    frame = pd.DataFrame(correlated(), columns=list("abcdef"))
    cleaner = Cleaner().fit(frame)
    new = frame.iloc[:5].astype(object)
    new.iloc[2, 3] = "broken"
    result = cleaner.clean(new)
    assert result.mask.iloc[2, 3]
    assert isinstance(result.table.iloc[2, 3], float)


def test_other_columns_are_refused(fitted):
    with pytest.raises(InputError, match="features"):
        fitted.transform(np.ones((5, 3)))
    cleaner = Cleaner().fit(pd.DataFrame(correlated(), columns=list("abcdef")))
    with pytest.raises(InputError, match="feature names"):
        cleaner.transform(pd.DataFrame(correlated(), columns=list("abcdeg")))


def test_parameters_are_unchanged_by_fit():
    model = Cleaner(fdr=0.02, drop=[1])
    before = model.get_params()
    model.fit(correlated())
    assert model.get_params() == before
    assert clone(model).get_params() == before


def test_a_pickled_cleaner_gives_the_same_table(fitted):
    data, _ = corrupted(seed=0)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(data), fitted.transform(data))


def test_text_and_empty_tables_are_refused_in_one_sentence():
    for table in (np.array([["a", "b"], ["c", "d"]]), np.full((5, 2), np.nan)):
        with pytest.raises(InputError) as caught:
            Cleaner().fit(table)
        assert "\n" not in str(caught.value)

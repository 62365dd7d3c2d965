"""RobustPCA: scikit-learn's conventions, labels, and robust coordinates."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from discrepant import InputError, RobustPCA
from discrepant.core.robust_regression import l1_coordinates
from discrepant.core.validation import real_array
from discrepant.paper.synthetic import corrupted_matrix, relative_error
from discrepant.robust_pca.doubts import Doubt, FitWarning

# Doubts that the tables of scikit-learn's checks deserve: random tables of 21×2 and
# 15×4, and iris (150×4), of which one component is found, and a second one, 0.6 times
# as large, is lost in the noise.
DESERVED = {
    Doubt.LARGE_NOISE,
    Doubt.NARROW,
    Doubt.NOTHING_GAINED,
    Doubt.NOT_LOW_RANK,
    Doubt.UNCONFIRMED,
}


@parametrize_with_checks(
    [RobustPCA(random_state=0), RobustPCA("descent", random_state=0)]
)
def test_scikit_learn(estimator, check):
    # Every check applies; check_array_api_input skips itself unless SciPy's array API
    # mode is switched on.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitWarning)
        check(estimator)
    doubts = {w.message.doubt for w in caught if isinstance(w.message, FitWarning)}
    assert doubts <= DESERVED


@pytest.fixture(scope="module")
def problem():
    return corrupted_matrix((60, 40), 2, 0.05, random_state=0)


@pytest.fixture(scope="module")
def fitted(problem):
    return RobustPCA(random_state=0).fit(problem.observed)


def test_recovers(problem, fitted):
    assert fitted.rank_ == 2
    assert relative_error(fitted.low_rank_, problem.low_rank) < 1e-12
    assert fitted.certificate_.gap < 1e-6
    np.testing.assert_allclose(fitted.sparse_, problem.sparse, atol=1e-10)
    assert fitted.status_.converged
    np.testing.assert_allclose(
        fitted.components_ @ fitted.components_.T, np.eye(2), atol=1e-10
    )


def test_labels_come_out_as_they_went_in(problem):
    frame = pd.DataFrame(problem.observed).add_prefix("c").rename("r{}".format)
    model = RobustPCA(random_state=0).fit(frame)
    for part in (model.low_rank_, model.sparse_):
        assert part.index.equals(frame.index)
        assert part.columns.equals(frame.columns)
    named = model.set_output(transform="pandas").transform(frame)
    assert list(named.columns) == ["robustpca0", "robustpca1"]
    assert named.index.equals(frame.index)


def test_float32_stays(problem):
    model = RobustPCA(random_state=0).fit(problem.observed.astype(np.float32))
    assert model.low_rank_.dtype == model.sparse_.dtype == np.float32
    assert model.transform(problem.observed.astype(np.float32)).dtype == np.float32


def test_wide_float32_data_are_exact_when_they_are_called_so():
    rng = np.random.default_rng(60)
    L = rng.standard_normal((90, 3)) @ rng.standard_normal((3, 50))
    bad = rng.random(L.shape) < 0.1
    Y = L.copy()
    Y[bad] += rng.uniform(-8, 8, bad.sum())
    wide = np.ascontiguousarray(Y.T, np.float32)
    model = RobustPCA(random_state=0).fit(wide)
    assert model.noise_ == 0
    np.testing.assert_allclose(model.low_rank_, L.T, atol=1e-3)


def test_psd():
    problem = corrupted_matrix(50, 3, 0.1, random_state=0)
    model = RobustPCA(psd=True, random_state=0).fit(problem.observed)
    assert model.rank_ == 3
    assert np.linalg.eigvalsh(model.low_rank_)[0] > -1e-9


def test_parameters_are_not_touched(problem):
    model = RobustPCA(alpha=5.0, random_state=0)
    before = model.get_params()
    model.fit(problem.observed)
    assert model.get_params() == before
    assert clone(model).get_params() == before
    assert model.alpha_ == 5.0


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"solver": "magic"}, "solver"),
        ({"alpha": -1}, "alpha"),
        ({"tol": -1}, "tol"),
        ({"max_iter": 0}, "step"),
        ({"psd": True}, "square"),
        ({"alpha": None}, "alpha"),
        ({"tol": "x"}, "tol"),
        ({"max_iter": "x"}, "step"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"n_jobs": 1.5}, "n_jobs"),
        ({"solver": "descent", "width": 100}, "width"),
        ({"solver": "descent", "psd": True}, "square"),
    ],
)
def test_refusals(problem, settings, word):
    with pytest.raises(InputError, match=word):
        RobustPCA(random_state=0, **settings).fit(problem.observed)


FRAME = pd.DataFrame(np.ones((4, 3)), columns=["a", "b", "c"])
ODD_INPUTS = {
    "dates": lambda: FRAME.assign(d=pd.Timestamp("2020-01-01")),
    "column names of several types": lambda: FRAME.rename(columns={"a": 0}),
    "sparse": lambda: scipy.sparse.eye(5).tocsr(),
    "times": lambda: np.zeros((3, 3), "M8[s]"),
    "durations": lambda: np.zeros((3, 3), "m8[s]"),
    "records": lambda: np.zeros((3, 3), [("a", float)]),
    "text": lambda: FRAME.assign(d="x"),
    "lazy polars": lambda: pytest.importorskip("polars").from_pandas(FRAME).lazy(),
    "torch with gradient": lambda: pytest.importorskip("torch").ones(
        4, 3, requires_grad=True
    ),
    "torch bfloat16": lambda: pytest.importorskip("torch").ones(
        4, 3, dtype=pytest.importorskip("torch").bfloat16
    ),
}


@pytest.mark.parametrize("kind", ODD_INPUTS)
@pytest.mark.parametrize("solver", ["implicit", "descent"])
def test_odd_inputs_get_one_sentence(kind, solver):
    data = ODD_INPUTS[kind]()
    with pytest.raises(InputError) as caught:
        RobustPCA(solver).fit(data)
    assert "\n" not in str(caught.value)


def test_zeros_are_a_matrix_of_rank_zero():
    model = RobustPCA(random_state=0).fit(np.zeros((30, 20)))
    assert model.rank_ == 0 and not model.outliers_.any()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_fractions_of_variance_do_not_overflow(fitted, problem, scale):
    model = RobustPCA(random_state=0).fit(scale * problem.observed)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, fitted.explained_variance_ratio_, rtol=1e-6
    )
    assert model.score(scale * problem.observed) == pytest.approx(
        fitted.score(problem.observed)
    )


@pytest.mark.parametrize("n_jobs", [-1, -2, -100, 3])
def test_number_of_threads(problem, n_jobs):
    model = RobustPCA(random_state=0, n_jobs=n_jobs).fit(problem.observed)
    assert model.rank_ == 2


@pytest.mark.parametrize("solver", ["implicit", "descent"])
def test_a_masked_array_is_one_with_missing_entries(problem, solver):
    mask = np.zeros(problem.observed.shape, bool)
    mask[::7, ::5] = True
    masked = np.ma.masked_array(np.where(mask, 1e6, problem.observed), mask)
    plain = np.where(mask, np.nan, problem.observed)
    one, two = (RobustPCA(solver, random_state=0).fit(Y) for Y in (masked, plain))
    np.testing.assert_array_equal(one.low_rank_, two.low_rank_)
    whole = np.ma.masked_array(np.arange(12).reshape(3, 4), np.eye(3, 4, dtype=bool))
    assert np.isnan(real_array(whole)).sum() == 3


@pytest.mark.parametrize("shape", [(1000, 2), (1, 20), (20, 1)])
def test_thin_tables_come_with_a_warning(shape):
    Y = corrupted_matrix(shape, 1, 0, random_state=0).low_rank
    with pytest.warns(UserWarning, match="smaller alpha"):
        RobustPCA(random_state=0).fit(Y)


@pytest.mark.filterwarnings("error")
def test_flags_of_many_entries_in_two_columns_are_unconfirmed():
    Y = np.c_[np.tile([1.0, 2.0], 20), np.arange(40)]
    with pytest.warns(UserWarning, match="unreliable"):
        RobustPCA(random_state=0).fit(Y)
    RobustPCA(noise=0, random_state=0).fit(Y)  # the user asks for this program


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_of_other_units_come_with_a_warning(problem):
    Y = problem.observed.copy()
    Y[:, 3] *= 1e6
    with pytest.warns(UserWarning, match="columns differ"):
        RobustPCA("descent", max_iter=10, random_state=0).fit(Y)


def test_the_certificate_is_computed_once(problem):
    model = RobustPCA("descent", tol=0.1, random_state=0).fit(problem.observed)
    assert model.certificate_ is model.certificate_


def test_back_from_coordinates(problem):
    frame = pd.DataFrame(problem.observed).add_prefix("c").rename("r{}".format)
    model = RobustPCA(random_state=0).set_output(transform="pandas").fit(frame)
    rows = model.inverse_transform(model.transform(frame))
    assert rows.index.equals(frame.index)
    assert rows.columns.equals(frame.columns)
    C = model.transform(frame).to_numpy(np.float32)
    assert model.inverse_transform(C).dtype == np.float32
    with pytest.raises(InputError, match="numbers"):
        model.inverse_transform(np.full((2, 2), "a"))


class TestCoordinates:
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((100, 5)))[0].T
    C = rng.standard_normal((30, 5))

    def test_corrupted_and_incomplete_rows(self):
        rows = self.C @ self.V
        rows[self.rng.random(rows.shape) < 0.2] += 10
        rows[self.rng.random(rows.shape) < 0.2] = np.nan
        np.testing.assert_allclose(l1_coordinates(rows, self.V), self.C, atol=1e-12)

    def test_rows_are_independent(self):
        rows = self.C @ self.V + 0.01 * self.rng.standard_normal((30, 100))
        together = l1_coordinates(rows, self.V)
        apart = np.vstack([l1_coordinates(row[None], self.V) for row in rows])
        np.testing.assert_allclose(together, apart, atol=1e-10)

    def test_scale(self):
        rows = self.C @ self.V
        for scale in (1e-8, 1e8):
            np.testing.assert_allclose(
                l1_coordinates(scale * rows, self.V), scale * self.C, rtol=1e-6
            )

    @pytest.mark.parametrize(
        ("n", "k", "bad", "noise"), [(8, 3, 0.25, 0.0), (30, 5, 0.2, 0.1)]
    )
    def test_least_absolute_errors(self, n, k, bad, noise):
        rng = np.random.default_rng(1)
        V = np.linalg.qr(rng.standard_normal((n, k)))[0].T
        rows = rng.standard_normal((20, k)) @ V + noise * rng.standard_normal((20, n))
        rows[rng.random(rows.shape) < bad] += 5
        losses = np.abs(rows - l1_coordinates(rows, V) @ V).sum(axis=1)
        for y, loss in zip(rows, losses, strict=True):
            # c free, and the error as the difference of two positive parts
            best = linprog(
                np.r_[np.zeros(k), np.ones(2 * n)],
                A_eq=np.hstack([V.T, np.eye(n), -np.eye(n)]),
                b_eq=y,
                bounds=[(None, None)] * k + [(0, None)] * (2 * n),
            ).fun
            assert loss <= best * 1.005 + 1e-9

    def test_fewer_entries_than_coordinates(self):
        row = np.full((1, 100), np.nan)
        row[0, :2] = 1.0, 2.0
        c = l1_coordinates(row, self.V)
        np.testing.assert_allclose((c @ self.V)[0, :2], [1, 2])
        shortest = np.linalg.pinv(self.V[:, :2].T) @ [1, 2]
        np.testing.assert_allclose(c[0], shortest)

    def test_nothing_to_go_by(self):
        rows = np.zeros((2, 100))
        rows[1] = np.nan
        assert not l1_coordinates(rows, self.V).any()
        assert l1_coordinates(rows, self.V[:0]).shape == (2, 0)

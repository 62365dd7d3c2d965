"""Arrays of other libraries give NumPy's results, in their own kind and device."""

import pickle

import numpy as np
import pytest

from discrepant import InputError, RobustPCA, recover
from discrepant.core.array_libraries import to_numpy

strict = pytest.importorskip("array_api_strict")
torch = pytest.importorskip("torch")
RANK = 3
PARTS = ("low_rank_", "sparse_", "residual_", "probability_")


def on_another_device(Y):
    """Return an array on a device that NumPy cannot read implicitly."""
    return strict.asarray(Y, device=strict.Device("device1"))


LIBRARIES = {"torch": torch.asarray, "strict": on_another_device}
libraries = pytest.mark.parametrize("library", LIBRARIES)


def corrupted(sigma=0.0, dtype=np.float64, seed=60, shape=(100, 60)):
    """Return a matrix of low rank with gross errors, noise and missing entries."""
    rng = np.random.default_rng(seed)
    m, n = shape
    L = rng.standard_normal((m, RANK)) @ rng.standard_normal((RANK, n))
    Y = L + sigma * rng.standard_normal(shape)
    bad = rng.random(shape) < 0.05
    Y[bad] += rng.uniform(-8, 8, bad.sum())
    Y[rng.random(shape) < 0.05] = np.nan
    return Y.astype(dtype)


def assert_in_kind(part, X, expected):
    """Assert library, device, shape and values of a result."""
    assert type(part) is type(X) and part.device == X.device
    np.testing.assert_array_equal(to_numpy(part), expected, strict=True)


@libraries
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sigma", [0.0, 0.1])
def test_results_are_numpys_in_kind(library, dtype, sigma):
    Y = corrupted(sigma, dtype)
    X = LIBRARIES[library](Y)
    numpy_fit, fit = (RobustPCA(random_state=0).fit(data) for data in (Y, X))
    assert fit.rank_ == numpy_fit.rank_ == RANK
    for name in (*PARTS, "outliers_", "components_", "singular_values_"):
        assert_in_kind(getattr(fit, name), X, getattr(numpy_fit, name))
    for name in (*PARTS, "components_", "explained_variance_ratio_"):
        assert getattr(fit, name).dtype == X.dtype
    np.testing.assert_array_equal(to_numpy(fit.noise_), numpy_fit.noise_)
    coordinates, expected = fit.transform(X), numpy_fit.transform(Y)
    assert_in_kind(coordinates, X, expected)
    rows = numpy_fit.inverse_transform(expected)
    assert_in_kind(fit.inverse_transform(coordinates), X, rows)
    assert fit.score(X) == numpy_fit.score(Y)
    assert fit.certificate_ == numpy_fit.certificate_


@libraries
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "settings", [{"solver": "descent", "max_iter": 50}, {"memory_limit": 1000}]
)
def test_every_setting_for_dense_arrays_is_available(library, settings):
    Y = corrupted()
    X = LIBRARIES[library](Y)
    numpy_fit, fit = (RobustPCA(random_state=0, **settings).fit(A) for A in (Y, X))
    assert_in_kind(fit.low_rank_, X, numpy_fit.low_rank_)


@libraries
def test_streams_of_rows(library):
    Y = corrupted()
    X = LIBRARIES[library](Y)
    numpy_fit, fit = (RobustPCA(random_state=0).partial_fit(data) for data in (Y, X))
    assert_in_kind(fit.low_rank_, X, numpy_fit.low_rank_)


@libraries
@pytest.mark.parametrize("solver", ["implicit", "descent"])
def test_recover_reads_other_libraries(library, solver):
    Y = np.nan_to_num(corrupted(shape=(30, 20)))
    expected, result = (
        recover(y, solver=solver, random_state=0) for y in (Y, LIBRARIES[library](Y))
    )
    np.testing.assert_array_equal(result.low_rank, expected.low_rank, strict=True)


def test_data_are_not_changed_through_the_result():
    Y = corrupted()
    X = torch.asarray(Y.copy())
    fit = RobustPCA(random_state=0).fit(X)
    fit.low_rank_[:] = 0
    fit.sparse_[:] = 0
    np.testing.assert_array_equal(X.numpy(), Y)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda X: X.requires_grad_(), "detach"),
        (lambda X: X.to(torch.bfloat16), "BFloat16"),
        (lambda X: X.to(torch.complex64), "Complex"),
        (lambda X: X.to_sparse(), "to_dense"),
        (lambda X: X.to("meta"), "meta"),
        (lambda X: X[0], "2D"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: X.fill_(torch.nan), "missing"),
        (lambda X: X.fill_(torch.inf), "infinite"),
    ],
)
def test_unusable_tensors_are_refused_in_one_sentence(change, word):
    with pytest.raises(InputError, match=word) as caught:
        RobustPCA().fit(change(torch.asarray(corrupted())))
    assert "\n" not in str(caught.value)


def test_a_tensor_has_no_unstored_entries():
    with pytest.raises(InputError, match="sparse matrices of SciPy"):
        RobustPCA(missing="unstored").fit(torch.asarray(corrupted()))


def test_another_number_of_columns_is_refused():
    pca = RobustPCA(random_state=0).fit(torch.asarray(corrupted()))
    with pytest.raises(InputError, match="60 features"):
        pca.transform(torch.asarray(corrupted()[:, :9]))


def test_integers_become_float64():
    X = torch.asarray(np.nan_to_num(10 * corrupted()).astype(np.int32))
    pca = RobustPCA(random_state=0, noise=1.0).fit(X)
    assert pca.low_rank_.dtype == torch.float64


def test_new_rows_decide_about_the_kind_of_their_coordinates():
    Y = corrupted()
    X = torch.asarray(Y)
    numpy_fit, fit = (RobustPCA(random_state=0).fit(data) for data in (Y, X))
    assert_in_kind(numpy_fit.transform(X), X, numpy_fit.transform(Y))
    assert isinstance(fit.transform(Y), np.ndarray)
    assert isinstance(fit.inverse_transform(np.ones((2, RANK))), np.ndarray)


def test_warm_start_and_pickle():
    Y = corrupted()
    X = torch.asarray(Y)
    pca = RobustPCA(random_state=0, warm_start=True).fit(Y).fit(X).fit(X)
    assert torch.equal(pickle.loads(pickle.dumps(pca)).sparse_, pca.sparse_)
    assert isinstance(pca.fit(Y).sparse_, np.ndarray)

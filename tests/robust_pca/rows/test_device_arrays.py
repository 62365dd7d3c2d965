"""Arrays on a device come out as they went in, and their data never leave it."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from discrepant import InputError, RobustPCA
from discrepant.core.device_arrays import Place, is_foreign, place_of
from discrepant.core.robust_regression import l1_coordinates
from discrepant.robust_pca import row_sample as sample
from discrepant.robust_pca.rows import Rows, open_rows

strict = pytest.importorskip("array_api_strict")
torch = pytest.importorskip("torch")
SHAPE, RANK = (100, 60), 3


def on_strict(Y):
    """Put data where only an explicit transfer finds them."""
    return strict.asarray(Y, device=strict.Device("device1"))


KINDS = {"torch": torch.asarray, "strict": on_strict}
kinds = pytest.mark.parametrize("kind", KINDS)


def made(sigma=0.0, gaps=0.05, seed=60, shape=SHAPE, dtype=np.float64):
    """Return data of low rank with errors, noise and gaps."""
    rng = np.random.default_rng(seed)
    m, n = shape
    L = rng.standard_normal((m, RANK)) @ rng.standard_normal((RANK, n))
    Y = L + sigma * rng.standard_normal(shape)
    bad = rng.random(shape) < 0.05
    Y[bad] += rng.uniform(-8, 8, bad.sum())
    Y[rng.random(shape) < gaps] = np.nan
    return Y.astype(dtype)


def host(X):
    """Fetch an array, by the one road there is."""
    return place_of(X).fetch(X) if is_foreign(X) else X


def close(found, expected, tolerance):
    np.testing.assert_allclose(host(found), expected, rtol=0, atol=tolerance)


@pytest.fixture
def traffic(monkeypatch):
    """Count the entries of each transfer to the host, and forbid any other road."""
    sizes, fetch, open_road = [], Place.fetch, []

    def counted(place, values):
        sizes.append(int(np.prod(values.shape)))
        open_road.append(True)
        found = fetch(place, values)
        open_road.pop()
        return found

    def guarded(method):
        def call(tensor, *args, **kwargs):
            assert open_road, "a tensor went to the host behind the back of Place"
            return method(tensor, *args, **kwargs)

        return call

    monkeypatch.setattr(Place, "fetch", counted)
    for name in ("cpu", "numpy", "__array__", "tolist"):
        method = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, guarded(method))
    return sizes


class TestAsOnTheHost:
    """The same answer as by the compiled kernels."""

    @kinds
    @pytest.mark.parametrize("turned", [False, True])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("sigma", [0.0, 0.1])
    def test_all_parts(self, kind, turned, dtype, sigma):
        Y = made(sigma, dtype=dtype, gaps=0.0 if turned else 0.05)
        Y = np.ascontiguousarray(Y.T) if turned else Y
        X = KINDS[kind](Y)
        here, there = (RobustPCA(random_state=0).fit(data) for data in (Y, X))
        assert there.rank_ == here.rank_ == RANK
        exact = 1e-11 if dtype == np.float64 else 2e-5
        near = 0.05 * sigma or exact  # passes end at a part of the noise
        for name in ("low_rank_", "sparse_", "residual_", "probability_"):
            part = getattr(there, name)
            assert type(part) is type(X) and part.device == X.device
            assert part.dtype == X.dtype and part.shape == X.shape
        flags = host(there.outliers_)
        assert flags.dtype == bool
        assert np.count_nonzero(flags != here.outliers_) <= (2 if sigma else 0)
        close(there.low_rank_, here.low_rank_, near)
        np.testing.assert_allclose(host(there.noise_), here.noise_, rtol=1e-3)
        new = Y[:20] if not turned else Y
        back = here.inverse_transform(here.transform(new))
        l1_coordinates = there.transform(KINDS[kind](new))
        assert type(l1_coordinates) is type(X) and l1_coordinates.dtype == X.dtype
        close(there.inverse_transform(l1_coordinates), back, 10 * near)
        assert there.score(X) == pytest.approx(here.score(Y), abs=near)

    @kinds
    def test_certificate_and_explained_variance(self, kind):
        Y = made()
        here, there = (RobustPCA(random_state=0).fit(X) for X in (Y, KINDS[kind](Y)))
        assert there.certificate_.gap < 1e-5
        share = there.explained_variance_ratio_
        assert type(share) is type(there.components_)
        close(share, here.explained_variance_ratio_, 1e-12)

    @kinds
    def test_semidefinite(self, kind):
        rng = np.random.default_rng(61)
        A = rng.standard_normal((50, 2))
        Y = A @ A.T
        Y[rng.random(Y.shape) < 0.1] += 5
        here, there = (
            RobustPCA(psd=True, random_state=0).fit(X) for X in (Y, KINDS[kind](Y))
        )
        close(there.low_rank_, here.low_rank_, 1e-9)

    @kinds
    @pytest.mark.parametrize("sigma", [0.0, 0.2])
    def test_sample_solve_sweep(self, kind, sigma, monkeypatch):
        tuning = replace(sample.TUNING, entries=1 << 13, rows=150)
        monkeypatch.setattr(sample, "TUNING", tuning)
        Y = made(sigma, shape=(1500, 40))
        Y[7] = np.nan
        here, there = (RobustPCA(random_state=0).fit(X) for X in (Y, KINDS[kind](Y)))
        assert set(there.history_["phase"]) <= {"sweep", "weighed"}
        close(there.low_rank_, here.low_rank_, 5e-3 if sigma else 1e-11)
        assert np.count_nonzero(host(there.outliers_) != here.outliers_) <= 3

    @kinds
    @pytest.mark.parametrize("noise", [0.0, 0.05])
    def test_regression(self, kind, noise):
        rng = np.random.default_rng(62)
        Y = made(noise, shape=(60, 50))
        Y[0], Y[1, 2:], Y[2] = np.nan, np.nan, 0
        basis = np.linalg.qr(rng.standard_normal((50, RANK)))[0]
        Y[10:] = rng.standard_normal((50, RANK)) @ basis.T
        Y[10:] += noise * rng.standard_normal((50, 50))
        Y[10:][rng.random((50, 50)) < 0.2] += 3
        which = np.r_[np.arange(40), 45, 55]
        found = [
            rows.regress(which, np.arange(50), basis, np.ones(50), 0.01, noise / 100)
            for rows in (open_rows(Y), open_rows(KINDS[kind](Y)))
        ]
        fits = found[0].clean[10:] > 0
        for one, two in zip(*found, strict=True):
            np.testing.assert_allclose(two[:10], one[:10], atol=1)  # no fit at all
            np.testing.assert_allclose(two[10:][fits], one[10:][fits], atol=1e-9)

    @kinds
    def test_rows_with_little_to_go_by(self, kind):
        V = np.linalg.qr(np.random.default_rng(63).standard_normal((30, 3)))[0].T
        Y = np.full((4, 30), np.nan)
        Y[1], Y[2, :2], Y[3] = 0, (1.0, 2.0), V[0]
        found = l1_coordinates(KINDS[kind](Y), V)
        close(found, l1_coordinates(Y, V), 1e-12)


class TestTraffic:
    """Only what is narrow crosses to the host."""

    @pytest.mark.parametrize("sigma", [0.0, 0.1])
    def test_no_tensor_leaves_its_device(self, sigma, traffic):
        Y = made(sigma, shape=(400, 300))
        pca = RobustPCA(random_state=0).fit(torch.asarray(Y))
        for name in ("low_rank_", "sparse_", "residual_", "outliers_"):
            getattr(pca, name)
        pca.inverse_transform(pca.transform(torch.asarray(Y)))
        pca.score(torch.asarray(Y))
        assert traffic and max(traffic) <= 0.25 * Y.size

    def test_an_implicit_conversion_would_be_seen(self, traffic):
        with pytest.raises(AssertionError, match="behind the back"):
            np.asarray(torch.ones(2))
        with pytest.raises(RuntimeError, match="device1"):
            np.asarray(on_strict(np.ones(2)))


class TestAtTheDoor:
    Y = made(shape=(40, 30))

    @pytest.mark.parametrize(
        ("change", "word"),
        [
            (lambda X: X.requires_grad_(), "detach"),
            (lambda X: X.to(torch.bfloat16), "bfloat16"),
            (lambda X: X.to(torch.complex64), "complex"),
            (lambda X: X.to_sparse(), "to_dense"),
            (lambda X: X[0], "2D"),
            (lambda X: X[:0], "at least one row"),
            (lambda X: X.fill_(torch.nan), "missing"),
            (lambda X: X.fill_(torch.inf), "infinite"),
        ],
    )
    def test_one_sentence(self, change, word):
        with pytest.raises(InputError, match=word) as caught:
            RobustPCA().fit(change(torch.asarray(self.Y.copy())))
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "settings",
        [{"solver": "descent"}, {"missing": "unstored"}, {"memory_limit": 10}],
    )
    def test_what_only_the_host_can(self, settings):
        with pytest.raises(InputError):
            RobustPCA(**settings).fit(torch.asarray(self.Y))

    def test_streams_are_of_the_host(self):
        with pytest.raises(InputError, match="NumPy"):
            RobustPCA().partial_fit(torch.asarray(self.Y))

    def test_other_numbers_of_columns(self):
        pca = RobustPCA(random_state=0).fit(torch.asarray(self.Y))
        with pytest.raises(InputError, match="30 features"):
            pca.transform(torch.asarray(self.Y[:, :9]))

    def test_integers_become_floats(self):
        X = torch.asarray(np.nan_to_num(10 * self.Y).astype(np.int32))
        pca = RobustPCA(random_state=0, noise=1.0).fit(X)
        assert pca.low_rank_.dtype == torch.float64

    def test_a_model_of_the_host_serves_a_device_and_the_other_way_round(self):
        X = torch.asarray(self.Y)
        here, there = (RobustPCA(random_state=0).fit(Y) for Y in (self.Y, X))
        close(here.transform(X), here.transform(self.Y), 1e-11)
        assert isinstance(there.transform(self.Y), np.ndarray)
        assert isinstance(there.inverse_transform(np.ones((2, RANK))), np.ndarray)

    def test_a_warm_start_and_a_pickle(self):
        X = torch.asarray(self.Y)
        pca = RobustPCA(random_state=0, warm_start=True).fit(self.Y).fit(X).fit(X)
        again = pickle.loads(pickle.dumps(pca))
        assert torch.equal(again.sparse_, pca.sparse_)
        assert not Rows(self.Y).lies_like(open_rows(X))

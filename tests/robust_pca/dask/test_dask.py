"""Dask: the same answers as in memory, lazily, wherever the blocks are computed."""

import json
import pickle
import warnings
from concurrent.futures import CancelledError

import numpy as np
import pandas as pd
import pytest

from discrepant import Cleaner, RobustPCA, clean
from discrepant.core.errors import InputError
from discrepant.paper.synthetic import relative_error
from discrepant.robust_pca import row_sample as sample
from discrepant.robust_pca.dask import cluster
from discrepant.robust_pca.dask.rows import DaskRows
from discrepant.robust_pca.rows.in_memory import ArrayRows

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
dask = pytest.importorskip("dask")

SHAPE, RANK = (2000, 40), 2
PARTS = ("low_rank_", "sparse_", "outliers_", "probability_", "residual_")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let a sample, and blocks, be worth it at a few thousand rows."""
    monkeypatch.setattr(sample, "SAMPLE_ENTRIES", 1 << 14)
    monkeypatch.setattr("discrepant.robust_pca.dask.rows.MIN_BLOCK_BYTES", 1 << 12)


def made(sigma=0.0, seed=50, shape=SHAPE):
    """Return data with a tenth of wrong entries, and their low-rank part."""
    rng = np.random.default_rng(seed)
    m, n = shape
    L = rng.standard_normal((m, RANK)) @ rng.standard_normal((RANK, n))
    Y = L + sigma * rng.standard_normal(shape)
    bad = rng.random(shape) < 0.1
    Y[bad] += rng.uniform(-8, 8, bad.sum())
    return Y, L


def fitted(Y, **options):
    return RobustPCA(random_state=0, **options).fit(Y)


class TestSameAnswers:
    @pytest.mark.parametrize("turned", [False, True])
    @pytest.mark.parametrize("sigma", [0.0, 0.1])
    def test_as_in_memory(self, sigma, turned):
        Y, _ = made(sigma)
        Y[5:9] = np.nan
        chunks = ((0, 500, 0, 900, 600), (1, 20, 19))
        Y, chunks = (Y.T, chunks[::-1]) if turned else (Y, chunks)
        here, there = fitted(Y), fitted(da.from_array(Y, chunks=chunks))
        assert there.rank_ == here.rank_
        np.testing.assert_allclose(there.noise_, here.noise_, rtol=1e-3)
        for name in PARTS:
            one, two = getattr(here, name), getattr(there, name)
            assert two.chunks == chunks and two.dtype == one.dtype
            np.testing.assert_allclose(
                two.compute().astype(float), one.astype(float), atol=1e-3
            )
        np.testing.assert_allclose(there.row_score_, here.row_score_, atol=1e-3)

    def test_new_rows(self):
        Y, _ = made()
        lazy = da.from_array(Y, chunks=(500, 25))
        pca = fitted(lazy)
        some = Y[:300]
        C = pca.transform(lazy[:300])
        assert C.chunks == ((300,), (RANK,))
        np.testing.assert_allclose(C.compute(), pca.transform(some))
        back = pca.inverse_transform(C).compute()
        np.testing.assert_allclose(back, pca.inverse_transform(C.compute()))
        assert pca.score(lazy[:300]) == pytest.approx(pca.score(some))

    def test_numbers_of_any_kind(self):
        Y, L = made()
        lazy = da.from_array(Y, chunks=(800, 40))
        assert relative_error(fitted(lazy.astype(object)).low_rank_, L) < 1e-12
        whole = fitted((100 * lazy).round().astype(np.int32))
        assert whole.rank_ == RANK and whole.low_rank_.dtype == np.float64
        unknown = lazy[lazy[:, 0] > -100]
        assert relative_error(fitted(unknown).low_rank_, L) < 1e-12
        assert np.isnan(unknown.shape[0])  # the caller's own is as it was

    def test_a_small_array_is_solved_in_memory(self):
        Y, L = made(shape=(120, 60))
        pca = fitted(da.from_array(Y, chunks=(50, 30)))
        assert relative_error(pca.low_rank_, L) < 1e-12
        assert pca.sparse_.chunks == ((50, 50, 20), (30, 30))
        assert pca.certificate_.gap < 1e-4

    def test_a_gram_matrix(self):
        U = np.random.default_rng(0).standard_normal((90, 2))
        Y = U @ U.T
        Y[3, 50] += 9
        pca = fitted(da.from_array(Y, chunks=(40, 40)), psd=True)
        assert relative_error(pca.low_rank_, U @ U.T) < 1e-10
        with pytest.raises(InputError, match="memory_limit"):
            fitted(da.from_array(Y, chunks=(40, 40)), psd=True, memory_limit=0)

    def test_what_a_sample_does_not_carry_needs_no_memory_either(self, monkeypatch):
        target = "discrepant.robust_pca.solve.choose_sample_rows"
        monkeypatch.setattr(target, lambda rows, rng: None)
        Y, L = made(0.1)
        lazy = da.from_array(Y, chunks=(400, 40))
        with pytest.raises(InputError, match="memory_limit"):
            fitted(lazy, memory_limit=0, alpha=7.0)
        pca = fitted(lazy, memory_limit=0)
        assert pca.rank_ == RANK and relative_error(pca.low_rank_, L) < 0.03

    def test_a_warm_start_skips_the_sample(self):
        Y, L = made()
        pca = fitted(da.from_array(Y, chunks=(400, 40)), warm_start=True)
        assert relative_error(pca.fit(pca._result.data).low_rank_, L) < 1e-12

    def test_a_fit_can_be_stored(self):
        Y, L = made()
        pca = pickle.loads(pickle.dumps(fitted(da.from_array(Y, chunks=(400, 40)))))
        assert relative_error(pca.low_rank_, L) < 1e-12


class TestBlocks:
    def test_samples_are_those_of_an_array(self):
        Y, _ = made(shape=(900, 30))
        here = ArrayRows(Y)
        with DaskRows(da.from_array(Y, chunks=(200, 30))) as there:
            np.testing.assert_array_equal(there.sample(), here.sample())
            which = np.array([700, 3, 3, 400])
            for axis in (0, 1):
                some = which % (900, 30)[axis]
                one, two = (rows.take(some, axis) for rows in (there, here))
                np.testing.assert_array_equal(one, two)
            np.testing.assert_allclose(there.scales(0), here.scales(0), 1e-6)


def of(change):
    Y = da.from_array(made()[0], chunks=(400, 40))
    return change(Y)


def failing(block, block_info=None):
    if block_info and block_info[0]["chunk-location"][0] == 2:
        raise OSError("the disk is gone")
    return block


def words(block):
    return np.where(block > 2, "much", block.astype(object))


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda Y: Y.map_blocks(failing, dtype=float), "computed: OSError: .* gone"),
        (lambda Y: Y.map_blocks(words, dtype=object), "rows .* cannot be .*much"),
        (lambda Y: Y.map_blocks(lambda b: b[:5], dtype=float), "has the shape"),
        (lambda Y: Y.astype("U9"), "numbers are needed"),
        (lambda Y: Y.astype(complex), "numbers are needed"),
        (lambda Y: Y[:, 0], "2-D"),
        (lambda Y: Y[:0], "0 sample"),
        (lambda Y: da.where(Y > 5, np.inf, Y), "infinite values"),
        (lambda Y: da.full_like(Y, np.nan), "All values are missing"),
        (lambda Y: dd.from_dask_array(Y), "to_dask_array"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    with pytest.raises(InputError, match=sentence):
        fitted(of(change))


class Silent:
    """A client of a cluster without workers, or of one that is gone."""

    status = "running"

    def __init__(self, error=None):
        self.error, self.cancelled = error, False
        self.scheduler = type("Scheduler", (), {"address": "tcp://gone:8786"})

    def compute(self, tasks):
        if self.error:
            raise self.error
        return []

    def cancel(self, futures, force):
        self.cancelled = True


class TestFaults:
    @pytest.mark.parametrize("error", [CancelledError("lost"), OSError("no route")])
    def test_a_cluster_that_is_lost_raises_a_sentence(self, monkeypatch, error):
        pytest.importorskip("distributed")
        Y = da.from_array(made()[0], chunks=(400, 40))
        calls, real = [], cluster.compute_tasks

        def failing_later(tasks):
            calls.append(tasks)
            if len(calls) == 3:  # the regression, after preview and sample
                return cluster._on_cluster(Silent(error), tasks)
            return real(tasks)

        monkeypatch.setattr(
            "discrepant.robust_pca.dask.rows.compute_tasks", failing_later
        )
        pca = RobustPCA(random_state=0)
        with pytest.raises(cluster.ClusterError, match=r"gone:8786 is.*Fit again"):
            pca.fit(Y)
        assert pca.fit(Y).rank_ == RANK

    def test_no_workers_raises_a_sentence(self, monkeypatch):
        distributed = pytest.importorskip("distributed")
        monkeypatch.setattr(cluster, "SCHEDULER_TIMEOUT", 0.2)
        with (
            distributed.LocalCluster(
                n_workers=0, processes=False, dashboard_address=None
            ) as local,
            distributed.Client(local),
            pytest.raises(cluster.ClusterError, match="has no workers"),
        ):
            fitted(da.from_array(made()[0], chunks=(400, 40)))

    def test_other_versions_are_named(self):
        pytest.importorskip("distributed")
        client = Silent()
        client.wait_for_workers = lambda number, timeout: None
        client.run = lambda *args, **options: {"tcp://a:1": "0.0.1"}
        with pytest.warns(UserWarning, match=r"another version.*a:1: 0\.0\.1"):
            cluster._check_workers(client)
        error = ModuleNotFoundError("No module named 'discrepant'")
        client.run = lambda *args, **options: {"tcp://a:1": error}
        with pytest.raises(InputError, match="install discrepant"):
            cluster._check_workers(client)

    def test_no_scheduler_raises_a_sentence(self, monkeypatch):
        pytest.importorskip("distributed")
        monkeypatch.setattr(cluster, "SCHEDULER_TIMEOUT", 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(InputError, match="No scheduler answers"):
                with cluster.connected("tcp://127.0.0.1:9", None):
                    pass


def test_tables_are_scored_partition_by_partition():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(600, 1)) + 0.1 * rng.normal(size=(600, 5))
    values[rng.choice(600, 9, replace=False), 2] += 5
    table = pd.DataFrame(values, columns=list("abcde"), index=np.arange(600) * 2)
    table["number"] = np.arange(600)
    lazy = dd.from_pandas(table, npartitions=3)
    result, whole = clean(lazy), clean(table)
    assert result.table.divisions == lazy.divisions
    pd.testing.assert_frame_equal(result.table.compute(), whole.table)
    pd.testing.assert_frame_equal(result.mask.compute(), whole.mask)
    assert set(result.flagged.compute()["row"]) == set(whole.flagged["row"])
    with pytest.raises(InputError, match="no rows"):
        clean(lazy[lazy.a > 99])
    with pytest.raises(InputError, match="Dask DataFrame"):
        clean(lazy["a"])


@pytest.mark.parametrize("suffix", [".npy", ".zarr", ".h5", ".parquet"])
def test_files(tmp_path, suffix):
    from discrepant.table.io.array_files import open_dask_array, write_dask_array

    Y = da.from_array(made(shape=(500, 8))[0], chunks=(200, 8))
    path = tmp_path / f"data{suffix}"
    assert write_dask_array(path, Y, None) == 4000
    back, _ = open_dask_array(path)
    assert back.dtype == Y.dtype and back.numblocks[1] == 1
    np.testing.assert_array_equal(back, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(back)), Y)


@pytest.mark.slow
def test_the_command_by_workers(tmp_path, discrepant):
    Y, L = made(shape=(9000, 40))
    np.save(tmp_path / "big.npy", Y)
    done = discrepant("pca", "big.npy", "--workers", 2, "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert relative_error(np.load(tmp_path / "out/low_rank.npy"), L) < 1e-12
    assert json.loads((tmp_path / "out/summary.json").read_text())["workers"] == 2
    gone = ("pca", "big.npy", "--scheduler", "tcp://127.0.0.1:9", "-o", "no")
    done = discrepant(*gone, cwd=tmp_path)
    assert done.returncode == 2 and "No scheduler answers" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "no").exists()


def test_a_partition_is_scored_once_for_all_results(monkeypatch):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 4)))
    table = table.set_axis(list("abcd"), axis=1)
    table.loc[7, "b"] = 40
    result = clean(dd.from_pandas(table, npartitions=4))
    calls = []
    score_rows = Cleaner.clean
    monkeypatch.setattr(
        Cleaner, "clean", lambda self, X: calls.append(len(X)) or score_rows(self, X)
    )
    parts = dask.compute(
        result.table, result.mask, result.flagged, scheduler="synchronous"
    )
    assert calls == [50] * 4
    assert parts[1].loc[7, "b"]
    assert len(parts[2]) == parts[1].to_numpy().sum()
    assert result.table.divisions == result.mask.divisions == (0, 50, 100, 150, 199)

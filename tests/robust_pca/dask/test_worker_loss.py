"""A cluster that loses workers: the same answer, or one sentence and a way to go on."""

import _thread
import os
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

from discrepant import RobustPCA
from discrepant.robust_pca import row_sample as sample
from discrepant.robust_pca.dask import cluster
from discrepant.robust_pca.dask import rows as lazy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of a dying cluster there are many
]
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

BLOCKS, HEIGHT, WIDTH, RANK = 12, 1000, 40, 2
PAUSE = 0.15  # seconds that a block takes, so that there is time for a fault


def made(sigma):
    """Return an array whose blocks are made where they are needed."""

    # Defined here so that it is sent by value: workers cannot import the tests.
    def block_of(k):
        rng = np.random.default_rng(k + 1)
        V = np.random.default_rng(0).standard_normal((RANK, WIDTH))
        Y = rng.standard_normal((HEIGHT, RANK)) @ V
        Y += sigma * rng.standard_normal(Y.shape)
        bad = rng.random(Y.shape) < 0.1
        Y[bad] += rng.uniform(-8, 8, bad.sum())
        time.sleep(PAUSE)
        return Y

    blocks = [dask.delayed(block_of, pure=True)(k) for k in range(BLOCKS)]
    parts = [da.from_delayed(b, (HEIGHT, WIDTH), dtype=float) for b in blocks]
    return da.concatenate(parts)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(sample, "SAMPLE_ENTRIES", 1 << 14)
    monkeypatch.setattr(lazy, "MIN_BLOCK_BYTES", 1 << 12)


@pytest.fixture
def two_workers():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as local,
        distributed.Client(local) as client,
    ):
        yield local, client


@contextmanager
def faults(monkeypatch, at):
    """Let something happen in the middle of given passes: {number: what}."""
    passes, real, running = [], lazy.compute_tasks, []

    def watched(tasks):
        passes.append(len(tasks))
        what = at.get(len(passes))
        if what is not None:
            timer = threading.Timer(2.5 * PAUSE, what)
            timer.start()
            running.append(timer)
        return real(tasks)

    with monkeypatch.context() as patch:
        patch.setattr(lazy, "compute_tasks", watched)
        yield passes
    for timer in running:
        timer.join()


def kill_the_fullest(client):
    """Kill -9 the worker that holds the most."""
    held = client.has_what()
    pids = client.run(os.getpid)
    fullest = max(pids, key=lambda address: len(held.get(address, ())))
    os.kill(pids[fullest], signal.SIGKILL)


def same(one, two):
    a, b = one._result.fit, two._result.fit
    np.testing.assert_array_equal(a.U, b.U)
    np.testing.assert_array_equal(a.components, b.components)


@pytest.mark.parametrize("sigma, passes", [(0.0, (1, 3)), (0.1, (2, 4))])
def test_lost_workers_change_nothing(two_workers, monkeypatch, sigma, passes):
    local, client = two_workers
    Y = made(sigma)
    calm = RobustPCA(random_state=0).fit(Y)
    with faults(monkeypatch, {}) as counted:
        RobustPCA(random_state=0).fit(Y)
    calm_passes = len(counted)

    def kill():
        kill_the_fullest(client)

    for at in ({passes[0]: kill}, {p: kill for p in passes}):
        with faults(monkeypatch, at) as counted:
            same(RobustPCA(random_state=0).fit(Y), calm)
        assert len(counted) == calm_passes  # no pass was made again

    def kill_and_add():
        local.scale(3)
        kill_the_fullest(client)

    with faults(monkeypatch, {passes[1]: kill_and_add}):
        same(RobustPCA(random_state=0).fit(Y), calm)


def test_all_workers_lost_is_a_sentence(two_workers, monkeypatch):
    local, _ = two_workers
    Y = made(0.0)
    calm = RobustPCA(random_state=0).fit(Y)
    monkeypatch.setattr(cluster, "NO_WORKERS_TIMEOUT", 3.0)
    pca = RobustPCA(random_state=0)
    with faults(monkeypatch, {3: lambda: local.scale(0)}):
        with pytest.raises(cluster.ClusterError, match="has no workers"):
            pca.fit(Y)
    local.scale(2)
    pca.fit(Y)
    assert pca.rank_ == RANK
    np.testing.assert_allclose(pca.singular_values_, calm.singular_values_, 1e-12)


def test_a_cluster_that_dies_is_a_sentence(two_workers, monkeypatch):
    local, _ = two_workers
    with faults(monkeypatch, {3: local.close}):
        with pytest.raises(cluster.ClusterError, match="Fit again"):
            RobustPCA(random_state=0).fit(made(0.0))


def test_ctrl_c_leaves_nothing_running(two_workers, monkeypatch):
    _, client = two_workers
    with faults(monkeypatch, {3: _thread.interrupt_main}):
        with pytest.raises(KeyboardInterrupt):
            RobustPCA(random_state=0).fit(made(0.0))
    deadline = time.monotonic() + 10
    while True:
        left = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        busy = [tasks for tasks in client.processing().values() if tasks]
        if not left and not busy:
            return
        assert time.monotonic() < deadline, (left, busy)
        time.sleep(0.2)


def test_the_process_scheduler(monkeypatch):
    Y = made(0.0)
    calm = RobustPCA(random_state=0).fit(Y)
    with dask.config.set(scheduler="processes", num_workers=2):
        same(RobustPCA(random_state=0).fit(Y), calm)

"""How the tasks of a pass are computed under Dask, and what may go wrong with that.

Dask's own setting says where: in threads, in processes, or on a cluster. The tasks are
pure and bound to no worker, so a worker that is lost costs what it was at, which Dask
gives to another one. What Dask would wait for without end (a cluster that has lost all
of its workers, or a scheduler that is gone) is given up after a while with a sentence.
"""

import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from discrepant.core.errors import InputError
from discrepant.core.validation import error_text

PATIENCE = 60.0  # seconds that a cluster may be without workers, as when they restart
ANSWER = 10.0  # seconds within which a scheduler answers
LOOK = 1.0  # seconds between two looks at a cluster
RESUME = (
    "Fit again once it is back; with warm_start=True it goes on from the row space "
    "that was found"
)


class ClusterError(InputError, RuntimeError):
    """The cluster was lost in the middle of the work; the message says how to go on.

    ``known`` is what had been found by then of some of the rows.
    """

    known: Any = None


def compute_tasks(tasks: list[Any]) -> list[Any]:
    """Compute the tasks of one pass, wherever Dask is told to."""
    import dask

    client = client_of(tasks)
    if client is not None:
        return _on_cluster(client, tasks)
    try:
        return list(dask.compute(*tasks))
    except (InputError, MemoryError):
        raise
    except Exception as error:
        if type(error).__name__ != "BrokenProcessPool":
            raise
        raise ClusterError(f"A process of Dask was lost. {RESUME}.") from None


def client_of(collections: list[Any]) -> Any:
    """Return the client of the cluster that Dask uses now; None if it uses none."""
    if "distributed" not in sys.modules:
        return None
    from dask.base import get_scheduler
    from distributed import Client

    owner = getattr(get_scheduler(collections=collections), "__self__", None)
    return owner if isinstance(owner, Client) else None


@contextmanager
def worker_pool(collection: Any) -> Iterator[None]:
    """Hold what several passes need: workers that answer, or processes that stay."""
    import dask
    from dask.base import get_scheduler
    from dask.multiprocessing import get, get_context

    client = client_of([collection])
    if client is not None:
        _check_workers(client)
    scheduler = get_scheduler(collections=[collection])
    if scheduler is not get or dask.config.get("pool", None) is not None:
        yield
        return
    number = dask.config.get("num_workers", None)
    with ProcessPoolExecutor(number, mp_context=get_context()) as pool:
        try:
            with dask.config.set(pool=pool):
                yield
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _check_workers(client: Any) -> None:
    """See that there are workers, that they know this package, and the same one."""
    with _spoken(client):
        _wait_for_workers(client)
        answers = client.run(versions_here, on_error="return")
    here, other = versions_here(), {}
    for address, found in answers.items():
        if isinstance(found, BaseException):
            raise InputError(
                f"The worker {address} cannot load discrepant "
                f"({error_text(found)}); install discrepant[dask] on all workers."
            )
        differ = [name for name in here if found.get(name) != here[name]]
        if differ:
            other[address] = ", ".join(f"{name} {found.get(name)}" for name in differ)
    if other:
        address, versions = next(iter(other.items()))
        mine = ", ".join(f"{k} {v}" for k, v in here.items())
        warnings.warn(
            f"{len(other)} of {len(answers)} workers run other versions than this side "
            f"({address}: {versions}; here: {mine}): the answer may differ, or fail.",
            UserWarning,
            stacklevel=2,
        )


def versions_here() -> dict[str, str]:
    """Return the versions that a fit depends on."""
    import numba
    import numpy
    import scipy

    import discrepant

    modules = (discrepant, numpy, scipy, numba)
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        **{module.__name__: module.__version__ for module in modules},
    }


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[Any]:
    """Yield a client of a running cluster, or of one of local processes."""
    from distributed import Client, LocalCluster

    if address is not None:
        try:
            client = Client(address, timeout=ANSWER)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                f"No scheduler answers at {address} within {ANSWER:g} seconds "
                f"({error_text(error)})."
            ) from None
        with client:
            yield client
        return
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _on_cluster(client: Any, tasks: list[Any]) -> list[Any]:
    """Compute tasks on a cluster; whatever happens, none of them is left behind."""
    import dask

    # Rows of the factors travel with the tasks, on purpose: a lost worker takes no
    # state with it.
    quiet = {"distributed.admin.large-graph-warning-threshold": "1TB"}
    with _spoken(client):
        with dask.config.set(quiet):
            futures = client.compute(tasks)
        try:
            _wait(client, futures)
            return list(client.gather(futures))
        finally:
            _cancel(client, futures)


def _wait(client: Any, futures: list[Any]) -> None:
    """Wait for futures as long as there is somebody who works on them."""
    from distributed import wait

    since = time.monotonic()
    while True:
        try:
            wait(futures, timeout=LOOK, return_when="ALL_COMPLETED")
            return
        except TimeoutError:
            pass
        if any(future.status == "error" for future in futures):
            return  # said when they are gathered
        if client.status != "running" or not client.nthreads():
            if time.monotonic() - since > PATIENCE:
                raise ClusterError(_no_workers(client))
        else:
            since = time.monotonic()


def _wait_for_workers(client: Any) -> None:
    since = time.monotonic()
    while not client.nthreads():
        if time.monotonic() - since > ANSWER:
            raise ClusterError(_no_workers(client))
        time.sleep(0.1)


def _no_workers(client: Any) -> str:
    address = getattr(client.scheduler, "address", "this address")
    return f"The cluster at {address} has no workers. {RESUME}."


def _cancel(client: Any, futures: list[Any]) -> None:
    """Forget futures and whatever would still be computed for them."""
    try:
        client.cancel(futures, force=True)
    except Exception:  # the cluster is gone, and they with it
        return


@contextmanager
def _spoken(client: Any) -> Iterator[None]:
    """Say in a sentence what befell the cluster."""
    from concurrent.futures import CancelledError
    from concurrent.futures import TimeoutError as Late

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except (InputError, ClusterError, KeyboardInterrupt):
        raise
    except KilledWorker as error:
        raise ClusterError(
            f"A block was tried on several workers, and each was lost with it, perhaps "
            f"for want of memory ({error_text(error)[:120]}). Use smaller blocks. "
            f"{RESUME}."
        ) from None
    except (CancelledError, CommClosedError, OSError, Late, TimeoutError) as error:
        address = getattr(client.scheduler, "address", "this address")
        raise ClusterError(
            f"The cluster at {address} is lost ({error_text(error)[:120]}). {RESUME}."
        ) from None

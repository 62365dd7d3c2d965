"""Compute the tasks of a pass under Dask, and describe failures of the cluster.

Dask's own configuration decides where tasks run: in threads, in processes, or on a
cluster. The tasks are pure and bound to no worker: if a worker is lost, Dask repeats
its current tasks elsewhere. Where Dask would wait for ever (a cluster without workers,
or without a scheduler), an error is raised after a while.
"""

import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any

from discrepant import __version__
from discrepant.core.errors import InputError
from discrepant.core.validation import error_text

# Seconds that a cluster may be without workers: enough for them to restart.
NO_WORKERS_TIMEOUT = 60.0
# Seconds within which a scheduler must answer.
SCHEDULER_TIMEOUT = 10.0
# Seconds between two checks of the state of a cluster.
CHECK_INTERVAL = 1.0
# The last sentence of every message about a lost cluster.
FIT_AGAIN = "Fit again once it is back"


class ClusterError(InputError, RuntimeError):
    """The cluster was lost during a fit; the message says how to continue."""


def compute_tasks(tasks: list[Any]) -> list[Any]:
    """Compute the tasks of one pass, where Dask is configured to."""
    import dask

    client = client_of(tasks)
    if client is not None:
        return _on_cluster(client, tasks)
    try:
        return list(dask.compute(*tasks))
    except BrokenProcessPool:
        raise ClusterError(f"A process of Dask was lost. {FIT_AGAIN}.") from None
    except (InputError, MemoryError):
        raise
    except Exception as error:  # the user's own code may raise anything
        raise InputError(_describe_task_error(error)) from error


def _describe_task_error(error: BaseException) -> str:
    kind, text = type(error).__name__, error_text(error)
    reason = text if text == kind else f"{kind}: {text}"
    return f"A block of the data cannot be computed: {reason}."


def client_of(collections: list[Any]) -> Any:
    """Return the client of the cluster that Dask uses; None if it uses none."""
    if "distributed" not in sys.modules:
        return None
    from dask.base import get_scheduler
    from distributed import Client

    owner = getattr(get_scheduler(collections=collections), "__self__", None)
    return owner if isinstance(owner, Client) else None


@contextmanager
def worker_pool(collection: Any) -> Iterator[None]:
    """Provide workers for several passes: check a cluster, or keep a process pool."""
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
    """Check that a cluster has workers, and that they have this version.

    Dask itself compares the versions of Python and NumPy.
    """
    with _describe_cluster_errors(client):
        try:
            client.wait_for_workers(1, timeout=SCHEDULER_TIMEOUT)
        except TimeoutError:
            raise ClusterError(_no_workers(client)) from None
        answers = client.run(installed_version, on_error="return")
    for address, answer in answers.items():
        if isinstance(answer, BaseException):
            raise InputError(
                f"The worker {address} cannot load discrepant "
                f"({error_text(answer)}); install discrepant[dask] on all workers."
            )
    here = installed_version()
    others = {address: v for address, v in answers.items() if v != here}
    for address, version in list(others.items())[:1]:
        warnings.warn(
            f"{len(others)} of {len(answers)} workers run another version of "
            f"discrepant than the client ({address}: {version}; client: {here}): the "
            "result may differ, or the fit may fail.",
            UserWarning,
            stacklevel=2,
        )


def installed_version() -> str:
    """Return the version of this package."""
    return __version__


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[Any]:
    """Yield a client of the cluster at an address, or of a new local one."""
    from distributed import Client, LocalCluster

    if address is not None:
        try:
            client = Client(address, timeout=SCHEDULER_TIMEOUT)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                f"No scheduler answers at {address} within {SCHEDULER_TIMEOUT:g} "
                f"seconds ({error_text(error)})."
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
    """Compute tasks on a cluster; on any error, cancel all of them."""
    import dask

    # Rows of the factors are sent with the tasks on purpose: workers hold no state
    # that could be lost.
    no_warning = {"distributed.admin.large-graph-warning-threshold": "1TB"}
    with _describe_cluster_errors(client):
        with dask.config.set(no_warning):
            futures = client.compute(tasks)
        try:
            _wait(client, futures)
            for future in futures:
                error = future.exception() if future.status == "error" else None
                if isinstance(error, OSError):  # of the data, not of the cluster
                    raise InputError(_describe_task_error(error)) from error
            return list(client.gather(futures))
        finally:
            with suppress(Exception):  # the cluster is gone, and the futures with it
                client.cancel(futures, force=True)  # and all that they depend on


def _wait(client: Any, futures: list[Any]) -> None:
    """Wait for futures as long as the cluster has workers."""
    from distributed import wait

    last_active = time.monotonic()
    while True:
        try:
            wait(futures, timeout=CHECK_INTERVAL, return_when="ALL_COMPLETED")
            return
        except TimeoutError:
            pass
        if any(future.status == "error" for future in futures):
            return  # raised when they are gathered
        if client.status != "running" or not client.nthreads():
            if time.monotonic() - last_active > NO_WORKERS_TIMEOUT:
                raise ClusterError(_no_workers(client))
        else:
            last_active = time.monotonic()


def _no_workers(client: Any) -> str:
    address = getattr(client.scheduler, "address", "this address")
    return f"The cluster at {address} has no workers. {FIT_AGAIN}."


@contextmanager
def _describe_cluster_errors(client: Any) -> Iterator[None]:
    """Turn errors of the cluster into a `ClusterError` of one sentence."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        yield
    except (InputError, MemoryError):
        raise
    except KilledWorker as error:
        raise ClusterError(
            "Several workers were lost while computing the same block, perhaps for "
            f"lack of memory ({error_text(error)[:120]}). Use smaller blocks. "
            f"{FIT_AGAIN}."
        ) from None
    except (CancelledError, OSError) as error:  # OSError: no connection, a timeout
        address = getattr(client.scheduler, "address", "this address")
        raise ClusterError(
            f"The cluster at {address} is lost ({error_text(error)[:120]}). "
            f"{FIT_AGAIN}."
        ) from None
    except Exception as error:
        raise InputError(_describe_task_error(error)) from error

"""Files larger than memory and clusters: time, memory, reads and network, in one run.

    pip install 'discrepant[dask,bench]'
    python benchmarks/scale.py                      a file, and Dask on the same file
    python benchmarks/scale.py --flown              a million rows made on the fly
    python benchmarks/scale.py --figure scale.png   the model of `docs/scaling.md`

What is solved in memory is in `benchmarks/matrix.py`, from which the problem comes. A
read is one look at every row of the file. Network is all that leaves or reaches the
workers: what tasks carry and return, by size, and what workers send, by their own
counters.
"""

import argparse
import contextlib
import os
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np
from record import recorded

from discrepant import RobustPCA

SHAPE, RANK, WRONG = (200_000, 500), 10, 0.1
LIMIT = 300_000_000  # bytes
STEP = 10_000  # rows made at a time
FLOWN, FLOWN_RANK, FLOWN_STEP = (1_000_000, 200), 5, 20_000


def made(start, height, width, rank, seed):
    """Make some rows; the same ones wherever and whenever they are made."""
    V = np.random.default_rng(seed).standard_normal((rank, width))
    rng = np.random.default_rng([seed, start])
    X = rng.standard_normal((height, rank)) @ V
    wrong = rng.random(X.shape) < WRONG
    size = 5 * np.sqrt(rank) * 0.8
    Y = X + np.where(wrong, rng.uniform(-size, size, X.shape), 0.0)
    return Y, X


@contextlib.contextmanager
def stored(path, seed):
    """Yield a file of the problem; one that was made for this is removed."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        file = Path(path or Path(folder) / "big.npy")
        if not file.exists():
            Y = np.lib.format.open_memmap(file, "w+", np.float64, SHAPE)
            for start in range(0, SHAPE[0], STEP):
                Y[start : start + STEP] = made(start, STEP, SHAPE[1], RANK, seed)[0]
            del Y
        yield file


def peak():
    """Return the most memory that this process has had so far, in MB."""
    status = Path("/proc/self/status").read_text().split("VmHWM:")[1]
    return int(status.split()[0]) * 1024 / 1e6


def error_of(model, seed):
    """Return the relative error of some rows of the low-rank part."""
    X = made(0, STEP, SHAPE[1], RANK, seed)[1]
    L = model._result.block(slice(0, STEP), slice(None))
    return float(np.linalg.norm(L - X) / np.linalg.norm(X))


@contextlib.contextmanager
def counted_reads():
    """Yield a list of the fractions of the rows that are read, one per pass."""
    from discrepant.robust_pca.rows import in_memory as rows

    fractions, real = [], {}

    def counting(name):
        function = real[name] = getattr(rows.ArrayRows, name)

        def run(self, *args, **options):
            if self.m == SHAPE[0]:  # not a sample
                some = args[0] if name in ("regress", "take") else None
                fractions.append(1.0 if some is None else len(some) / self.m)
            return function(self, *args, **options)

        setattr(rows.ArrayRows, name, run)

    for name in ("run", "regress", "take"):
        counting(name)
    yield fractions
    for name, function in real.items():
        setattr(rows.ArrayRows, name, function)


def on_disk(file, seed, limit, warm):
    """Fit a mapped file on threads; also its price in reads and memory.

    Time is that of a process that has its kernels, memory that of one that does no
    more than this.
    """
    if warm:
        RobustPCA(random_state=0).fit(made(0, 3000, SHAPE[1], RANK, seed)[0])
    before = peak()
    Y = np.load(file, mmap_mode="r")
    with counted_reads() as fractions:
        started = time.perf_counter()
        model = RobustPCA(random_state=0, memory_limit=limit).fit(Y)
        seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "reads": sum(fractions),
        "base": before,
        "peak": peak(),
        "error": error_of(model, seed),
        "rank": model.rank_,
    }


def product_on(file):
    """Return the seconds of Y @ V, with the file read into memory first."""
    Y = np.load(file)
    V = np.random.default_rng(0).standard_normal((SHAPE[1], RANK))
    best = np.inf
    for _ in range(5):
        started = time.perf_counter()
        Y @ V
        best = min(best, time.perf_counter() - started)
    return best


def read_on(file):
    """Return the seconds of reading the file, block by block, on one thread."""
    from discrepant.table.io.array_files import open_dask_array

    array, _ = open_dask_array(file)
    best = np.inf
    for _ in range(2):
        started = time.perf_counter()
        for k in range(array.numblocks[0]):
            array.blocks[k].compute(scheduler="sync").max()
        best = min(best, time.perf_counter() - started)
    return best


@contextlib.contextmanager
def counted_network(client):
    """Yield a dictionary of passes, tasks, and bytes to, from and between workers."""
    import cloudpickle

    from discrepant.robust_pca.dask import rows as dask_rows

    real = dask_rows.compute_tasks
    traffic = {"passes": 0, "tasks": 0, "sent": 0, "returned": 0, "between": 0}

    def watched(tasks):
        answers = real(tasks)
        graphs = {key: node for t in tasks for key, node in t.__dask_graph__().items()}
        traffic["passes"] += 1
        traffic["tasks"] += len(tasks)
        traffic["sent"] += len(cloudpickle.dumps(graphs, protocol=5))
        traffic["returned"] += len(pickle.dumps(answers, protocol=5))
        return answers

    def outgoing():
        sent = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
        return sum(sent.values())

    before, dask_rows.compute_tasks = outgoing(), watched
    yield traffic
    dask_rows.compute_tasks = real
    # What workers have sent to the client is among what was returned.
    traffic["between"] = max(outgoing() - before - traffic["returned"], 0)


def peaks(client):
    """Return the peak memory of each worker in MB."""
    return list(client.run(peak).values())


def by_dask(file, seed):
    """Fit the same file as a Dask array on two local workers."""
    import dask.array as da

    from discrepant.robust_pca.dask.cluster import connected
    from discrepant.table.io.array_files import open_dask_array

    small = made(0, 3000, SHAPE[1], RANK, seed)[0]
    with connected(None, 2) as client:
        RobustPCA(random_state=0).fit(da.from_array(small, chunks=(500, 500)))
        array, _ = open_dask_array(file)
        idle = [time.perf_counter()]
        for _ in range(3):
            client.gather(
                client.map(lambda k: k, range(array.numblocks[0]), pure=False)
            )
            idle.append(time.perf_counter())
        started = time.perf_counter()
        model = RobustPCA(random_state=0).fit(array)
        seconds = time.perf_counter() - started
        with counted_network(client) as network:
            RobustPCA(random_state=0).fit(array)
        few = made(0, 524, SHAPE[1], RANK, seed)[0]  # as many as a sample has
        started = time.perf_counter()
        RobustPCA(random_state=0).fit(few)
        sample = time.perf_counter() - started
        return {
            "seconds": seconds,
            "sample": sample,
            "latency": float(np.diff(idle).min()),
            "error": error_of(model, seed),
            "rank": model.rank_,
            "workers": peaks(client),
            **network,
        }


def flown(seed):
    """Fit a million rows that are made when they are needed."""
    import dask.array as da

    from discrepant.robust_pca.dask.cluster import connected

    def block(block_info=None):
        start = block_info[None]["array-location"][0][0]
        Y, _ = made(start, FLOWN_STEP, FLOWN[1], FLOWN_RANK, seed)
        return Y.astype(np.float32)

    chunks = ((FLOWN_STEP,) * (FLOWN[0] // FLOWN_STEP), (FLOWN[1],))
    array = da.map_blocks(block, chunks=chunks, dtype=np.float32)
    with connected(None, 2) as client:
        RobustPCA(random_state=0).fit(array[: 2 * FLOWN_STEP])
        started = time.perf_counter()
        for k in range(0, len(chunks[0]), 10):
            array.blocks[k].sum().compute()
        making = (time.perf_counter() - started) * 10 / 2
        with counted_network(client) as network:
            started = time.perf_counter()
            model = RobustPCA(random_state=0).fit(array)
            seconds = time.perf_counter() - started
        X = made(0, FLOWN_STEP, FLOWN[1], FLOWN_RANK, seed)[1]
        L = model._result.block(slice(0, FLOWN_STEP), slice(None))
        fraction = (network["sent"] + network["returned"]) / (4 * np.prod(FLOWN))
        print(
            f"{FLOWN[0]}×{FLOWN[1]} float32, rank {model.rank_} (true {FLOWN_RANK}), "
            f"error {np.linalg.norm(L - X) / np.linalg.norm(X):.0e}: {seconds:.1f} s "
            f"in {network['passes']} passes, of which making the blocks takes some "
            f"{making * network['passes']:.1f} s; peak of each worker "
            f"{', '.join(f'{p:.0f}' for p in peaks(client))} MB; network {fraction:.1%}"
        )


def table(path, seed):
    """Print the rows of the file."""
    from matrix import in_a_process

    size = 8 * np.prod(SHAPE)
    with stored(path, seed) as file:
        product, read = in_a_process(product_on, file), in_a_process(read_on, file)
        here = in_a_process(on_disk, file, seed, LIMIT, True)
        alone = in_a_process(on_disk, file, seed, LIMIT, False)
        there = by_dask(file, seed)
    crossed = there["sent"] + there["returned"] + there["between"]
    print(f"{SHAPE[0]}×{SHAPE[1]}, rank {RANK}, {WRONG:.0%} wrong, {size / 1e9} GB")
    print("| what | s | products Y @ V | error | beside it | goal |")
    print("| --- | --- | --- | --- | --- | --- |")
    print(f"| Y @ V in memory | {product:.3f} | 1 | – | – | – |")
    print(f"| reading the file, one thread | {read:.2f} | {read / product:.0f} | | | |")
    print(
        f"| threads, memory limit {LIMIT / 1e6:.0f} MB | {here['seconds']:.2f} | "
        f"{here['seconds'] / product:.0f} | {here['error']:.0e} | "
        f"{here['reads']:.1f} reads, peak {alone['peak']:.0f} MB, of which "
        f"{alone['base']:.0f} before | ≤ 8 reads, ≤ {LIMIT / 1e6 + 100:.0f} MB |"
    )
    print(
        f"| Dask, two workers | {there['seconds']:.2f} | "
        f"{there['seconds'] / product:.0f} | {there['error']:.0e} | "
        f"{there['seconds'] / here['seconds']:.2f} × threads, {there['passes']} passes "
        f"of {there['tasks'] // max(there['passes'], 1)} tasks, network "
        f"{crossed / size:.1%} (sent {there['sent'] / 1e6:.0f}, returned "
        f"{there['returned'] / 1e6:.0f}, between workers {there['between'] / 1e6:.1f} "
        f"MB), workers' peak {max(there['workers']):.0f} MB | ≤ 2 ×, ≤ 5% |"
    )
    passes, each = there["passes"], read / 2 + 2 * product + there["latency"]
    print(
        f"\nModel: sample {there['sample']:.2f} + {passes} passes × (read "
        f"{read / 2:.2f} + 2 products {2 * product:.2f} + latency "
        f"{there['latency']:.2f}) = {there['sample'] + passes * each:.1f} s; measured "
        f"{there['seconds']:.1f} s"
    )


def predicted(entries, workers, *, speed, product, latency, passes=5):
    """Return seconds of a fit by the model of `docs/scaling.md`."""
    each, size = entries / workers, 8 * entries
    blocks = size / np.clip(size / 4096, 2**25, 2**28)  # as `dask.rows` cuts them
    return passes * (8 * each / speed + 2 * each * product + latency * blocks)


def figure(path, options):
    """Draw the model, and what was measured."""
    from discrepant.core.plotting import COLOURS, new_figure

    chart, ax = new_figure(size=(6.4, 4.4))
    entries = np.logspace(7, 12.3, 60)
    measured = {
        "speed": options.speed * 1e9,
        "product": options.product * 1e-9,
        "latency": options.latency * 1e-3,
    }
    for workers, colour in zip((2, 10, 100), COLOURS, strict=False):
        seconds = [predicted(n, workers, **measured) for n in entries]
        ax.loglog(entries, seconds, color=colour, label=f"{workers} workers")
        print(
            f"{workers} workers, 10¹² entries: "
            f"{predicted(1e12, workers, **measured) / 60:.0f} minutes"
        )
    for point in options.measured:
        ax.loglog(*map(float, point.split(",")), "ko")
    ax.loglog([], [], "ko", label="measured, 2 workers")
    ax.set(xlabel="entries", ylabel="seconds", title="An exact fit, by the model")
    ax.legend()
    chart.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=88)
    parser.add_argument("--file", help="the file to use, made if it is not there")
    parser.add_argument("--flown", action="store_true")
    parser.add_argument("--figure", metavar="PNG")
    parser.add_argument("--speed", type=float, default=1.0, help="GB/s a worker reads")
    parser.add_argument("--product", type=float, default=3.7, help="ns an entry")
    parser.add_argument("--latency", type=float, default=3.3, help="ms a task")
    parser.add_argument("--measured", nargs="*", default=[], metavar="ENTRIES,SECONDS")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    if options.figure:
        figure(options.figure, options)
    elif options.flown:
        flown(options.seed)
    else:
        table(options.file, options.seed)


if __name__ == "__main__":
    recorded(main)

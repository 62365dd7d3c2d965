"""Measure fits of sparse tables with missing entries: error, time and memory.

The table is 100,000×20,000 of rank 5, with 0.5% of the entries observed and 5% of these
corrupted; once without noise, and once with noise of a tenth of the standard deviation
of the entries. Memory is the peak during the fit minus the memory before it, in
multiples of the size of the observed values. The error is that of all entries of the
first hundredth of the rows, by `transform` and `inverse_transform`.
"""

import argparse
import resource
import time

import numpy as np
from record import recorded
from scipy import sparse

from discrepant import RobustPCA


def synthetic_table(m, n, observed, rank, corrupt, noise, rng):
    """Return a sparse table with fractions of observed and corrupt entries, U and V."""
    positions = np.unique(rng.integers(0, m * n, int(m * n * observed)))
    i, j = (k.astype(np.int32) for k in np.divmod(positions, n))
    U, V = rng.standard_normal((m, rank)), rng.standard_normal((n, rank))
    y = noise * np.sqrt(rank) * rng.standard_normal(len(i))
    for a in range(rank):
        y += U[i, a] * V[j, a]
    bad = rng.random(len(y)) < corrupt
    y[bad] += np.sqrt(rank) * rng.uniform(-10, 10, bad.sum())
    return sparse.coo_array((y, (i, j)), (m, n)), U, V


def peak_memory():
    """Return the peak resident memory of this process in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="100000,20000")
    parser.add_argument(
        "--share", dest="observed", type=float, default=0.005, help="fraction observed"
    )
    parser.add_argument("--seed", type=int, default=100)
    arguments = parser.parse_args()
    m, n = map(int, arguments.shape.split(","))
    rng = np.random.default_rng(arguments.seed)
    small = synthetic_table(200, 100, 0.3, 2, 0.05, 0.0, rng)[0]
    RobustPCA(missing="unstored").fit(small)  # compile before the measurements
    print("| noise | entries | error | rank | seconds | memory / values |")
    print("| --- | --- | --- | --- | --- | --- |")
    for noise in (0.0, 0.1):
        table, U, V = synthetic_table(m, n, arguments.observed, 5, 0.05, noise, rng)
        before = peak_memory()
        started = time.perf_counter()
        model = RobustPCA(missing="unstored", random_state=0).fit(table)
        seconds = time.perf_counter() - started
        used = (peak_memory() - before) / table.data.nbytes
        some = table.tocsr()[: m // 100]
        rows = model.inverse_transform(model.transform(some))
        truth = U[: m // 100] @ V.T
        error = np.linalg.norm(rows - truth) / np.linalg.norm(truth)
        print(
            f"| {noise} | {table.nnz:,} | {error:.1e} | {model.rank_} | {seconds:.1f} "
            f"| {used:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    recorded(main)

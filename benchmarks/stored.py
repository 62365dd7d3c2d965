"""Sparse tables of which only the stored entries are known: error, time and memory.

100,000×20,000 of rank 5, 0.5% of it observed, 5% of that wrong; once without noise and
once with noise of a tenth of the entries' deviation. Memory is the peak of the fit
above what the data take, in multiples of the observed values. The error is that of
the first hundredth of the rows, all of their entries, as `transform` and
`inverse_transform` give them.
"""

import argparse
import resource
import time

import numpy as np
from record import recorded
from scipy import sparse

from discrepant import RobustPCA


def made(m, n, share, rank, wrong, noise, rng):
    places = np.unique(rng.integers(0, m * n, int(m * n * share)))
    i, j = (k.astype(np.int32) for k in np.divmod(places, n))
    U, V = rng.standard_normal((m, rank)), rng.standard_normal((n, rank))
    y = noise * np.sqrt(rank) * rng.standard_normal(len(i))
    for a in range(rank):
        y += U[i, a] * V[j, a]
    bad = rng.random(len(y)) < wrong
    y[bad] += np.sqrt(rank) * rng.uniform(-10, 10, bad.sum())
    return sparse.coo_array((y, (i, j)), (m, n)), U, V


def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="100000,20000")
    parser.add_argument("--share", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=100)
    arguments = parser.parse_args()
    m, n = map(int, arguments.shape.split(","))
    rng = np.random.default_rng(arguments.seed)
    small = made(200, 100, 0.3, 2, 0.05, 0.0, rng)[0]
    RobustPCA(missing="unstored").fit(small)  # compiled before it is timed
    print("| noise | entries | error | rank | seconds | memory / values |")
    print("| --- | --- | --- | --- | --- | --- |")
    for noise in (0.0, 0.1):
        table, U, V = made(m, n, arguments.share, 5, 0.05, noise, rng)
        before = peak()
        started = time.perf_counter()
        found = RobustPCA(missing="unstored", random_state=0).fit(table)
        seconds = time.perf_counter() - started
        used = (peak() - before) / table.data.nbytes
        some = table.tocsr()[: m // 100]
        rows = found.inverse_transform(found.transform(some))
        truth = U[: m // 100] @ V.T
        error = np.linalg.norm(rows - truth) / np.linalg.norm(truth)
        print(
            f"| {noise} | {table.nnz:,} | {error:.1e} | {found.rank_} | {seconds:.1f} "
            f"| {used:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    recorded(main)

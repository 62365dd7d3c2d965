"""Eight fits at once, from eight threads, against eight in a row on one core.

    python benchmarks/threads.py

Fits in several threads share the cores and hold BLAS at one thread together: in sum
they should take no longer, and no more work, than one after the other. Least of five.
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

from record import recorded

from discrepant import RobustPCA
from discrepant.paper.synthetic import corrupted_matrix

FITS, RUNS = 8, 5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=400, help="rows and columns")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    sizes = (asked.size, asked.size)
    data = [
        corrupted_matrix(sizes, 5, 0.1, random_state=asked.seed + k).observed
        for k in range(FITS)
    ]

    def in_a_row():
        for Y in data:
            RobustPCA(random_state=0, n_jobs=1).fit(Y)

    def at_once():
        with ThreadPoolExecutor(FITS) as pool:
            list(pool.map(lambda Y: RobustPCA(random_state=0).fit(Y), data))

    in_a_row(), at_once()  # compiles
    row, once = measured(in_a_row), measured(at_once)
    print(f"{FITS} fits of {asked.size}×{asked.size}, seconds and seconds of work:")
    print(f"  in a row on one core   {row[0]:.2f}   {row[1]:.2f}")
    print(f"  at once, {FITS} threads     {once[0]:.2f}   {once[1]:.2f}")
    print(f"  ratio                  {once[0] / row[0]:.2f}   {once[1] / row[1]:.2f}")


def measured(run):
    """Return the least seconds, and the least seconds of work, of some runs."""
    found = []
    for _ in range(RUNS):
        started = time.perf_counter(), time.process_time()
        run()
        ended = time.perf_counter(), time.process_time()
        found.append([b - a for a, b in zip(started, ended, strict=True)])
    return [min(column) for column in zip(*found, strict=True)]


if __name__ == "__main__":
    recorded(main)

"""Compare eight fits in eight threads with eight fits in a row on one core.

    python benchmarks/threads.py

Fits in several threads share the cores and hold BLAS at one thread: in total they
should take no more time and no more processor time than one after the other. Minimum
of five runs.
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
    arguments = parser.parse_args()
    sizes = (arguments.size, arguments.size)
    data = [
        corrupted_matrix(sizes, 5, 0.1, random_state=arguments.seed + k).observed
        for k in range(FITS)
    ]

    def in_a_row():
        for Y in data:
            RobustPCA(random_state=0, n_jobs=1).fit(Y)

    def at_once():
        with ThreadPoolExecutor(FITS) as pool:
            list(pool.map(lambda Y: RobustPCA(random_state=0).fit(Y), data))

    in_a_row(), at_once()  # compiles
    row, once = fastest(in_a_row), fastest(at_once)
    size = f"{arguments.size}×{arguments.size}"
    print(f"{FITS} fits of {size}, seconds and processor seconds:")
    print(f"  in a row on one core   {row[0]:.2f}   {row[1]:.2f}")
    print(f"  at once, {FITS} threads     {once[0]:.2f}   {once[1]:.2f}")
    print(f"  ratio                  {once[0] / row[0]:.2f}   {once[1] / row[1]:.2f}")


def fastest(run):
    """Return the minimum of seconds and of processor seconds over some runs."""
    times = []
    for _ in range(RUNS):
        started = time.perf_counter(), time.process_time()
        run()
        ended = time.perf_counter(), time.process_time()
        times.append([b - a for a, b in zip(started, ended, strict=True)])
    return [min(column) for column in zip(*times, strict=True)]


if __name__ == "__main__":
    recorded(main)

"""How much of the paper's Figure 2c is recovered, and how much is wrong in silence.

    python benchmarks/matrix_reach.py               n = 50, 42 cells, general and psd
    python benchmarks/matrix_reach.py --noise 0     the convex program only
    python benchmarks/matrix_reach.py --seed 100    other problems

A cell is one problem of `corrupted_matrix`: a rank and a share of corrupted entries. It
counts as recovered where the relative error of X is below 0.1, and as wrong in silence
where it is not and there was no warning.
"""

import argparse
import time
import warnings

import numpy as np
from record import recorded

from discrepant import RobustPCA
from discrepant.paper.synthetic import corrupted_matrix, relative_error

N = 50
RANKS = (1, 5, 10, 15, 20, 25)
SHARES = (0.05, 0.15, 0.25, 0.35, 0.45, 0.5, 0.55)
RECOVERED = 0.1  # relative error of X, as in the paper


def cell(psd, rank, share, noise, seed):
    """Solve one problem; return the error, what was warned of, and the seconds."""
    shape = N if psd else (N, N)
    problem = corrupted_matrix(shape, rank, share, random_state=seed)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            pca = RobustPCA(psd=psd, noise=noise, random_state=0)
            error = relative_error(
                pca.fit(problem.observed).low_rank_, problem.low_rank
            )
        except Exception as failure:  # counts as not recovered, and not in silence
            return np.inf, [f"{type(failure).__name__}: {failure}"], 0.0
    messages = [str(warning.message) for warning in warned]
    return error, messages, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--noise", default="auto", help="as for RobustPCA")
    parser.add_argument("--seed", type=int, default=0, help="of the first cell")
    parser.add_argument("--verbose", action="store_true", help="one line a cell")
    asked = parser.parse_args()
    noise = asked.noise if asked.noise in ("auto", "column") else float(asked.noise)
    RobustPCA().fit(np.outer(np.arange(1.0, 9), np.arange(1.0, 9)))  # compile first
    cells = [(rank, share) for rank in RANKS for share in SHARES]
    for psd in (False, True):
        outcomes = []
        for k, (rank, share) in enumerate(cells):
            error, messages, seconds = cell(psd, rank, share, noise, asked.seed + k)
            outcomes.append((error < RECOVERED, bool(messages), seconds))
            if asked.verbose:
                said = messages[0] if messages else "-"
                print(f"  {rank:2} {share:.2f}  {error:8.1e}  {seconds:5.2f} s  {said}")
        columns = zip(*outcomes, strict=True)
        recovered, warned, seconds = (np.array(column) for column in columns)
        print(
            f"{'psd' if psd else 'general':8} recovered {recovered.mean():.2f} "
            f"({recovered.sum()} of {len(cells)}), wrong in silence "
            f"{np.sum(~recovered & ~warned)}, recovered with a warning "
            f"{np.sum(recovered & warned)}; median {np.median(seconds):.2f} s, at most "
            f"{seconds.max():.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    recorded(main)

"""How much of the paper's Figure 2c is recovered, and how much is wrong in silence.

    python benchmarks/matrix_reach.py                      n = 50, 42 cells, the default
    python benchmarks/matrix_reach.py --n 100              16 cells; also 200, 400
    python benchmarks/matrix_reach.py --method noise0      the convex program only
    python benchmarks/matrix_reach.py --method all         every method in turn
    python benchmarks/matrix_reach.py --seed 5000          other problems
    python benchmarks/matrix_reach.py --kind psd           X ⪰ 0 only

A cell is one problem of `corrupted_matrix`: a rank and a fraction of corrupted entries.
It counts as recovered where the relative error of X is below 0.1, as in the paper (at
n > 50 below 1e-6), and as wrong in silence where it is not and there was no warning. A
proof is claimed where the fit is exact and has no doubts; a wrong one would be a bug.
Alternating projections (`paper.baselines`) are given the rank and the fraction.
"""

import argparse
import time
import warnings

import numpy as np
from record import recorded

from discrepant import RobustPCA
from discrepant.paper.baselines import alternating_projections, convex
from discrepant.paper.synthetic import corrupted_matrix, relative_error

# n → ranks, fractions of corrupted entries, and the error up to which X is recovered.
GRIDS = {
    50: ((1, 5, 10, 15, 20, 25), (0.05, 0.15, 0.25, 0.35, 0.45, 0.5, 0.55), 0.1),
    100: ((5, 13, 22, 30), (0.1, 0.23, 0.37, 0.5), 1e-6),
    200: ((20, 40), (0.2, 0.3, 0.4, 0.5), 1e-6),
    400: ((5, 15, 25), (0.3, 0.5), 1e-6),
}
SETTINGS = {"default": {}, "fast": {"effort": "fast"}, "noise0": {"noise": 0}}
METHODS = (*SETTINGS, "descent", "convex", "projections")


def robust_pca(Y, psd, **settings):
    """Return X of `RobustPCA`, and whether it claims a proof."""
    pca = RobustPCA(psd=psd, random_state=0, **settings).fit(Y)
    return pca.low_rank_, bool(getattr(pca._result, "proven", False))


def solve(method, Y, psd, rank, fraction):
    """Return X of one method, and whether it claims a proof."""
    if method == "descent":
        return RobustPCA("descent", psd=psd, random_state=0).fit(Y).low_rank_, False
    if method == "convex":
        return convex(Y, alpha=float(np.sqrt(len(Y))), psd=psd).low_rank, False
    if method == "projections":
        recovery = alternating_projections(Y, rank=rank, fraction=fraction)
        return recovery.low_rank, False
    return robust_pca(Y, psd, **SETTINGS[method])


def cell(method, n, psd, rank, fraction, seed):
    """Solve one problem; return error, whether proven, warnings, and CPU seconds."""
    problem = corrupted_matrix(n if psd else (n, n), rank, fraction, random_state=seed)
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            X, proven = solve(method, problem.observed, psd, rank, fraction)
            error = relative_error(X, problem.low_rank)
        except Exception as failure:  # counts as not recovered, and not in silence
            return np.inf, False, [f"{type(failure).__name__}: {failure}"], 0.0
    messages = [str(warning.message) for warning in caught]
    return error, proven, messages, time.process_time() - began


def table(method, n, psd, seed, verbose):
    """Print one line: what a method recovers of the grid of one size."""
    ranks, fractions, limit = GRIDS[n]
    outcomes = []
    cells = [(rank, fraction) for rank in ranks for fraction in fractions]
    for k, (rank, fraction) in enumerate(cells):
        error, proven, messages, seconds = cell(
            method, n, psd, rank, fraction, seed + k
        )
        outcomes.append((error < limit, bool(messages), proven, seconds))
        if verbose:
            sentence = messages[0] if messages else "-"
            figures = f"{error:8.1e}  {seconds:6.2f} s"
            print(f"  {rank:3} {fraction:.2f}  {figures}  {sentence}", flush=True)
    columns = zip(*outcomes, strict=True)
    recovered, warned, proven, seconds = (np.array(column) for column in columns)
    print(
        f"n = {n}  {'psd' if psd else 'general':8} {method:10} "
        f"recovered {recovered.mean():.2f} ({recovered.sum()} of {len(cells)}), "
        f"wrong in silence {np.sum(~recovered & ~warned)}, "
        f"with a warning though recovered {np.sum(recovered & warned)}, "
        f"proofs {proven.sum()}, wrong ones {np.sum(proven & ~warned & ~recovered)}; "
        f"CPU median {np.median(seconds):.2f} s, at most {seconds.max():.1f} s",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=50, choices=GRIDS)
    parser.add_argument("--method", default="default", choices=[*METHODS, "all"])
    parser.add_argument("--kind", choices=("general", "psd"), help="both by default")
    parser.add_argument("--seed", type=int, default=0, help="of the first cell")
    parser.add_argument("--verbose", action="store_true", help="one line a cell")
    asked = parser.parse_args()
    RobustPCA().fit(np.outer(np.arange(1.0, 9), np.arange(1.0, 9)))  # compile first
    for psd in (False, True):
        if asked.kind not in (None, "psd" if psd else "general"):
            continue
        for method in METHODS if asked.method == "all" else [asked.method]:
            table(method, asked.n, psd, asked.seed, asked.verbose)


if __name__ == "__main__":
    recorded(main)

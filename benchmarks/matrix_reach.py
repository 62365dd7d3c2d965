"""How much of the paper's Figure 2c is recovered, and how much is wrong in silence.

    python benchmarks/matrix_reach.py                      n = 50, 42 cells, the default
    python benchmarks/matrix_reach.py --grid 100           also 200, 400, 1000, inside
    python benchmarks/matrix_reach.py --method noise0      the convex program only
    python benchmarks/matrix_reach.py --method all         every method in turn
    python benchmarks/matrix_reach.py --seed 5000          other problems
    python benchmarks/matrix_reach.py --kind psd           X ⪰ 0 only

A cell is one problem of `corrupted_matrix`: a rank and a fraction of corrupted entries.
It counts as recovered where the relative error of X is below 0.1, as in the paper (at
n > 50 below 1e-6), and as wrong in silence where it is not and there was no warning. A
proof is claimed where the fit is exact and has no doubts; a wrong one would be a bug.
The grid "inside" has problems well within reach: other shapes, and missing entries.
Alternating projections (`paper.baselines`) are given the rank and the fraction.
"""

import argparse
import time
import warnings
from itertools import product

import numpy as np
from record import recorded

from discrepant import RobustPCA
from discrepant.paper.baselines import alternating_projections, convex
from discrepant.paper.synthetic import corrupted_matrix, relative_error


def square(n, ranks, fractions):
    """Return the cells of a grid of n×n matrices: shape, rank, fraction, missing."""
    return [((n, n), r, p, 0.0) for r, p in product(ranks, fractions)]


# Name of a grid → its cells; only square matrices can be positive semidefinite.
GRIDS = {
    "50": square(50, (1, 5, 10, 15, 20, 25), (0.05, 0.15, 0.25, 0.35, 0.45, 0.5, 0.55)),
    "100": square(100, (5, 13, 22, 30), (0.1, 0.23, 0.37, 0.5)),
    "200": square(200, (20, 40), (0.2, 0.3, 0.4, 0.5)),
    "400": square(400, (5, 15, 25), (0.3, 0.5)),
    "1000": square(1000, (10, 30), (0.4, 0.5)),
    "inside": [
        *square(100, (5, 13), (0.2, 0.3)),
        *square(200, (10, 20), (0.2, 0.4)),
        *[((100, 400), r, p, 0.0) for r, p in product((5, 13), (0.2, 0.4))],
        *[((400, 100), r, 0.3, 0.0) for r in (5, 13)],
        *[((100, 100), r, p, 0.2) for r, p in product((3, 8), (0.2, 0.3))],
        *[((200, 200), 10, p, 0.2) for p in (0.2, 0.4)],
    ],
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
        return convex(Y, alpha=float(np.sqrt(max(Y.shape))), psd=psd).low_rank, False
    if method == "projections":
        recovery = alternating_projections(Y, rank=rank, fraction=fraction)
        return recovery.low_rank, False
    return robust_pca(Y, psd, **SETTINGS[method])


def measure(method, psd, problem, rank, fraction):
    """Solve one problem; return error, whether proven, warnings, and CPU seconds."""
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


def table(method, grid, psd, seed, verbose):
    """Print one line: what a method recovers of one grid."""
    limit = 0.1 if grid == "50" else 1e-6
    cells = [cell for cell in GRIDS[grid] if not psd or cell[0][0] == cell[0][1]]
    outcomes = []
    for k, (shape, rank, fraction, missing) in enumerate(cells):
        problem = corrupted_matrix(
            shape[0] if psd else shape,
            rank,
            fraction,
            missing=missing,
            random_state=seed + k,
        )
        error, proven, messages, seconds = measure(method, psd, problem, rank, fraction)
        outcomes.append((error < limit, bool(messages), proven, seconds))
        if verbose:
            m, n = shape
            sentence = messages[0] if messages else "-"
            of_cell = f"{m:5}×{n:<5} {rank:3} {fraction:.2f} {missing:.1f}"
            figures = f"{error:8.1e}  {seconds:6.2f} s  {'proof' if proven else '-':5}"
            print(f"{of_cell}  {figures}  {sentence}", flush=True)
    columns = zip(*outcomes, strict=True)
    recovered, warned, proven, seconds = (np.array(column) for column in columns)
    print(
        f"{grid:6}  {'psd' if psd else 'general':8} {method:10} "
        f"recovered {recovered.mean():.2f} ({recovered.sum()} of {len(cells)}), "
        f"wrong in silence {np.sum(~recovered & ~warned)}, "
        f"with a warning though recovered {np.sum(recovered & warned)}, "
        f"proofs {proven.sum()}, wrong ones {np.sum(proven & ~warned & ~recovered)}; "
        f"CPU median {np.median(seconds):.2f} s, at most {seconds.max():.1f} s",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--grid", default="50", choices=GRIDS)
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
            table(method, asked.grid, psd, asked.seed, asked.verbose)


if __name__ == "__main__":
    recorded(main)

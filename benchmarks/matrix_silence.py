"""Problems on which a fit must not be wrong in silence, beside those of Figure 2c.

    python benchmarks/matrix_silence.py                 all of them
    python benchmarks/matrix_silence.py rows --seed 40  one kind, other problems
    python benchmarks/matrix_silence.py --method fast   without a long search

    clean   low rank and nothing wrong: general, psd, and of decaying spectrum
    rows    65% of the rows replaced by noise, at three shapes; the error of X is over
            the other rows
    noise   nothing but noise, without and with 10% of gross errors

A fit is wrong if the error of X exceeds 1% (of noise alone: if its rank is not zero).
|L| is the largest entry of the low-rank part over that of the data, at the most.
"""

import argparse
import time
import warnings

import numpy as np
from record import recorded

from discrepant import RobustPCA
from discrepant.paper.synthetic import relative_error

SETTINGS = {"default": {}, "fast": {"effort": "fast"}, "noise0": {"noise": 0}}
# Rows and columns of clean matrices, and the ranks as fractions of the shorter side.
CLEAN_SHAPES = ((12, 60), (30, 30), (50, 50), (70, 25), (200, 40))
CLEAN_RANKS = (0.03, 0.1, 0.2)


def clean(seed):
    """Yield 150 problems: name, data, true X, rows that count, and whether psd."""
    for k in range(50):
        m, n = CLEAN_SHAPES[k % len(CLEAN_SHAPES)]
        r = max(1, round(CLEAN_RANKS[k // 5 % 3] * min(m, n)))
        rng = np.random.default_rng([seed, k])
        U, V = rng.standard_normal((m, r)), rng.standard_normal((n, r))
        yield "clean, general", U @ V.T, U @ V.T, slice(None), False
        yield "clean, psd", U @ U.T, U @ U.T, slice(None), True
        X = U * 0.3 ** np.arange(r) @ V.T
        yield "clean, decaying", X, X, slice(None), False


def rows(seed):
    """Yield 36 problems of which 65% of the rows are wrong."""
    for m, n, r in ((60, 200, 5), (100, 100, 4), (120, 300, 8)):
        for k in range(12):
            rng = np.random.default_rng([seed, m, k])
            X = rng.standard_normal((m, r)) @ rng.standard_normal((r, n)) / np.sqrt(r)
            order = rng.permutation(m)
            n_wrong = int(0.65 * m)
            Y = X.copy()
            Y[order[:n_wrong]] = 3 * rng.standard_normal((n_wrong, n))
            yield f"wrong rows, {m}×{n}", Y, X, order[n_wrong:], False


def noise(seed):
    """Yield 12 problems without any low-rank part."""
    for m, n in ((50, 50), (100, 300), (600, 40)):
        for k in range(4):
            rng = np.random.default_rng([seed, m, k])
            Y = rng.standard_normal((m, n))
            if k % 2:
                Y[rng.random((m, n)) < 0.1] *= 10
            yield f"noise, {m}×{n}", Y, np.zeros((m, n)), slice(None), False


KINDS = {"clean": clean, "rows": rows, "noise": noise}


def measure(Y, X, counted, psd, settings):
    """Return the error, whether it was reported, |L| over |Y| and CPU seconds."""
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pca = RobustPCA(psd=psd, random_state=0, **settings).fit(Y)
    seconds = time.process_time() - began
    L = pca.low_rank_
    error = relative_error(L[counted], X[counted]) if X.any() else float(pca.rank_)
    return error, bool(caught), np.abs(L).max() / np.abs(Y).max(), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--method", default="default", choices=SETTINGS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="one line a problem")
    asked = parser.parse_args()
    RobustPCA().fit(np.outer(np.arange(1.0, 9), np.arange(1.0, 9)))  # compile first
    print("| problems | wrong | in silence | warned | largest error | L ", end="")
    print("| CPU median, s | at most |")
    print("| --- " * 8 + "|", flush=True)
    for kind in asked.kinds or KINDS:
        outcomes = {}
        for name, *problem in KINDS[kind](asked.seed):
            outcome = measure(*problem, SETTINGS[asked.method])
            outcomes.setdefault(name, []).append(outcome)
            if asked.verbose:
                print(name, *(f"{value:.2g}" for value in outcome), flush=True)
        for name, of_name in outcomes.items():
            error, warned, size, seconds = np.array(of_name).T
            wrong = error > 0.01
            print(
                f"| {name} | {wrong.sum()} of {len(wrong)} "
                f"| {np.sum(wrong & (warned == 0))} | {int(warned.sum())} "
                f"| {error.max():.0e} | {size.max():.2f} "
                f"| {np.median(seconds):.2f} | {seconds.max():.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    recorded(main)

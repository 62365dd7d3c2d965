"""How fast and how well `recover` is for any operator, beside the descent and peers.

    python benchmarks/operators.py                    everything, an hour or so
    python benchmarks/operators.py --only dense40     one of dense40, dense80, outer,
                                                      fourier, noise, phase
    python benchmarks/operators.py --only phase --quick    without what takes minutes

Every problem is scored by one function, all peers see the same data, and ratios are of
times of one run. Peers that are not installed are left out.
"""

import argparse
import resource
import time

import numpy as np
from record import recorded

from discrepant import Outer, Sensing, recover
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.tangent_space import FixedRankMatrix, fit_least_squares
from discrepant.paper.synthetic import relative_error

SUCCESS = 1e-2  # relative error of a problem that counts as recovered


def normal(rng, *shape, real=True):
    drawn = rng.standard_normal(shape)
    return drawn if real else drawn + 1j * rng.standard_normal(shape)


def corrupted(rng, clean, fraction, noise=0.0):
    """Return data, a fraction of them off by ten times their size, and which."""
    real, size = not np.iscomplexobj(clean), np.std(clean)
    y = clean + noise * size * normal(rng, clean.size, real=real)
    wrong = np.zeros(clean.size, bool)
    wrong[rng.choice(clean.size, round(fraction * clean.size), replace=False)] = True
    y[wrong] += 10 * size * normal(rng, int(wrong.sum()), real=real)
    return y, wrong


def gaussian(seed, n, rank, m, fraction, psd, noise=0.0):
    rng = np.random.default_rng([seed, n, m])
    U = normal(rng, n, rank)
    X = U @ (U if psd else normal(rng, n, rank)).T
    A = Sensing(normal(rng, m, n, n))
    return X, A, *corrupted(rng, A.forward(X), fraction, noise)


def timed(work):
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(*cells):
    row(*cells)
    row(*("---" for _ in cells))


def by_cvxpy(solver, A, y, lam, psd):
    """Solve the convex program itself."""
    import cvxpy

    n = A.signal_shape[0]
    X = cvxpy.Variable((n, n), PSD=True) if psd else cvxpy.Variable((n, n))
    rows = A.matrices.reshape(len(y), -1)
    size = float(np.median(np.abs(y)))
    left = y / size - rows @ cvxpy.vec(X, order="C")
    low = cvxpy.trace(X) if psd else cvxpy.normNuc(X)
    cvxpy.Problem(cvxpy.Minimize(low + lam * cvxpy.norm1(left))).solve(solver=solver)
    return np.zeros((n, n)) if X.value is None else size * X.value


def by_pyproximal(A, y, lam, steps=400):
    """Solve the convex program by PyProximal's primal-dual loop, given ‖A‖."""
    import pylops
    import pyproximal

    n = A.signal_shape[0]
    rows = A.matrices.reshape(len(y), -1)
    size = float(np.median(np.abs(y)))
    step = 0.99 / np.linalg.norm(rows, 2)
    X = pyproximal.optimization.primaldual.PrimalDual(
        pyproximal.Nuclear((n, n), 1.0),
        pyproximal.L1(sigma=lam, g=y / size),
        pylops.MatrixMult(rows),
        x0=np.zeros(n * n),
        tau=step * n,
        mu=step / n,
        niter=steps,
    )
    return size * X.reshape(n, n)


def dense(n, rank, m, seeds, quick):
    print(f"\n## {n}×{n} of rank {rank} from {m} dense Gaussian, 10% wrong\n")
    header("X", "seed", "solver", "error", "gap", "applications", "s", "× slower")
    for psd in (True, False):
        for seed in seeds:
            problem = gaussian(seed, n, rank, m, 0.1, psd)
            dense_one("X ⪰ 0" if psd else "any X", seed, problem, psd, quick)


def dense40(seeds, quick):
    dense(40, 2, 800, seeds, quick)


def dense80(seeds, quick):
    dense(80, 3, 2400, seeds, quick)


def dense_one(name, seed, problem, psd, quick):
    X, A, y, _ = problem

    def ours():
        result = recover(y, A, psd=psd, random_state=seed)
        return result, result.certificate.gap

    (result, gap), seconds = timed(ours)
    error = relative_error(result.low_rank, X)
    cells = f"{error:.1e}", f"{gap:.1e}", result.n_applications, f"{seconds:.2f}"
    row(name, seed, "implicit", *cells, 1)
    if quick:
        return
    result, slow = timed(
        lambda: recover(y, A, solver="descent", psd=psd, random_state=seed)
    )
    error, gap = relative_error(result.low_rank, X), result.certificate.gap
    cells = f"{error:.1e}", f"{gap:.1e}", 2 * result.n_steps, f"{slow:.1f}"
    row(name, seed, "descent", *cells, f"{slow / seconds:.0f}")
    if len(X) > 40:
        return
    # Without X ⪰ 0 the nuclear norm is a cone of twice the size, and takes far longer.
    peers = {
        "CVXPY, SCS": lambda: by_cvxpy("SCS", A, y, result.lam, psd),
        "CVXPY, Clarabel": lambda: by_cvxpy("CLARABEL", A, y, result.lam, psd),
    }
    if not psd:
        peers = {"PyProximal, primal-dual": lambda: by_pyproximal(A, y, result.lam)}
    for peer, solve in peers.items():
        try:
            other, slow = timed(solve)
        except ImportError:
            continue
        count = 800 if "Prox" in peer else "–"
        cells = f"{relative_error(other, X):.1e}", "–", count, f"{slow:.1f}"
        row(name, seed, peer, *cells, f"{slow / seconds:.0f}")


def outer(seeds, quick):
    print("\n## 300×300 of rank 3 from 40,000 rank-one measurements, 10% wrong\n")
    header("seed", "error", "gap", "applications", "s", "peak GB")
    for seed in seeds:
        rng = np.random.default_rng([seed, 1])
        X = normal(rng, 300, 3) @ normal(rng, 3, 300)
        A = Outer(normal(rng, 40_000, 300), normal(rng, 40_000, 300))
        y, _ = corrupted(rng, A.forward(X), 0.1)
        result, seconds = timed(lambda A=A, y=y: recover(y, A, random_state=0))
        error, gap = relative_error(result.low_rank, X), result.certificate.gap
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        cells = f"{error:.1e}", f"{gap:.1e}", result.n_applications
        row(seed, *cells, f"{seconds:.1f}", f"{peak:.2f}")


def fourier(seeds, quick):
    import pylops

    print("\n## 128×128 of rank 5 from 40% of its Fourier samples, 5% wrong\n")
    header("X", "seed", "error", "gap", "transforms", "s")
    for seed in seeds:
        for real in (False, True):
            rng = np.random.default_rng([seed, real])
            X = normal(rng, 128, 5, real=real) @ normal(rng, 5, 128, real=real)
            transform = pylops.signalprocessing.FFT2D(
                X.shape, norm="ortho", dtype=np.complex128
            )
            some = np.sort(rng.choice(X.size, round(0.4 * X.size), replace=False))
            A = pylops.Restriction(X.size, some, dtype=np.complex128) * transform
            y, _ = corrupted(rng, A.matvec(X.reshape(-1)), 0.05)
            result, seconds = timed(
                lambda A=A, y=y, real=real: recover(
                    y, A, real=real or None, random_state=0
                )
            )
            error, gap = relative_error(result.low_rank, X), result.certificate.gap
            cells = f"{error:.1e}", f"{gap:.1e}", result.n_applications
            row("real" if real else "complex", seed, *cells, f"{seconds:.1f}")


def oracle_error(problem, psd, rank):
    """Return the error of least squares that knows the rank and what is wrong."""
    X, operator, y, wrong = problem
    A = Measurements(operator, y, real=True)
    at = FixedRankMatrix.of(X, "psd" if psd else "general", rank)
    for _ in range(6):
        e = A.y - A.forward(*at.factors)
        at = fit_least_squares(A, at, (~wrong).astype(float), e, 60, 1e-10)
    return relative_error(at.value(), X)


def noise(seeds, quick):
    print("\n## Noise on every measurement, 10% corrupted; no parameter is given\n")
    header("problem", "noise", "error / oracle", "worst", "rank exact", "false flags")
    for n, rank, m in ((40, 2, 800), (80, 3, 2400)):
        for psd in (True, False):
            for level in (0.01, 0.1):
                ratios, ranks, false = [], [], []
                for seed in seeds:
                    problem = gaussian(seed, n, rank, m, 0.1, psd, level)
                    X, A, y, wrong = problem
                    result = recover(y, A, psd=psd, random_state=seed)
                    best = oracle_error(problem, psd, rank)
                    ratios.append(relative_error(result.low_rank, X) / best)
                    ranks.append(result.rank == rank)
                    false.append(result.outliers[~wrong].mean())
                row(
                    f"{n}×{n} of rank {rank} from {m}" + (", X ⪰ 0" if psd else ""),
                    f"{level:.0%}",
                    f"{np.mean(ratios):.3f}",
                    f"{np.max(ratios):.3f}",
                    f"{np.mean(ranks):.0%}",
                    f"{np.mean(false):.2%}",
                )


def phase(seeds, quick):
    import warnings

    sizes, fractions = (100, 200, 300, 500), (0.05, 0.15, 0.25, 0.35, 0.45)
    print(f"\n## Fraction recovered of 30×30 of rank 2, {len(seeds)} trials a cell\n")
    print(f"To an error of {SUCCESS}; of the descent 0.1 is enough, as in the paper.")
    optimum, peer = "the convex program at λ = 1/α", "the same by CVXPY (SCS)"
    for psd in (True, False):
        solvers = {"implicit": [], optimum: [], "descent": [], peer: []}
        silent = 0
        for m in sizes:
            for fraction in fractions:
                for seed in seeds:
                    X, A, y, _ = gaussian(seed, 30, 2, m, fraction, psd)
                    with warnings.catch_warnings(record=True) as caught:
                        warnings.simplefilter("always")
                        result = recover(y, A, psd=psd, random_state=seed)
                    good = relative_error(result.low_rank, X) < SUCCESS
                    solvers["implicit"].append(good)
                    silent += not good and not caught
                    options = {"psd": psd, "random_state": seed}
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        convex = recover(y, A, alpha=result.alpha, **options)
                    good = relative_error(convex.low_rank, X) < SUCCESS
                    solvers[optimum].append(good)
                    if quick:
                        continue
                    slow = recover(y, A, solver="descent", **options)
                    good = relative_error(slow.low_rank, X) < SUCCESS * 10
                    solvers["descent"].append(good)
                    if psd:
                        other = by_cvxpy("SCS", A, y, result.lam, psd)
                        solvers[peer].append(relative_error(other, X) < SUCCESS)
        print("\nX ⪰ 0\n" if psd else "\nany X\n")
        header("solver", "area", *(f"m = {m}" for m in sizes))
        for name, successes in solvers.items():
            if successes:
                by_size = np.reshape(successes, (len(sizes), -1)).mean(axis=1)
                cells = (f"{fraction:.2f}" for fraction in by_size)
                row(name, f"{np.mean(successes):.3f}", *cells)
        print(f"\nNot recovered, without a warning: {silent}", flush=True)


PARTS = {
    "dense40": (dense40, 2),
    "dense80": (dense80, 2),
    "outer": (outer, 1),
    "fourier": (fourier, 2),
    "noise": (noise, 6),
    "phase": (phase, 2),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, help="one part instead of all")
    parser.add_argument("--seed", type=int, default=1000, help="the first seed")
    parser.add_argument("--trials", type=int, help="seeds of each problem")
    parser.add_argument("--quick", action="store_true", help="without the slow peers")
    options = parser.parse_args()
    for name, (part, trials) in PARTS.items():
        if options.only in (None, name):
            first, count = options.seed, options.trials or trials
            part(range(first, first + count), options.quick)


if __name__ == "__main__":
    recorded(main)

"""Noise on every entry: error over an oracle's, rank, flags and time, in one run.

    pip install 'discrepant[bench]'
    python benchmarks/noise.py                       the table of problems, 20 trials
    python benchmarks/noise.py --trials 5 --rivals   with peers beside it
    python benchmarks/noise.py --time                seconds, products and memory
    python benchmarks/noise.py --calibration         of cells stated 90%, how many are

The oracle knows the rank and which entries are wrong, and fits the rest by least
squares (weighted, where columns differ). Entries of the low-rank part have standard
deviation one, wrong entries are drawn from N(0, 10²). Seeds from 3000 on were not used
to choose anything; the constants were chosen on seeds below 20.
"""

import argparse
import contextlib
import io
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from matrix import in_a_process
from record import recorded
from threadpoolctl import threadpool_limits

from discrepant import RobustPCA

# name → how it is made, and what must be reached
PROBLEMS = {
    "300², σ 0.05": ({"sigma": 0.05}, "1.08, rank exact 95%"),
    "300², σ 0.3": ({}, "1.08, rank exact 95%"),
    "300², σ 1": ({"sigma": 1.0}, "1.15, rank exact 95%"),
    "600², σ 0.05": ({"m": 600, "n": 600, "sigma": 0.05}, "1.08, rank exact 95%"),
    "600², σ 0.3": ({"m": 600, "n": 600}, "1.08, rank exact 95%"),
    "600², σ 1": ({"m": 600, "n": 600, "sigma": 1.0}, "1.15, rank exact 95%"),
    "30% wrong": ({"wrong": 0.3}, "1.2, rank within one"),
    "30% missing": ({"missing": 0.3}, "1.2, rank within one"),
    "uneven columns": ({"uneven": True}, "1.2, rank within one"),
    "Student, 3 degrees": ({"student": True}, "1.2, rank within one"),
    "errors of one sign": ({"wrong": 0.3, "signed": True}, ""),
    "2000×50, rank 5": ({"m": 2000, "n": 50, "rank": 5}, ""),
    "50×2000, rank 5": ({"m": 50, "n": 2000, "rank": 5}, ""),
    "500×30, rank 3": ({"m": 500, "n": 30, "rank": 3}, ""),
    "nothing wrong": ({"wrong": 0.0}, ""),
    "nothing but noise": ({"rank": 0, "sigma": 1.0}, ""),
    "rounded": ({"decimals": 4, "sigma": 1e-4 / np.sqrt(12)}, ""),
    "float32": ({"dtype": np.float32}, ""),
}


def make(
    m=300,
    n=300,
    rank=10,
    wrong=0.1,
    sigma=0.3,
    missing=0.0,
    uneven=False,
    student=False,
    signed=False,
    decimals=None,
    dtype=np.float64,
    seed=0,
):
    """Return data, low-rank part, which entries are wrong, and σ of each column."""
    rng = np.random.default_rng([seed, m, n, rank])
    L = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    L /= np.sqrt(max(rank, 1))
    scale = np.full(n, sigma)
    if uneven:
        scale[::4] *= 10
    draw = rng.standard_t(3, (m, n)) if student else rng.standard_normal((m, n))
    Y = L + scale * draw if decimals is None else np.round(L, decimals)
    bad = rng.random((m, n)) < wrong
    sizes = rng.uniform(5, 10, bad.sum()) if signed else rng.normal(0, 10, bad.sum())
    Y[bad] = sizes
    gone = rng.random((m, n)) < missing
    Y[gone] = np.nan
    return Y.astype(dtype), L, bad & ~gone, scale


def oracle(Y, L, bad, rank, scale, rounds=400):
    """Fit the clean entries by weighted least squares, from the truth on."""
    if not rank:
        return np.zeros_like(L)
    seen = ~bad & ~np.isnan(Y)
    fraction = max(float(seen.mean()), 0.6)
    data = np.where(seen, Y, 0) / scale
    X = L / scale
    _, _, Vt = np.linalg.svd(X, full_matrices=False)
    V = Vt[:rank].T
    for _ in range(rounds):
        T = X + np.where(seen, data - X, 0) / fraction
        Q, _ = np.linalg.qr(T @ V)
        V, R = np.linalg.qr(T.T @ Q)
        before, X = X, Q @ R.T @ V.T
        if np.linalg.norm(X - before) < 1e-4 * np.linalg.norm(X - L / scale):
            break
    return X * scale


def ours(Y, rank):
    model = RobustPCA(random_state=0).fit(Y)
    return model.low_rank_, model.rank_, model.outliers_


def exact_program(Y, rank):
    """Solve the convex program without noise, as most packages do."""
    model = RobustPCA(noise=0, random_state=0).fit(Y)
    return model.low_rank_, model.rank_, model.sparse_ != 0


def acc_alt_proj(Y, rank):
    """AccAltProj, given the rank; it centres, which raises the rank by one."""
    from rpca import RobustPCA as AccAltProj

    with contextlib.redirect_stdout(io.StringIO()):
        model = AccAltProj(n_components=rank + 1, tol=1e-7, verbose=False).fit(Y)
    return model.low_rank_ + model.mean_, rank + 1, model.sparse_ != 0


def root_pcp(Y, rank, steps=300):
    """√PCP (Zhang, Yan, Wright 2021): min ‖L‖_* + λ‖S‖₁ + μ‖Y − L − S‖ by ADMM."""
    n = max(Y.shape)
    lam, mu, rho = 1 / np.sqrt(n), np.sqrt(min(Y.shape) / 2), 0.1
    L = S = N = D = np.zeros_like(Y)
    for _ in range(steps):
        U, s, Vt = np.linalg.svd(Y - S - N + D, full_matrices=False)
        L = (U * np.maximum(s - 1 / rho, 0)) @ Vt
        R = Y - L - N + D
        S = np.sign(R) * np.maximum(np.abs(R) - lam / rho, 0)
        R = Y - L - S + D
        N = R * max(1 - mu / rho / np.linalg.norm(R), 0)
        D = D + Y - L - S - N
    return L, int((s > 1 / rho).sum()), S != 0


RIVALS = {"exact program": exact_program, "AccAltProj": acc_alt_proj, "√PCP": root_pcp}


def scores(method, problem, seed):
    """Return error over the oracle's, rank − truth, and fractions of flags."""
    Y, L, bad, scale = make(**problem, seed=seed)
    rank = problem.get("rank", 10)
    X, estimated_rank, flags = method(Y, rank)
    weight = scale if problem.get("uneven") else np.ones_like(scale)
    best = oracle(Y.astype(float), L, bad, rank, weight)
    error, least = (np.sqrt(np.mean(((A - L) / weight) ** 2)) for A in (X, best))
    clean = ~bad & ~np.isnan(Y)
    large = bad & (np.abs(Y - L) > 6 * scale)
    return (
        error / least if least else float(error == 0),
        estimated_rank - rank,
        flags[clean].mean(),
        flags[large].mean() if large.any() else 1.0,
        (flags & clean).sum() / max(flags.sum(), 1),
    )


def table(trials, first, rivals):
    """Print one row a problem."""
    print("| problem | error / oracle | worst | rank exact | within one |", end="")
    print(" clean flagged | errors > 6σ detected | false flags | must reach |")
    print("| --- " * 9 + "|")
    for name, (problem, goal) in PROBLEMS.items():
        methods = {"": ours}
        plain = not problem.get("missing") and problem.get("rank", 10)
        if rivals and plain and problem.get("m", 300) <= 300:
            methods |= RIVALS
        for who, method in methods.items():
            number = trials if not who else min(trials, 3)
            rows = [scores(method, problem, first + k) for k in range(number)]
            ratio, rank, false, detected, rate = np.array(rows).T
            print(
                f"| {name}{f': {who}' if who else ''} | {ratio.mean():.3f} "
                f"| {ratio.max():.3f} | {np.mean(rank == 0):.0%} "
                f"| {np.mean(np.abs(rank) <= 1):.0%} | {false.mean():.3%} "
                f"| {detected.mean():.2%} | {rate.mean():.2%} "
                f"| {'' if who else goal} |",
                flush=True,
            )


def seconds(call, repeats=3):
    """Return the least time of a few calls."""
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return min(taken)


def peer_seconds(name):
    """Return the seconds of a peer at 1000²."""
    noisy = make(**LARGE, sigma=0.03, seed=3000)[0]
    with threadpool_limits(1 if name == "AccAltProj" else None):
        return seconds(lambda: TIMED[name](noisy, LARGE["rank"]), 1)


def pyrpca(Y, rank):
    from pyrpca import rpca_pcp_ialm

    return rpca_pcp_ialm(Y, 1 / np.sqrt(max(Y.shape)), verbose=False)


LARGE = {"m": 1000, "n": 1000, "rank": 20}
TIMED = {"AccAltProj": acc_alt_proj, "pyrpca": pyrpca, "√PCP": root_pcp}


def peak(path):
    """Return what a fit takes beyond the data, in units of them; in a new process."""
    Y = np.load(path)
    small = make(m=24_000, n=60, rank=5, sigma=0.1)[0]
    RobustPCA(random_state=0).fit(small if len(Y) > Y.shape[1] else small.T)  # compile
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = resident("VmRSS")
    RobustPCA(random_state=0).fit(Y)
    return (resident("VmHWM") - before) / Y.nbytes


def resident(name):
    """Return the bytes of this process that are in memory, or were at most (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(k for k in lines if k.startswith(name)).split()[1])


def times(patience):
    """Print seconds at 1000² against the exact fit and peers; then large tables."""
    noisy = make(**LARGE, sigma=0.03, seed=3000)[0]
    clean = make(**LARGE, sigma=0.0, seed=3000)[0]
    ours(noisy, 20), ours(clean, 20)  # compile
    # In turns, so that both see the same machine.
    pairs = [[seconds(lambda Y=Y: RobustPCA(random_state=0).fit(Y), 1)
              for Y in (clean, noisy)] for _ in range(7)]  # fmt: skip
    exact, noise = np.min(pairs, axis=0)
    print(f"1000², rank 20: exact {exact:.2f} s, noisy {noise:.2f} s, ", end="")
    print(f"{noise / exact:.2f} × (must: 3)")
    for name in TIMED:
        peer_time = in_a_process(peer_seconds, name, patience=patience)
        sign, taken = ("", peer_time) if peer_time is not None else ("> ", patience)
        print(f"  {name} {sign}{taken:.1f} s: {sign}{taken / noise:.1f} × ours")
    model = RobustPCA(random_state=0, warm_start=True).fit(noisy)
    again = seconds(lambda: model.fit(noisy))
    print(f"  refitted from a warm start: {again:.2f} s, {again / noise:.2f} × ours")
    table = {"m": 100_000, "n": 50, "rank": 5, "sigma": 0.1}
    large({**table, "seed": 3000}, 50, "60")
    large({"m": 307, "n": 76_800, "rank": 3, "sigma": 0.1, "seed": 3000}, 10, "60")


def large(problem, columns, must):
    """Print products Y @ V and memory of one large table."""
    Y = make(**problem)[0]
    V = np.random.default_rng(0).standard_normal((Y.shape[1], columns))
    pairs = [(seconds(lambda: Y @ V, 3),
              seconds(lambda: RobustPCA(random_state=0).fit(Y), 1))
             for _ in range(4)]  # fmt: skip
    product, fit = np.min(pairs, axis=0)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/Y.npy", Y)
        memory = in_a_process(peak, f"{folder}/Y.npy")
    what = f"{Y.shape[0]:,}×{Y.shape[1]:,}"
    print(f"{what}: {fit:.2f} s, {fit / product:.0f} products of {columns} ", end="")
    print(f"columns (must: {must}), {memory:.2f} × the data in memory beside them (2)")


def calibration(trials, first):
    """Print how many of the cells with a stated probability of being corrupt are."""
    problems = {name: PROBLEMS[name][0] for name in ("300², σ 0.3", "30% wrong")}
    problems["small errors"] = {"sigma": 1.0}
    edges = np.array([0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99, 1.0 + 1e-9])
    for name, problem in problems.items():
        stated, true = [], []
        for k in range(trials):
            Y, _, bad, _ = make(**problem, seed=first + k)
            stated.append(RobustPCA(random_state=0).fit(Y).probability_.ravel())
            true.append(bad.ravel())
        p, wrong = np.concatenate(stated), np.concatenate(true)
        place = np.digitize(p, edges) - 1
        print(f"{name}: stated → true (cells)")
        for b in range(len(edges) - 1):
            some = place == b
            if some.sum() > 50:
                fraction = wrong[some].mean()
                print(f"  {p[some].mean():.3f} → {fraction:.3f} ({some.sum()})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=3000)
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--time", action="store_true")
    parser.add_argument(
        "--patience", type=float, default=30, help="seconds a peer gets with --time"
    )
    parser.add_argument("--calibration", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.time:
        times(options.patience)
    elif options.calibration:
        calibration(options.trials, options.seed)
    else:
        with threadpool_limits(1):
            table(options.trials, options.seed, options.rivals)


if __name__ == "__main__":
    recorded(main)

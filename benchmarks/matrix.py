"""Robust PCA against its peers and against the product Y @ V, in one run.

    pip install 'discrepant[bench]'
    python benchmarks/matrix.py                    the table of problems
    python benchmarks/matrix.py --growth time.png  time against n, for all peers

Problems have standard normal factors, and corruption uniform in ±5 × the mean size of
X. Every method is scored alike: seconds until it has returned both parts, and relative
error of the low-rank one. Each peer runs at its own best: a tolerance of 1e-7, λ =
1/√n, the better of one BLAS thread and all of them (all of them only, where that takes
over 20 s), and AccAltProj (`rpca`) is given the true rank.
"""

import argparse
import contextlib
import io
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
from record import recorded
from threadpoolctl import threadpool_limits

from discrepant import RobustPCA
from discrepant.core.plotting import COLOURS, new_figure, styled

# m, n, rank, corrupted, missing, peers to run, what is to be reached
PROBLEMS = [
    (1000, 1000, 50, 0.1, 0.0, "all", "25× pyrpca, 3× AccAltProj, error 1e-7"),
    (2000, 2000, 20, 0.1, 0.0, "two", "100× pyrpca, 10× AccAltProj, 55 products"),
    (20000, 500, 10, 0.1, 0.0, "", "30 products"),
    (500, 20000, 10, 0.1, 0.0, "", "30 products"),
    (5000, 5000, 50, 0.1, 0.0, "", "50 products, 4 GB"),
    (200_000, 500, 10, 0.1, 0.0, "", "22 products"),
    (1000, 1000, 10, 0.3, 0.0, "", "error 1e-6"),
    (1000, 1000, 10, 0.1, 0.3, "", "error 1e-5"),
]


def make(m, n, rank, corrupted, missing, seed):
    """Return the observation and its low-rank part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    Y, size = X.copy(), 5 * np.abs(X).mean()
    wrong = rng.random((m, n)) < corrupted
    Y[wrong] += rng.uniform(-size, size, wrong.sum())
    if missing:
        Y[rng.random((m, n)) < missing] = np.nan
    return Y, X


def ours(Y, rank):
    model = RobustPCA(random_state=0).fit(Y)
    return model.low_rank_, model.sparse_


def pyrpca(Y, rank):
    from pyrpca import rpca_pcp_ialm

    return rpca_pcp_ialm(Y, 1 / np.sqrt(max(Y.shape)), tol=1e-7, verbose=False)


def altproj(Y, rank):
    from rpca import RobustPCA as AccAltProj

    # It takes off the column means first, which raises the rank by one.
    model = AccAltProj(n_components=rank + 1, tol=1e-7, verbose=False).fit(Y)
    return model.low_rank_ + model.mean_, model.sparse_


def skpcp(Y, rank):
    from skpcp import PCP

    model = PCP(tol=1e-7, max_iter=1000)
    model.fit_transform(Y)
    return model.low_rank_, model.sparse_


def tensorly(Y, rank):
    from tensorly.decomposition import robust_pca

    # It penalises the nuclear norms of both unfoldings, which are equal: hence 2λ.
    lam = 2 / np.sqrt(max(Y.shape))
    return robust_pca(Y, reg_E=lam, tol=1e-7, n_iter_max=300, verbose=0)


def sporco(Y, rank):
    from sporco.admm.rpca import RobustPCA as Pursuit

    options = Pursuit.Options({"RelStopTol": 1e-6, "MaxMainIter": 500})
    return Pursuit(Y, 1 / np.sqrt(max(Y.shape)), options).solve()


PEERS = {
    "pyrpca": pyrpca,
    "AccAltProj (given the rank)": altproj,
    "skpcp": skpcp,
    "tensorly": tensorly,
    "sporco": sporco,
}


def timed(function, *args, repeats=1):
    """Return the shortest time of several runs, and what the last one returned."""
    best = np.inf
    for _ in range(repeats):
        value = None  # let go of the last one first
        started = time.perf_counter()
        value = function(*args)
        best = min(best, time.perf_counter() - started)
    return best, value


def judged(solve, Y, X, rank, repeats=1):
    """Return seconds and relative error of any method."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        seconds, (L, _) = timed(solve, Y, rank, repeats=repeats)
        if solve is not ours and seconds < 20:
            with threadpool_limits(1):
                seconds = min(seconds, timed(solve, Y, rank)[0])
    return seconds, float(np.linalg.norm(L - X) / np.linalg.norm(X))


def one_problem(index, seed):
    """Solve one problem of the table."""
    m, n, rank, corrupted, missing, _, _ = PROBLEMS[index]
    Y, X = make(m, n, rank, corrupted, missing, seed)
    RobustPCA(random_state=0).fit(Y[:64, :64])  # compile, or read the cache
    V = np.random.default_rng(0).standard_normal((n, rank))
    repeats = 3 if m * n > 10_000_000 else 7
    product, _ = timed(np.matmul, np.nan_to_num(Y), V, repeats=15)
    fit, model = timed(RobustPCA(random_state=0).fit, Y, repeats=repeats)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    certified, certificate = timed(lambda: model.certificate_)
    both, error = judged(ours, Y, X, rank, repeats)
    return {
        "fit": f"{fit:.3f}",
        "both": both,
        "products": f"{fit / product:.0f}",
        "passes": model.n_iter_,
        "error": f"{error:.0e}",
        "rank": model.rank_,
        "gap": f"{certificate.gap:.0e}",
        "certified": f"{certified:.2f}",
        "memory": f"{memory / 2**20:.1f}",
    }


def one_peer(name, index, seed):
    """Let one peer solve one problem of the table."""
    m, n, rank, corrupted, missing, _, _ = PROBLEMS[index]
    Y, X = make(m, n, rank, corrupted, missing, seed)
    return judged(PEERS[name], Y, X, rank)


def in_a_process(function, *args, patience=None):
    """Run in a new process, so that memory is its own and time can be limited."""
    pool = multiprocessing.get_context("spawn").Pool(1)
    try:
        return pool.apply_async(function, args).get(patience)
    except multiprocessing.TimeoutError:
        return None
    finally:
        pool.terminate()


def table(seed, patience):
    print(
        "| problem | fit, s | with both parts, s | in products Y @ V | passes | error "
        "| rank | gap | certificate, s | peak GB | to be reached |"
    )
    print("| --- |" + " --- |" * 10)
    rows = []
    for index, (m, n, rank, corrupted, missing, _, floor) in enumerate(PROBLEMS):
        what = f"{m}×{n}, rank {rank}, {corrupted:.0%}"
        what += f" + {missing:.0%} missing" if missing else ""
        row = in_a_process(one_problem, index, seed)
        rows.append((what, row["both"]))
        cells = {**row, "both": f"{row['both']:.3f}"}.values()
        print(f"| {what} | {' | '.join(map(str, cells))} | {floor} |", flush=True)
    if not patience:
        return
    print("\n| problem | peer | s | error | times slower than discrepant |")
    print("| --- | --- | --- | --- | --- |")
    for index, (what, both) in enumerate(rows):
        peers = {"all": list(PEERS), "two": list(PEERS)[:2]}.get(PROBLEMS[index][5], [])
        for name in peers:
            timing = in_a_process(one_peer, name, index, seed, patience=patience)
            if timing is None:
                cells = f"> {patience:.0f} | – | > {patience / both:.0f}"
            else:
                cells = f"{timing[0]:.2f} | {timing[1]:.0e} | {timing[0] / both:.1f}"
            print(f"| {what} | {name} | {cells} |", flush=True)


@styled
def growth(path, seed, patience):
    """Draw time against n; a peer is dropped once a run takes too long."""
    sizes = (250, 500, 1000, 2000, 4000)
    methods = {"discrepant": ours, **PEERS}
    figure, ax = new_figure(size=(6.4, 4.4))
    print("| method | " + " | ".join(f"n = {n}" for n in sizes) + " |")
    print("| --- |" + " --- |" * len(sizes))
    for (name, solve), colour in zip(methods.items(), COLOURS, strict=True):
        seconds = []
        for n in sizes:
            if seconds and seconds[-1] * 8 > patience:
                break
            rank = n // 50
            Y, X = make(n, n, rank, 0.1, 0.0, seed)
            seconds.append(judged(solve, Y, X, rank, 3 if solve is ours else 1)[0])
        cells = [f"{s:.2f}" for s in seconds] + ["–"] * (len(sizes) - len(seconds))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        width = 3 if solve is ours else 1.8
        ax.loglog(
            sizes[: len(seconds)], seconds, "o-", color=colour, label=name, lw=width
        )
    ax.set(xlabel="n", ylabel="seconds", title="n×n, rank n/50, 10% corrupted")
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.minorticks_off()
    ax.legend()
    figure.savefig(path)


def first_call():
    """Time the first fit in a new process, without and with a cache of the kernels."""
    code = (
        "import time, numpy as np; from discrepant import RobustPCA\n"
        "Y = np.random.default_rng(0).standard_normal((100, 80))\n"
        "t = time.perf_counter(); m = RobustPCA(random_state=0).fit(Y); m.sparse_\n"
        "print(time.perf_counter() - t)"
    )
    with tempfile.TemporaryDirectory() as folder:
        for word in ("compiling", "from the cache"):
            done = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "NUMBA_CACHE_DIR": folder},
                capture_output=True,
                text=True,
                check=True,
            )
            print(f"first fit in a new process, {word}: {float(done.stdout):.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--growth", metavar="PNG", help="draw time against n instead")
    parser.add_argument(
        "--patience", type=float, default=180, help="seconds a peer gets; 0: no peers"
    )
    options = parser.parse_args()
    if options.growth:
        growth(options.growth, options.seed, options.patience)
    else:
        first_call()
        table(options.seed, options.patience)


if __name__ == "__main__":
    recorded(main)
